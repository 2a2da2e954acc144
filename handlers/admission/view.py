"""What a decision may see of a Pod: everything that can hold a secret is an opaque token.

A token is `⟦n⟧`, numbered by first appearance, so equal values stay equal and the view of a Pod is always the same.
What is on the allow-list of the systems that decide stays readable; user information in addresses never does, with a
scheme or without. The view is what the log keeps; the real values stay in the process that answers, which puts them
back into the patch (`fill`). A view shares with the object whatever needs no token: neither may be changed afterwards.

Tokenised: values of environment, arguments and commands (words inside shell scripts too), annotations, HTTP headers of
probes, attributes of volumes, messages in a status. Names of flags and of variables stay. managedFields are left out.

Rules: design.md section 2, "Privacy".
"""

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec

from handlers import tokens
from handlers.outcome import Object


class Allow(NamedTuple):
    """What stays readable: annotations, variables and flags by name, words by themselves."""

    annotations: frozenset[str] = frozenset()
    env: frozenset[str] = frozenset()
    flags: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()

    def __or__(self, other: "Allow") -> "Allow":
        return Allow(*(mine | theirs for mine, theirs in zip(self, other, strict=True)))


#: Words of launches that say which program runs, and syntax of shells.
_SHELLS: Final = ("sh", "bash", "dash", "ash", "/bin/sh", "/bin/bash", "exec", "env", "tini", "dumb-init")
_ENGINES: Final = ("vllm", "sglang", "serve", "launch_server", "sglang.launch_server")
_PYTHON: Final = ("python", "python3", "vllm.entrypoints.openai.api_server")
COMMON: Final = frozenset((*_SHELLS, *_ENGINES, *_PYTHON, "&&", "||", ";", "|", "&", "\\", "-", "--", ""))

_TOKEN: Final = re.compile(r"⟦\d+⟧")
_LONG_FLAG: Final = re.compile(r"--[A-Za-z][A-Za-z0-9._-]*")
_SHORT_FLAG: Final = re.compile(r"-[A-Za-z]{1,3}")
TOKEN_BYTES: Final = "⟦".encode()
#: The volume that a Pod's account token is mounted from, and the token that stands for its name.
ACCESS_TOKEN: Final = "⟦0⟧"
_ACCESS: Final = re.compile(rb"kube-api-access-[a-z0-9]{5}(?![a-z0-9])")
#: Tokens of a view, and those of the log (subscribers/kubernetes/narrow), in JSON.
ANY_TOKEN: Final = re.compile("(⟦(?:[0-9]+|[0-9a-f]{16})⟧)".encode())
_SPACE: Final = re.compile(r"\s")
_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")
#: Maps of volume sources whose values are free text.
_ATTRIBUTES: Final = ("volumeAttributes", "options")
#: Fields of containers in which no command and no header can be.
NO_HANDLERS: Final = frozenset(
    ("name", "image", "imagePullPolicy", "ports", "resources", "volumeMounts", "securityContext", "envFrom",
     "workingDir", "terminationMessagePath", "terminationMessagePolicy", "restartPolicy", "volumeDevices")
)  # fmt: skip


@dataclass
class View:
    """`object` is safe to log. `values` are the real values by token; they never leave the process."""

    object: Object
    values: dict[str, str] = field(default_factory=dict)
    token: re.Pattern[str] = _TOKEN

    def fill(self, part: Any) -> Any:
        """A copy of a patch, or of any part, with every token replaced by its value."""
        if isinstance(part, str):
            return part if "⟦" not in part else self.token.sub(lambda found: self.values.get(found[0], found[0]), part)
        if isinstance(part, dict):
            return {self.fill(key): self.fill(value) for key, value in part.items()}
        if isinstance(part, list | tuple):
            return [self.fill(one) for one in part]
        return part


def pieces(encoded: bytes) -> list[bytes]:
    """JSON, cut at its tokens: text and token in turn, text at both ends."""
    return ANY_TOKEN.split(encoded)


def filled(cut: list[bytes], values: Mapping[str, str]) -> bytes:
    """`pieces` with every token replaced by its value; a token without one stays. It is one pass: what a value holds is
    never read as a token."""
    whole = cut.copy()
    for at in range(1, len(whole), 2):
        value = values.get(whole[at].decode())
        if value is not None:
            whole[at] = msgspec.json.encode(value)[1:-1]  # as it stands between quotes
    return b"".join(whole)


def view(pod: Object, allow: Allow) -> View:
    """The view of a Pod, or of anything that has Pod-like metadata and spec. The object itself is not changed."""
    encoded = msgspec.json.encode(pod)
    found = without_access(encoded) if is_plain(encoded) else WithoutAccess(encoded, "")
    if found.name:
        pod = msgspec.json.decode(found.encoded)
    maker = Maker(allow, encoded)
    made = maker.pod(pod)
    return View(made, found.real({token: value for value, token in maker.tokens.items()}))


def is_plain(encoded: bytes) -> bool:
    """Whether no string in an object looks like a token or holds user information."""
    looks_like_tokens = TOKEN_BYTES[:1] in encoded and TOKEN_BYTES in encoded  # one byte is found much faster
    return not looks_like_tokens and not tokens.may_hide(encoded)


def resource(document: Object, allow: Allow) -> View:
    """The view of a custom resource: environments, arguments and commands are tokens wherever they stand in it."""
    maker = Maker(allow, msgspec.json.encode(document))
    given = document.get("metadata")
    found: Object = {"metadata": maker.metadata(given)} if isinstance(given, dict) else {}
    for key, value in document.items():
        if key not in found:
            found[key] = maker.deep(value, maker.launched)
    return View(found, {token: value for value, token in maker.tokens.items()})


class WithoutAccess(NamedTuple):
    encoded: bytes
    name: str  # what was replaced, "" for nothing

    def real(self, values: dict[str, str]) -> dict[str, str]:
        """Values by token, the name's own included; where it stood in one of them, it stands there again."""
        if not self.name:
            return values
        found = {token: value.replace(ACCESS_TOKEN, self.name) for token, value in values.items()}
        found[ACCESS_TOKEN] = self.name
        return found


def without_access(encoded: bytes) -> WithoutAccess:
    """An object's JSON with the random name of its account's volume as a token: it tells one Pod from the next, and
    nothing else. Left alone where it is not one name. Only for objects whose strings are plain."""
    names = set(_ACCESS.findall(encoded))
    if len(names) != 1:
        return WithoutAccess(encoded, "")
    (name,) = names
    return WithoutAccess(encoded.replace(name, ACCESS_TOKEN.encode()), name.decode())


@functools.lru_cache(16)
def _words(allow: Allow) -> frozenset[str]:
    return COMMON | allow.words


@functools.lru_cache(4096)
def is_flag(word: str) -> bool:
    """Names of flags are nobody's secret, and the same in every launch."""
    return bool(_LONG_FLAG.fullmatch(word) or _SHORT_FLAG.fullmatch(word))


class Maker:
    """`encoded` are the bytes of the object: a look at them says of most objects that their strings are plain, so that
    most parts can be shown as they are."""

    def __init__(self, allow: Allow, encoded: bytes) -> None:
        self.allow = allow
        self.words = _words(allow)
        self.tokens: dict[str, str] = {}
        self.clean = is_plain(encoded)

    def token(self, value: str) -> str:
        return self.tokens.setdefault(value, f"⟦{len(self.tokens) + 1}⟧") if value else value

    def pod(self, pod: Object) -> Object:
        """Tokens are numbered from the metadata on, in whatever order the parts come."""
        given = pod.get("metadata")
        metadata = self.metadata(given) if isinstance(given, dict) else self.plain(given)
        found: Object = {}
        for key, value in pod.items():
            if key == "metadata":
                found[key] = metadata
            elif key == "spec" and isinstance(value, dict):
                found[key] = {name: self.part(name, part) for name, part in value.items()}
            else:
                found[key] = self.deep(value, self.said) if key == "status" and value else self.plain(value)
        return found

    def said(self, name: str, value: Any) -> Any:
        """What a container said when it ended may be anything."""
        return self.token(value) if name == "message" and isinstance(value, str) else None

    def metadata(self, metadata: Object) -> Object:
        found = {key: self.plain(value) for key, value in metadata.items() if key != "managedFields"}
        given = metadata.get("annotations")
        if isinstance(given, dict):
            found["annotations"] = self.annotations({name: str(value) for name, value in given.items()})
        return found

    def annotations(self, given: dict[str, str]) -> dict[str, str]:
        return {
            name: self.readable(value) if name in self.allow.annotations else self.token(value)
            for name, value in given.items()
        }

    def part(self, key: str, value: Any) -> Any:
        if key in _CONTAINERS and isinstance(value, list):
            return [self.container(one) if isinstance(one, dict) else self.plain(one) for one in value]
        if key == "volumes":
            return self.deep(value, lambda name, inner: self.attributes(inner) if name in _ATTRIBUTES else None)
        if key in tokens.ADDRESSES and isinstance(value, str):
            return self.readable(value, address=True)
        return self.plain(value)

    def container(self, container: Object) -> Object:
        found: Object = {}
        for key, value in container.items():
            if key == "env" and isinstance(value, list):
                found[key] = [self.variable(one) if isinstance(one, dict) else self.plain(one) for one in value]
            elif key in ("args", "command") and isinstance(value, list):
                found[key] = self.launch(value)
            elif self.clean and key in NO_HANDLERS:
                found[key] = value
            elif key in tokens.ADDRESSES and isinstance(value, str):
                found[key] = self.readable(value, address=True)
            else:
                found[key] = self.deep(value, self.handler)
        return found

    def handler(self, name: str, value: Any) -> Any:
        """Commands and headers of probes and hooks are nobody's to read."""
        if name == "command" and isinstance(value, list):
            return [self.token(one) if isinstance(one, str) else self.plain(one) for one in value]
        if name == "httpHeaders" and isinstance(value, list):
            return [self.attributes(one, keep=("name",)) if isinstance(one, dict) else one for one in value]
        return None

    def launched(self, name: str, value: Any) -> Any:
        """Of a custom resource: what an operator wrote for somebody's launch, in whatever shape: its schema is judged
        after us."""
        if name in ("env", "extraEnv"):
            if not isinstance(value, list):
                return self.secret(value)
            return [self._variable(one) if isinstance(one, dict) else self.secret(one) for one in value]
        if name in ("args", "suppressArgs", "extraArgs", "command"):
            if not isinstance(value, list):
                return self.secret(value)
            shown = self.launch([one for one in value if isinstance(one, str)])
            return [shown.pop(0) if isinstance(one, str) else self.secret(one) for one in value]
        return self.secret(value) if name == "crypto" else None  # reserved, and nobody's to read

    def _variable(self, one: Object) -> Object:
        shown = {key: value if key in ("name", "value") else self.plain(value) for key, value in one.items()}
        if not isinstance(shown.get("name", ""), str):
            shown["name"] = self.secret(shown["name"])
        value = shown.get("value")
        return self.variable(shown) if isinstance(value, str | None) else {**shown, "value": self.secret(value)}

    def secret(self, value: Any) -> Any:
        """Of the same shape, and without what it says: it stands where its schema has something else."""
        if isinstance(value, dict):
            return {self.token(key): self.secret(one) for key, one in value.items()}
        if isinstance(value, list):
            return [self.secret(one) for one in value]
        if isinstance(value, str):
            return self.token(value)
        return value if value is None or isinstance(value, bool) else 0

    def variable(self, one: Object) -> Object:
        if self.clean and not one.get("value"):
            return one
        found = dict(one) if self.clean else {key: self.plain(value) for key, value in one.items()}
        if isinstance(value := one.get("value"), str):
            name = one.get("name")  # of a custom resource whose schema is judged after us, anything
            shown = isinstance(name, str) and name in self.allow.env
            found["value"] = self.readable(value) if shown else self.token(value)
        return found

    def attributes(self, value: Any, keep: tuple[str, ...] = ()) -> Any:
        if not isinstance(value, dict):
            return self.plain(value)
        return {
            key: self.token(one) if isinstance(one, str) and key not in keep else self.plain(one)
            for key, one in value.items()
        }

    def launch(self, words: list[Any]) -> list[Any]:
        """Arguments in order; a value stays where the flag before it is allowed."""
        found: list[Any] = []
        before = ""
        for word in words:
            if not isinstance(word, str):
                found.append(self.plain(word))
                continue
            found.append(self.script(word, before) if _SPACE.search(word) else self.word(word, before))
            before = word
        return found

    def script(self, text: str, before: str) -> str:
        """A shell script, or a value with spaces: word by word, what lies between them as it is."""
        if before in self.allow.flags:
            return self.readable(text)
        pieces = re.split(r"(\s+)", text)
        shown, last = [], ""
        for piece in pieces:
            if not piece or piece.isspace():
                shown.append(piece)
                continue
            shown.append(self.word(piece, last))
            last = piece
        return "".join(shown)

    def word(self, word: str, before: str) -> str:
        if not self.clean and _TOKEN.search(word):
            return self.token(word)
        if word in self.words or (word[0] == "-" and "=" not in word and is_flag(word)):
            return word
        if before in self.allow.flags:
            return self.readable(word)
        if word[0] != "-":
            return self.token(word)
        flag, equals, value = word.partition("=")
        if equals and is_flag(flag):
            return f"{flag}={self.readable(value) if flag in self.allow.flags else self.token(value)}"
        return self.token(word)

    def readable(self, value: str, *, address: bool = False) -> str:
        if self.clean:
            return value
        if _TOKEN.search(value):  # a real value that looks like a token must not be taken for one
            return self.token(value)
        return tokens.hidden(value, self.token, address=address)

    def plain(self, value: Any) -> Any:
        return value if self.clean else self.deep(value, lambda name, inner: None)

    def deep(self, value: Any, special: Callable[[str, Any], Any]) -> Any:
        """A copy, with what `special` makes of a named part where it makes something."""
        if isinstance(value, str):
            return value if self.clean else self.readable(value)
        if isinstance(value, dict):
            found = {}
            for key, inner in value.items():
                made = special(key, inner)
                if made is None and key in tokens.ADDRESSES and isinstance(inner, str):
                    made = self.readable(inner, address=True)
                found[key] = self.deep(inner, special) if made is None else made
            return found
        if isinstance(value, list):
            return [self.deep(one, special) for one in value]
        return value
