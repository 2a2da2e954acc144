"""Which replica holds which prefix, and what a router is told.

    the fold       index ─ replicas ─ contents ─ holdings ─ domain     keys
    who speaks     roster · strangers
    its limits     limits ─ visibility                                 policies
    the question   request ─ question ─ lookup ─ ranking ─ affinity ─ answers    explain
    for others     views · outcomes · vitals

Everything here is pure: bytes and times come in, data comes out.
"""
