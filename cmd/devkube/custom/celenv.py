"""The CEL library behind two doors: `Conditions` says whether an expression is well-typed, `program` compiles one for
evaluation on plain values. Both know CEL's own functions, those of strings and optionals, and of Kubernetes' own
(apiserver/pkg/cel/library) the comparison of quantities. Who uses another is refused.

The library is loaded by the first CRD that has rules (about 0.1 s), never by a start.
"""

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache, lru_cache
from itertools import permutations
from typing import Any, Final

from devkube.builtin.scalars import quantity_value
from devkube.custom import views
from devkube.custom.views import QUANTITY, Type

# oldSelf as an optional: the library has no way to pass one in, so it is made of a list with one element or none. The
# rule stands on lines of its own, so that a comment at its end does no harm.
_OPTIONAL_OLD: Final = "[__old[?0]].map(oldSelf, (\n{}\n))[0]"
# String literals and comments, longest quotes first: what they say is no code.
_NO_CODE = re.compile(
    r'''r?b?(?:"""(?s:.*?)"""|'{3}(?s:.*?)'{3}|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|//[^\n]*''', re.IGNORECASE
)
# A Quantity is a type of its own for the checker; evaluated, it is its canonical text in an object, so that equal ones
# are equal and none can be taken for a string.
Quantity = dict[str, str]


class Refused(ValueError):
    """The expression does not compile; the message is the compiler's."""


class Failed(ValueError):
    """Evaluation ended in an error."""


def uses_old(text: str) -> bool:
    """Whether an expression names the variable oldSelf."""
    return "oldSelf" in text and re.search(r"(?<![\w.])oldSelf\b", _NO_CODE.sub(" ", text)) is not None


def _quantity(text: str) -> Quantity:
    return {QUANTITY: str(Fraction(quantity_value(text)))}


def _order(a: Quantity, b: Quantity) -> int:
    left, right = Fraction(a[QUANTITY]), Fraction(b[QUANTITY])
    return (left > right) - (left < right)


def _is_quantity(text: str) -> bool:
    try:
        return bool(_quantity(text))
    except ValueError:
        return False


# Name, whether it is a member of its first parameter, parameters, result, implementation.
_FUNCTIONS: Final[tuple[tuple[str, bool, list[str], str, Callable[..., Any] | None], ...]] = (
    ("quantity", False, ["string"], QUANTITY, _quantity),
    ("isQuantity", False, ["string"], "bool", _is_quantity),
    ("isGreaterThan", True, [QUANTITY, QUANTITY], "bool", lambda a, b: _order(a, b) > 0),
    ("isLessThan", True, [QUANTITY, QUANTITY], "bool", lambda a, b: _order(a, b) < 0),
    ("compareTo", True, [QUANTITY, QUANTITY], "int", _order),
)
# Numbers of different types compare; the evaluator does so anyway.
_COMPARISONS: Final = [
    (operator, False, list(pair), "bool", None)
    for operator in ("_<_", "_<=_", "_>_", "_>=_")
    for pair in permutations(("int", "uint", "double"), 2)
]


@cache
def _extensions(evaluating: bool) -> list[Any]:
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_optional, ext_strings

    made: dict[str, list[Any]] = {}
    rows = [*_FUNCTIONS, *([] if evaluating else _COMPARISONS)]
    for number, (name, member, parameters, result, does) in enumerate(rows):
        kinds = ["map" if evaluating and kind == QUANTITY else kind for kind in (*parameters, result)]
        *taken, given = (cel.Type(kind) for kind in kinds)
        overload = cel.Overload(f"k8s_{number}", given, taken, is_member=member, impl=does if evaluating else None)
        made.setdefault(name, []).append(overload)
    own = cel.CelExtension("kubernetes", [cel.FunctionDecl(name, found) for name, found in made.items()])
    # Kubernetes has neither math nor cel.bind, and version 2 of strings.
    return [ext_optional.ExtOptional(), ext_strings.ExtStrings(2), own]


@cache
def _evaluator() -> Any:
    from cel_expr_python import cel

    return cel.NewEnv(extensions=_extensions(evaluating=True))


@lru_cache(4096)
def program(text: str, optional_old: bool = False) -> Any:
    """Compiled without types: `Conditions` has checked them, and values are dynamic here."""
    return _evaluator().compile(_OPTIONAL_OLD.format(text) if optional_old else text, disable_check=True)


def evaluate(compiled: Any, values: Mapping[str, Any]) -> Any:
    """The plain result. Failed when there is none."""
    try:
        result = compiled.eval(data=dict(values))
    except RuntimeError as error:
        raise Failed(_without_code(str(error))) from None
    if result.type().name() == "ERROR":
        raise Failed(_without_code(str(result.value())))
    return result.value()


def holds(compiled: Any, values: Mapping[str, Any]) -> bool:
    """Failed when there is no result, or none that is true or false."""
    found = evaluate(compiled, values)
    if not isinstance(found, bool):
        raise Failed(f"{found} is not of type bool")
    return found


class Conditions:
    """The checker of expressions over variables of known types: rules, and webhooks' matchConditions."""

    def __init__(self, seen: Mapping[str, Type]) -> None:
        from cel_expr_python import cel

        types = views.Messages()
        variables = {name: types.cel(one) for name, one in seen.items()}
        self._env = cel.NewEnv(
            descriptor_pool=types.pool(), variables=variables, extensions=_extensions(evaluating=False)
        )

    def check(self, text: str, wanted: str, *, optional_old: bool = False) -> None:
        """Refused when it is not of the type, `bool` or `string`."""
        try:
            found = self._env.compile(_OPTIONAL_OLD.format(text) if optional_old else text).return_type().name().lower()
        except RuntimeError as error:
            told = re.sub(r"( undefined field '\w+') not found in struct '[\w.]+'", r"\1", _without_code(str(error)))
            missing = sorted(set(re.findall(r"undeclared reference to '(\w+)'", told)))
            told += "".join(f" (devkube does not have {name})" for name in missing)
            raise Refused(f"compilation failed: {told}") from None
        if found != wanted:
            raise Refused(f"must evaluate to a {wanted} but got {found}")


def _without_code(problem: str) -> str:
    """The library's message without the name of its status."""
    return re.sub(r"^[A-Z_]+: | \[[A-Z_]+\]$", "", problem)
