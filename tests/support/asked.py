"""A request to devkube's front end as aiohttp would bring it, without a socket."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Asked:
    """Headers have lower-case names."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    async def read(self) -> bytes:
        return self.body
