"""matchConditions: CEL over object, oldObject and request.

What cannot be compiled is refused when the configuration is written, with the engine's own words, so that nothing that
devkube cannot evaluate is ever ignored; `authorizer` belongs to it. Unlike upstream no cost is counted. Semantics of
several conditions and of errors: `webhook/matchconditions/matcher.go`; types: `admission/plugin/cel/compile.go`.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from devkube.custom import celenv
from devkube.custom.views import Type
from devkube.errors import Cause


class Failed(Exception):
    """Conditions that could not be evaluated, none of the others being false."""


@cache
def _types() -> celenv.Conditions:
    text, anything = Type("string"), Type("dyn")
    kind, resource = (
        Type("object", fields=dict.fromkeys(("group", "version", last), text)) for last in ("kind", "resource")
    )
    groups, extra = Type("list", text), Type("map", anything)
    request = {
        **dict.fromkeys(("subResource", "requestSubResource", "name", "namespace", "operation"), text),
        **dict.fromkeys(("kind", "requestKind"), kind),
        **dict.fromkeys(("resource", "requestResource"), resource),
        "userInfo": Type("object", fields={"username": text, "uid": text, "groups": groups, "extra": extra}),
        "dryRun": Type("bool"),
        "options": anything,
    }
    return celenv.Conditions({"object": anything, "oldObject": anything, "request": Type("object", fields=request)})


def matches(expressions: Sequence[str], variables: Mapping[str, Any], *, lenient: bool) -> bool:
    """Whether all hold. Any false one decides; else an error makes it False (`lenient`, failurePolicy Ignore) or raises
    Failed. `variables`: object, oldObject (None where there is none) and request."""
    errors: list[str] = []
    for one in expressions:
        try:
            if not celenv.holds(celenv.program(one.strip()), variables):
                return False
        except celenv.Failed as error:
            errors.append(f"expression '{one}' resulted in error: {error}")
    if errors and not lenient:
        raise Failed(", ".join(dict.fromkeys(errors)))
    return not errors


def problems(conditions: Sequence[Mapping[str, Any]], path: str) -> list[Cause]:
    """What is wrong with the expressions of one hook."""
    causes: list[Cause] = []
    for at, one in enumerate(conditions):
        expression = (one.get("expression") or "").strip()
        if not expression:
            causes.append(Cause("FieldValueRequired", "Required value", f"{path}[{at}].expression"))
            continue
        try:
            _types().check(expression, "bool")
        except celenv.Refused as wrong:
            text = f'Invalid value: "{expression}": {wrong}'
            causes.append(Cause("FieldValueInvalid", text, f"{path}[{at}].expression"))
    return causes
