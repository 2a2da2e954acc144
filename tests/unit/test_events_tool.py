"""`warmlog events` where nothing matches: a mistyped type is told from one that has not happened yet."""

import pytest

from eventstore import events
from warmlog.events import unknown


@pytest.mark.parametrize("kind", ["", "moment", "index.summarised", *events.TYPES])
def test_types_that_can_be_need_no_hint(kind: str) -> None:
    assert unknown(kind) == ""


@pytest.mark.parametrize("kind", ["nonsense", "moment.v1", "io.warmlog.moment", "index"])
def test_a_type_that_nobody_writes_is_told_with_those_that_are(kind: str) -> None:
    assert unknown(kind).startswith(f"; {kind!r} is no type that this version writes: admission.decided, ")
