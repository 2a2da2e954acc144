"""Orders for subscribers that cannot listen on NATS: kept until their next message to the intake.

A server's order (`keyframe`, `fenced`) goes out on `wlkv.ctl.<tenant>.<replica>`, whichever server gave it. Every
server's box hears them all and hands them to the session that they address when it posts. `keyframe` is handed out
once: the server that still misses one asks again. `fenced` stays, because every message of such a session must be
told so.

Not here: who orders what (handlers/prefixindex). When the box is full the sessions unheard for longest lose theirs,
which costs a delay until the order is repeated.

Rules: design.md section 3, "Return channel".
"""

import collections
from typing import Final

import msgspec
import structlog

from eventstore import kvwire

log = structlog.get_logger(__name__)

#: The subject under which every order of every server is heard.
ALL_ORDERS: Final = "wlkv.ctl.*.*"
_SESSIONS: Final = 10_000
_PER_SESSION: Final = 4

_decoder = msgspec.json.Decoder(kvwire.Control)


class OrderBox:
    """Orders by session. One loop, no locks."""

    def __init__(self, *, sessions: int = _SESSIONS) -> None:
        self._most = sessions
        self._waiting: collections.OrderedDict[str, list[kvwire.Control]] = collections.OrderedDict()

    def hear(self, payload: bytes) -> None:
        """A message from the return channel, as store.Bus.hear gives it."""
        try:
            order = _decoder.decode(payload)
        except msgspec.MsgspecError as error:
            log.warning("an order on the return channel is not ours", reason=str(error))
            return
        self.put(order)

    def put(self, order: kvwire.Control) -> None:
        waiting = self._waiting.setdefault(order.session, [])
        self._waiting.move_to_end(order.session)
        if any(one.order == order.order for one in waiting) or len(waiting) >= _PER_SESSION:
            return
        waiting.append(order)
        if len(self._waiting) > self._most:
            self._waiting.popitem(last=False)

    def take(self, session: str) -> list[kvwire.Control]:
        """What this session is to be told now."""
        waiting = self._waiting.get(session)
        if not waiting:
            return []
        stays = [order for order in waiting if order.order == "fenced"]
        if stays:
            self._waiting[session] = stays
        else:
            del self._waiting[session]
        return waiting
