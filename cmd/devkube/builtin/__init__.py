"""The kinds that are built in: what is served, and the rules of each.

Not here: verbs, storage, CRDs (`devkube.custom`), admission. Nothing here does I/O but `document`, which reads one
file of the package kubernetes-validate at the first use of a kind.

    catalog     builtin_resources(): every row of discovery
    document    the schemas of Kubernetes' own types, loaded once and lazily
    types       a schema compiled into a decoder as Go's: types, unknown fields, nulls, canonical scalars
    leaves      scalars as Go decodes them
    scalars     quantities, times, durations: their canonical text
    rules       BuiltinRules: everything of one kind behind the protocol `kinds.Rules`
    demands     what a schema demands beside types: required fields, values out of a list
    causes      violations with upstream's wording
    names       what names, labels and keys must look like
    metadata    names, labels, annotations, owners; what may not change
    labelselectors  LabelSelectors inside objects
    defaults, poddefaults        upstream's defaults, kind by kind
    prepares                     first statuses, selectors of Jobs, data of Secrets
    pods, containers, downward, scheduling   what a Pod's spec must hold
    podchanges                   what of a Pod may change
    workloads, services, networking, eventrules, rbacrules, webhookrules, others   the rules of all other kinds
    columns, cells, podcells     what `kubectl get` shows
"""
