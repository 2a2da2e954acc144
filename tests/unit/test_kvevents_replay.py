"""Replies of the replay socket. Excluded: asking for them (tests/integration/test_kvevents_source.py)."""

import pytest

from subscribers.kvevents import replay

SEQ = (7).to_bytes(8, "big")
END = (-1).to_bytes(8, "big", signed=True)

GOOD = {
    "until vLLM 0.25": ([b"", SEQ, b"payload"], replay.Reply(7, b"payload")),
    "from vLLM 0.26 on": ([b"", b"kv-events", SEQ, b"payload"], replay.Reply(7, b"payload")),
    "from vLLM 0.26 on, no topic": ([b"", b"", SEQ, b"payload"], replay.Reply(7, b"payload")),
    "a topic of eight bytes": ([b"", b"12345678", SEQ, b"payload"], replay.Reply(7, b"payload")),
    "end until vLLM 0.25": ([b"", END, b""], replay.Reply(replay.END, b"")),
    "end from vLLM 0.26 on": ([b"", b"", END, b""], replay.Reply(replay.END, b"")),
}


@pytest.mark.parametrize(("frames", "reply"), GOOD.values(), ids=GOOD)
def test_both_forms_are_read_from_their_last_two_frames(frames: list[bytes], reply: replay.Reply) -> None:
    assert replay.parse(frames) == reply


BAD = {
    "one frame": [b"x"],
    "nothing": [],
    "no delimiter": [SEQ, b"payload"],
    "no empty frame first": [b"x", SEQ, b"payload"],
    "a short sequence": [b"", b"\x00\x07", b"payload"],
    "too many frames": [b"", b"", b"", SEQ, b"payload"],
}


@pytest.mark.parametrize("frames", BAD.values(), ids=BAD)
def test_anything_else_is_no_reply(frames: list[bytes]) -> None:
    with pytest.raises(replay.ReplayFailed, match="replay socket answered"):
        replay.parse(frames)
