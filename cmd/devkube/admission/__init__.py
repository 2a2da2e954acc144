"""Webhooks that have a say in what is stored: MutatingWebhookConfiguration and ValidatingWebhookConfiguration.

    matching       configurations -> hooks in their order; does this request concern one, and in which version
    conditions     matchConditions: compiled when the configuration is written, evaluated per request
    review         the AdmissionReview that is sent; whether the one that came back may be believed
    call           TLS to a url or a Service reference
    chain          all of it for one request: mutate, then validate

Only `call` and `chain` do anything; the others are functions of their arguments. Left out: ValidatingAdmissionPolicy
and its mutating sibling, metrics, static manifests.
"""
