"""Accept, Content-Type and the rest of what a client says about forms."""

import pytest

from devkube import negotiation
from devkube.errors import StatusError

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("", ""),
        ("*/*", ""),
        ("application/json", ""),
        ("application/*", ""),
        (f"{TABLE},application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json", "Table"),
        ("application/json; as=PartialObjectMetadata; g=meta.k8s.io; v=v1", "PartialObjectMetadata"),
        # What is not known here is skipped, not refused: the next alternative counts.
        ("application/vnd.kubernetes.protobuf, application/json", ""),
        ("application/json;as=Tablet;v=v1;g=meta.k8s.io,application/json", ""),
        ("application/json;as=Table;v=v2;g=meta.k8s.io,application/json", ""),
        # Those that fit count in their order.
        (f"application/json,{TABLE}", ""),
        ("application/json;stream=watch", ""),
    ],
)
def test_the_form_that_the_client_prefers_among_those_made_here(accept: str, expected: str) -> None:
    assert negotiation.form_of(accept, listed=False) == expected


@pytest.mark.parametrize(
    "accept",
    [
        "application/vnd.kubernetes.protobuf",
        "text/html",
        "application/json;as=Table;v=v7;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",  # of one object
    ],
)
def test_nothing_that_fits_is_a_406_that_names_what_would(accept: str) -> None:
    with pytest.raises(StatusError, match="application/json") as caught:
        negotiation.form_of(accept, listed=False)
    assert (caught.value.code, caught.value.reason) == (406, "NotAcceptable")


@pytest.mark.parametrize(
    ("accept", "version"),
    [
        ("", ""),
        ("application/json", ""),
        ("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json", "v2"),
        ("application/json;g=apidiscovery.k8s.io;v=v3;as=APIGroupDiscoveryList,application/json", ""),
    ],
)
def test_discovery_is_aggregated_when_asked_for_in_a_version_known_here(accept: str, version: str) -> None:
    assert negotiation.aggregated(accept) == bool(version)


@pytest.mark.parametrize(
    ("sent", "verb", "media"),
    [
        ("", "create", "application/json"),
        ("application/json; charset=utf-8", "create", "application/json"),
        ("Application/YAML", "update", "application/yaml"),
        ("application/apply-patch+yaml", "patch", "application/apply-patch+yaml"),
    ],
)
def test_a_body_of_a_known_type_is_read(sent: str, verb: str, media: str) -> None:
    assert negotiation.body_of(sent, b"{}", verb=verb) == (media, b"{}")


def test_a_body_of_an_unknown_type_is_a_415_that_names_the_known() -> None:
    with pytest.raises(StatusError, match="application/json, application/yaml") as caught:
        negotiation.body_of("text/plain", b"{}", verb="create")
    assert caught.value.code == 415


@pytest.mark.parametrize("sent", ["application/vnd.kubernetes.protobuf", "application/json"])
def test_protobuf_is_refused_with_the_way_out(sent: str) -> None:
    with pytest.raises(StatusError, match="kubectl create -f FILE") as caught:
        negotiation.body_of(sent, b"k8s\x00\n\x0b", verb="create")
    assert (caught.value.code, caught.value.reason) == (415, "UnsupportedMediaType")
