"""x-kubernetes-validations: rules checked when the CRD is written and evaluated on every write of an object.

A rule that uses oldSelf is a transition rule: it holds only between an old value and a new one, found by field name, by
map key, or by the keys of a list that is a map. What fails although nothing of it changed is not blamed. Lists are
compared with their order, also those that are sets or maps.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from devkube import causes
from devkube.custom import celenv, views
from devkube.custom.structural import UNKNOWN, Node, Place, leads_to, root
from devkube.errors import Cause

RULES: Final = "x-kubernetes-validations"
_REASONS: Final[Mapping[str, Callable[[str, Any, str], Cause]]] = {
    "FieldValueDuplicate": lambda path, value, detail: causes.duplicate(path, value),
    "FieldValueForbidden": lambda path, value, detail: causes.forbidden(path, detail),
    "FieldValueInvalid": causes.invalid,
    "FieldValueRequired": lambda path, value, detail: causes.required(path, detail),
}


def validate(node: Node, new: Any, old: Any = UNKNOWN) -> list[Cause]:
    """Every rule that does not hold; the rules have been checked."""
    places = root(new, node, old, keys=True).walk()
    return [cause for place in places for cause in _at(place)]


def _at(place: Place) -> Iterator[Cause]:
    node = place.node
    if node is None or not node.get(RULES) or place.value is None:
        return
    seen, values = views.type_of(node, place.resource), dict[str, Any](__old=[])
    view = seen.view if seen is not None else lambda value: value
    try:
        values["self"] = view(place.value)
        if place.old is not UNKNOWN and place.old is not None:
            values["oldSelf"] = view(place.old)
            values["__old"] = [values["oldSelf"]]
    except (ValueError, OverflowError) as error:
        # A string that is not of its format: validation tells it, rules cannot be asked.
        yield causes.invalid(place.path, node.get("type", ""), f"{error} evaluating rules")
        return
    for rule in node[RULES]:
        yield from _evaluated(rule, node, place, values)


def _evaluated(rule: Node, node: Node, place: Place, values: Mapping[str, Any]) -> Iterator[Cause]:
    text, optional, transition = rule["rule"], bool(rule.get("optionalOldSelf")), celenv.uses_old(rule["rule"])
    if transition and not optional and "oldSelf" not in values:
        return
    told = (rule.get("message") or "").strip()
    try:
        if celenv.holds(celenv.program(text, optional), values) or (place.unchanged and not transition):
            return
    except celenv.Failed as error:
        detail = f"{error} evaluating rule: {told or text.strip()}"
        yield causes.invalid(place.path, node.get("type", ""), detail)
        return
    expression = rule.get("messageExpression")
    detail = (expression and _computed(expression, optional, values)) or told or f"failed rule: {text.strip()}"
    where = (place.path + (rule.get("fieldPath") or "")).removeprefix(".")
    value = causes.OMIT if node.get("type") in ("object", "array") else place.value
    yield _REASONS[rule.get("reason") or "FieldValueInvalid"](where, value, detail)


def _computed(expression: str, optional: bool, values: Mapping[str, Any]) -> str:
    """A messageExpression's text; "" where it gives none that is usable."""
    try:
        found = celenv.evaluate(celenv.program(expression, optional), values)
    except celenv.Failed:
        return ""
    return found.strip() if isinstance(found, str) and "\n" not in found.strip() else ""


# --- rules as a CRD has them


def _written(rule: Node, node: Node, path: str) -> Iterator[Cause]:
    """Everything that is wrong without compiling it."""
    text, message, reason = (rule.get("rule") or "").strip(), rule.get("message") or "", rule.get("reason")
    if not text:
        yield causes.required(f"{path}.rule", "rule is not specified")
    if "\n" in message.strip():
        yield causes.invalid(f"{path}.message", message, "must not contain line breaks")
    if "\n" in text and not message.strip():
        yield causes.required(f"{path}.message", "message must be specified if rule contains line breaks")
    if reason is not None and reason not in _REASONS:
        yield causes.unsupported(f"{path}.reason", reason, _REASONS)
    if leads_to(rule.get("fieldPath") or "", node) is None:
        yield causes.invalid(f"{path}.fieldPath", rule["fieldPath"], "must be a path of names that leads to a field")


def problems(node: Node, path: str, *, resource: bool, lost: str) -> Iterator[Cause]:
    """What is wrong with a node's rules. `lost`: the outermost list below which old values cannot be found."""
    seen = views.type_of(node, resource)
    if seen is None:
        yield causes.invalid(f"{path}.{RULES}", "", "rules cannot be set on a schema whose values CEL cannot see")
        return
    checker = celenv.Conditions({"self": seen, "oldSelf": seen, "__old": views.Type("list", seen)})
    for index, rule in enumerate(node[RULES]):
        here = f"{path}.{RULES}[{index}]"
        yield from list(_written(rule, node, here)) or _compiled(rule, checker, here, lost)


def _compiled(rule: Node, checker: celenv.Conditions, path: str, lost: str) -> Iterator[Cause]:
    transition, optional = celenv.uses_old(rule["rule"]), rule.get("optionalOldSelf")
    for key, kind in (("rule", "bool"), ("messageExpression", "string")):
        if rule.get(key):
            try:
                checker.check(rule[key], kind, optional_old=bool(optional) and celenv.uses_old(rule[key]))
            except celenv.Refused as error:
                yield causes.invalid(f"{path}.{key}", rule[key], str(error))
    if transition and lost:
        detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {lost}"
        yield causes.invalid(f"{path}.rule", rule["rule"], detail)
    if not transition and optional is not None:
        yield causes.invalid(f"{path}.optionalOldSelf", optional, "may not be set if oldSelf is not used in rule")
