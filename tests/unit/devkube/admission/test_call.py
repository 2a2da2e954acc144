"""Where a clientConfig leads, and what its caBundle is worth. The calls themselves are an integration test."""

import base64

import pytest

from devkube import certificates
from devkube.admission.call import CallFailed, target, trusting


def service(**rest):
    return {"service": {"namespace": "acme", "name": "hook", "path": "/mutate", "port": 443, **rest}}


def test_a_url_is_where_it_says() -> None:
    found = target({"url": "https://127.0.0.1:8443/mutate"}, {}, 10)
    assert str(found.url) == found.shown == "https://127.0.0.1:8443/mutate?timeout=10s"
    assert (found.server_name, found.host) == (None, None)


@pytest.mark.parametrize(
    ("services", "config", "where"),
    [
        ({"acme/hook": "127.0.0.1:9443"}, service(), "https://127.0.0.1:9443/mutate?timeout=3s"),
        ({"acme/hook:8443": "127.0.0.1:1"}, service(port=8443), "https://127.0.0.1:1/mutate?timeout=3s"),
        ({"acme/hook": "h:2", "acme/hook:8443": "h:1"}, service(port=8443), "https://h:1/mutate?timeout=3s"),
        ({"acme/hook": "h:2"}, service(path=None), "https://h:2/?timeout=3s"),
    ],
    ids=["any port", "one port", "the port first", "no path"],
)
def test_a_service_is_where_the_table_says(services, config, where: str) -> None:
    found = target(config, services, 3)
    assert str(found.url) == where
    assert found.server_name == "hook.acme.svc"


def test_a_service_is_told_by_its_name() -> None:
    found = target(service(), {"acme/hook": "h:1"}, 3)
    assert (found.shown, found.host) == ("https://hook.acme.svc:443/mutate?timeout=3s", "hook.acme.svc:443")


def test_a_service_nobody_mapped() -> None:
    with pytest.raises(CallFailed) as caught:
        target(service(), {"acme/other": "h:1", "acme/hook:8443": "h:1"}, 10)
    assert str(caught.value) == (
        'failed to call webhook: Post "https://hook.acme.svc:443/mutate?timeout=10s": service "hook" not found; '
        "tell devkube where it is: --webhook-service acme/hook:443=HOST:PORT"
    )


def test_a_ca_bundle() -> None:
    authority = certificates.issue().authority
    context = trusting(base64.b64encode(authority).decode())
    assert context.cert_store_stats()["x509_ca"] == 1


@pytest.mark.parametrize("bundle", ["%", "Z2FyYmFnZQ==", "//79"], ids=["no base64", "no PEM", "no text"])
def test_what_is_no_ca_bundle(bundle: str) -> None:
    with pytest.raises(CallFailed, match="unable to load root certificates"):
        trusting(bundle)
