"""The splitter in front of nats-py's parser: every way of cutting the bytes gives the same frames to the same side."""

import random

import pytest
from nats.errors import ProtocolError

from eventstore.jetstream import frames


class Behind:
    """Stands for nats-py's parser: collects what it is given and insists on whole frames."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.resets = 0

    def reset(self) -> None:
        self.resets += 1

    async def parse(self, data: bytes = b"") -> None:
        assert data.endswith(b"\r\n"), data
        self.got.append(data)


def splitter() -> tuple[frames.Splitter, Behind, list[frames.Frame], list[str]]:
    behind, ours, errors = Behind(), [], []
    made = frames.Splitter(behind, on_error=errors.append)
    made.taps[b"7"] = ours.extend
    return made, behind, ours, errors


def hmsg(subject: bytes, sid: bytes, reply: bytes, headers: bytes, payload: bytes) -> bytes:
    words = b" ".join(word for word in (subject, sid, reply) if word)
    return b"HMSG %b %d %d\r\n%b%b\r\n" % (words, len(headers), len(headers) + len(payload), headers, payload)


MSG = b"MSG wl.a 7 $JS.ACK.x 5\r\nhello\r\n"
BARE = b"MSG wl.a 7 0\r\n\r\n"
HEADERS = b"NATS/1.0\r\nA: 1234\r\n\r\n"
HMSG = hmsg(b"wl.b", b"7", b"$JS.ACK.y", HEADERS, b"hi")
GONE = b"NATS/1.0 409 Consumer Deleted\r\n\r\n"
STATUS = hmsg(b"_INBOX.p.1", b"7", b"", GONE, b"")
LOOKALIKE = b"MSG wl.a 7 12\r\nMSG z 7 1\r\n1\r\n"
OTHER = b"MSG wl.c 8 3\r\nabc\r\n"
OTHER_HEADERS = hmsg(b"wl.c", b"8", b"r", b"NATS/1.0\r\n\r\n", b"ok")

OURS = [
    (b"wl.a", b"$JS.ACK.x", b"", b"hello"),
    (b"wl.a", b"", b"", b""),
    (b"wl.b", b"$JS.ACK.y", HEADERS, b"hi"),
    (b"_INBOX.p.1", b"", GONE, b""),
    (b"wl.a", b"", b"", b"MSG z 7 1\r\n1"),
]
STREAM = b"".join(
    [b"PING\r\n", MSG, b"+OK\r\n", BARE, OTHER, HMSG, b"PONG\r\n", STATUS, OTHER_HEADERS, LOOKALIKE, b"INFO {}\r\n"]
)
FOREIGN = [b"PING\r\n", b"+OK\r\n", OTHER, b"PONG\r\n", OTHER_HEADERS, b"INFO {}\r\n"]


async def test_frames_of_taps_are_taken_and_the_rest_is_passed_on_whole() -> None:
    made, behind, ours, _ = splitter()
    await made.parse(STREAM)
    assert ours == OURS
    assert behind.got == FOREIGN


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 11, 64])
async def test_reads_of_any_size_give_the_same(size: int) -> None:
    made, behind, ours, _ = splitter()
    for at in range(0, len(STREAM), size):
        await made.parse(STREAM[at : at + size])
    assert (ours, behind.got) == (OURS, FOREIGN)


async def test_reads_cut_at_random_give_the_same() -> None:
    chance = random.Random(5)
    for _ in range(200):
        made, behind, ours, _ = splitter()
        cuts = sorted(chance.sample(range(len(STREAM) + 1), 5))
        for start, end in zip([0, *cuts], [*cuts, len(STREAM)], strict=True):
            await made.parse(STREAM[start:end])
        assert (ours, behind.got) == (OURS, FOREIGN)


async def test_a_large_frame_in_many_reads_is_joined_once() -> None:
    made, _, ours, _ = splitter()
    body = random.Random(1).randbytes(3_000_000)
    data = b"MSG wl.big 7 r 3000000\r\n" + body + b"\r\n" + MSG
    for at in range(0, len(data), 65_536):
        await made.parse(data[at : at + 65_536])
    assert [payload for *_, payload in ours] == [body, b"hello"]


async def test_a_reconnect_forgets_half_a_frame() -> None:
    made, behind, ours, _ = splitter()
    await made.parse(MSG + MSG[:-4])
    made.reset()
    await made.parse(b"PING\r\n" + BARE)
    assert behind.resets == 1
    assert [payload for *_, payload in ours] == [b"hello", b""]
    assert behind.got == [b"PING\r\n"]


async def test_bytes_behind_a_reconnect_that_began_inside_are_dropped() -> None:
    made, _, _, _ = splitter()

    class Resets(Behind):
        async def parse(self, data: bytes = b"") -> None:
            await super().parse(data)
            made.reset()

    resets = Resets()
    made._behind = resets
    await made.parse(b"PING\r\nPONG\r\nMSG wl.a 7 r 9\r\nhalf")
    assert resets.got == [b"PING\r\n"]
    await made.parse(b"PING\r\n")
    assert resets.got == [b"PING\r\n", b"PING\r\n"]


async def test_errors_are_shown_as_the_server_wrote_them_and_passed_on() -> None:
    made, behind, _, errors = splitter()
    line = b"-ERR 'Permissions Violation for Publish to \"wl.Moment\"'\r\n"
    await made.parse(line)
    assert errors == ['Permissions Violation for Publish to "wl.Moment"']
    assert behind.got == [line]


MALFORMED = {
    "size is no number": b"MSG wl.a 7 r x5\r\nhello\r\n",
    "no size": b"MSG\r\n",
    "a negative size": b"MSG wl.a 7 r -9\r\nhello\r\n",
    "more headers than bytes": b"HMSG wl.a 7 r 9 5\r\nhello\r\n",
    "headers of a negative size": b"HMSG wl.a 7 r -25 30\r\nNATS/1.0\r\nA: bcdefgh\r\n\r\nhello\r\n",
    "headers without a size": b"HMSG wl.a 7 r x 5\r\nhello\r\n",
    "more than any server takes": b"MSG wl.a 7 r 999999999999\r\nhello",
    "a line without an end": b"INFO " + b"x" * 70_000,
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED)
async def test_malformed_lines_end_the_connection(data: bytes) -> None:
    made, _, _, _ = splitter()
    with pytest.raises(ProtocolError):
        await made.parse(data)


async def test_an_ended_tap_s_frames_go_behind() -> None:
    made, behind, ours, _ = splitter()
    del made.taps[b"7"]
    await made.parse(MSG)
    assert ours == []
    assert behind.got == [MSG]
