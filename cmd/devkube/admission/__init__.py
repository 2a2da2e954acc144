"""Webhooks that have a say in what is stored: MutatingWebhookConfiguration and ValidatingWebhookConfiguration.

    matching       does this request concern a hook, and in which version (conditions: its matchConditions)
    review         the AdmissionReview that is sent; whether the one that came back may be believed
    call           TLS to a url or a Service reference
    chain          all of it for one request: mutate, then validate

Left out: ValidatingAdmissionPolicy and its mutating sibling, metrics, static manifests.
"""
