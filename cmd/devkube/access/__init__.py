"""Who are you, and may you.

    objects        how this package (and admission) reads what is stored
    authn          the Authorization header -> User, or 401; impersonation
    signing        the key of ServiceAccount tokens: JWTs, ES256
    tokens         TokenRequest, TokenReview, SelfSubjectReview
    rules          policy rules: what one allows, whether one set of them covers another
    rbac           Role, ClusterRole and binding objects -> a decision; 403 as upstream words it
    escalation     nobody grants what he does not hold
    reviews        SubjectAccessReview and its relatives
    defaults       the roles and bindings that a cluster begins with

All but `authn` and `tokens` are functions of objects and questions; none of them does input or output.
"""
