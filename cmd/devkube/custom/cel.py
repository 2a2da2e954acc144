"""x-kubernetes-validations: rules compiled once per CRD version, evaluated on every write.

A rule that uses oldSelf is a transition rule: it holds only between an old value and a new one, found by field name, by
map key, or by the keys of a list that is a map. What fails although nothing of it changed is not blamed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from devkube import causes
from devkube.custom import celenv, lists, views
from devkube.errors import Cause

Node = Mapping[str, Any]
_MAX_MESSAGE: Final = 5 * 1024  # bytes of what a messageExpression may give


@dataclass(frozen=True)
class Rule:
    text: str
    program: Any
    uses_old: bool
    optional_old: bool
    message: str
    message_program: Any
    reason: str
    field_path: str

    @property
    def told(self) -> str:
        """How errors name the rule: by its message, else by its text."""
        return self.message.strip() or self.text.strip()


@dataclass
class Checks:
    """The rules of one schema node and of what is below it. Nodes without any rule below are not in the tree."""

    node: Node
    rules: tuple[Rule, ...] = ()
    view: views.View | None = None
    ordered: bool = True
    fields: dict[str, "Checks"] = field(default_factory=dict)
    items: "Checks | None" = None
    values: "Checks | None" = None

    @property
    def empty(self) -> bool:
        return not (self.rules or self.fields or self.items or self.values)


def has_rules(node: Any) -> bool:
    if not isinstance(node, Mapping):
        return False
    if node.get("x-kubernetes-validations"):
        return True
    below = [node.get("items"), node.get("additionalProperties"), *(node.get("properties") or {}).values()]
    return any(has_rules(one) for one in below)


def compiled(node: Node, resource: bool = True) -> Checks | None:
    """The tree of a schema whose rules have been checked; None where it has no rules."""
    if not has_rules(node):
        return None
    seen = views.type_of(node, resource)
    made = Checks(node)
    if seen is not None and node.get("x-kubernetes-validations"):
        made.view, made.ordered = views.viewer(seen), lists.ordered(node)
        made.rules = tuple(_rule(one, node) for one in node["x-kubernetes-validations"])
    for name, below in (node.get("properties") or {}).items():
        if (checks := _compiled_below(below)) is not None:
            made.fields[name] = checks
    made.items = _compiled_below(node.get("items"))
    made.values = _compiled_below(node.get("additionalProperties"))
    return None if made.empty else made


def _compiled_below(node: Any) -> Checks | None:
    if not isinstance(node, Mapping):
        return None
    return compiled(node, bool(node.get("x-kubernetes-embedded-resource")))


def _rule(rule: Node, node: Node) -> Rule:
    optional = bool(rule.get("optionalOldSelf"))
    expression = rule.get("messageExpression")
    path = rule.get("fieldPath")
    return Rule(
        text=rule["rule"],
        program=celenv.program(rule["rule"], optional),
        uses_old=celenv.uses_old(rule["rule"]),
        optional_old=optional,
        message=rule.get("message") or "",
        message_program=celenv.program(expression, optional) if expression else None,
        reason=rule.get("reason") or "",
        field_path=views.normalized(path, node) if path else "",
    )


# --- evaluation


def validate(checks: Checks | None, new: Any, old: Any = None, path: str = "") -> list[Cause]:
    """Every rule that does not hold. `old` None: there was nothing before. `path`: where the value stands."""
    return [] if checks is None else list(_walk(checks, new, old, path, old is not None, False))


def _walk(checks: Checks, new: Any, old: Any, path: str, known: bool, same: bool) -> Iterator[Cause]:
    """`known`: old is this value's own past (for ratcheting); `same`: an ancestor is known to be unchanged."""
    if new is None:
        return
    if checks.rules:
        yield from _evaluated(checks, new, old, path, known, same)
    if isinstance(new, dict):
        before = old if isinstance(old, dict) else {}
        for name, held in new.items():
            below = checks.fields.get(name)
            here = f"{path}.{name}" if path else name
            if below is None and checks.values is not None and name not in (checks.node.get("properties") or {}):
                below, here = checks.values, f"{path}[{name}]"
            if below is not None:
                yield from _walk(below, held, before.get(name), here, name in before, same)
    elif isinstance(new, list) and checks.items is not None:
        olds = lists.old_items(checks.node, old)
        # Items of other lists have no past of their own; they are unchanged when their list is.
        unchanged = same or (not olds and known and lists.same(new, old))
        for index, item in enumerate(new):
            before_item = lists.was(checks.node, item, olds)
            yield from _walk(checks.items, item, before_item, f"{path}[{index}]", before_item is not None, unchanged)


def _evaluated(checks: Checks, new: Any, old: Any, path: str, known: bool, same: bool) -> Iterator[Cause]:
    node = checks.node
    try:
        values = celenv.activation(*_seen(checks, new, old))
    except (
        ValueError,
        OverflowError,
    ) as error:  # a string that is not of its format: validation tells it, rules cannot be asked
        yield causes.invalid(path, node.get("type", ""), f"{error} evaluating rules")
        return
    for rule in checks.rules:
        if rule.uses_old and old is None and not rule.optional_old:
            continue
        try:
            holds = celenv.evaluate(rule.program, values)
        except celenv.Failed as error:
            yield _failed(path, node, rule, str(error))
            continue
        if holds is True:
            continue
        if not rule.uses_old and (same or (known and lists.same(new, old))):
            continue
        place = (path + rule.field_path).removeprefix(".")
        value = causes.OMIT if node.get("type") in ("object", "array") else new
        yield _blame(place, value, _message(rule, values), rule.reason)


def _seen(checks: Checks, new: Any, old: Any) -> tuple[Any, Any]:
    if old is not None and not checks.ordered:
        old = lists.aligned(checks.node, new, old)
    if checks.view is None:
        return new, old
    return checks.view(new), old if old is None else checks.view(old)


def _failed(path: str, node: Node, rule: Rule, problem: str) -> Cause:
    kind = node.get("type", "")
    if problem.startswith("no such overload"):
        call = "call arguments did not match a supported operator, function or macro signature for rule"
        return causes.invalid(path, kind, f"'{problem}': {call}: {rule.told}")
    return causes.invalid(path, kind, f"{problem} evaluating rule: {rule.told}")


def _message(rule: Rule, values: Any) -> str:
    """The messageExpression's text where it gives a usable one, else the message, else the rule itself."""
    if rule.message_program is not None:
        try:
            found = celenv.evaluate(rule.message_program, values)
        except celenv.Failed:
            found = None
        text = found.strip() if isinstance(found, str) else ""
        if text and "\n" not in text and len(text.encode()) <= _MAX_MESSAGE:
            return text
    return rule.message.strip() or f"failed rule: {rule.told}"


def _blame(path: str, value: Any, detail: str, reason: str) -> Cause:
    if reason == "FieldValueForbidden":
        return causes.forbidden(path, detail)
    if reason == "FieldValueRequired":
        return causes.required(path, detail)
    if reason == "FieldValueDuplicate":
        return causes.duplicate(path, value)
    return causes.invalid(path, value, detail)
