"""Who asks: the one place where an authenticator is called, and today's only one.

An authenticator receives a request's headers and the purpose, and gives an Identity or a Refusal. It never raises for
a bad credential. Until one that reviews tokens arrives, the server role starts only with --insecure-disable-auth, and
`anonymous` lets everybody in.

Rules: spec/inferencecache.md section 1.10 (401 without a valid token, 403 for another identity, 503 when the review
fails); design.md section 3 (the intake's token is bound to the Pod).
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Literal

import msgspec

Purpose = Literal["snapshot", "probe", "intake"]


class Identity(msgspec.Struct, frozen=True):
    """A verified caller, as it goes into logs and events."""

    name: str


class Refusal(msgspec.Struct, frozen=True):
    code: Literal[401, 403, 503]
    message: str


Authenticate = Callable[[Mapping[str, str], Purpose], Awaitable[Identity | Refusal]]

ANONYMOUS: Final = Identity("anonymous")


async def anonymous(headers: Mapping[str, str], purpose: Purpose) -> Identity | Refusal:
    """Everybody is let in: only for a server that was started with --insecure-disable-auth."""
    return ANONYMOUS
