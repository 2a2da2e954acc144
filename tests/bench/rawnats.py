"""The limits that append and replay are measured against: a blocking socket that does as little as possible.

`publish` pipelines PUB with a reply and counts the acks; `count` pulls a stream and counts frames in the bytes without
taking them apart. No parsing, no objects, no ids.
"""

import json
import selectors
import socket
import time
from typing import Final

_ASK: Final = 20_000


class Raw:
    """One client connection, after CONNECT."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(b'CONNECT {"verbose":false,"headers":true,"no_responders":true,"protocol":1}\r\nPING\r\n')
        self._until(b"PONG\r\n")

    def _until(self, mark: bytes) -> None:
        seen = b""
        while mark not in seen:
            seen += self.socket.recv(65536)

    def subscribe(self, subject: bytes) -> None:
        self.socket.sendall(b"SUB %b 1\r\nPING\r\n" % subject)
        self._until(b"PONG\r\n")

    def close(self) -> None:
        self.socket.close()


def publish(port: int, frames: list[bytes], *, window: int = 4000) -> float:
    """Seconds to send whole PUB frames with the reply `_INBOX.raw.a` and see an ack for each, `window` in flight."""
    raw = Raw(port)
    raw.subscribe(b"_INBOX.raw.a")
    step = 200
    blocks = [b"".join(frames[start : start + step]) for start in range(0, len(frames), step)]
    sizes = [len(frames[start : start + step]) for start in range(0, len(frames), step)]
    raw.socket.setblocking(False)
    ready = selectors.DefaultSelector()
    ready.register(raw.socket, selectors.EVENT_READ | selectors.EVENT_WRITE)
    began = time.perf_counter()
    sent = acked = block = 0
    out = memoryview(b"")
    tail = b""
    while acked < len(frames):
        if not out and block < len(blocks) and sent + sizes[block] - acked <= window:
            out = memoryview(blocks[block])
            sent += sizes[block]
            block += 1
        ready.modify(raw.socket, selectors.EVENT_READ | (selectors.EVENT_WRITE if out else 0))
        for _, events in ready.select():
            if events & selectors.EVENT_WRITE:
                out = out[raw.socket.send(out) :]
            if events & selectors.EVENT_READ:
                tail += raw.socket.recv(1 << 18)
                cut = tail.rfind(b"\r\n") + 2
                if cut > 1:
                    assert b'"error"' not in tail[:cut], tail[:400]
                    acked += tail.count(b'"seq":', 0, cut)
                    tail = tail[cut:]
    took = time.perf_counter() - began
    raw.close()
    return took


def frame(subject: str, body: bytes) -> bytes:
    return b"PUB %b _INBOX.raw.a %d\r\n%b\r\n" % (subject.encode(), len(body), body)


def count(port: int, stream: str, messages: int, mark: bytes) -> float:
    """Seconds to pull `messages` over a consumer without acks and count `mark`, which each frame holds once."""
    raw = Raw(port)
    raw.subscribe(b"_INBOX.raw.p")
    config = {"name": "raw", "ack_policy": "none", "deliver_policy": "all", "mem_storage": True, "num_replicas": 1}
    _send(raw, f"$JS.API.CONSUMER.CREATE.{stream}.raw", {"stream_name": stream, "config": config})
    raw._until(b"created")
    next_subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.raw"
    ask = {"batch": _ASK, "expires": 20_000_000_000}
    began = time.perf_counter()
    _send(raw, next_subject, ask)
    _send(raw, next_subject, ask)
    asked, got, tail = 2 * _ASK, 0, b""
    keep = len(mark) - 1
    while got < messages:
        data = tail + raw.socket.recv(1 << 20)
        got += data.count(mark)
        tail = data[-keep:] if not data.endswith(mark) else b""
        if asked - got < _ASK:
            _send(raw, next_subject, ask)
            asked += _ASK
    took = time.perf_counter() - began
    _send(raw, f"$JS.API.CONSUMER.DELETE.{stream}.raw", {})
    raw.close()
    return took


def _send(raw: Raw, subject: str, body: object) -> None:
    text = json.dumps(body).encode()
    raw.socket.sendall(b"PUB %b _INBOX.raw.p %d\r\n%b\r\n" % (subject.encode(), len(text), text))
