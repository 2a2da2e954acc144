"""The injection record: what was decided, on the Pod itself. It says what was written, not what the image does with it.

Rules: seed 003, "The injection record"; spec/worker-gpustack.md section 6.
"""

from typing import Any, Literal

import msgspec


class Record(msgspec.Struct, frozen=True, rename="camel"):
    """`domain` is the Binding's even where no tenant was written. Older writers added `engineVersion`; it said nothing
    about the image and is passed over."""

    binding: str
    engine: str
    vehicle: Literal["file", "environment"]
    domain: str
    tenant_injected: bool
    launch_program: str = ""
    launch_args_forwarded: bool = False


def written(record: Record) -> str:
    return msgspec.json.encode(record).decode()


def read(text: str) -> Record | None:
    """None for what is no record."""
    try:
        return msgspec.json.decode(text, type=Record)
    except (msgspec.MsgspecError, RecursionError):
        return None


def shown(record: Record) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(record)
    return found
