"""Decisions that were made before: the same question over the same facts has the same answer.

The Pods of one Deployment differ in their names and in values that nobody may read; what a decision sees of them is
equal to the byte. Whoever keeps decisions names everything that they depend on in the key, so that keeping them can
never be noticed but by the clock.

Rules: design.md section 4 ("its decision cache").
"""

import collections
from collections.abc import Hashable
from typing import Final

import msgspec

from handlers.admission.decision import Decision
from handlers.outcome import Object

MOST: Final = 1024
#: Metadata that no decision reads: it differs from one Pod of a template to the next.
IGNORED: Final = ("name", "generateName", "uid", "creationTimestamp", "resourceVersion", "ownerReferences")


class Decisions:
    """The newest `MOST`."""

    def __init__(self) -> None:
        self._kept: collections.OrderedDict[Hashable, Decision] = collections.OrderedDict()

    def find(self, key: Hashable) -> Decision | None:
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def keep(self, key: Hashable, decision: Decision) -> Decision:
        self._kept[key] = decision
        if len(self._kept) > MOST:
            self._kept.popitem(last=False)
        return decision


def likeness(view: Object) -> bytes:
    """What of a view a decision may depend on, as bytes."""
    metadata = view.get("metadata")
    if isinstance(metadata, dict):
        view = {**view, "metadata": {name: value for name, value in metadata.items() if name not in IGNORED}}
    return msgspec.json.encode(view)
