"""The public question of LookupRoute, as bytes and as data. (Its answer: answers.)

A question is proto3 JSON with the original field names (lowerCamelCase is understood too): bytes are base64 (standard
or URL-safe, padded or not) or, for keys, 16 hex digits; integers may be 16, "16", 16.0 or 1.6e1; null is the default;
unknown fields are ignored. Or it is the prompt's token ids as u32 little-endian (`application/x-u32le`) with the other
fields as query parameters.

Bytes that are no question raise RequestError with one line: the edge answers 400. Whatever decodes is a well-formed
question and gets a reason code (lookup.py), however odd it is.

Rules: spec/inferencecache.md section 1.2; design.md section 4.
"""

import binascii
import re
import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from handlers.prefixindex import keys

_I32: Final = 2**31 - 1
_KEY_IN_BASE64: Final = 12  # characters of 8 bytes, padded
_HEX: Final = re.compile(r"[0-9a-fA-F]{16}")
_DIGITS: Final = re.compile(r"[+-]?[0-9]{1,20}")


class RequestError(ValueError):
    """Bytes that are no question; the message is one line that says what is wrong."""


class _Slo(msgspec.Struct, frozen=True):
    ttft_ms: int | str | None = 0
    tbt_ms: int | str | None = 0


class _Document(msgspec.Struct, frozen=True):
    """The JSON form, field by field."""

    model_id: str | None = None
    tenant_id: str | None = None
    prefix_hash: str | None = None
    prefix_token_count: int | str | None = None
    hash_scheme: str | None = None
    slo: _Slo | None = None
    block_hashes: list[str] | None = None
    block_token_counts: list[int | str] | None = None
    token_ids: list[int] | None = None
    prompt_text: str | None = None
    adapter_id: str | None = None
    explain: bool | None = None


class LookupRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks about which prompt. Empty means absent, as in proto3."""

    model_id: str = ""
    tenant_id: str = ""
    hash_scheme: str = ""
    adapter_id: str = ""
    prefix_hash: bytes = b""
    prefix_token_count: int = 0
    chain: list[int] = []  # block_hashes as numbers; -1 for one that is not 8 bytes and therefore nobody's
    odd_hashes: tuple[bytes, ...] = ()  # block_hashes as they came, when one of them is not 8 bytes
    block_token_counts: list[int] = []
    tokens: bytes = b""  # token_ids, u32 little-endian
    prompt_text: str = ""
    ttft_ms: int = 0
    tbt_ms: int = 0
    explain: bool = False


_documents = msgspec.json.Decoder(_Document)


class _CamelSlo(_Slo, frozen=True, rename="camel"):
    ttft_ms: int | str | None = 0
    tbt_ms: int | str | None = 0


class _CamelDocument(_Document, frozen=True, rename="camel"):
    """The same in lowerCamelCase, which proto3 JSON writers use unless told otherwise."""

    model_id: str | None = None
    tenant_id: str | None = None
    prefix_hash: str | None = None
    prefix_token_count: int | str | None = None
    hash_scheme: str | None = None
    slo: _CamelSlo | None = None
    block_hashes: list[str] | None = None
    block_token_counts: list[int | str] | None = None
    token_ids: list[int] | None = None
    prompt_text: str | None = None
    adapter_id: str | None = None


_camel_documents = msgspec.json.Decoder(_CamelDocument)


def decode(body: bytes) -> LookupRequest:
    """A JSON question."""
    if (read := _lifted(body)) is not None:
        return read
    return decode_in_python(body)


def decode_in_python(body: bytes) -> LookupRequest:
    """As `decode`, without the native helper."""
    try:
        return _read(body)
    except RequestError:
        if (plain := _plain(body)) is None:
            raise
        return _read(plain)


#: Fields of whole numbers, which proto3 JSON may write as 16, "16", 16.0 or 1.6e1.
_WHOLE: Final = frozenset(
    {
        "prefix_token_count",
        "block_token_counts",
        "token_ids",
        "ttft_ms",
        "tbt_ms",
        "prefixTokenCount",
        "blockTokenCounts",
        "tokenIds",
        "ttftMs",
        "tbtMs",
    }
)
_LONGEST_PLAIN: Final = 1 << 20  # bytes of a question that is read a second time
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,20}(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?")


def _plain(body: bytes) -> bytes | None:
    """The same question with its whole numbers written in digits; None when it is no document at all."""
    if len(body) > _LONGEST_PLAIN:
        return None
    try:
        document = msgspec.json.decode(body)
        if not isinstance(document, dict):
            return None
        if isinstance(slo := document.get("slo"), dict):
            document["slo"] = _in_digits(slo)
        return msgspec.json.encode(_in_digits(document))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _in_digits(fields: dict[str, Any]) -> dict[str, Any]:
    def plain(value: Any) -> Any:
        if isinstance(value, str) and _NUMBER.fullmatch(value):
            value = int(value) if _DIGITS.fullmatch(value) else float(value)
        return int(value) if isinstance(value, float) and value.is_integer() else value

    return {
        name: value if name not in _WHOLE else list(map(plain, value)) if isinstance(value, list) else plain(value)
        for name, value in fields.items()
    }


def _read(body: bytes) -> LookupRequest:
    try:
        document = _documents.decode(body)
        if document.model_id is None and document.tenant_id is None:
            camel = _camel_documents.decode(body)
            if camel.model_id is not None or camel.tenant_id is not None:
                document = camel
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError(f"not a LookupRouteRequest in JSON: {error}") from None
    return _asked(document, _tokens(document.token_ids) if document.token_ids else b"")


_FIELD: Final = b'"token_ids"'
_MARK: Final = 1 << 32  # no token id: stands in a document where the array was lifted out
_MARKED: Final = b"[%d]" % _MARK
_LONGEST_KNOWN: Final = 512  # bytes of a question without its token ids that are worth remembering


def _lifted(body: bytes) -> LookupRequest | None:
    """The array of token ids read by the native helper, and the document without it. None for a body that has none, or
    one about which there is any doubt: it is then read in Python, or refused with the line that says what is wrong."""
    if keys.native is None or (at := body.find(_FIELD)) < 0:
        return None
    after = at + len(_FIELD)
    start = body.find(b"[", after, after + 4)
    if start < 0 or body[after:start].strip() != b":" or (read := keys.native.tokens(body, start)) is None:
        return None
    packed, end = read
    rest = b"%b%b%b" % (body[:start], _MARKED, body[end:])
    known = _around(rest) if len(rest) <= _LONGEST_KNOWN else _around.__wrapped__(rest)
    return None if known is None else msgspec.structs.replace(known, tokens=packed)


@lru_cache(maxsize=256)
def _around(rest: bytes) -> LookupRequest | None:
    """The question but for its token ids, which routers repeat. None when in doubt. Raises RequestError."""
    if b"\\" in rest or rest.count(b"token_ids") != 1:  # the name in another spelling, in a text, or twice
        return None
    try:
        document = _documents.decode(rest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if document.token_ids != [_MARK] or (document.model_id is None and document.tenant_id is None):
        return None  # not the document's own, or in lowerCamelCase
    return _asked(document, b"")


def _asked(document: _Document, tokens: bytes) -> LookupRequest:
    chain, odd = _chain(document.block_hashes) if document.block_hashes else ([], ())
    counts = document.block_token_counts or []
    slo = document.slo
    return LookupRequest(
        model_id=document.model_id or "",
        tenant_id=document.tenant_id or "",
        hash_scheme=document.hash_scheme or "",
        adapter_id=document.adapter_id or "",
        prefix_hash=_bytes("prefix_hash", document.prefix_hash) if document.prefix_hash else b"",
        prefix_token_count=_i32("prefix_token_count", document.prefix_token_count or 0),
        chain=chain,
        odd_hashes=odd,
        block_token_counts=_counts(counts),
        tokens=tokens,
        prompt_text=document.prompt_text or "",
        ttft_ms=_i32("slo.ttft_ms", slo.ttft_ms or 0) if slo else 0,
        tbt_ms=_i32("slo.tbt_ms", slo.tbt_ms or 0) if slo else 0,
        explain=bool(document.explain),
    )


_TEXTS: Final = ("model_id", "tenant_id", "hash_scheme", "adapter_id")
_PACKED: Final = (*_TEXTS, "slo.ttft_ms", "ttft_ms", "slo.tbt_ms", "tbt_ms", "explain")


def decode_packed(body: bytes, query: Mapping[str, str]) -> LookupRequest:
    """Packed token ids and query parameters. Unknown parameters are ignored."""
    if len(body) % 4:
        raise RequestError(f"{len(body)} bytes of packed token ids; expected a multiple of 4")
    model, tenant, scheme, adapter, ttft, tbt, explain = _parameters(tuple(map(query.get, _PACKED)))
    return LookupRequest(
        model_id=model,
        tenant_id=tenant,
        hash_scheme=scheme,
        adapter_id=adapter,
        tokens=body,
        ttft_ms=ttft,
        tbt_ms=tbt,
        explain=explain,
    )


@lru_cache(maxsize=1024)
def _parameters(given: tuple[str | None, ...]) -> tuple[str, str, str, str, int, int, bool]:
    """The values of `_PACKED` in that order, read. Routers repeat theirs. Raises RequestError."""
    model, tenant, scheme, adapter, ttft, ttft_short, tbt, tbt_short, explain = given
    explain = (explain or "").lower()
    if explain not in ("", "0", "1", "true", "false"):
        raise RequestError(f"explain is {explain!r}; expected true or false")
    return (
        model or "",
        tenant or "",
        scheme or "",
        adapter or "",
        _i32("slo.ttft_ms", (ttft_short if ttft is None else ttft) or 0),
        _i32("slo.tbt_ms", (tbt_short if tbt is None else tbt) or 0),
        explain in ("1", "true"),
    )


def _i32(name: str, value: int | str) -> int:
    if isinstance(value, str):
        if not _DIGITS.fullmatch(value):
            raise RequestError(f"{name} is {value[:40]!r}; expected a whole number")
        value = int(value)
    if not -_I32 - 1 <= value <= _I32:
        raise RequestError(f"{name} is {value}; expected a 32-bit number")
    return value


def _counts(counts: list[int | str]) -> list[int]:
    if not counts:
        return []
    try:
        if min(counts) >= 0 and max(counts) <= _I32:  # type: ignore[operator]
            return counts  # type: ignore[return-value]
    except TypeError:
        pass  # some are strings
    return [_i32("block_token_counts", count) for count in counts]


def _tokens(tokens: list[int]) -> bytes:
    try:
        return keys.pack_tokens(tokens)
    except OverflowError:
        raise RequestError("token_ids holds a number that is no u32") from None


def _bytes(name: str, text: str) -> bytes:
    if len(text) == 16 and _HEX.fullmatch(text):
        return bytes.fromhex(text)
    padded = text.replace("-", "+").replace("_", "/").rstrip("=")
    padded += "=" * (-len(padded) % 4)
    try:
        return binascii.a2b_base64(padded, strict_mode=True)
    except (binascii.Error, ValueError):
        raise RequestError(f"{name} holds {text[:40]!r}; expected base64, or 16 hex digits") from None


@lru_cache(maxsize=64)
def _words(count: int) -> struct.Struct:
    return struct.Struct(f">{'Qx' * count}")


def _chain(texts: list[str]) -> tuple[list[int], tuple[bytes, ...]]:
    """Keys as numbers. Keys all in the usual form are decoded at once."""
    if (fast := _chain_at_once(texts)) is not None:
        return fast, ()
    found = tuple(_bytes("block_hashes", text) for text in texts)
    odd = any(len(key) != 8 for key in found)
    return [keys.from_wire(key) for key in found], found if odd else ()


def _chain_at_once(texts: list[str]) -> list[int] | None:
    joined = "".join(texts)
    count = len(texts)
    try:
        if len(joined) == 16 * count and set(map(len, texts)) == {16} and joined.isalnum():
            return list(struct.unpack(f">{count}Q", bytes.fromhex(joined)))
        if len(joined) != _KEY_IN_BASE64 * count or joined.count("=") != count or joined[11::12] != "=" * count:
            return None
        if set(map(len, texts)) != {_KEY_IN_BASE64}:
            return None
        # 11 characters are 66 bits, the key and two zeros; one 'A' more makes them 9 bytes, the last of them padding.
        return list(_words(count).unpack(binascii.a2b_base64(joined.replace("=", "A"), strict_mode=True)))
    except (binascii.Error, ValueError):
        return None  # URL-safe, or wrong: read one by one
