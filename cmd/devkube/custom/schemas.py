"""One version's schema: structural, acceptable, with defaults that are themselves valid and rules that compile."""

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Final

from devkube import causes
from devkube.custom import (
    cel,
    celenv,
    celtypes,
    formats,
    lists,
    shape,
    structural,
    validation,
    views,
)
from devkube.errors import Cause

Node = Mapping[str, Any]
REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_RULES: Final = "x-kubernetes-validations"
_NO_OLD: Final = "may not be set if oldSelf is not used in rule"


def of(version: Mapping[str, Any]) -> Node | None:
    found = (version.get("schema") or {}).get("openAPIV3Schema")
    return found if isinstance(found, Mapping) else None


def validate(node: Node, path: str, status: bool) -> list[Cause]:
    """Every violation. Rules are compiled only when the schema is right otherwise, as upstream does."""
    found = [*_root(node, path, status), *shape.structural(node, path)]
    found += shape.acceptable(node, path)
    if not found:
        found += _defaults(node, path)
    if not found:
        found += _written(node, path)
    return found or list(_rules(node, path))


def unrecognized(node: Any) -> Iterator[str]:
    if not isinstance(node, Mapping):
        return
    form = node.get("format")
    if form and not formats.recognized(form, node.get("type") or ""):
        yield form
    for below in (node.get("items"), node.get("additionalProperties"), *(node.get("properties") or {}).values()):
        yield from unrecognized(below)


def _root(node: Node, path: str, status: bool) -> Iterator[Cause]:
    if node.get("nullable"):
        yield causes.forbidden(f"{path}.nullable", "nullable cannot be true at the root")
    if status and node.get("type") != "object":
        detail = 'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
        yield causes.invalid(f"{path}.type", node.get("type") or "", detail)


def _defaults(node: Node, path: str) -> Iterator[Cause]:
    """A default must be pruned, coerced and valid: it is put into objects unseen. Those inside additionalProperties
    are not looked at, as upstream does not."""
    value, here = node.get("default"), f"{path}.default"
    if value is not None:
        yield from _default(node, copy.deepcopy(value), here)
    if isinstance(node.get("items"), Mapping):
        yield from _defaults(node["items"], f"{path}.items")
    for name, below in (node.get("properties") or {}).items():
        yield from _defaults(below, f"{path}.properties[{name}]")


def _default(node: Node, value: Any, path: str) -> Iterator[Cause]:
    resource = bool(node.get("x-kubernetes-embedded-resource"))
    pruned = copy.deepcopy(value)
    structural.prune_part(pruned, node)
    if lists.identity(pruned) != lists.identity(value):
        yield causes.invalid(path, value, "must not have unknown fields")
    found = validation.validate(node, value, path)
    yield from found
    if not found and cel.has_rules(node) and not list(_rules(node, path, resource)):
        checks = cel.compiled(node, resource)
        yield from cel.validate(checks, value, value, path)
        yield from cel.validate(checks, value, None, path)


def _written(node: Node, path: str) -> Iterator[Cause]:
    """Rules as they are written: everything that is wrong without compiling them."""
    for index, rule in enumerate(node.get(_RULES) or ()):
        yield from _rule(rule, node, f"{path}.{_RULES}[{index}]")
    for step, below in _children(node):
        yield from _written(below, path + step)


def _children(node: Node) -> Iterator[tuple[str, Node]]:
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), Mapping):
            yield f".{key}", node[key]
    for name, below in (node.get("properties") or {}).items():
        yield f".properties[{name}]", below


def _rule(rule: Node, node: Node, path: str) -> Iterator[Cause]:
    text, message, expression = rule.get("rule") or "", rule.get("message") or "", rule.get("messageExpression") or ""
    where, reason = rule.get("fieldPath") or "", rule.get("reason")
    breaks = "must not contain line breaks"
    if not text.strip():
        yield causes.required(f"{path}.rule", "rule is not specified")
    elif message and not message.strip():
        yield causes.invalid(f"{path}.message", message, "must be non-empty if specified")
    elif "\n" in message.strip() or "\r" in message.strip():
        yield causes.invalid(f"{path}.message", message, breaks)
    elif "\n" in text.strip() and not message.strip():
        yield causes.required(f"{path}.message", "message must be specified if rule contains line breaks")
    if expression and not expression.strip():
        yield causes.required(f"{path}.messageExpression", "messageExpression must be non-empty if specified")
    if reason is not None and reason not in REASONS:
        yield causes.unsupported(f"{path}.reason", reason, REASONS)
    if where:
        if not where.strip():
            yield causes.invalid(f"{path}.fieldPath", where, "must be non-empty if specified")
        if "\n" in where:
            yield causes.invalid(f"{path}.fieldPath", where, breaks)
        if not views.normalized(where, node):
            yield causes.invalid(f"{path}.fieldPath", where, "must be a valid path")


def _rules(node: Node, path: str, resource: bool = True) -> Iterator[Cause]:
    """Compile every rule against the schema's types."""
    if not cel.has_rules(node):
        return
    seen = views.type_of(node, resource)
    if seen is not None:
        yield from _compiled(node, celtypes.Checkable(seen), seen, path, "")


def _compiled(node: Node, types: celtypes.Checkable, seen: views.Type | None, path: str, lost: str) -> Iterator[Cause]:
    """`lost`: the outermost path below which old values cannot be found, "" where they can."""
    if node.get(_RULES) and seen is not None:
        scope = celenv.Scope(types, seen)
        for index, rule in enumerate(node[_RULES]):
            yield from _checked(scope, rule, f"{path}.{_RULES}[{index}]", lost)
    elif node.get(_RULES):
        detail = "rules cannot be set on a schema whose values CEL cannot see"
        yield causes.invalid(f"{path}.{_RULES}", "", detail)
    if isinstance(node.get("items"), Mapping):
        gone = lost or (path if node.get("x-kubernetes-list-type") != "map" else "")
        yield from _compiled_below(node["items"], types, seen.of if seen else None, f"{path}.items", gone)
    if isinstance(node.get("additionalProperties"), Mapping):
        below = node["additionalProperties"]
        yield from _compiled_below(below, types, seen.of if seen else None, f"{path}.additionalProperties", lost)
    for name, below in (node.get("properties") or {}).items():
        known = seen.fields.get(seen.names.get(name, "")) if seen else None
        yield from _compiled_below(below, types, known, f"{path}.properties[{name}]", lost)


def _compiled_below(
    node: Node, types: celtypes.Checkable, seen: views.Type | None, path: str, lost: str
) -> Iterator[Cause]:
    if seen is None and cel.has_rules(node):  # a field whose name CEL cannot say: its rules have types of their own
        seen = views.type_of(node, bool(node.get("x-kubernetes-embedded-resource")))
        types = celtypes.Checkable(seen) if seen is not None else types
    if cel.has_rules(node):
        yield from _compiled(node, types, seen, path, lost)


def _checked(scope: celenv.Scope, rule: Node, path: str, lost: str) -> Iterator[Cause]:
    optional = bool(rule.get("optionalOldSelf"))
    try:
        uses_old = scope.check(rule["rule"], "BOOL", optional)
    except celenv.Refused as error:
        wrong = "cel expression must evaluate to a bool" if str(error) == "!bool" else f"compilation failed: {error}"
        yield causes.invalid(f"{path}.rule", rule["rule"], wrong)
        if rule.get("optionalOldSelf") is not None:
            yield causes.invalid(f"{path}.optionalOldSelf", optional, _NO_OLD)
        return
    if rule.get("messageExpression"):
        try:
            scope.check(rule["messageExpression"], "STRING", optional)
        except celenv.Refused as error:
            told = str(error)
            wrong = "must evaluate to a string" if told == "!string" else f"compilation failed: {told}"
            yield causes.invalid(f"{path}.messageExpression", rule["messageExpression"], f"messageExpression {wrong}")
    if uses_old and lost:
        detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {lost}"
        yield causes.invalid(f"{path}.rule", rule["rule"], detail)
    if not uses_old and rule.get("optionalOldSelf") is not None:
        yield causes.invalid(f"{path}.optionalOldSelf", optional, _NO_OLD)
