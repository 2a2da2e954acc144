"""What a CRD's schema says of a field beyond its JSON type: one annotation, read by the renderer and by `violations`.

The Structs themselves stay lenient: an object that was stored before a rule existed must still decode. Strictness is
the API server's (it has the rendered schema), and `violations`, which applies the same rules where no API server does:
`warmlog validate` on a laptop, and callers of a webhook that skipped the schema.

Rules: Kubernetes structural schemas; error types are those of `field.Error`.
"""

import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec


class Rule(NamedTuple):
    """A CEL validation, for API servers. Where it matters elsewhere, a validator has the same rule in Python."""

    cel: str
    message: str
    field: str = ""  # below the value, `.capacity`
    holds: Callable[[Mapping[str, Any]], bool] | None = None  # the same in Python, for where no API server judges


class Is(msgspec.Struct, frozen=True, kw_only=True):
    """Annotation of a field: `runtime: Annotated[str, Is(doc="…", enum=("VLLM", "SGLang"), required=True)] = ""`."""

    doc: str = ""
    required: bool = False
    default: Any = msgspec.UNSET
    enum: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    min_length: int | None = None
    max_length: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    min_properties: int | None = None
    max_properties: int | None = None
    pattern: str = ""
    format: str = ""  # quantity (number or string), duration, date-time, int32, int64
    map_keys: tuple[str, ...] = ()  # a list of objects that is a map by these fields
    atomic: bool = False  # a list that is replaced as a whole
    free: bool = False  # anything below is kept as it is
    rules: tuple[Rule, ...] = ()


PLAIN: Final = Is()


class Problem(NamedTuple):
    """One violation: `type` as Kubernetes names it (Required, Invalid, NotSupported, Unknown, TypeInvalid)."""

    type: str
    field: str
    detail: str
    value: Any = None


class Field(NamedTuple):
    """A field of a Struct as the schema sees it: name on the wire, type without None, and its annotation."""

    name: str
    type: Any
    of: Is


def fields(struct: type[msgspec.Struct]) -> Iterator[Field]:
    hints = typing.get_type_hints(struct, include_extras=True)
    for one in msgspec.structs.fields(struct):
        hint, said = unwrap(hints[one.name])
        yield Field(one.encode_name, hint, said)


def unwrap(hint: Any) -> tuple[Any, Is]:
    """A hint without Annotated and without None or UNSET, and the annotation it carried (msgspec's own counts too)."""
    said = PLAIN
    if typing.get_origin(hint) is typing.Annotated:
        hint, *extras = typing.get_args(hint)
        own = [one for one in extras if isinstance(one, Is)]
        said = next((one for one in (*own, *map(_is, extras)) if one is not None), PLAIN)
    if typing.get_origin(hint) is typing.Literal:
        return str, msgspec.structs.replace(said, enum=typing.get_args(hint))
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        left = [one for one in typing.get_args(hint) if one not in (type(None), msgspec.UnsetType)]
        if len(left) == 1:
            inner, below = unwrap(left[0])
            return inner, said if below is PLAIN else below
    return hint, said


def _is(extra: Any) -> Is | None:
    if isinstance(extra, Is):
        return extra
    if not isinstance(extra, msgspec.Meta):
        return None
    low, high = extra.ge, extra.le
    return Is(
        minimum=None if low is None else int(low),
        maximum=None if high is None else int(high),
        min_length=extra.min_length,
        pattern=extra.pattern or "",
    )


def violations(value: Any, struct: type[msgspec.Struct], at: str = "") -> list[Problem]:
    """Every way in which a document breaks its schema, unknown fields included. Of CEL rules only those are judged that
    are written in Python too (`Rule.holds`)."""
    if not isinstance(value, Mapping):
        return [_wrong(at, "object", value)]
    known = {one.name: one for one in fields(struct)}
    strange = () if getattr(struct, "OPEN", False) else value  # of an open Struct we know a part only
    found = [
        Problem("Unknown", _below(at, name), "no field of this kind", name) for name in strange if name not in known
    ]
    for name, one in known.items():
        here = _below(at, name)
        if value.get(name) is None:
            if one.of.required:
                found.append(Problem("Required", here, "must be set"))
            continue
        found += _field(value[name], one.type, one.of, here)
    if not found:  # as API servers do: rules are asked of what is right by itself
        for rule in getattr(struct, "RULES", ()):
            if rule.holds is not None and not rule.holds(value):
                found.append(Problem("Invalid", f"{at}{rule.field}", rule.message, dict(value)))
    return found


def _below(at: str, name: str) -> str:
    return f"{at}.{name}" if at else name


_JSON: Final = {str: "string", int: "integer", bool: "boolean", float: "number"}


def _field(value: Any, hint: Any, said: Is, at: str) -> list[Problem]:
    if said.free or hint is Any:
        return []
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is list:
        return _list(value, arguments[0], said, at)
    if origin is dict:
        return _map(value, arguments[1], said, at)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return violations(value, hint, at)
    if said.format == "quantity":
        return [] if isinstance(value, str | int) and not isinstance(value, bool) else [_wrong(at, "quantity", value)]
    wanted = _JSON[hint]
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        return [_wrong(at, wanted, value)]
    return list(_bounds(value, said, at))


def _list(value: Any, hint: Any, said: Is, at: str) -> list[Problem]:
    if not isinstance(value, list):
        return [_wrong(at, "array", value)]
    found = []
    if said.min_items is not None and len(value) < said.min_items:
        found.append(Problem("Invalid", at, f"should have at least {said.min_items} items", value))
    if said.max_items is not None and len(value) > said.max_items:
        found.append(Problem("TooMany", at, f"must have at most {said.max_items} items", len(value)))
    inner, below = unwrap(hint)
    for number, one in enumerate(value):
        found += _field(one, inner, below, f"{at}[{number}]")
    return found


def _map(value: Any, hint: Any, said: Is, at: str) -> list[Problem]:
    if not isinstance(value, Mapping):
        return [_wrong(at, "object", value)]
    if said.min_properties is not None and len(value) < said.min_properties:
        return [Problem("Invalid", at, f"should have at least {said.min_properties} properties", value)]
    if said.max_properties is not None and len(value) > said.max_properties:
        return [Problem("Invalid", at, f"should have at most {said.max_properties} properties", value)]
    inner, below = unwrap(hint)
    return [problem for key, one in value.items() for problem in _field(one, inner, below, f"{at}[{key}]")]


def _bounds(value: Any, said: Is, at: str) -> Iterator[Problem]:
    if said.enum and value not in said.enum:
        listed = ", ".join(f'"{one}"' for one in said.enum)
        yield Problem("NotSupported", at, f"supported values: {listed}", value)
    if said.minimum is not None and value < said.minimum:
        yield Problem("Invalid", at, f"should be greater than or equal to {said.minimum}", value)
    if said.maximum is not None and value > said.maximum:
        yield Problem("Invalid", at, f"should be less than or equal to {said.maximum}", value)
    if said.min_length is not None and len(value) < said.min_length:
        yield Problem("Invalid", at, f"should be at least {said.min_length} chars long", value)
    if said.max_length is not None and len(value) > said.max_length:
        yield Problem("TooLong", at, f"may not be more than {said.max_length} chars long", value)
    if said.pattern and not _matches(said.pattern, value):
        yield Problem("Invalid", at, f"should match {said.pattern}", value)


IMMUTABLE: Final = "self == oldSelf"


def transitions(new: Any, old: Any, struct: type[msgspec.Struct], at: str = "") -> list[Problem]:
    """Immutable values that an update changes. Of CEL rules these are the only ones that are judged here."""
    if not isinstance(new, Mapping) or not isinstance(old, Mapping):
        return []
    found = []
    for one in fields(struct):
        here, before, after = _below(at, one.name), old.get(one.name), new.get(one.name)
        if before is None or after is None:
            continue  # a transition rule holds between two values
        for rule in one.of.rules:
            if rule.cel == IMMUTABLE and before != after:
                found.append(Problem("Invalid", here, rule.message, after))
        if isinstance(one.type, type) and issubclass(one.type, msgspec.Struct):
            found += transitions(after, before, one.type, here)
    return found


def _matches(pattern: str, value: str) -> bool:
    """As RE2 has it: `$` is the very end, not the place before a last newline."""
    return re.search(pattern[:-1] + r"\Z" if pattern.endswith("$") else pattern, value) is not None


def _wrong(at: str, wanted: str, value: Any) -> Problem:
    return Problem("TypeInvalid", at, f"must be of type {wanted}", value)


def defaulted(document: Any, struct: type[msgspec.Struct]) -> Any:
    """A copy with the schema's literal defaults filled in, as an API server fills them: never a missing parent."""
    if not isinstance(document, Mapping):
        return document
    found = dict(document)
    for one in fields(struct):
        if one.of.default is not msgspec.UNSET:
            found.setdefault(one.name, one.of.default)
        if isinstance(one.type, type) and issubclass(one.type, msgspec.Struct) and one.name in found:
            found[one.name] = defaulted(found[one.name], one.type)
    return found


T = typing.TypeVar("T", bound=msgspec.Struct)


def read(document: Any, struct: type[T]) -> T:
    """A document as its Struct; null means absence. Raises msgspec.ValidationError for wrong JSON types."""
    return msgspec.convert(without_nulls(document), struct)


def without_nulls(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: without_nulls(one) for key, one in value.items() if one is not None}
    if isinstance(value, list):
        return [without_nulls(one) for one in value if one is not None]
    return value


_ERROR: Final = re.compile(r"(.*?) - at `\$\.?(.*)`", re.DOTALL)


def line(error: Exception) -> str:
    """`spec.replicas: expected `int`, got `str``: the field first, and nothing of what stands in it."""
    said = re.sub(
        r"(Invalid enum value) .*(?= - at `\$)|(?<=Invalid enum value) (?!.* - at `\$).*",
        r"\1",
        str(error),
        flags=re.DOTALL,
    )
    found = _ERROR.fullmatch(said)
    if found is None or not found[2]:
        return said
    return f"{found[2]}: {found[1][:1].lower()}{found[1][1:]}"
