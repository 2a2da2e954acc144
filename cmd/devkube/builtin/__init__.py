"""The kinds that are built in: what is served, and the rules of each.

Not here: verbs, storage, CRDs (`devkube.custom`), admission. Nothing here does I/O but `document`, which reads one
file of the package kubernetes-validate at the first use of a kind.

    catalog     builtin_resources(): every row of discovery; rules: one kind behind the protocol `kinds.Rules`
    document    the schemas of Kubernetes' own types, loaded once and lazily
    types       a schema compiled into a decoder as Go's: types, unknown fields, nulls, canonical scalars
    scalars     quantities, times, durations and their canonical text
    demands     what a schema demands beside types: required fields, values out of a list
    metadata    names, labels, annotations, owners, selectors; names: what those must look like
    defaults, poddefaults     upstream's defaults; prepares: first statuses, selectors of Jobs, addresses of Services
    pods, containers          what a Pod's spec must hold, and what of it may change
    workloads, others         kinds with a Pod template; ConfigMaps, Secrets, Services, role bindings
    webhookrules              webhook configurations
    columns, podcells         what `kubectl get` shows

Every other kind is checked by its schema alone, strictly.
"""
