"""devkube: a Kubernetes API server for laptops and CI. In memory, one process, JSON over TLS, up in half a second.

It knows nothing of warmlog and imports nothing of it. The map:

    cli, options   the console script            server       the Python entry point: DevKube, its clock and faults
    certificates   and kubeconfig, made at each start         clock        time that a test may freeze
    http           TLS, and a request from its URL to its answer          requests     what verbs are asked, and answer
    routes, negotiation, protobuf   what is asked for, in which form      documents    version, health and what follows
    discovery, openapi              what clients learn of the types       tables       objects as kubectl prints them
    store          objects, versions, history
    verbs          create … watch: reading, watching, writing (strategies, scale), patching, deleting; machinery: shared
    bodies, parameters              what a request says       selectors     of labels and fields
    patches        JSON, merge, strategic                     values, errors, causes     JSON, refusals and their words
    apply          server-side apply: managedfields, fieldsets
    kinds, schema  what a type is                builtin/     types that exist      custom/  types from CRDs (CEL too)
    admission/     webhooks, called over TLS     access/      who are you, may you
    lifecycle      garbage, namespaces, CRDs; wiring: what the parts are put together with
    faults         trouble on demand
    simulation/    controllers, nodes and kubelets that give test clusters life; off by default

What is left out, and why, stands in the README.
"""
