"""The patch of a decision as a template: JSON in which tokens stand for the values of the object that is patched.

A decision is given to thousands of equal Pods; what can be made of it once is made once.

Not here: where values come from that an operator wrote into a custom resource (whoever answers).
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from handlers.admission import patches, review
from handlers.admission.decision import Decision
from handlers.admission.view import filled, pieces

REMEMBERED: Final = 2048
_STORED: Final = re.compile(r"⟦[0-9a-f]{16}⟧")


class Template(NamedTuple):
    """`pieces` is `patch` cut at its tokens, `stored` the tokens of the log among them, `owned` the digest of what is
    set at the patched paths. It holds the decision, so that its id stays its own."""

    decision: Decision
    patch: bytes
    pieces: list[bytes]
    stored: frozenset[str]
    replaces: bool
    owned: str

    def filled(self, values: Mapping[str, str], request: review.Request) -> bytes:
        """The patch of one object with its real values; empty where nothing is to be done. Raises Malformed."""
        patch = filled(self.pieces, values) if len(self.pieces) > 1 else self.patch
        if not self.replaces:
            return patch
        operations = msgspec.json.decode(patch)
        kept = patches.effective(operations, review.document(request.object))
        return patch if len(kept) == len(operations) else msgspec.json.encode(kept) if kept else b""


def template(decision: Decision) -> Template:
    if not decision.patch:
        return Template(decision, b"", [], frozenset(), False, "")
    patch = msgspec.json.encode(decision.patch)
    return Template(
        decision,
        patch,
        pieces(patch),
        stored=frozenset(_STORED.findall(patch.decode())),
        replaces=any(op["op"] == "replace" for op in decision.patch),
        owned=review.digest(msgspec.json.encode([(op["path"], op.get("value")) for op in decision.patch])),
    )


class Templates:
    """Of the decisions that are given again and again."""

    def __init__(self) -> None:
        self._known: dict[int, Template] = {}

    def of(self, decision: Decision) -> Template:
        known = self._known.get(id(decision))
        if known is None or known.decision is not decision:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            known = self._known[id(decision)] = template(decision)
        return known
