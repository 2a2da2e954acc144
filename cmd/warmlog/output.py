"""What tools print: -o human, json (one object a line) or yaml (one document an object)."""

import sys
from collections.abc import Callable
from typing import Any

import msgspec
import yaml

from warmlog.flags import Flag, one_of

FLAG = Flag("output", "human, json or yaml", "human", one_of("human", "json", "yaml"), short="o")


class OutputError(Exception):
    """Standard output takes no more: one line."""


def show(value: Any, *, form: str, human: Callable[[Any], str]) -> None:
    """One value on standard output; `human` makes the readable text."""
    match form:
        case "json":
            text = msgspec.json.encode(value).decode()
        case "yaml":
            text = "---\n" + yaml_of(value)
        case _:
            text = human(value)
    write(text + "\n")


def write(text: str) -> None:
    """Raises OutputError, or BrokenPipeError for a reader that left."""
    if sys.stdout is None:
        raise OutputError("standard output is closed")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"standard output cannot be written: {error.strerror}") from error


def yaml_of(value: Any) -> str:
    return yaml.safe_dump(msgspec.to_builtins(value), sort_keys=False, allow_unicode=True).rstrip()


def progress(text: str) -> None:
    """A line for a person who waits, on standard error."""
    print(text, file=sys.stderr, flush=True)
