"""The Structs of custom resources, as their manifests spell them.

`definitions` lists the kinds, `render` writes crds/*.yaml.
"""
