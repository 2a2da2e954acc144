"""Area auth: requests to the admin port's authenticator, with an API whose reviews are given and a clock that is set.

A case's review says nothing of audiences: it is the answer to the audience that was asked for, which the API repeats.
"""

import asyncio
from typing import Any

from handlers import access
from subscribers.http import bearer, identity
from tests.conformance import forms

ACCOUNT = "system:serviceaccount:inference-cache-system:inference-cache-controller-manager"
#: Paths as the cases write them.
ENDPOINTS: dict[str, access.Endpoint] = {"/snapshot": "snapshot", "/probe": "probe", "/policy": "policy"}


class Api:
    """Answers every review alike, and notes what was asked. It is the meter and the clock too."""

    def __init__(self, given: dict[str, Any]) -> None:
        forms.only(given, "authenticated", "username")
        self.given, self.now = given, 0.0
        self.asked: list[str] = []
        self.results: list[str] = []

    async def review(self, token: str, audience: str, *, deadline: float) -> access.Review:
        self.asked.append(audience)
        good = self.given["authenticated"]
        return access.Review(good, self.given.get("username", ""), (audience,) if good else ())

    def judged(self, endpoint: access.Endpoint, result: access.Result) -> None:
        self.results.append(result)


def run(given: dict[str, Any]) -> dict[str, Any]:
    forms.only(given, "authorization", "review", "endpoint", "endpoints", "calls_at_s")
    return asyncio.run(asked(given))


async def asked(given: dict[str, Any]) -> dict[str, Any]:
    """Each endpoint at every moment, by an authenticator of its own; status and result are the last request's."""
    api, status = Api(given.get("review", {"authenticated": True, "username": ACCOUNT})), 0
    headers = {"Authorization": given.get("authorization", "Bearer tok")}
    for path in given.get("endpoints", [given.get("endpoint", "/snapshot")]):
        authenticate = bearer.Bearer(access.Rules(account=ACCOUNT), api, meter=api, clock=lambda: api.now)
        for api.now in given.get("calls_at_s", [0]):
            found = await authenticate(headers, ENDPOINTS[path])
            status = found.code if isinstance(found, identity.Refusal) else 200
    return {"status": status, "result": api.results[-1], "review_calls": len(api.asked), "audiences": api.asked}
