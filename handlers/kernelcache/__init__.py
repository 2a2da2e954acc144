"""Kernel Cache, the reuse half: who a Pod is, which cache fits it, how it gets it.

Identity   imageclass, modeluri, digest (hashes) · environment, launch, options (what an engine will see) · normalise,
           factors, footprint · identity (all of a Pod)
Selection  path (where a cache belongs in a Pod) · placement (where the Pod may run) · selection (candidates and the
           check that each one failed)
Admission  inject (a cache into a Pod) · capture (a sidecar into a producer) · admit (the webhook)
           config (the ConfigMap) · naming · names (the contract's constants) · system (what the leader watches)
"""
