"""What the webhooks may see: values of variables and arguments are tokens.

Of a Pod's launch what tells which program runs stays readable, and the names of flags in any spelling. Of a backend's
arguments the flag's name stays, and where spaces are: that is what is judged.

Rules: design.md section 2, "Privacy".
"""

import re
from collections.abc import Callable
from typing import Any, Final

from handlers.admission import launch
from handlers.admission.view import Allow, View, view
from handlers.kvcachepool import names
from handlers.outcome import Object

#: What the decision reads of a Pod beside its structure. Names of flags and variables are always readable.
ALLOW: Final = Allow(annotations=frozenset((*names.ACCEPTED, names.DOMAIN)))
_FLAG: Final = re.compile(r"(-{0,3}[A-Za-z0-9_.-]*)(?:=(.*))?", re.DOTALL)
Hide = Callable[[str], str]


def hiding(made: View) -> Hide:
    """Tokens that go on where those of a view end; equal values have equal tokens."""
    tokens = {value: token for token, value in made.values.items()}

    def hide(value: str) -> str:
        if not value:
            return value
        if value not in tokens:
            tokens[value] = f"⟦{len(tokens) + 1}⟧"
            made.values[tokens[value]] = value
        return tokens[value]

    return hide


def pod(document: Object) -> View:
    made = view(document, ALLOW)
    given, shown = (part.get("spec") for part in (document, made.object))
    if not isinstance(given, dict) or not isinstance(shown, dict) or not isinstance(given.get("containers"), list):
        return made
    hide = hiding(made)
    pairs = zip(given["containers"], shown["containers"], strict=True)
    made.object["spec"] = {**shown, "containers": [_container(one, seen, hide) for one, seen in pairs]}
    return made


def _container(given: Any, shown: Any, hide: Hide) -> Any:
    if not isinstance(given, dict):
        return shown
    command: Any = [] if given.get("command") is None else given["command"]
    args: Any = [] if given.get("args") is None else given["args"]
    if not isinstance(command, list) or not isinstance(args, list):
        return shown
    words, seen = [*command, *args], [*(shown.get("command") or ()), *(shown.get("args") or ())]
    if not all(isinstance(word, str) for word in words):
        return shown
    masked = launch.masked(words, hide) if command else []  # without a command the program is the image's
    seen = [*masked, *(flagged(word, one, hide) for word, one in list(zip(words, seen, strict=True))[len(masked) :])]
    parts = {"command": seen[: len(command)], "args": seen[len(command) :]}
    return {**shown, **{field: part for field, part in parts.items() if given.get(field) is not None}}


def flagged(word: str, shown: str, hide: Hide) -> str:
    """A flag's name is read up to the first dot, so it stays where it ends in something strange."""
    return launch.headed(word, hide) if word.startswith("--") and not shown.startswith("--") else shown


def see(document: Object) -> View:
    made = view(document, Allow())
    token = hiding(made)

    def walk(part: Any) -> Any:
        if isinstance(part, list):
            return [walk(one) for one in part]
        if not isinstance(part, dict):
            return part
        found = {key: walk(value) for key, value in part.items()}
        for field, shown in (("extraArgs", _argument), ("extraEnv", _variable)):
            if field in part:
                given = part[field]
                found[field] = [shown(one, token) for one in given] if isinstance(given, list) else secret(given, token)
        return found

    made.object = {key: walk(value) if key == "spec" else value for key, value in made.object.items()}
    return made


def secret(value: Any, token: Hide) -> Any:
    """Of the same shape, and without what it says: it stands where its schema has something else."""
    if isinstance(value, dict):
        return {token(key): secret(one, token) for key, one in value.items()}
    if isinstance(value, list):
        return [secret(one, token) for one in value]
    if isinstance(value, str):
        return token(value)
    return value if value is None or isinstance(value, bool) else 0


def _argument(word: Any, token: Hide) -> Any:
    return _word(word, token) if isinstance(word, str) else secret(word, token)


def _word(word: str, token: Hide) -> str:
    return "".join(
        piece if not piece or piece.isspace() else _piece(piece, token) for piece in re.split(r"(\s+)", word)
    )


def _piece(piece: str, token: Hide) -> str:
    found = _FLAG.fullmatch(piece)
    if found is None or not found[1].startswith("-"):
        name, equals, value = piece.partition("=")
        dashes = name[: len(name) - len(name.lstrip("-"))]
        return dashes + token(name[len(dashes) :]) + equals + token(value)
    return found[1] + ("" if found[2] is None else f"={token(found[2])}")


def _variable(one: Any, token: Hide) -> Any:
    if not isinstance(one, dict):
        return secret(one, token)
    return {**one, "value": secret(one["value"], token)} if "value" in one else one
