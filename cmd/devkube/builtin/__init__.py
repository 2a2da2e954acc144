"""The kinds that are built in: what is served, and the rules of each.

Not here: verbs, storage, CRDs (`devkube.custom`), admission. Nothing here does I/O but `document`, which reads one
file of the package kubernetes-validate at the first use of a kind.

    catalog     builtin_resources(): every row of discovery
    document    the schemas of Kubernetes' own types, loaded once and lazily
    types       a schema compiled into a decoder as Go's: types, unknown fields, nulls, canonical scalars
    scalars     quantities, times, durations: their canonical text
    rules       BuiltinRules: everything of one kind behind the protocol `kinds.Rules`
    causes      violations with upstream's wording
    metadata    names, labels, annotations, owners; what may not change
    defaults    upstream's defaults, kind by kind
    pods        what a Pod's spec must hold and what of it may change
    workloads   Deployments and others that hold a Pod template
    others      Services, ConfigMaps, Secrets, RBAC, Leases, webhook configurations …
    columns     what `kubectl get` shows
    conversion  the two groups of Events are one kind of object
"""
