"""devkube: a Kubernetes API server for laptops and CI. In memory, one process, JSON over TLS, up in half a second.

It knows nothing of warmlog and imports nothing of it. The map:

    cli            the console script            server       the Python entry point: DevKube, its clock and faults
    certificates   CA, server pair, kubeconfig   clock        time that a test may freeze
    http           routes, negotiation, TLS      discovery, openapi, tables    what clients learn of the types
    store          objects, versions, history    watching     one watch as a stream of events
    verbs          create … watch, upstream's semantics                selectors    labels and fields
    patches        JSON, merge, strategic        apply, fieldsets      server-side apply and managedFields
    kinds, schema  what a type is                builtin/     types that exist      custom/  types from CRDs (CEL too)
    admission/     webhooks, called over TLS     access/      who are you, may you  lifecycle    GC, namespaces
    simulation/    controllers, nodes and kubelets that give test clusters life; off by default
"""
