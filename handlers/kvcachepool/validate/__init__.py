"""What the custom resources may say beyond their schema: one module per kind, one small check per rule.

An update refuses what it introduces: a rule that the stored object breaks already does not keep a finalizer on.
"""
