"""Lines from chunks that end anywhere."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subscribers.kubernetes import lines
from subscribers.kubernetes.lines import Lines, TooLong


@given(st.lists(st.binary(max_size=20).filter(lambda b: b"\n" not in b and b.strip())), st.data())
def test_any_cut_gives_the_same_lines(wanted: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(one + b"\n" for one in wanted)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    fed = Lines()
    found = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += list(fed.feed(stream[start:end]))
    assert found == wanted


def test_empty_lines_are_left_out_and_an_unended_one_is_kept() -> None:
    fed = Lines()
    assert list(fed.feed(b"\n\r\n  \na")) == []
    assert list(fed.feed(b"b\n")) == [b"ab"]


def test_an_object_of_megabytes_is_one_line() -> None:
    fed = Lines()
    for _ in range(40):
        assert list(fed.feed(b"x" * 65_536)) == []
    assert [len(one) for one in fed.feed(b"\n")] == [40 * 65_536]


def test_a_line_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LONGEST", 100)
    with pytest.raises(TooLong, match="this is no watch"):
        list(Lines().feed(b"x" * 101))
