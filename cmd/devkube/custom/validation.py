"""Values against a schema, in the words of kube-openapi's validator, which users of custom resources know.

On an update a part that is equal to what it was before is not blamed (ratcheting, on since Kubernetes 1.33): errors
below a node whose old value can be found and is equal vanish. Formats that mean nothing are no constraint.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from devkube import causes
from devkube.custom import formats, lists
from devkube.errors import Cause

Node = Mapping[str, Any]
_JUNCTORS: Final = frozenset({"allOf", "anyOf", "oneOf", "not"})
UNKNOWN: Final = object()  # there was no such value before
_TYPES: Final = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}


def validate(node: Node, value: Any, at: str = "", old: Any = UNKNOWN) -> list[Cause]:
    """Every violation. `at` is where the value stands in the object: paths begin there, but sentences speak of the
    value alone, as upstream's do. `old` is what stood there before."""
    found = _check(node, value, "", old)
    if not at:
        return [cause if cause.field else Cause(cause.reason, cause.message, causes.ROOT) for cause in found]
    return [Cause(cause.reason, cause.message, _below(at, cause.field)) for cause in found]


def _below(at: str, field: str) -> str:
    if field in ("", causes.ROOT):
        return at
    return at + field if field.startswith("[") else f"{at}.{field}"


def _check(node: Node, value: Any, path: str, old: Any) -> list[Cause]:
    found: list[Cause] = []
    kind = type(value)
    if value is None or node.get("type") != _TYPES[kind]:
        _type(node, value, path, found)
    if value is not None and not _JUNCTORS.isdisjoint(node):
        _combined(node, value, path, found)
    if kind is str:
        _string(node, value, path, found)
    elif kind is dict:
        _object(node, value, path, found, old)
    elif kind is list:
        _array(node, value, path, found, old)
    elif kind is int or kind is float:
        _number(node, value, path, found)
    enum = node.get("enum")
    if enum and not any((type(one) is kind and value == one) or _same_number(value, one) for one in enum):
        accepted = [one if isinstance(one, str) else causes.shown(one) for one in enum]
        found.append(causes.unsupported(path, value, accepted))
    if found and old is not UNKNOWN and lists.same(value, old):
        return []
    return found


def _same_number(a: Any, b: Any) -> bool:
    return type(a) in (int, float) and type(b) in (int, float) and bool(a == b)


def types_of(node: Node) -> tuple[str, ...]:
    if node.get("x-kubernetes-int-or-string"):
        return ("integer", "string")
    return (node["type"],) if node.get("type") else ()


def _type(node: Node, value: Any, path: str, found: list[Cause]) -> None:
    wanted = types_of(node)
    if not wanted:
        return
    if value is None:
        if node.get("nullable"):
            return
        is_ = "null"
    else:
        is_ = _TYPES[type(value)]
        whole = is_ == "number" and "integer" in wanted and value % 1 == 0
        if is_ in wanted or whole or (is_ == "integer" and "number" in wanted):
            return
    detail = f'{path} in body must be of type {",".join(wanted)}: "{is_}"'
    found.append(causes.wrong_type(path, is_, detail))


def _string(node: Node, value: str, path: str, found: list[Cause]) -> None:
    most, least, pattern = node.get("maxLength"), node.get("minLength"), node.get("pattern")
    if most is not None and len(value) > most:
        found.append(causes.too_long(path, most))
    elif least is not None and len(value) < least:
        found.append(causes.invalid(path, value, f"{path} in body should be at least {least} chars long"))
    elif pattern and formats.pattern(pattern).search(value) is None:
        found.append(causes.invalid(path, value, f"{path} in body should match '{pattern}'"))
    name = node.get("format")
    if name and node.get("type") in (None, "string"):
        check = formats.checker(name)
        if check is not None and not check(value):
            detail = f"{path} in body must be of type {name}: {causes.quoted(value)}"
            found.append(causes.wrong_type(path, value, detail))


_RANGES: Final[Mapping[tuple[Any, Any], Callable[[Any], bool]]] = {
    ("integer", "int32"): lambda v: -(2**31) <= v < 2**31,
    ("integer", "int64"): lambda v: -(2**63) <= v < 2**63,
    ("number", "float"): lambda v: abs(v) <= 3.4028234663852886e38,
}


def _ranged(node: Node, value: float, what: str, path: str) -> list[Cause]:
    """What is wrong with a number for its type and format; `what` says whose it is."""
    kind, form = node.get("type"), node.get("format")
    in_range = _RANGES.get((kind, form))
    whole = kind != "integer" or (value % 1 == 0 and -(2**63) <= value < 2**63)
    if whole and (in_range is None or in_range(value)):
        return []
    told = f"with format {form}" if in_range is not None else "(default format)"
    return [causes.invalid("", "", f"{what} value must be of type {kind} {told} in {path}")]


def _number(node: Node, value: float, path: str, found: list[Cause]) -> None:
    def blame(detail: str) -> None:
        found.append(causes.invalid(path, value, f"{path} in body should be {detail}"))

    most, least = node.get("maximum"), node.get("minimum")
    found += _ranged(node, value, "Checked", path)
    for name, bound in (("Maximum boundary", most), ("Minimum boundary", least)):
        if bound is not None:  # upstream keeps bounds as float64: 2^63-1 is 2^63 there, and no value passes
            found += _ranged(node, float(bound), name, path)
    step = node.get("multipleOf")
    if step and not math.isclose(value / step, round(value / step), rel_tol=1e-12, abs_tol=0):
        blame(f"a multiple of {causes.number(step)}")
    if most is not None and (value > most or (value == most and node.get("exclusiveMaximum"))):
        blame(f"less than {'' if node.get('exclusiveMaximum') else 'or equal to '}{causes.number(most)}")
    if least is not None and (value < least or (value == least and node.get("exclusiveMinimum"))):
        blame(f"greater than {'' if node.get('exclusiveMinimum') else 'or equal to '}{causes.number(least)}")


def _array(node: Node, value: list[Any], path: str, found: list[Cause], old: Any) -> None:
    items = node.get("items")
    if isinstance(items, Mapping):
        olds = lists.old_items(node, old)
        for index, item in enumerate(value):
            before = lists.was(node, item, olds)
            found += _check(items, item, f"{path}[{index}]", UNKNOWN if before is None else before)
    least, most = node.get("minItems"), node.get("maxItems")
    if least is not None and len(value) < least:
        found.append(causes.invalid(path, len(value), f"{path} in body should have at least {least} items"))
    if most is not None and len(value) > most:
        found.append(causes.too_many(path, len(value), most))


def _object(node: Node, value: dict[str, Any], path: str, found: list[Cause], old: Any) -> None:
    fields: Node = node.get("properties") or {}
    values = node.get("additionalProperties")
    least, most = node.get("minProperties"), node.get("maxProperties")
    if least is not None and len(value) < least:
        found.append(causes.invalid(path, len(value), f"{path} in body should have at least {least} properties"))
    if most is not None and len(value) > most:
        found.append(causes.too_many(path, len(value), most))
    before = old if isinstance(old, dict) else {}
    for name, held in value.items():
        below = fields.get(name, values)
        here = f"{path}.{name}" if path else name
        if isinstance(below, Mapping):
            ratchets = path or name not in ("kind", "apiVersion")
            found += _check(below, held, here, before.get(name, UNKNOWN) if ratchets else UNKNOWN)
        elif below is False:
            found.append(causes.invalid(path, "", f"{here} in body is a forbidden property"))
    for name in node.get("required") or ():
        if name not in value:
            found.append(causes.required(f"{path}.{name}" if path else name))


def _combined(node: Node, value: Any, path: str, found: list[Cause]) -> None:
    """allOf, anyOf, oneOf, not. Of several alternatives that fail, the one with the fewest violations is told."""

    def tried(nodes: Iterable[Node]) -> list[list[Cause]]:
        return [_check(one, value, path, UNKNOWN) for one in nodes]

    def blame(detail: str) -> None:
        found.append(causes.invalid("", "", f"{causes.quoted(path)} {detail}"))

    if alternatives := node.get("anyOf"):
        results = tried(alternatives)
        if all(results):
            blame("must validate at least one schema (anyOf)")
            found += sorted(results, key=_few)[0]
    if alternatives := node.get("oneOf"):
        results = tried(alternatives)
        fits = sum(not result for result in results)
        if fits != 1:
            told = "Found none valid" if fits == 0 else f"Found {fits} valid alternatives"
            blame(f"must validate one and only one schema (oneOf). {told}")
            found += sorted(results, key=_few)[0] if fits == 0 else []
    if parts := node.get("allOf"):
        results = tried(parts)
        for result in results:
            found += result
        if any(results):
            blame(f"must validate all the schemas (allOf){'. None validated' if all(results) else ''}")
    refused = node.get("not")
    if refused is not None and not _check(refused, value, path, UNKNOWN):
        blame("must not validate the schema (not)")


def _few(results: list[Cause]) -> int:
    return len(results)
