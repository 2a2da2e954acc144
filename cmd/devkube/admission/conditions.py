"""matchConditions: CEL over object, oldObject and request.

What cannot be compiled is refused when the configuration is written, with the engine's own words, so that nothing that
devkube cannot evaluate is ever ignored: Kubernetes' own function libraries (isURL, quantity, find, …) and `authorizer`
belong to it. Unlike upstream `request` has no type here, so a misspelt field of it fails when evaluated. Semantics of
several conditions and of errors: `webhook/matchconditions/matcher.go`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from devkube.errors import Cause

if TYPE_CHECKING:
    from cel_expr_python import cel

VARIABLES = ("object", "oldObject", "request")
_MOST = 64
_INVALID = "FieldValueInvalid"


@dataclass(frozen=True)
class Condition:
    name: str
    expression: str


class Uncompilable(Exception):
    """An expression that CEL does not accept, or that is no condition."""


class Failed(Exception):
    """Conditions that could not be evaluated, none of the others being false."""


@lru_cache(maxsize=1)
def _environment() -> "cel.Env":
    # Not at the top: 14 MB of shared object that a server without matchConditions never needs.
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_math, ext_optional, ext_strings

    extensions = [ext_optional.ExtOptional(), ext_strings.ExtStrings(), ext_math.ExtMath()]
    return cel.NewEnv(variables=dict.fromkeys(VARIABLES, cel.Type.DYN), extensions=extensions)


@lru_cache(maxsize=512)
def compiled(expression: str) -> "cel.Expression":
    """Raises Uncompilable."""
    from cel_expr_python import cel

    try:
        found = _environment().compile(expression.strip())
    except RuntimeError as error:
        told = str(error).removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]")
        if "undeclared reference to 'authorizer" in told:
            told += "\ndevkube does not offer authorizer to matchConditions; check permissions in the webhook"
        raise Uncompilable(f"compilation failed: {told}") from None
    if found.return_type() != cel.Type.BOOL:
        raise Uncompilable(f"must evaluate to bool but got {found.return_type().name().lower()}")
    return found


def matches(conditions: Sequence[Condition], variables: Mapping[str, Any], *, lenient: bool) -> bool:
    """Whether all hold. Any false one decides; else an error makes it False (`lenient`, failurePolicy Ignore) or raises
    Failed. `variables` are those of VARIABLES."""
    from cel_expr_python import cel

    errors: list[str] = []
    for one in conditions:
        try:
            value = compiled(one.expression).eval(data=dict(variables))
        except (Uncompilable, RuntimeError) as error:
            errors.append(f"expression '{one.expression}' resulted in error: {error}")
            continue
        if value.type() != cel.Type.BOOL:
            errors.append(f"expression '{one.expression}' resulted in error: {value.value()}")
        elif value.value() is False:
            return False
    if errors and not lenient:
        raise Failed(errors[0] if len(errors) == 1 else "[" + ", ".join(dict.fromkeys(errors)) + "]")
    return not errors


def problems(configuration: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> list[Cause]:
    """What is wrong with the matchConditions of a webhook configuration; those that `old` had already are not asked."""
    known = {
        c.get("expression") for hook in (old or {}).get("webhooks") or () for c in hook.get("matchConditions") or ()
    }
    causes: list[Cause] = []
    for at, hook in enumerate(configuration.get("webhooks") or ()):
        causes += _problems(hook.get("matchConditions") or (), f"webhooks[{at}].matchConditions", known)
    return causes


def _problems(conditions: Sequence[Mapping[str, Any]], path: str, known: set[Any]) -> list[Cause]:
    causes: list[Cause] = []
    if len(conditions) > _MOST:
        text = f"Too many: {len(conditions)}: must have at most {_MOST} items"
        causes.append(Cause("FieldValueTooMany", text, path))
    names: set[str] = set()
    for at, one in enumerate(conditions):
        name, expression = one.get("name") or "", (one.get("expression") or "").strip()
        if not expression:
            causes.append(Cause("FieldValueRequired", "Required value", f"{path}[{at}].expression"))
        elif one.get("expression") not in known:
            try:
                compiled(expression)
            except Uncompilable as wrong:
                text = f'Invalid value: "{expression}": {wrong}'
                causes.append(Cause(_INVALID, text, f"{path}[{at}].expression"))
        if not name:
            causes.append(Cause("FieldValueRequired", "Required value", f"{path}[{at}].name"))
        elif name in names:
            causes.append(Cause("FieldValueDuplicate", f'Duplicate value: "{name}"', f"{path}[{at}].name"))
        names.add(name)
    return causes
