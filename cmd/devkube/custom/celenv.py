"""The CEL library behind two doors: `Conditions` says whether an expression is well-typed, `program` compiles one for
evaluation on plain values.

The library is loaded by the first CRD that has rules (about 0.1 s), never by a start.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from functools import cache, lru_cache
from itertools import permutations
from typing import Any, Final

from devkube.custom import library, views
from devkube.custom.views import Type

# oldSelf as an optional: the library has no way to pass one in, so it is made of a list with one element or none. The
# rule stands on lines of its own, so that a comment at its end does no harm.
_OPTIONAL_OLD: Final = "[__old[?0]].map(oldSelf, (\n{}\n))[0]"
# What Kubernetes has and devkube has not, by the name that the compiler does not find.
_MISSING: Final = frozenset(
    (
        *("authorizer", "format", "sortBy", "transformList", "transformMap", "transformMapEntry", "url", "isURL", "ip"),
        *("isIP", "cidr", "isCIDR", "semver", "isSemver", "distinct", "flatten", "slice", "sort", "lists"),
    )
)
_TWO_VARIABLES = re.compile(r"\.(all|exists|existsOne|exists_one)\(\s*\w+\s*,\s*\w+\s*,")
# String literals and comments, longest quotes first: what they say is no code.
_NO_CODE = re.compile(
    r'''r?b?(?:"""(?s:.*?)"""|'{3}(?s:.*?)'{3}|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|//[^\n]*''', re.IGNORECASE
)


class Refused(ValueError):
    """The expression does not compile; the message is the compiler's."""


class Failed(ValueError):
    """Evaluation ended in an error; the message is in cel-go's words where they are known."""


def uses_old(text: str) -> bool:
    """Whether an expression names the variable oldSelf."""
    return "oldSelf" in text and re.search(r"(?<![\w.])oldSelf\b", _NO_CODE.sub(" ", text)) is not None


def _plain(value: Any) -> Any:
    """Times come out of the library as Python's; back in they must be messages."""
    if isinstance(value, datetime):
        return views.timestamp(value)
    if isinstance(value, timedelta):
        return views.duration(value)
    return [_plain(one) for one in value] if isinstance(value, list) else value


def _overloads(evaluating: bool) -> Iterator[tuple[str, bool, list[str], str, Any]]:
    """Name, member, parameters, result, implementation. The evaluator tells overloads apart by lists alone; the checker
    must be told that numbers of different types compare."""
    for one in library.FUNCTIONS:
        for item in ("dyn",) if evaluating else one.items:
            kinds = [kind.replace(library.ITEM, item) for kind in (*one.parameters, one.result)]
            if evaluating:
                kinds = ["list" if kind.startswith("list") else "dyn" for kind in kinds]
            yield one.name, one.member, kinds[:-1], kinds[-1], one.does
    for operator in () if evaluating else ("_<_", "_<=_", "_>_", "_>=_"):
        for left, right in permutations(("int", "uint", "double"), 2):
            yield operator, False, [left, right], "bool", None


@cache
def _extensions(evaluating: bool) -> list[Any]:
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_optional, ext_strings

    made: dict[str, list[Any]] = {}
    for number, (name, member, parameters, result, does) in enumerate(_overloads(evaluating)):
        called = (lambda *arguments, does=does: _plain(does(*arguments))) if evaluating else None
        kinds = [cel.Type(kind) for kind in parameters]
        overload = cel.Overload(f"k8s_{number}", cel.Type(result), kinds, is_member=member, impl=called)
        made.setdefault(name, []).append(overload)
    functions = cel.CelExtension("kubernetes", [cel.FunctionDecl(name, found) for name, found in made.items()])
    # Kubernetes has neither math nor cel.bind, and version 2 of strings.
    return [ext_optional.ExtOptional(), ext_strings.ExtStrings(2), functions]


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
        raise Failed(_words(str(error))) from None
    if result.type().name() == "ERROR":
        raise Failed(_words(str(result.value())))
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

        types = views.Checkable(seen)
        self._env = cel.NewEnv(
            descriptor_pool=types.pool, variables=types.variables, extensions=_extensions(evaluating=False)
        )

    def check(self, text: str, wanted: str, *, optional_old: bool = False) -> None:
        """Refused when it is not of the type, `bool` or `string`."""
        try:
            found = self._env.compile(_OPTIONAL_OLD.format(text) if optional_old else text).return_type().name().lower()
        except RuntimeError as error:
            raise Refused(f"compilation failed: {_told(str(error), text)}") from None
        if found != wanted:
            raise Refused(f"must evaluate to a {wanted} but got {found}")

    def compiled(self, text: str) -> Any:
        """Refused when it is no boolean."""
        self.check(text, "bool")
        return program(text)


def _told(problem: str, text: str) -> str:
    told = problem.removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]")
    told = re.sub(r"( undefined field '\w+') not found in struct '[\w.]+'", r"\1", told)
    missing = {name for name in re.findall(r"undeclared reference to '(\w+)'", told) if name in _MISSING}
    if _TWO_VARIABLES.search(text):
        missing.add("comprehensions with two variables")
    return told + "".join(f" (devkube does not have {what})" for what in sorted(missing))


_WORDS: Final = (
    (re.compile(r'Key not found in map : "?(.*?)"?$'), r"no such key: \1"),
    (re.compile(r"No matching overloads found : .*"), "no such overload"),
    (re.compile(r"Index error: index=(-?\d+) size=\d+"), r"index out of bounds: \1"),
    (re.compile(r"divide by zero"), "division by zero"),
)


def _words(problem: str) -> str:
    text = re.sub(r"^[A-Z_]+: ", "", re.sub(r" \[[A-Z_]+\]$", "", problem))
    for pattern, words in _WORDS:
        text = pattern.sub(words, text)
    return text
