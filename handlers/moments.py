"""Times as Kubernetes writes them, from nanoseconds of the stream's clock and back."""

from datetime import UTC, datetime


def seconds(text: str | None) -> int | None:
    """Whole seconds since the epoch; None for nothing, or for what is no time."""
    if not text:
        return None
    try:
        return int(datetime.fromisoformat(text).timestamp())
    except (ValueError, OverflowError):
        return None


def text(moment: int) -> str:
    """`2026-11-30T07:33:20Z`, of whole seconds."""
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%dT%H:%M:%SZ}"
