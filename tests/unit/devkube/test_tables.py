"""Tables and metadata-only forms, of one object, of lists and of watches."""

from typing import Any

import msgspec
import pytest

from devkube import tables
from devkube.errors import Cause, StatusError
from devkube.kinds import Column, FieldValidation, Object, Resource
from devkube.negotiation import Include
from devkube.requests import Listing
from devkube.schema import ANYTHING, Schema

TABLE = "Table"


class ToyRules:
    schema: Schema = ANYTHING

    def decode(self, obj: Object, *, validation: FieldValidation) -> list[str]:
        return []

    def default(self, obj: Object) -> None: ...

    def prepare(self, new: Object, old: Object | None, subresource: str) -> None: ...

    def validate(self, new: Object, old: Object | None, subresource: str) -> list[Cause]:
        return []

    def table(self, obj: Object, now: float) -> list[Any]:
        return [obj["spec"]["size"], f"{now:.0f}s"]


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


def read(pieces: Any) -> Any:
    return msgspec.json.decode(pieces if isinstance(pieces, bytes) else b"".join(pieces))


def test_a_list_as_a_table() -> None:
    found = Listing(TOYS, {"resourceVersion": "9", "continue": "abc"}, [toy("a"), toy("b")])
    table = read(tables.listing(found, TABLE, include="Metadata", now=5))
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert table["metadata"] == {"resourceVersion": "9", "continue": "abc"}
    assert [c["name"] for c in table["columnDefinitions"]] == ["Name", "Size", "Age"]
    assert [c["priority"] for c in table["columnDefinitions"]] == [0, 0, 1]
    assert [row["cells"] for row in table["rows"]] == [["a", 3, "5s"], ["b", 3, "5s"]]
    assert table["rows"][0]["object"] == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": read(toy("a"))["metadata"],
    }


def test_an_empty_list_is_an_empty_table() -> None:
    table = read(tables.listing(Listing(TOYS, {"resourceVersion": "9"}, []), TABLE, include="Metadata", now=5))
    assert table["rows"] == []


@pytest.mark.parametrize(("include", "shown"), [("Object", read(toy("a"))), ("None", None)])
def test_a_row_carries_what_includeobject_asks_for(include: Include, shown: Any) -> None:
    table = read(tables.one(TOYS, toy("a"), TABLE, include=include, now=5))
    assert table["rows"][0]["object"] == shown
    assert table["metadata"] == {"resourceVersion": "7"}


def test_only_metadata() -> None:
    one = read(tables.one(TOYS, toy("a"), "PartialObjectMetadata", include="Metadata", now=0))
    assert one["kind"] == "PartialObjectMetadata"
    assert "spec" not in one
    found = Listing(TOYS, {"resourceVersion": "9"}, [toy("a"), toy("b")])
    many = read(tables.listing(found, "PartialObjectMetadataList", include="Metadata", now=0))
    assert many["kind"] == "PartialObjectMetadataList"
    assert [item["metadata"]["name"] for item in many["items"]] == ["a", "b"]
    assert {item["kind"] for item in many["items"]} == {"PartialObjectMetadata"}


def test_the_form_of_a_list_for_one_object_and_the_reverse_are_refused() -> None:
    with pytest.raises(StatusError, match="is not a list") as caught:
        tables.one(TOYS, toy("a"), "PartialObjectMetadataList", include="Metadata", now=0)
    assert caught.value.code == 406
    with pytest.raises(StatusError, match="is a list"):
        tables.listing(Listing(TOYS, {}, []), "PartialObjectMetadata", include="Metadata", now=0)
    with pytest.raises(StatusError, match="is not a list"):
        tables.event(TOYS, "PartialObjectMetadataList", include="Metadata", now=0, headers=False)


def test_of_a_watch_only_the_first_table_defines_columns() -> None:
    first = read(tables.event(TOYS, TABLE, include="Metadata", now=5, headers=True)(toy("a")))
    later = read(tables.event(TOYS, TABLE, include="Metadata", now=5, headers=False)(toy("b")))
    assert len(first["columnDefinitions"]) == 3
    assert later["columnDefinitions"] is None
    assert later["rows"][0]["cells"] == ["b", 3, "5s"]


def test_a_bookmark_is_a_row_without_cells_of_its_type() -> None:
    bookmark = b'{"kind":"Toy","apiVersion":"toys.example.org/v1","metadata":{"resourceVersion":"12"}}'
    table = read(tables.event(TOYS, TABLE, include="Metadata", now=5, headers=False)(bookmark))
    assert table["rows"][0]["cells"] == ["", None, None]
    assert table["rows"][0]["object"]["metadata"] == {"resourceVersion": "12"}


def test_a_plain_list_is_the_same_in_pieces_as_in_one() -> None:
    for items in ([], [toy("a")], [toy("a"), toy("b")]):
        found = Listing(TOYS, {"resourceVersion": "9"}, items)
        assert read(tables.plain(found)) == read(found.json())
