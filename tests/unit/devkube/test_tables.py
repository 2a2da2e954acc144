"""Tables and metadata-only forms, of one object, of lists and of watches."""

from typing import Any

import msgspec
import pytest

from devkube.clock import Clock
from devkube.errors import Cause
from devkube.kinds import Column, FieldValidation, Object, Resource
from devkube.negotiation import Form
from devkube.requests import Answer, Listing
from devkube.schema import DEDUCED, Schema
from devkube.tables import View

TABLE: Form = "Table"


class ToyRules:
    schema: Schema = DEDUCED

    def decode(self, obj: Object, *, validation: FieldValidation) -> list[str]:
        return []

    def default(self, obj: Object) -> None: ...

    def prepare(self, new: Object, old: Object | None, subresource: str) -> None: ...

    def validate(self, new: Object, old: Object | None, subresource: str) -> list[Cause]:
        return []

    def table(self, obj: Object, now: float) -> list[Any]:
        return [obj["spec"]["size"], "now" if now > 1e9 else "?"]


TOYS = Resource(
    "toys.example.org",
    "v1",
    "toys",
    "Toy",
    "toy",
    namespaced=True,
    rules=ToyRules(),
    columns=(Column("Size", "integer", ".spec.size"), Column("Age", "string", "", priority=1)),
    custom=True,
)


def toy(name: str, version: int = 7) -> bytes:
    return msgspec.json.encode(
        {
            "apiVersion": "toys.example.org/v1",
            "kind": "Toy",
            "metadata": {"name": name, "resourceVersion": str(version), "labels": {"ü": '"{'}},
            "spec": {"size": 3},
        }
    )


def view(form: Form, include: str = "Metadata") -> View:
    clock = Clock()
    clock.freeze()
    return View(form, include, clock)


def read(pieces: Any) -> Any:
    return msgspec.json.decode(pieces if isinstance(pieces, bytes) else b"".join(pieces))


def test_a_list_as_a_table() -> None:
    found = Listing(TOYS, {"resourceVersion": "9", "continue": "abc"}, [toy("a"), toy("b")])
    table = read(view(TABLE).pieces(Answer(200, found)))
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert table["metadata"] == {"resourceVersion": "9", "continue": "abc"}
    assert [c["name"] for c in table["columnDefinitions"]] == ["Name", "Size", "Age"]
    assert [c["priority"] for c in table["columnDefinitions"]] == [0, 0, 1]
    assert [row["cells"] for row in table["rows"]] == [["a", 3, "now"], ["b", 3, "now"]]
    assert table["rows"][0]["object"] == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": read(toy("a"))["metadata"],
    }


def test_an_empty_list_is_an_empty_table() -> None:
    table = read(view(TABLE).pieces(Answer(200, Listing(TOYS, {"resourceVersion": "9"}, []))))
    assert table["rows"] == []


@pytest.mark.parametrize(("include", "shown"), [("Object", read(toy("a"))), ("None", None)])
def test_a_row_carries_what_includeobject_asks_for(include: str, shown: Any) -> None:
    table = read(view(TABLE, include).one(TOYS, toy("a")))
    assert table["rows"][0]["object"] == shown
    assert table["metadata"] == {"resourceVersion": "7"}


def test_only_metadata() -> None:
    one = read(view("PartialObjectMetadata").one(TOYS, toy("a")))
    assert one["kind"] == "PartialObjectMetadata"
    assert "spec" not in one
    found = Listing(TOYS, {"resourceVersion": "9"}, [toy("a"), toy("b")])
    many = read(view("PartialObjectMetadata").pieces(Answer(200, found)))
    assert many["kind"] == "PartialObjectMetadataList"
    assert [item["metadata"]["name"] for item in many["items"]] == ["a", "b"]
    assert {item["kind"] for item in many["items"]} == {"PartialObjectMetadata"}


def test_of_a_watch_only_the_first_table_defines_columns() -> None:
    first = read(view(TABLE).one(TOYS, toy("a")))
    later = read(view(TABLE).one(TOYS, toy("b"), headers=False))
    assert len(first["columnDefinitions"]) == 3
    assert later["columnDefinitions"] is None
    assert later["rows"][0]["cells"] == ["b", 3, "now"]


def test_a_bookmark_is_a_row_without_cells_of_its_type() -> None:
    bookmark = b'{"kind":"Toy","apiVersion":"toys.example.org/v1","metadata":{"resourceVersion":"12"}}'
    table = read(view(TABLE).one(TOYS, bookmark, headers=False))
    assert table["rows"][0]["cells"] == ["", None, None]
    assert table["rows"][0]["object"]["metadata"] == {"resourceVersion": "12"}


def test_a_plain_list_has_its_items_as_they_are() -> None:
    for items in ([], [toy("a")], [toy("a"), toy("b")]):
        found = read(view("").pieces(Answer(200, Listing(TOYS, {"resourceVersion": "9"}, items))))
        assert (found["kind"], found["items"]) == ("ToyList", [read(one) for one in items])
