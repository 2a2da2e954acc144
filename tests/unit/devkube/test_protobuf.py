"""The questions kubectl 1.37 asks in protobuf, as it sent them, and everything that is refused."""

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from devkube import protobuf
from devkube.errors import StatusError

CAN_I = (
    "6b3873000a320a17617574686f72697a6174696f6e2e6b38732e696f2f7631121753656c665375626a656374416363657373526576696577"
    "12480a100a0012001a0022002a00320038004200122a0a280a026e7312036765741a0022002a09706f64732e6170707332067374617475733a"
    "067374617475731a08080012001a0020001a002200"
)
CAN_I_PATH = (
    "6b3873000a320a17617574686f72697a6174696f6e2e6b38732e696f2f7631121753656c665375626a656374416363657373526576696577"
    "122f0a100a0012001a0022002a003200380042001211120f0a082f6865616c74687a12036765741a08080012001a0020001a002200"
)
CAN_I_LIST = (
    "6b3873000a310a17617574686f72697a6174696f6e2e6b38732e696f2f7631121653656c665375626a65637452756c6573526576696577"
    "121e0a100a0012001a0022002a0032003800420012040a026e731a04180022001a002200"
)
WHOAMI = (
    "6b3873000a2d0a1861757468656e7469636174696f6e2e6b38732e696f2f7631121153656c665375626a656374526576696577"
    "121a0a100a0012001a0022002a0032003800420012060a040a0012001a002200"
)
TOKEN = (
    "6b3873000a280a1861757468656e7469636174696f6e2e6b38732e696f2f7631120c546f6b656e5265717565737412340a100a0012001a00"
    "22002a00320038004200121a0a01610a01621a0f0a03506f64120276311a017022017520b0091a040a0012001a002200"
)
DEPLOYMENT = "6b3873000a150a07617070732f7631120a4465706c6f796d656e74120f0a0d0a017812001a0022002a00320038004200"


@pytest.mark.parametrize(
    ("sent", "kind", "spec"),
    [
        (
            CAN_I,
            "SelfSubjectAccessReview",
            {
                "resourceAttributes": {
                    "namespace": "ns",
                    "verb": "get",
                    "resource": "pods.apps",
                    "subresource": "status",
                    "name": "status",
                }
            },
        ),
        (CAN_I_PATH, "SelfSubjectAccessReview", {"nonResourceAttributes": {"path": "/healthz", "verb": "get"}}),
        (CAN_I_LIST, "SelfSubjectRulesReview", {"namespace": "ns"}),
        (WHOAMI, "SelfSubjectReview", None),
    ],
)
def test_questions_of_kubectl(sent: str, kind: str, spec: object) -> None:
    read = msgspec.json.decode(protobuf.to_json(bytes.fromhex(sent)))
    assert read["kind"] == kind
    assert read["apiVersion"].endswith("k8s.io/v1")
    assert read["metadata"] == {}
    assert read.get("spec") == spec
    assert "status" not in read


@pytest.mark.parametrize(
    "sent",
    [
        bytes.fromhex(DEPLOYMENT),
        bytes.fromhex(TOKEN),
        b"",
        b"k8s\x00",
        b"k8s\x00\xff",
        b'{"kind":"SelfSubjectReview"}',
        bytes.fromhex(CAN_I)[:-20],
        # A field selector (8) inside the attributes would change the answer: it is not known here.
        bytes.fromhex(CAN_I_LIST.replace("12040a026e73", "120442026e73")),
    ],
)
def test_the_rest_is_refused_with_the_way_out(sent: bytes) -> None:
    with pytest.raises(StatusError, match="-f FILE") as caught:
        protobuf.to_json(sent)
    assert caught.value.code == 415


@given(st.binary(max_size=60), st.integers(0, 120))
def test_bytes_of_any_kind_are_read_or_refused(noise: bytes, at: int) -> None:
    sent = bytes.fromhex(CAN_I)
    for body in (protobuf.MAGIC + noise, sent[:at] + noise + sent[at + len(noise) :]):
        with contextlib.suppress(StatusError):
            assert msgspec.json.decode(protobuf.to_json(body))["kind"]
