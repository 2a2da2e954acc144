"""Who asks: the one place where an authenticator is called, and the one that lets everybody in.

An authenticator receives a request's headers and the purpose, and gives an Identity or a Refusal. It never raises for
a bad credential. `tokens.Bearer` reviews tokens; `anonymous` is for a server that was started with
--insecure-disable-auth.

Rules: spec/inferencecache.md section 1.10 (401 without a valid token, 403 for another identity, 503 when the review
fails).
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Literal

import msgspec

from handlers import access

Purpose = access.Endpoint
Code = Literal[401, 403, 503]


class Identity(msgspec.Struct, frozen=True):
    """A verified caller, as it goes into logs and events."""

    name: str


class Refusal(msgspec.Struct, frozen=True):
    code: Code
    message: str


Authenticate = Callable[[Mapping[str, str], Purpose], Awaitable[Identity | Refusal]]

ANONYMOUS: Final = Identity("anonymous")


async def anonymous(headers: Mapping[str, str], purpose: Purpose) -> Identity | Refusal:
    """Everybody is let in: only for a server that was started with --insecure-disable-auth."""
    return ANONYMOUS
