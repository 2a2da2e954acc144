"""Values against a schema, in words close to kube-openapi's validator, which users of custom resources know.

On an update a part that is equal to what it was before is not blamed (ratcheting, on since Kubernetes 1.33). Formats
that mean nothing are no constraint.
"""

import math
from collections.abc import Iterator
from typing import Any, Final

from devkube import causes
from devkube.custom import formats
from devkube.custom.structural import LIST_KEYS, UNKNOWN, Node, Place, naming, root
from devkube.errors import Cause

_TYPES: Final = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
_SIZES: Final[dict[type, tuple[str, str, str]]] = {  # the keywords of the least and the most, and how the least is told
    str: ("minLength", "maxLength", "be at least {} chars long"),
    list: ("minItems", "maxItems", "have at least {} items"),
    dict: ("minProperties", "maxProperties", "have at least {} properties"),
}


def validate(node: Node, value: Any, old: Any = UNKNOWN, *, path: str = "") -> list[Cause]:
    """Every violation. `path` is where the value stands in the object, `old` what stood there before."""
    found: list[Cause] = []
    for place in root(value, node, old, path=path).walk():
        if place.node is not None and not place.unchanged:
            found += _check(place.node, place.value, place.path)
            if isinstance(place.value, list):
                found += _repeated(place)
            if place.resource and place.path and isinstance(place.value, dict):
                missing = [name for name in ("apiVersion", "kind") if not place.value.get(name)]
                found += [causes.required(f"{place.path}.{name}") for name in missing]
    return found


def _check(node: Node, value: Any, path: str) -> Iterator[Cause]:
    """What is wrong with one value; what is inside of it has places of its own."""
    yield from _type(node, value, path)
    enum = node.get("enum")
    if enum and not any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in enum):
        accepted = [one if isinstance(one, str) else causes.shown(one) for one in enum]
        yield causes.unsupported(path, value, accepted)
    if value is None:
        return
    yield from _combined(node, value, path)
    sized = list(_size(node, value, path)) if type(value) in _SIZES else []
    yield from sized
    if type(value) in (int, float):
        yield from _number(node, value, path)
    elif isinstance(value, str):
        yield from _string(node, value, path, checks_pattern=not sized)
    elif isinstance(value, dict):
        missing = [name for name in node.get("required") or () if name not in value]
        yield from (causes.required(f"{path}.{name}" if path else name) for name in missing)


def _type(node: Node, value: Any, path: str) -> Iterator[Cause]:
    wanted = ["integer", "string"] if node.get("x-kubernetes-int-or-string") else [node.get("type") or ""]
    if wanted == [""] or (value is None and node.get("nullable")):
        return
    found = "null" if value is None else _TYPES[type(value)]
    whole = found == "number" and "integer" in wanted and value % 1 == 0
    if found not in wanted and not whole and not (found == "integer" and "number" in wanted):
        detail = f'{path} in body must be of type {",".join(wanted)}: "{found}"'
        yield causes.wrong_type(path, found, detail)


def _size(node: Node, value: Any, path: str) -> Iterator[Cause]:
    least_key, most_key, words = _SIZES[type(value)]
    least, most = node.get(least_key), node.get(most_key)
    if most is not None and len(value) > most:
        is_text = isinstance(value, str)
        yield causes.too_long(path, most) if is_text else causes.too_many(path, len(value), most)
    if least is not None and len(value) < least:
        told = value if isinstance(value, str) else len(value)
        yield causes.invalid(path, told, f"{path} in body should {words.format(least)}")


def _string(node: Node, value: str, path: str, *, checks_pattern: bool) -> Iterator[Cause]:
    pattern, form = node.get("pattern"), node.get("format")
    if pattern and checks_pattern and formats.pattern(pattern).search(value) is None:
        yield causes.invalid(path, value, f"{path} in body should match '{pattern}'")
    if form and node.get("type") in (None, "string") and not formats.fits(form, value):
        detail = f"{path} in body must be of type {form}: {causes.quoted(value)}"
        yield causes.wrong_type(path, value, detail)


def _number(node: Node, value: float, path: str) -> Iterator[Cause]:
    step, above, below = node.get("multipleOf"), node.get("exclusiveMinimum"), node.get("exclusiveMaximum")
    most, least = node.get("maximum"), node.get("minimum")
    if node.get("type") == "integer":
        form = node.get("format")
        told = f"with format {form}" if form in ("int32", "int64") else "(default format)"
        half = 2**31 if form == "int32" else 2**63
        if value % 1 != 0 or not -half <= value < half:
            yield causes.invalid("", "", f"Checked value must be of type integer {told} in {path}")
    wrong = []
    if step and not _multiple(value, step):
        wrong.append(f"a multiple of {causes.number(step)}")
    if most is not None and (value > most or (value == most and below)):
        wrong.append(f"less than {'' if below else 'or equal to '}{causes.number(most)}")
    if least is not None and (value < least or (value == least and above)):
        wrong.append(f"greater than {'' if above else 'or equal to '}{causes.number(least)}")
    yield from (causes.invalid(path, value, f"{path} in body should be {detail}") for detail in wrong)


def _multiple(value: float, step: float) -> bool:
    """As upstream divides: what float64 cannot hold is no multiple of anything."""
    try:
        return math.isclose(value / step, round(value / step), rel_tol=1e-12, abs_tol=0)
    except OverflowError:
        return False


def _combined(node: Node, value: Any, path: str) -> Iterator[Cause]:
    """allOf, anyOf, oneOf, not. Of several alternatives that fail, the one with the fewest violations is told."""
    for junctor in ("anyOf", "oneOf", "allOf"):
        results = [validate(one, value, path=path) for one in node.get(junctor) or ()]
        fits = sum(not result for result in results)
        if junctor == "allOf":
            yield from (cause for result in results for cause in result)
        elif results and (fits == 0 or (junctor == "oneOf" and fits > 1)):
            told = (
                "at least one schema (anyOf)" if junctor == "anyOf" else f"one and only one schema (oneOf), not {fits}"
            )
            yield causes.invalid("", "", f"{causes.quoted(path)} must validate {told}")
            yield from min(results, key=len) if fits == 0 else ()
    refused = node.get("not")
    if refused is not None and not validate(refused, value, path=path):
        yield causes.invalid("", "", f"{causes.quoted(path)} must not validate the schema (not)")


def _repeated(place: Place) -> Iterator[Cause]:
    """Every repeated element of a set and every repeated key of a map, each told once."""
    name, seen = naming(place.node), dict[Any, int]()
    if name is None:
        return
    for index, item in enumerate(place.value):
        seen[name(item)] = seen.get(name(item), 0) + 1
        if seen[name(item)] == 2:
            keys = (place.node or {}).get(LIST_KEYS) or ()
            told = {key: item[key] for key in keys if key in item} if isinstance(item, dict) and keys else item
            yield causes.duplicate(f"{place.path}[{index}]", told)
