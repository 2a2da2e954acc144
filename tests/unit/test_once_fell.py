"""Inputs that made a parser fall when it was fuzzed (docs/fuzz.md): each is now one line, or understood."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from eventstore import store, subjects
from eventstore.jetstream import reader
from subscribers.kvevents import endpoints
from tests.support.wire import Wire
from warmlog import flags, lookup, manifests, when

NOW = datetime(2026, 11, 30, tzinfo=UTC)
HUGE = "9" * 5000

TEXTS: dict[str, tuple[Callable[[str], object], str]] = {
    "an age of many centuries": (lambda text: when.parse(text, NOW), "-99999999999m"),
    "an age without end": (lambda text: when.parse(text, NOW), f"-{HUGE}h"),
    "a duration without end": (flags.duration, f"{HUGE}h"),
    "a size that nothing holds": (flags.size, "99999999999Ti"),
    "a number of 5,000 digits": (flags.at_least(0), HUGE),
    "a port of 5,000 digits": (lambda text: endpoints.plan(text, None), f"tcp://h:{HUGE}"),
    "a range of token ids without end": (lookup.token_ids, "1..99999999999"),
    "a token id that is no u32": (lookup.token_ids, "4294967296"),
    "more token ids than a prompt has": (lookup.token_ids, "1..600000,1..600000"),
    "a name that is no UTF-8": (subjects.escape, "\udcff"),
    "a token that is no UTF-8": (subjects.unescape, "a\udcff"),
    "a partition in other digits": (subjects.parse_kv_subject, "wlkv.٣.t.r"),
    "a partition with a zero before it": (subjects.parse_kv_subject, "wlkv.03.t.r"),
    "a partition of 5,000 digits": (subjects.parse_kv_subject, f"wlkv.{HUGE}.t.r"),
}


@pytest.mark.parametrize(("read", "text"), TEXTS.values(), ids=TEXTS)
def test_a_text_is_refused_with_a_line(read: Callable[[str], object], text: str) -> None:
    with pytest.raises(ValueError) as refused:
        read(text)
    assert "\n" not in str(refused.value)


HEAD = "apiVersion: inferencecache.io/v1alpha1\nkind: CachePolicy\nmetadata: {name: p}\n"
BOMB = "".join(f"  l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 9))
MANIFESTS = {
    "no such day": (f"{HEAD}spec: {{}}\nx: 2001-99-99\n", "month must be in"),
    "a tag that fits no value": (f"{HEAD}spec: {{}}\nx: !!timestamp y\n", "a.yaml"),
    "a number of 5,000 digits": (f"{HEAD}spec: {{}}\nx: {HUGE}\n", "digits"),
    "aliases of aliases": (f"{HEAD}spec: {{}}\nx:\n  l0: &l0 [a]\n{BOMB}", "more than 10000 values"),
    "an alias of itself": (f"{HEAD}spec: {{}}\nx: &x [*x]\n", "an alias of itself"),
    "a kind that is no word": ("kind: {a: b}\n", "expected kind"),
    "a key that is a list": (f"{HEAD}spec: {{}}\nx: {{[1, 2]: y}}\n", "a.yaml"),
    "a name that no subject has room for": (HEAD.replace("name: p", f"name: {'p' * 300}") + "spec: {}\n", "exceeds"),
}


@pytest.mark.parametrize(("text", "says"), MANIFESTS.values(), ids=MANIFESTS)
def test_a_manifest_is_refused_with_a_line(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(manifests.ManifestError, match=says) as refused:
        manifests.read(tmp_path)
    assert "\n" not in str(refused.value)


FIRST = b"$JS.ACK.S.C.1.7.7.1700000000000000000.0"
REPLIES = {
    "a heartbeat whose count is no number": (b"", b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: x\r\n\r\n"),
    "a pending count that is no number": (b"$JS.ACK.S.C.1.8.8.1700000000000000000.x", b""),
    "a reply that is cut short": (b"$JS.8.8.1700000000000000000", b""),
}


@pytest.mark.parametrize(("reply", "headers"), REPLIES.values(), ids=REPLIES)
async def test_what_a_consumer_cannot_read_ends_that_consumer_and_not_the_read(reply: bytes, headers: bytes) -> None:
    wire = Wire()
    wire.life = 1  # type: ignore[attr-defined]
    consumer = reader._Consumer(wire, "S", reader.Settings(), store.Stored)  # type: ignore[arg-type]
    consumer._delivered = 6
    with pytest.raises(reader._Lost):
        consumer._sort_out([(b"wl.x", FIRST, b"", b""), (b"wl.x", reply, headers, b"")])
