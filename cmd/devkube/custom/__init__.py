"""Types that arrive as CustomResourceDefinitions while the server runs: checked, served, and their objects validated.

definition, versions, schemas, shape   is this CRD one that a real server would accept
registry, rules, cells                 its resources come and go; the `Rules` of one version; printer columns
structural                             prune, default, read metadata
validation, formats, lists             values against the schema, in upstream's words; sets and maps
cel, celenv, celtypes, views           rules: checked with the schema's types, evaluated on plain values
library                                Kubernetes' own CEL functions
"""
