"""Scalars as Go decodes them, and where in an object a decoder is: the ground that `types` builds on."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol


class Undecodable(Exception):
    """What Go's decoder refuses; the message is Go's, without the object's kind."""


@dataclass
class Walk:
    """What one slow pass found. Paths are built only where something is told."""

    unknown: list[str] = field(default_factory=list)


class Key(str):
    """A step into a map."""


@dataclass(frozen=True, slots=True)
class Place:
    above: "Place | None"
    step: str | int
    struct: str  # the Go struct that holds this field

    def path(self, indexes: bool = True) -> str:
        text = ""
        place: Place | None = self
        while place is not None:
            if isinstance(place.step, int):
                text = f"[{place.step}]{text}" if indexes else text
            elif isinstance(place.step, Key) and not indexes:
                pass  # Go names the field that holds the map
            else:
                text = f".{place.step}{text}"
            place = place.above
        return text.removeprefix(".")


class Type(Protocol):
    @property
    def go(self) -> str: ...

    @property
    def zero(self) -> Any: ...

    def fits(self, value: Any) -> bool: ...

    def decode(self, value: Any, place: Place | None, walk: Walk) -> Any: ...


_JSON = {type(None): "null", str: "string", bool: "bool", int: "number", float: "number", list: "array", dict: "object"}


def wrong(value: Any, place: Place | None, go: str, number: bool = False) -> Undecodable:
    what = _JSON[type(value)]
    if number and what == "number":
        what = f"number {value}"
    if place is None:
        return Undecodable(f"json: cannot unmarshal {what} into Go value of type {go}")
    return Undecodable(
        f"json: cannot unmarshal {what} into Go struct field {place.struct}.{place.path(False)} of type {go}"
    )


@dataclass(frozen=True)
class Plain:
    """string and bool: decided by the Python type alone."""

    go: str
    python: type
    zero: Any

    def fits(self, value: Any) -> bool:
        return type(value) is self.python

    def decode(self, value: Any, place: Place | None, walk: Walk) -> Any:
        if type(value) is not self.python:
            raise wrong(value, place, self.go)
        return value


@dataclass(frozen=True)
class Integer:
    go: str
    limit: int
    zero: int = 0

    def fits(self, value: Any) -> bool:
        return type(value) is int and -self.limit <= value < self.limit

    def decode(self, value: Any, place: Place | None, walk: Walk) -> Any:
        if not self.fits(value):
            raise wrong(value, place, self.go, number=True)
        return value


@dataclass(frozen=True)
class Float:
    go: str = "float64"
    zero: int = 0

    def fits(self, value: Any) -> bool:
        return type(value) in (int, float)

    def decode(self, value: Any, place: Place | None, walk: Walk) -> Any:
        if not self.fits(value):
            raise wrong(value, place, self.go)
        return value


@dataclass(frozen=True)
class Text:
    """A scalar with a canonical text; `numbers` says whether a JSON number is read as its digits."""

    go: str
    canonical: Callable[[str], str]
    numbers: bool = False
    zero: Any = None

    def fits(self, value: Any) -> bool:
        try:
            return type(value) is str and self.canonical(value) == value
        except ValueError:
            return False

    def decode(self, value: Any, place: Place | None, walk: Walk) -> Any:
        if self.numbers and type(value) in (int, float):
            value = str(value)
        if type(value) is not str:
            raise wrong(value, place if self.go == "[]uint8" else None, self.go)
        try:
            return self.canonical(value)
        except ValueError as error:
            raise Undecodable(str(error)) from None


@dataclass(frozen=True)
class IntOrString:
    go: str = "intstr.IntOrString"
    zero: int = 0

    def fits(self, value: Any) -> bool:
        return type(value) is str or (type(value) is int and -(2**31) <= value < 2**31)

    def decode(self, value: Any, place: Place | None, walk: Walk) -> Any:
        if not self.fits(value):
            raise wrong(value, None, "int32", number=True)
        return value


@dataclass(frozen=True)
class Anything:
    go: str = "interface {}"
    zero: None = None

    def fits(self, value: Any) -> bool:
        return True

    def decode(self, value: Any, place: Place | None, walk: Walk) -> Any:
        return value
