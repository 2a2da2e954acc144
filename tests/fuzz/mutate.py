"""Inputs out of good ones: bytes flipped, cut, doubled, spliced; words that parsers trip over; parts replaced.

Seeded, a few µs each. No feedback from the parser: what reaches deep is the corpus, which holds whole valid inputs of
every form.
"""

import random
import struct
from typing import Any

import msgspec

#: For binary forms: sizes and numbers at their limits, big- and little-endian, and MessagePack's headers.
NUMBERS = (
    *(struct.pack(form, value) for form in (">Q", "<Q") for value in (0, 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1)),
    *(struct.pack(form, value) for form in (">I", "<I") for value in (1, 2**15, 2**31 - 1, 2**32 - 1)),
    b"\xff\xff",
    b"\x7f\xff",
    b"\x80\x00",
    b"\x00\x00",
)
MSGPACK = (
    *NUMBERS,
    *(bytes([head]) for head in (0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, *range(0xC0, 0xE0), 0xFF)),
    b"\xdd\xff\xff\xff\xff",
    b"\xdf\xff\xff\xff\xff",
    b"\xc6\xff\xff\xff\xff",
    b"\xdb\xff\xff\xff\xff",
    b"\xc9\xff\xff\xff\xff\x01",
    b"\xcb\x7f\xf0\x00\x00\x00\x00\x00\x00",
    b"\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00",
    b"\x91" * 40,
    b"\x81\xa0" * 40,
)
JSON = (
    *(b'""', b'"', b"\\", b"\\u0000", b"\\ud800", b"null", b"true", b"[]", b"{}", b"[", b"{", b"]", b"}", b":", b","),
    *(
        b"-1",
        b"0",
        b"1e999",
        b"-0.0",
        b"1.5",
        b"NaN",
        b"18446744073709551616",
        b"9" * 400,
        b"4294967296",
        b"2147483648",
    ),
    *("é\u2028𝄞".encode(), b"\xff", b"\xc3", b"\x00", b"[" * 60, b'{"a":' * 60),
)
TEXT = (
    *(
        b"",
        b" ",
        b"\t",
        b"\n",
        b"\r\n",
        b"\x00",
        b"-",
        b"+",
        b".",
        b":",
        b"/",
        b"%",
        b"%zz",
        b"%00",
        b"_",
        b"=",
        b"&",
        b"@",
    ),
    *(
        b"0",
        b"9" * 30,
        b"9" * 5000,
        b"1e308",
        b"1e999",
        b"nan",
        b"inf",
        b"-1",
        b"0x10",
        b"1_000",
        "٣".encode(),
        "²".encode(),
    ),
    *("é𝄞\u2028".encode(), b"\xff", b"\xed\xa0\x80", b"a" * 300),
)

#: In place of any part of a document.
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 16, 255, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**64 - 1, -(2**63)),
    *(0.0, -1.5, 1e308, float("inf"), float("nan"), "", "0", "a", "é\u2028𝄞", "x" * 300, "GPU", "\x00", "1h", "-1"),
    *([], [[]], [0] * 40, {}, {"a": 1}, {"": {}}, [None, None], ["x", 1]),
)
_FIT: dict[type, tuple[Any, ...]] = {
    kind: tuple(value for value in VALUES if type(value) is kind) for kind in (bool, int, float, str, list, dict)
}


def _trees(corpus: list[bytes], decode: Any) -> list[Any]:
    found = []
    for raw in corpus:
        try:
            found.append(decode(raw))
        except msgspec.MsgspecError:
            continue  # a journal is no single document
    return found


class Mutator:
    """`next()` gives the next input, at most `longest` bytes."""

    def __init__(self, corpus: list[bytes], words: tuple[bytes, ...], *, seed: str, longest: int = 20_000) -> None:
        self.corpus, self.words, self.longest = corpus, words, longest
        self.chance = random.Random(seed)
        codec: Any = {MSGPACK: msgspec.msgpack, JSON: msgspec.json}.get(words)
        self._encode, self._trees = (codec.encode, _trees(corpus, codec.decode)) if codec else (None, [])
        self._steps = (self._flip, self._set, self._cut, self._double, self._insert, self._overwrite, self._splice)

    def next(self) -> bytes:
        roll = self.chance.random
        if roll() < 0.02:
            return self.chance.randbytes(int(roll() ** 3 * 200))
        if self._trees and roll() < 0.5:
            tree = self._trees[int(roll() * len(self._trees))]
            for _ in range(1 + int(roll() ** 4 * 4)):
                tree = self._other(tree)
            raw: bytes = self._encode(tree)
            return raw[: self.longest]
        data = bytearray(self.corpus[int(roll() * len(self.corpus))])
        for _ in range(int(roll() ** 3 * 8) + (roll() < 0.97)):
            self._steps[int(roll() * 7)](data)
        return bytes(data[: self.longest])

    def _other(self, node: Any) -> Any:
        """The tree with one thing in it changed; what is not on the way there is shared."""
        roll = self.chance.random
        if isinstance(node, dict) and node and roll() < 0.95:
            key = list(node)[int(roll() * len(node))]
            if roll() < 0.1:
                return {name: node[name] for name in node if name != key}
            if roll() < 0.05:
                return {str(self._value())[:40] if name == key else name: node[name] for name in node}
            return {**node, key: self._other(node[key])}
        if isinstance(node, list) and node and roll() < 0.95:
            at = int(roll() * len(node))
            if roll() < 0.1:
                return node[:at] + node[at + 1 :]
            if roll() < 0.1:
                return [*node[:at], *([node[at]] * (1 + int(roll() ** 6 * 300))), *node[at:]]
            if roll() < 0.05:
                return [*node[:at], self._value(), *node[at:]]
            return [*node[:at], self._other(node[at]), *node[at + 1 :]]
        if isinstance(node, int) and roll() < 0.4:
            return min(max(node + (1 if roll() < 0.5 else -1), -(2**63)), 2**64 - 1)
        if isinstance(node, bytes) and roll() < 0.6:
            return (
                node[: int(roll() * len(node))] if roll() < 0.5 else node + self.chance.randbytes(1 + int(roll() * 9))
            )
        return self._value(type(node))

    def _value(self, like: type = object) -> Any:
        """Mostly of the type that was there: another one is refused at once."""
        fit = _FIT.get(like, VALUES) if self.chance.random() < 0.8 else VALUES
        return fit[int(self.chance.random() * len(fit))]

    def _at(self, data: bytearray) -> int:
        return int(self.chance.random() * (len(data) + 1))

    def _word(self) -> bytes:
        return self.words[int(self.chance.random() * len(self.words))]

    def _flip(self, data: bytearray) -> None:
        if data:
            data[int(self.chance.random() * len(data))] ^= 1 << self.chance.getrandbits(3)

    def _set(self, data: bytearray) -> None:
        if data:
            data[int(self.chance.random() * len(data))] = self.chance.getrandbits(8)

    def _cut(self, data: bytearray) -> None:
        at = self._at(data)
        del data[at : at + 1 + int(self.chance.random() ** 4 * len(data))]

    def _double(self, data: bytearray) -> None:
        at = self._at(data)
        piece = data[at : at + 1 + int(self.chance.random() ** 3 * 100)]
        data[at:at] = piece * (1 + int(self.chance.random() ** 4 * 20))

    def _insert(self, data: bytearray) -> None:
        at = self._at(data)
        data[at:at] = self._word()

    def _overwrite(self, data: bytearray) -> None:
        at, word = self._at(data), self._word()
        data[at : at + len(word)] = word

    def _splice(self, data: bytearray) -> None:
        other = self.corpus[int(self.chance.random() * len(self.corpus))]
        data[self._at(data) :] = other[int(self.chance.random() * len(other)) :]
