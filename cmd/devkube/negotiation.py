"""What the client wants to get, and in which form its body may come: Accept, Content-Type, Accept-Encoding.

JSON is the only form that is written. Clauses of Accept are tried in the client's order of preference; one that asks
for what this server does not make is skipped, and 406 follows when none is left. Rules: apiserver's
pkg/endpoints/handlers/negotiation. Protobuf is never written and hardly read (`protobuf`).
"""

import functools
from typing import Final, Literal

from devkube import protobuf
from devkube.errors import StatusError, bad_request, unsupported_media_type

Form = Literal["", "Table", "PartialObjectMetadata", "PartialObjectMetadataList"]
Include = Literal["Metadata", "Object", "None"]
FORMS: Final[dict[str, Form]] = {
    "": "",
    "Table": "Table",
    "PartialObjectMetadata": "PartialObjectMetadata",
    "PartialObjectMetadataList": "PartialObjectMetadataList",
}
INCLUDES: Final[dict[str, Include]] = {"": "Metadata", "Metadata": "Metadata", "Object": "Object", "None": "None"}
JSON: Final = "application/json"
YAML: Final = "application/yaml"
# Patch types by content type, as `patching` knows them.
PATCHES: Final = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
AGGREGATED: Final = f"{JSON};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
GZIP_FROM: Final = 128 * 1024  # bytes; smaller answers are sent as they are, as upstream does
Clause = tuple[str, dict[str, str]]  # a media type and its parameters


@functools.lru_cache(512)
def clauses(accept: str) -> tuple[Clause, ...]:
    """Best first: by quality, then wildcards last, then in the order given. No header: anything."""
    found: list[tuple[float, int, Clause]] = []
    for text in accept.split(","):
        media, *rest = (part.strip() for part in text.split(";"))
        if not media:
            continue
        pairs = [parameter.partition("=") for parameter in rest]
        parameters = {key.strip().lower(): value.strip().strip('"') for key, _, value in pairs}
        try:
            quality = float(parameters.pop("q", "1"))
        except ValueError:
            quality = 1.0
        found.append((-quality, media.count("*"), (media.lower(), parameters)))
    found.sort(key=lambda one: one[:2])
    return tuple(one for _, _, one in found) if accept.strip() else (("*/*", {}),)


@functools.lru_cache(512)
def output(accept: str, *, stream: bool = False) -> Form:
    """The form of a resource's answer; of a watch when `stream`. StatusError 406 when nothing fits."""
    for media, wanted in clauses(accept):
        form = FORMS.get(wanted.get("as", ""))
        known = not form or (wanted.get("g"), wanted.get("v")) == ("meta.k8s.io", "v1")
        if _json(media) and form is not None and known and wanted.get("stream", "watch") in ("", "watch"):
            return form
    raise not_acceptable(f"{JSON};stream=watch" if stream else JSON)


@functools.lru_cache(64)
def aggregated(accept: str) -> bool:
    """Whether /api and /apis answer with one aggregated list. StatusError 406 when nothing fits."""
    for media, wanted in clauses(accept):
        kind = wanted.get("as")
        if _json(media) and not kind:
            return False
        if _json(media) and (kind, wanted.get("v")) == ("APIGroupDiscoveryList", "v2"):
            return True
    raise not_acceptable(JSON)


@functools.lru_cache(64)
def accepts_json(accept: str) -> bool:
    return any(_json(media) for media, _ in clauses(accept))


def include_object(value: str) -> Include:
    """The query parameter of the same name; only Tables heed it."""
    if value not in INCLUDES:
        raise bad_request(
            f'Unable to convert to Table as requested: includeObject: Invalid value: "{value}": must be '
            "'Metadata', 'Object', 'None', or empty"
        )
    return INCLUDES[value]


def body_of(content_type: str, body: bytes, *, verb: str) -> tuple[str, bytes]:
    """The media type of a body without its parameters, and the body as JSON or YAML. StatusError 415 for what is not
    read here; some questions that kubectl asks in protobuf only are."""
    media = content_type.partition(";")[0].strip().lower()
    if media == protobuf.MEDIA or body.startswith(protobuf.MAGIC):
        return JSON, protobuf.to_json(body)
    known = PATCHES if verb == "patch" else (JSON, YAML)
    media = media or ("" if verb == "patch" else JSON)
    if media not in known:
        told = "the body of the request was in an unknown format - accepted media types include: "
        raise unsupported_media_type(told + ", ".join(known))
    return media, body


def wants_gzip(accept_encoding: str, size: int) -> bool:
    return size > GZIP_FROM and any(one.partition(";")[0].strip() == "gzip" for one in accept_encoding.split(","))


def _json(media: str) -> bool:
    return media in (JSON, "application/*", "*/*")


def not_acceptable(known: str) -> StatusError:
    return StatusError(406, "NotAcceptable", f"only the following media types are accepted: {known}")
