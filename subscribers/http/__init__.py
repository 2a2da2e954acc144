"""The HTTP edges: the lookup port (own small server), the admin port (aiohttp), and what both are made of.

8080   hotpath ─ connection ─ routes ─ lookups        replies · health · meters
8081   admin ─ gate ─ intake ─ orders ─ probes        identity ─ bearer
reviews, over TLS       reviewing ─ admission ─ judging ─ sharedreads     recording · reviewmeters
a role without either   status
"""
