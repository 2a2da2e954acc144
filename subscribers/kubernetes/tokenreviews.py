"""Asks the Kubernetes API whose a bearer token is: one TokenReview, and nothing of it is kept.

The answer is read narrowly: what `handlers.access` judges by. The token is in the request's body only; what the API
says instead of an answer has it taken out, so that no log can repeat it. Not here: what follows from a review, and
remembering (subscribers.http.bearer).

Rules: authentication.k8s.io/v1 TokenReview; spec/inferencecache.md section 1.10.
"""

from typing import Final

import msgspec

from handlers.access import Review
from handlers.effects.cluster import ClusterError
from subscribers.kubernetes.client import Client

PATH: Final = "/apis/authentication.k8s.io/v1/tokenreviews"


class _User(msgspec.Struct):
    username: str = ""


class _Status(msgspec.Struct):
    authenticated: bool = False
    user: _User = msgspec.field(default_factory=_User)
    audiences: tuple[str, ...] = ()


class _Answer(msgspec.Struct):
    status: _Status  # an answer without one is none


_decode = msgspec.json.Decoder(_Answer).decode


class TokenReviews:
    """subscribers.http.bearer.Reviews over one client, whose own account needs the right to create tokenreviews."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def review(self, token: str, audience: str, *, deadline: float) -> Review:
        """At most `deadline` seconds for each of the client's two tries. Raises ClusterError."""
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [audience]},
        }
        try:
            answer = await self._client.request("POST", PATH, body=body, deadline=deadline)
        except ClusterError as error:
            raise ClusterError(error.code, error.reason, error.message.replace(token, "***")) from None
        try:
            status = _decode(answer.body).status
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise ClusterError(0, "NoAnswer", "the answer is no TokenReview with a status") from None
        return Review(status.authenticated, status.user.username, status.audiences)
