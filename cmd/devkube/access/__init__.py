"""Who are you, and may you.

    authn          the Authorization header -> User, or 401; ServiceAccount tokens; impersonation
    rbac           Role, ClusterRole and binding objects -> a decision; 403 as upstream words it
    reviews        TokenRequest, TokenReview, SubjectAccessReview and their relatives
    defaults       the roles and bindings that a cluster begins with

What is left out stands in devkube's README.
"""
