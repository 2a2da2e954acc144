"""Standard output that takes nothing: one line, whatever the tool."""

import argparse
import io
import sys

import pytest

from warmlog import crds, flags, output


class Full(io.StringIO):
    def flush(self) -> None:
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize(("stream", "says"), [(Full(), "No space left on device"), (None, "standard output is closed")])
def test_a_full_or_closed_standard_output(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO | None, says: str
) -> None:
    monkeypatch.setattr(sys, "stdout", stream)
    with pytest.raises(output.OutputError, match=says):
        crds.run(flags.resolve(argparse.Namespace(), crds.FLAGS, {}), argparse.Namespace())
    with pytest.raises(output.OutputError, match=says):
        output.show("x", form="json", human=str)
