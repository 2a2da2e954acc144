"""Types that arrive as CustomResourceDefinitions while the server runs: checked, served, and their objects validated.

definition, schemas            is this CRD one that a real server would accept
registry, cells                its resources come and go; the `Rules` of one version; printer columns
structural                     the walk over an object, its schema and its past that all share; prune, default
validation, formats            values against the schema; sets and maps
cel, celenv, views             rules: checked with the schema's types, evaluated on plain values
"""
