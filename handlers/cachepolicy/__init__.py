"""CachePolicy and CacheTenant: how the index answers for a namespace, and how much one tenant may keep in it.

validate   what they may say beyond their schemas     admit    their four webhooks
system     both are watched; a CacheTenant's status
quota      a tenant's conditions, from what it holds
"""
