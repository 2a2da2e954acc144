"""Carrying out what handlers want: the only writer to Kubernetes.

cluster    what is needed of an API server, as a protocol, and how it refuses
carry      one intent, one call, one answer
worker     many keys at once, one at a time each; retries, rates, and the record of every write
lease      who leads
"""
