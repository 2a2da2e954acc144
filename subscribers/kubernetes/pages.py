"""One page of a list: its items as bytes, for who narrows them slice by slice."""

from typing import Final

import msgspec

from subscribers.kubernetes import depth

SLICE: Final = 50  # objects narrowed before others may run


class Meta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct):
    metadata: Meta
    items: list[msgspec.Raw] | None = None


_decode = msgspec.json.Decoder(Page).decode


def read(body: bytes) -> tuple[Page, bool]:
    """The page, and whether what lay too deep in it was cut out. Raises MsgspecError for what is no list."""
    return depth.decoded(_decode, body)
