"""Types that arrive as CustomResourceDefinitions while the server runs: checked, served, and their objects validated.

definition, shape   is this CRD one that a real server would accept      registry    its resources come and go
structural          prune, default, coerce metadata                       rules       the `Rules` of one version
validation, formats values against the schema, upstream's words           lists       sets, maps, who was who before
cel, types, views   x-kubernetes-validations: checked with the schema's   library     Kubernetes' own CEL functions
                    types, evaluated on plain values
"""
