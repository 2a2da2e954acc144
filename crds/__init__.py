"""The Structs of custom resources, as their manifests spell them."""
