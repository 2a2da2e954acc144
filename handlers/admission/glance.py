"""The view of a Pod as bytes, made from bytes: what needs no token is never built, what was seen before not read again.

Pods of one template differ in little more than their names and the name of the volume with their account's token, which
an API server draws at random. That name becomes the token ⟦0⟧, so that everything below metadata is equal to the byte;
what was made of equal bytes is remembered, real values included: they stay in this process, as in any view.

    decode(glance(raw).view) == view(decode(raw)).object, with the same values

`glance` gives None for a Pod in which something else has to be looked at, for one over 64 KB, and for what is no Pod:
then `view` makes the same from the whole object.

Rules: design.md section 2, "Privacy"; handlers/admission/view.py says what is tokenised.
"""

import collections
import re
from typing import Any, Final, NamedTuple

import msgspec

from handlers.admission import cache
from handlers.admission.view import NO_HANDLERS, Allow, Maker, is_plain, without_access

#: What is remembered at most: so many Pods, none of which is larger than this. A real one has some 5 to 10 KB.
MOST: Final = 256
LARGEST: Final = 64 * 1024
_fields: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_containers: Final = msgspec.json.Decoder(list[dict[str, msgspec.Raw]]).decode
_env: Final = msgspec.json.Decoder(list[dict[str, Any]]).decode
_words: Final = msgspec.json.Decoder(list[str]).decode
_strings: Final = msgspec.json.Decoder(dict[str, str]).decode
_encode: Final = msgspec.json.Encoder().encode

_ATTRIBUTED: Final = (b'"volumeAttributes":', b'"options":')
_HANDLED: Final = (b'"command":', b'"httpHeaders":')
_SPELT: Final = re.compile(rb"\\[u/]")
_LISTS: Final = frozenset(("containers", "initContainers", "ephemeralContainers"))


class Glance(NamedTuple):
    """`view` and `likeness` (see cache) are JSON; `metadata` are raw fields of the view. `values` by token."""

    view: bytes
    likeness: bytes
    values: dict[str, str]
    labels: dict[str, str]
    annotations: dict[str, str]
    metadata: dict[str, Any]


class _Part(NamedTuple):
    """What was made of the bytes that Pods of one template share."""

    annotations: dict[str, str]
    labels: dict[str, str]
    spec: msgspec.Raw
    values: dict[str, str]


class Glancer:
    """`look` at Pods for systems with one allow-list."""

    def __init__(self, allow: Allow) -> None:
        self._allow = allow
        self._parts: collections.OrderedDict[tuple[bytes, bytes, bytes], _Part] = collections.OrderedDict()
        self._glances: collections.OrderedDict[bytes, Glance] = collections.OrderedDict()

    def look(self, raw: bytes) -> Glance | None:
        if len(raw) > LARGEST or not is_plain(raw) or _spells(raw):
            return None
        found = without_access(raw)
        glance = self._glances.get(found.encoded)
        if glance is None:
            if (glance := self._read(raw, found.encoded)) is None:
                return None
            self._glances[found.encoded] = glance
            if len(self._glances) > MOST:
                self._glances.popitem(last=False)
        return glance._replace(values=found.real(glance.values))

    def _read(self, raw: bytes, encoded: bytes) -> Glance | None:
        """A Pod that differs from those before in more than the name of that volume."""
        try:
            pod: dict[str, Any] = dict(_fields(encoded))
            metadata: dict[str, Any] = dict(_fields(pod["metadata"]))
            if b'"message"' in bytes(pod.get("status", b"")):  # it may say anything, and is a token in a view
                return None
            given = bytes(metadata.get("annotations", b"")), bytes(metadata.get("labels", b"")), bytes(pod["spec"])
            part = self._parts.get(given)
            if part is None:
                if (part := self._made(raw, *given)) is None:
                    return None
                self._parts[given] = part
                if len(self._parts) > MOST:
                    self._parts.popitem(last=False)
        except (msgspec.MsgspecError, KeyError, RecursionError):
            return None
        metadata.pop("managedFields", None)
        if given[0]:
            metadata["annotations"] = part.annotations
        pod["metadata"], pod["spec"] = metadata, part.spec
        view = _encode(pod)
        pod["metadata"] = {name: value for name, value in metadata.items() if name not in cache.IGNORED}
        return Glance(view, _encode(pod), part.values, part.labels, part.annotations, metadata)

    def _made(self, encoded: bytes, annotations: bytes, labels: bytes, spec: bytes) -> _Part | None:
        """Raises MsgspecError for what is no Pod."""
        maker = Maker(self._allow, encoded)
        shown = maker.annotations(_strings(annotations)) if annotations else {}
        fields: dict[str, Any] = dict(_fields(spec))
        for key, value in fields.items():
            if key in _LISTS:
                fields[key] = [_container(one, maker) for one in _containers(value)]
            elif key == "volumes" and any(one in bytes(value) for one in _ATTRIBUTED):
                return None
        known = {token: value for value, token in maker.tokens.items()}
        return _Part(shown, _strings(labels) if labels else {}, msgspec.Raw(_encode(fields)), known)


def _spells(raw: bytes) -> bool:
    """Whether there may be an escape that spells what `is_plain` looked for: one of a quote cannot."""
    return _SPELT.search(raw) is not None


def _container(container: dict[str, Any], maker: Maker) -> dict[str, Any]:
    for key, value in container.items():
        if key == "env":
            container[key] = [maker.variable(one) for one in _env(value)]
        elif key in ("args", "command"):
            container[key] = maker.launch(_words(value))
        elif key not in NO_HANDLERS and any(one in bytes(value) for one in _HANDLED):
            container[key] = maker.deep(msgspec.json.decode(value), maker.handler)
    return container
