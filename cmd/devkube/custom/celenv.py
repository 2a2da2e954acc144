"""The CEL library behind two doors: `check` says whether an expression is well-typed for a schema, `program` compiles
one for evaluation on plain values.

The library is loaded by the first CRD that has rules (about 0.1 s), never by a start.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache, lru_cache
from typing import Any, Final

from devkube.custom import library, views
from devkube.custom.celtypes import Checkable
from devkube.custom.views import Type

# oldSelf as an optional: the library has no way to pass one in, so it is made of a list with one element or none. The
# rule stands on lines of its own, so that a comment at its end does no harm and positions need one line less.
_OPTIONAL_OLD: Final = "[__old[?0]].map(oldSelf, (\n{}\n))[0]"
# What Kubernetes has and devkube has not, by the name that the compiler does not find.
_MISSING: Final = frozenset(
    (
        *("authorizer", "format", "sortBy", "transformList", "transformMap", "transformMapEntry", "url", "isURL", "ip"),
        *("isIP", "cidr", "isCIDR", "semver", "isSemver", "distinct", "flatten", "slice", "sort", "lists"),
    )
)
# String literals and comments, longest quotes first: what they say is no code.
_NO_CODE = re.compile(
    r'''r?b?(?:"""(?s:.*?)"""|'{3}(?s:.*?)'{3}|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|//[^\n]*''', re.IGNORECASE
)
_TWO_VARIABLES = re.compile(r"\.(all|exists|existsOne|exists_one)\(\s*\w+\s*,\s*\w+\s*,")


class Refused(ValueError):
    """The expression does not compile; the message is the compiler's."""


class Failed(ValueError):
    """Evaluation ended in an error; the message is in cel-go's words where they are known."""


def _extensions(functions: Sequence[Any]) -> list[Any]:
    from cel_expr_python import cel
    from cel_expr_python.ext import ext_optional, ext_strings

    # Kubernetes has neither math nor cel.bind, and version 2 of strings.
    known = (ext_optional.ExtOptional(), ext_strings.ExtStrings(2))
    return [*known, cel.CelExtension("kubernetes", list(functions))]


@cache
def _cel_type(text: str) -> Any:
    from cel_expr_python import cel

    if text.startswith("list<"):
        return cel.Type.List(_cel_type(text[5:-1]))
    if text.startswith("map<"):
        return cel.Type.Map(*(_cel_type(part) for part in text[4:-1].split(", ", 1)))
    return cel.Type(text) if "." in text else getattr(cel.Type, text.upper())


def _declared(overloads: dict[str, list[Any]]) -> list[Any]:
    from cel_expr_python import cel

    return [cel.FunctionDecl(name, found) for name, found in overloads.items()]


@cache
def _signatures() -> list[Any]:
    """Functions as the checker knows them."""
    from cel_expr_python import cel

    overloads: dict[str, list[Any]] = {}
    typed = [(f.name, p, result, f.member) for f in library.FUNCTIONS for p, result in f.signatures]
    typed += [(operator, (left, right), "bool", False) for operator, left, right in library.COMPARISONS]
    for name, parameters, result, member in typed:
        known = overloads.setdefault(name, [])
        kinds = [_cel_type(one) for one in parameters]
        made = cel.Overload(f"k8s_{name}_{len(known)}", _cel_type(result), kinds, is_member=member)
        known.append(made)
    return _declared(overloads)


def _plain(value: Any) -> Any:
    """Times come out of the library as Python's; back in they must be messages."""
    if isinstance(value, datetime):
        return views.timestamp(value)
    if isinstance(value, timedelta):
        return views.duration(value)
    return [_plain(one) for one in value] if isinstance(value, list) else value


def _called(implementation: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments: _plain(implementation(*arguments))


@cache
def _implementations() -> list[Any]:
    """Functions as the evaluator calls them."""
    from cel_expr_python import cel

    overloads: dict[str, list[Any]] = {}
    for f in library.FUNCTIONS:
        kinds = [_cel_type(one) for one in f.parameters or ["dyn"] * f.arity]
        known = overloads.setdefault(f.name, [])
        name = f"run_{f.name}_{len(known)}"
        known.append(cel.Overload(name, cel.Type.DYN, kinds, is_member=f.member, impl=_called(f.implementation)))
    return _declared(overloads)


@cache
def _evaluator() -> Any:
    from cel_expr_python import cel

    dynamic = cel.Type.DYN
    return cel.NewEnv(
        variables={"self": dynamic, "oldSelf": dynamic, "__old": cel.Type.LIST},
        extensions=_extensions(_implementations()),
    )


def holds(compiled: Any, values: Mapping[str, Any]) -> bool:
    """Failed when there is no result, or none that is true or false."""
    try:
        result = compiled.eval(data=dict(values))
    except RuntimeError as error:
        raise Failed(_words(str(error))) from None
    if result.type().name() not in ("BOOL", "bool"):
        raise Failed(_words(str(result.value())))
    return bool(result.value())


def uses_old(text: str) -> bool:
    """Whether an expression names the variable oldSelf."""
    return "oldSelf" in text and re.search(r"(?<![\w.])oldSelf\b", _NO_CODE.sub(" ", text)) is not None


class Conditions:
    """Booleans over named values, as webhooks' matchConditions are. `seen` are the values' types."""

    def __init__(self, seen: Mapping[str, Type]) -> None:
        from cel_expr_python import cel

        types = Checkable(Type("object", fields=seen))
        variables = {name: types.cel(one) for name, one in seen.items()}
        self._checker = cel.NewEnv(
            descriptor_pool=types.pool, variables=variables, extensions=_extensions(_signatures())
        )
        dynamic = dict.fromkeys(seen, cel.Type.DYN)
        self._evaluator = cel.NewEnv(variables=dynamic, extensions=_extensions(_implementations()))

    def compiled(self, text: str) -> Any:
        """Refused when it is no boolean."""
        try:
            found = self._checker.compile(text).return_type().name().lower()
        except RuntimeError as error:
            raise Refused(f"compilation failed: {_told(str(error), text, 0)}") from None
        if found != "bool":
            raise Refused(f"must evaluate to bool but got {found}")
        return self._evaluator.compile(text, disable_check=True)


class Scope:
    """The checker's view of one schema node: `self` and `oldSelf` are of its type."""

    def __init__(self, types: Checkable, seen: Type) -> None:
        self._types, self._self = types, types.cel(seen)
        self._made: dict[str, Any] = {}

    def _env(self, old: str) -> Any:
        from cel_expr_python import cel

        if old not in self._made:
            variables = {"self": self._self}
            if old:
                variables[old] = cel.Type.List(self._self) if old == "__old" else self._self
            self._made[old] = cel.NewEnv(
                descriptor_pool=self._types.pool, variables=variables, extensions=_extensions(_signatures())
            )
        return self._made[old]

    def check(self, text: str, wanted: str, optional_old: bool = False) -> bool:
        """Whether it uses oldSelf. `wanted` is the type of result. Refused with the compiler's words otherwise."""
        uses = uses_old(text)
        old, source = (
            ("__old", _OPTIONAL_OLD.format(text)) if uses and optional_old else ("oldSelf" if uses else "", text)
        )
        problem = self._result(source, old, wanted)
        if problem is None:
            return uses
        raise Refused(_told(problem, text, 1 if old == "__old" else 0))

    def _result(self, text: str, old: str, wanted: str = "") -> str | None:
        try:
            found = self._env(old).compile(text).return_type().name()
        except RuntimeError as error:
            return str(error)
        return None if not wanted or found in (wanted, wanted.lower()) else "!" + wanted.lower()


def _told(problem: str, text: str, lines: int) -> str:
    if problem.startswith("!"):
        return problem
    told = problem.removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]")
    told = re.sub(r"( undefined field '\w+') not found in struct '[\w.]+'", r"\1", told)
    if lines:
        told = re.sub(r"<input>:(\d+):", lambda match: f"<input>:{int(match[1]) - lines}:", told)
    missing = {name for name in re.findall(r"undeclared reference to '(\w+)'", told) if name in _MISSING}
    if _TWO_VARIABLES.search(text):
        missing.add("comprehensions with two variables")
    return told + "".join(f" (devkube does not have {what})" for what in sorted(missing))


@lru_cache(4096)
def program(text: str, optional_old: bool = False) -> Any:
    """Compiled without types: `check` has done that, and values are dynamic here."""
    source = _OPTIONAL_OLD.format(text) if optional_old else text
    return _evaluator().compile(source, disable_check=True)


def activation(value: Any, old: Any = None) -> Any:
    return _evaluator().Activation({"self": value, "oldSelf": old, "__old": [] if old is None else [old]})


def evaluate(compiled: Any, values: Any) -> Any:
    """The plain result. Failed when there is none."""
    try:
        result = compiled.eval(values)
    except RuntimeError as error:
        raise Failed(_words(str(error))) from None
    if result.type().name() == "ERROR":
        raise Failed(_words(str(result.value())))
    return result.value()


_WORDS: Final = (
    (re.compile(r'Key not found in map : "?(.*?)"?$'), r"no such key: \1"),
    (re.compile(r"No matching overloads found : .*"), "no such overload"),
    (re.compile(r"Index error: index=(-?\d+) size=\d+"), r"index out of bounds: \1"),
    (re.compile(r"divide by zero"), "division by zero"),
    (re.compile(r"modulus by zero"), "modulus by zero"),
)


def _words(problem: str) -> str:
    text = re.sub(r"^[A-Z_]+: ", "", re.sub(r" \[[A-Z_]+\]$", "", problem))
    for pattern, words in _WORDS:
        text, changed = pattern.subn(words, text)
        if changed:
            return text
    return text
