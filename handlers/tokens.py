"""Values that no stream may hold, and the opaque tokens that stand for them in the log.

A token is `⟦16 hex digits⟧`: the same for the same value of one object for ever, so that equal stays equal and a change
shows. Who needs a value reads the object itself and makes the tokens again (`handlers.world.kinds.values`); `filled`
puts values back at the edge, and `masked` takes them out of what an API server answered.

User information is what stands before the @ of an address: with a scheme always, without one where it has a colon. In a
field that holds nothing but an address (`ADDRESSES`) any. The @ of an image's digest is none.

Not here: what of an object is a value (crds' kinds, handlers.world.kinds), tokens of a view (handlers.admission.view).

Rules: design.md section 2, "Privacy".
"""

import hashlib
import itertools
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

STORED: Final = re.compile(r"⟦[0-9a-f]{16}⟧")
#: Fields that are one address each.
ADDRESSES: Final = frozenset(
    ("image", "imageReference", "targetImage", "workerImage", "mcvImage", "prefetchImage", "address", "endpoint",
     "clientEndpoint")
)  # fmt: skip
_ADDRESSES: Final = frozenset(field.encode() for field in ADDRESSES)
_FLAG: Final = re.compile(r"--?[A-Za-z][A-Za-z0-9._-]*")
#: What follows the @ of an image's digest.
_DIGEST: Final = r"[a-z0-9]+(?:[+._-][a-z0-9]+)*:[0-9a-fA-F]{32}"
_AT: Final = rf"(?=@(?!{_DIGEST}))"
_USERINFO: Final = re.compile(
    rf"(?<=://)[^/?#]+{_AT}"
    rf"|(?<=://)[^/?#@:]*:(?![0-9]{{1,5}}(?:[/?#]|$)).+{_AT}"  # a slash in a password
    rf"|(?<![^=,;({{\[])[^/@:=,;({{\[]*:(?!//).+{_AT}"
)
_ALL: Final = re.compile(rf"(?:(?<=://)|^(?![A-Za-z][A-Za-z0-9+.-]*://)).+{_AT}")
_WORD: Final = re.compile(r"[^\s\"']+")
_IS_DIGEST: Final = re.compile(_DIGEST).match
_IN_BYTES: Final = re.compile(_DIGEST.encode()).match
_BLANKS: Final = bytes.maketrans(b" \t\r\n'", b'"' * 5)
#: What Go's JSON escapes beyond JSON's own.
_GO: Final = str.maketrans({"<": r"\u003c", ">": r"\u003e", "&": r"\u0026", "\u2028": r"\u2028", "\u2029": r"\u2029"})
Replace = Callable[[str], str]


def token(uid: str, value: str) -> str:
    """Opaque, the same for the same value of one object for ever."""
    return f"⟦{hashlib.sha256(f'{uid}|{value}'.encode()).hexdigest()[:16]}⟧"


def hidden(text: str, replace: Replace, *, address: bool = False) -> str:
    """A text without user information. Time grows with its length, whoever wrote it: no word is searched beyond the
    last @ that may end user information, so that whatever begins there ends there too."""
    if "@" not in text:
        return text
    pattern = _ALL if address else _USERINFO

    def shown(word: re.Match[str]) -> str:
        found = word[0]
        at = found.rfind("@")
        while at >= 0 and _IS_DIGEST(found, at + 1):
            at = found.rfind("@", 0, at)
        return pattern.sub(lambda one: replace(one[0]), found[: at + 1]) + found[at + 1 :]

    return _WORD.sub(shown, text)


def may_hide(encoded: bytes) -> bool:
    """Whether anything in an object's JSON may be user information. Escapes add none of the characters that end it."""
    if b"@" not in encoded:
        return False
    words = encoded.translate(_BLANKS).split(b'"')
    for number, word in enumerate(words):
        if b"@" in word:
            pieces = word.split(b"@")
            for before, after in itertools.pairwise(pieces):
                if not _IN_BYTES(after) and (b":" in before or _field(words, number) in _ADDRESSES):
                    return True
    return False


def _field(words: list[bytes], number: int) -> bytes:
    """The name of the field whose value begins with this word."""
    before = (word for word in reversed(words[max(0, number - 8) : number]) if word)
    return next(before, b"") if next(before, b"") == b":" else b""


class Hider:
    """Of one object: makes tokens, and knows which value each stands for."""

    def __init__(self, uid: str) -> None:
        self.uid = uid
        self.values: dict[str, str] = {}

    def hide(self, value: str) -> str:
        """Blank stays blank: that is judged."""
        if not value.strip():
            return value
        made = token(self.uid, value)
        self.values[made] = value
        return made

    def once(self, value: str) -> str:
        """A token stays what it is: it comes back in what we wrote ourselves."""
        return value if STORED.fullmatch(value) else self.hide(value)

    def word(self, word: str) -> str:
        """An argument: names of flags are nobody's secret, what follows them is."""
        flag, equals, value = word.partition("=")
        if _FLAG.fullmatch(word):
            return word
        return f"{flag}={self.hide(value)}" if equals and _FLAG.fullmatch(flag) else self.hide(word)

    def texts(self, part: Any) -> Any:
        """The part, or a copy of it, without user information in any text."""
        return self._texts(part, "") if b"@" in msgspec.json.encode(part) else part

    def _texts(self, part: Any, field: str) -> Any:
        if isinstance(part, str):
            return hidden(part, self.once, address=field in ADDRESSES)
        if isinstance(part, dict):
            return {key: self._texts(value, key) for key, value in part.items()}
        return [self._texts(one, field) for one in part] if isinstance(part, list) else part


def settled(part: Any) -> Any:
    """What we write, a text or a part of an object, as the log will tell it later: hidden again it is the same. What is
    put beside something hidden, or cut, may look like user information only then."""
    hider = Hider("")
    while (shown := hider.texts(part)) != part:
        part = shown  # each time less of it is outside of tokens
    return part


def found(part: Any) -> set[str]:
    """The tokens in texts."""
    if isinstance(part, str):
        return set(STORED.findall(part)) if "⟦" in part else set()
    parts = part.values() if isinstance(part, dict) else part if isinstance(part, list | tuple) else ()
    return {one for inner in parts for one in found(inner)}


def filled(part: Any, values: Mapping[str, str]) -> Any:
    """A copy with values in place of their tokens; a token without one stays."""
    if isinstance(part, str):
        return part if "⟦" not in part else STORED.sub(lambda one: values.get(one[0], one[0]), part)
    if isinstance(part, dict):
        return {key: filled(value, values) for key, value in part.items()}
    return [filled(one, values) for one in part] if isinstance(part, list | tuple) else part


def masked(text: str, values: Mapping[str, str]) -> str:
    """A text that may quote values, with their tokens in place of them; the longest first. Values under four characters
    are no secrets, and are in every text."""
    known = {spelt: made for made, value in values.items() if len(value) > 3 for spelt in _spelt(value)}
    if not known:
        return text
    longest_first = sorted(known, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, longest_first)), lambda one: known[one[0]], text)


def _spelt(value: str) -> set[str]:
    """As it is, as it stands between quotes, and as it does in what was quoted twice: a webhook's answer in an API
    server's."""
    once = _quoted(value)
    return {value, *once, *(twice for one in once for twice in _quoted(one))}


def _quoted(text: str) -> set[str]:
    """By JSON, and by Go's, which spells three more characters as numbers."""
    plain = msgspec.json.encode(text).decode()[1:-1]
    return {plain, plain.translate(_GO)}
