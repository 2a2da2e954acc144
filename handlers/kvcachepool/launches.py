"""Whether appended arguments reach the engine: what the container starts must be the engine itself, or its author
declares that it forwards them. Some launches cannot forward, whatever is declared.

Rules: seed 003, "Refusals and fixes"; spec/worker-gpustack.md section 4.2; refusals R19-R27.
"""

from typing import NamedTuple, NoReturn

from handlers.admission import launch
from handlers.kvcachepool import names
from handlers.kvcachepool.engines import ENGINES
from handlers.kvcachepool.engines.base import Engine
from handlers.kvcachepool.refusal import Refused
from handlers.outcome import Object

DECLARE = f'or declare {names.FORWARDED}: "true" if it passes appended arguments on to the engine'


class Started(NamedTuple):
    """For the record. `program` is "" where none can be told."""

    program: str
    forwarded: bool


def check(engine: Engine, container: Object, forwarded: str | None, at: str) -> Started:
    """Raises Refused."""
    command, args = _texts(container, "command"), _texts(container, "args")
    name = container.get("name")
    direct = f"start the engine directly ({engine.launch})"
    if not command and not args:
        detail = (
            f"container {name} has neither command nor args: injected arguments would replace the image's CMD; set "
            f"command to the engine ({engine.launch}) and args to the image's launch arguments"
        )
        raise Refused("launch-unsaid", at, detail, "Required")
    declared = _declared(forwarded)
    if not command:
        if declared:
            return Started("", True)
        detail = (
            f"container {name} has args and no command: whether the image's ENTRYPOINT is the engine cannot be seen; "
            f"set command, {DECLARE} (a command replaces the ENTRYPOINT, and what that prepares)"
        )
        raise Refused("launch-entrypoint", f"{at}.command", detail, "Required")
    found = launch.read([*command, *args])
    at = f"{at}.command"
    if found.found == "hidden":
        if declared:
            return Started("", True)
        detail = (
            f"container {name} hides its command line in a single argument of {found.launcher}: {direct}, {DECLARE}"
        )
        raise Refused("launch-hidden", at, detail)
    if found.found == "inline":
        _inline(name, found, direct, at)
    if found.found == "nothing":
        detail = f"container {name} starts {found.launcher} and nothing behind it: {direct}"
        raise Refused("launch-empty", at, detail)
    if found.found == "script" and not declared:
        script = launch.plain(found.script) or "a script"
        detail = f"container {name} starts the script {script}, which may drop appended arguments: {direct}, {DECLARE}"
        raise Refused("launch-script", at, detail)
    return _program(engine, name, found, declared, at)


def _texts(container: Object, field: str) -> list[str]:
    return [one for one in container.get(field) or () if isinstance(one, str)]


def _declared(forwarded: str | None) -> bool:
    """R27: only `true` declares it, whatever is started."""
    if forwarded not in (None, "true"):
        detail = f'{names.FORWARDED} "{forwarded}" must be "true", or be removed'
        raise Refused("launch-forwarded", names.annotation(names.FORWARDED), detail)
    return forwarded == "true"


def _inline(name: object, found: launch.Launch, direct: str, at: str) -> NoReturn:
    """R24: what is appended becomes a positional parameter of the shell's command."""
    detail = (
        f"container {name} starts {found.program} {found.option}: appended arguments become the shell's, not the "
        f"engine's; {direct}; no declaration exempts this"
    )
    raise Refused("launch-shell", at, detail)


def _program(engine: Engine, name: object, found: launch.Launch, declared: bool, at: str) -> Started:
    """R22, R23."""
    program = launch.plain(found.program)
    if engine.starts(found.argv, found.program):
        return Started(program, False)
    other = next((one for one in ENGINES.values() if one.starts(found.argv, found.program)), None)
    if other is not None:
        detail = (
            f"container {name} starts {other.name} ({program}) and {names.ENGINE} asks for {engine.name}: correct "
            f"{names.ENGINE} and {names.MANUFACTURER}, or the command; no declaration exempts this"
        )
        raise Refused("launch-other-engine", at, detail)
    if declared:
        return Started(program, True)
    said = program or "something that is no plain program name (a command line in one word?)"
    detail = f"container {name} starts {said}, which is not known to be {engine.name}: {_direct(engine)}, {DECLARE}"
    raise Refused("launch-unknown", at, detail)


def _direct(engine: Engine) -> str:
    return f"start the engine directly ({engine.launch})"
