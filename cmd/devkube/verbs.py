"""All verbs of all resources: which function answers a request.

    Verbs(store, catalog, clock).handle(request) -> Answer | Stream

The verbs themselves are in `reading`, `writing` and `deleting`.
"""

from devkube.clock import Clock
from devkube.kinds import Catalog
from devkube.requests import (
    ADMIN,
    Admission,
    Answer,
    Attributes,
    Event,
    Listing,
    NoAdmission,
    Request,
    Stream,
    Subresource,
    User,
)
from devkube.store import Store

__all__ = [
    "ADMIN",
    "Admission",
    "Answer",
    "Attributes",
    "Event",
    "Listing",
    "NoAdmission",
    "Request",
    "Stream",
    "Subresource",
    "User",
    "Verbs",
]


class Verbs:
    def __init__(self, store: Store, catalog: Catalog, clock: Clock) -> None:
        self.store, self.catalog, self.clock = store, catalog, clock
        self.admission: Admission = NoAdmission()
        # (storage key, subresource) -> who answers a POST there instead of the store: TokenRequest, reviews, eviction
        self.virtual: dict[tuple[str, str], Subresource] = {}

    async def handle(self, request: Request) -> Answer | Stream:
        raise NotImplementedError
