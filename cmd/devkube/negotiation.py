"""What the client wants to get, and in which form its body may come: Accept, Content-Type, Accept-Encoding.

JSON is the only wire form for streams; a single answer may be YAML too. Clauses of Accept are tried in the client's
order of preference; one that asks for what this server does not make is skipped, and 406 follows when none is left.
Rules: apiserver's pkg/endpoints/handlers/negotiation. Protobuf is never written and hardly read (`protobuf`).
"""

import functools
from dataclasses import dataclass
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
# Patch types by content type, as `patch` knows them; the name in the 415 of upstream is the content type itself.
PATCHES: Final = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
GZIP_FROM: Final = 128 * 1024  # bytes; smaller answers are sent as they are, as upstream does


@dataclass(frozen=True)
class Clause:
    """One alternative of an Accept header."""

    media: str
    parameters: dict[str, str]
    quality: float = 1.0


@dataclass(frozen=True)
class Output:
    """The form of a successful answer. `version` is that of meta.k8s.io: v1, or v1beta1 where the client is old."""

    form: Form = ""
    version: str = "v1"
    media: str = JSON
    pretty: bool = False


@dataclass(frozen=True)
class Discovery:
    """Of /api and /apis: the classic documents (version empty) or one aggregated list (v2, v2beta1)."""

    version: str = ""

    @property
    def content_type(self) -> str:
        if not self.version:
            return JSON
        return f"{JSON};g=apidiscovery.k8s.io;v={self.version};as=APIGroupDiscoveryList"


@functools.lru_cache(512)
def clauses(accept: str) -> tuple[Clause, ...]:
    """Best first: by quality, then wildcards last, then in the order given. No header: anything."""
    found: list[Clause] = []
    for text in accept.split(","):
        media, *rest = (part.strip() for part in text.split(";"))
        if not media:
            continue
        parameters = {}
        for parameter in rest:
            key, _, value = parameter.partition("=")
            parameters[key.strip().lower()] = value.strip().strip('"')
        found.append(Clause(media.lower(), parameters, _quality(parameters.pop("q", "1"))))
    found.sort(key=lambda one: (-one.quality, one.media.count("*")))
    return tuple(found) if accept.strip() else (Clause("*/*", {}),)


@functools.lru_cache(512)
def output(accept: str, *, stream: bool = False) -> Output:
    """Of a resource's answer; of a watch when `stream`. StatusError 406 when nothing fits."""
    for clause in clauses(accept):
        media = _media(clause.media)
        wanted = clause.parameters
        if media is None or (stream and media != JSON) or wanted.get("stream", "watch") not in ("", "watch"):
            continue
        form = FORMS.get(wanted.get("as", ""))
        if form is None or (form and (wanted.get("g"), wanted.get("v")) not in _META):
            continue
        return Output(form, wanted.get("v", "v1") if form else "v1", media, wanted.get("pretty") == "1")
    raise not_acceptable((f"{JSON};stream=watch",) if stream else (JSON, YAML))


_META: Final = (("meta.k8s.io", "v1"), ("meta.k8s.io", "v1beta1"))


@functools.lru_cache(64)
def discovery(accept: str) -> Discovery:
    """What /api and /apis answer with. StatusError 406 when nothing fits."""
    for clause in clauses(accept):
        if clause.media not in (JSON, "application/*", "*/*"):
            continue
        kind = clause.parameters.get("as")
        version = clause.parameters.get("v", "")
        if not kind:
            return Discovery()
        if (kind, clause.parameters.get("g")) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io") and version in (
            "v2",
            "v2beta1",
        ):
            return Discovery(version)
    raise not_acceptable((JSON,))


@functools.lru_cache(64)
def accepts_json(accept: str) -> bool:
    return any(_media(one.media) == JSON for one in clauses(accept))


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
    return _media_of_body(media, verb), body


def _media_of_body(media: str, verb: str) -> str:
    if verb == "patch":
        if media not in PATCHES:
            known = ", ".join(PATCHES)
            raise unsupported_media_type(
                f"the body of the request was in an unknown format - accepted media types include: {known}"
            )
        return media
    if not media:
        return JSON
    if media in (JSON, YAML):
        return media
    raise unsupported_media_type(
        f"the body of the request was in an unknown format - accepted media types include: {JSON}, {YAML}"
    )


def wants_gzip(accept_encoding: str, size: int) -> bool:
    return size > GZIP_FROM and any(one.partition(";")[0].strip() == "gzip" for one in accept_encoding.split(","))


def wants_pretty(query_value: str | None, agent: str) -> bool:
    """People who look with curl get it indented, as upstream does."""
    if query_value:
        return query_value in ("1", "t", "T", "TRUE", "true", "True")
    return agent.startswith(("curl", "Wget", "Mozilla/5.0"))


def _media(media: str) -> str | None:
    if media in (JSON, "application/*", "*/*"):
        return JSON
    return YAML if media == YAML else None


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 1.0


def not_acceptable(known: tuple[str, ...]) -> StatusError:
    return StatusError(406, "NotAcceptable", f"only the following media types are accepted: {', '.join(known)}")
