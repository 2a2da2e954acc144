"""devkube: a Kubernetes API server for laptops and CI. In memory, one process, JSON over TLS, up in half a second.

It knows nothing of warmlog and imports nothing of it. The map:

    cli            the console script            server       the Python entry point: DevKube, its clock and faults
    certificates, kubeconfig   made at each start             clock        time that a test may freeze
    http           sockets and TLS               frontend     a request from its URL to its answer
    routes, negotiation, protobuf   what is asked for, in which form      documents    version, health and what follows
    discovery, openapi              what clients learn of the types       tables       objects as kubectl prints them
    store, stored  objects, versions, history    watching     one watch as a stream of events
    verbs          create … watch: reading, writing (writer, strategies), patching, deleting; machinery: what they share
    bodies, parameters, deleteoptions            what a request says                selectors, fieldselectors
    patches        JSON, merge, strategic        apply, fieldsets      server-side apply and managedFields
    kinds, schema  what a type is                builtin/     types that exist      custom/  types from CRDs (CEL too)
    admission/     webhooks, called over TLS     access/      who are you, may you
    lifecycle      namespaces, CRDs; collecting: garbage               steward      how these ask
    wiring, seeding                what the parts are put together with             faults       trouble on demand
    simulation/    controllers, nodes and kubelets that give test clusters life; off by default
"""
