"""What the client wants to get, and in which form its body may come: Accept and Content-Type.

JSON is the only form that is written. Clauses of Accept are tried in their order; one that asks for what this server
does not make is skipped, and 406 follows when none is left. Protobuf is never written and hardly read (`protobuf`).
"""

from collections.abc import Iterator
from typing import Final, Literal

from devkube import protobuf
from devkube.errors import StatusError, unsupported_media_type

Form = Literal["", "Table", "PartialObjectMetadata"]
JSON: Final = "application/json"
YAML: Final = "application/yaml"
# Patch types by content type; `patching` refuses others.
PATCHES: Final = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
AGGREGATED: Final = f"{JSON};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def kinds(accept: str) -> Iterator[tuple[str, str]]:
    """The kinds that JSON is wanted `as`, each with its group and version; "" for what the path itself serves. No
    header: anything."""
    for clause in (accept.strip() or "*/*").split(","):
        media, *rest = (part.strip().lower() for part in clause.split(";"))
        if media in (JSON, "application/*", "*/*"):
            wanted = {key.strip(): value.strip() for key, _, value in (one.partition("=") for one in rest)}
            as_ = wanted.get("as", "")
            yield (as_, f"{wanted.get('g')}/{wanted.get('v')}" if as_ else "")


def form_of(accept: str, *, listed: bool) -> Form:
    """The form of a resource's answer. StatusError 406 when nothing fits."""
    metadata = "partialobjectmetadata" + "list" * listed
    forms: dict[str, Form] = {"table": "Table", metadata: "PartialObjectMetadata"}
    return forms.get(_first(accept, "meta.k8s.io/v1", *forms), "")


def aggregated(accept: str) -> bool:
    """Whether /api and /apis answer with one aggregated list. StatusError 406 when nothing fits."""
    return bool(_first(accept, "apidiscovery.k8s.io/v2", "apigroupdiscoverylist"))


def _first(accept: str, group_version: str, *made: str) -> str:
    """What is wanted first of these kinds and of what the path itself serves (""). StatusError 406 when nothing is."""
    for kind in kinds(accept):
        if kind in (("", ""), *((one, group_version) for one in made)):
            return kind[0]
    raise StatusError(406, "NotAcceptable", f"only the following media types are accepted: {JSON}")


def body_of(content_type: str, body: bytes, *, verb: str) -> tuple[str, bytes]:
    """The media type of a body without its parameters, and the body as JSON or YAML. StatusError 415 for what is not
    read here; some questions that kubectl asks in protobuf only are."""
    media = content_type.partition(";")[0].strip().lower()
    if media == protobuf.MEDIA or body.startswith(protobuf.MAGIC):
        return JSON, protobuf.to_json(body)
    if verb != "patch" and media not in ("", JSON, YAML):
        told = "the body of the request was in an unknown format - accepted media types include: "
        raise unsupported_media_type(f"{told}{JSON}, {YAML}")
    return media or ("" if verb == "patch" else JSON), body
