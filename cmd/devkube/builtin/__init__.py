"""The kinds that are built in: what is served, and the rules of each.

Not here: verbs, storage, CRDs (`devkube.custom`), admission. Nothing here does I/O but `document`, which reads one
file of the package kubernetes-validate at the first use of a kind.

    catalog     builtin_resources(): every row of discovery; one kind behind the protocol `kinds.Rules`
    document    the schemas of Kubernetes' own types, loaded once and lazily
    types       those schemas as Go reads them: decoding, and every struct of an object; scalars: quantities and times
    defaults    what is filled in, by Go struct; what is derived: a Pod's status, a Service's address
    fields      what must hold of single fields, by Go struct
    rules       of whole structs, and of what may change; podrules: of Pods
    metadata    names, labels, annotations, owners; names: what those must look like
    columns     what `kubectl get` shows

Every other kind is checked by its schema alone, strictly.
"""
