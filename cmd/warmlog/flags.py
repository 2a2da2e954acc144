"""Flags of roles and tools. Each has an environment variable: `--engine-endpoint` is `WARMLOG_ENGINE_ENDPOINT`.

A flag on the command line beats the environment, the environment beats the default. A value that cannot be read is
one line that names the flag (or the variable), what was found and what is expected; the program ends with status 2.
Durations and booleans are written as in Go, because manifests of the reference are: 100ms, 1h30m; --flag, --flag=true.
"""

import argparse
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from eventstore import addresses

_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION: Final = re.compile(r"(?:\d+(?:\.\d+)?(?:ns|us|µs|ms|s|m|h))+")
_LONGEST: Final = 36_525 * 86_400.0
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)")
_AGE: Final = re.compile(r"-[0-9][0-9.a-zµ]*")
_SIZES: Final = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def duration(text: str) -> float:
    """Seconds. Raises ValueError."""
    if text == "0":
        return 0.0
    if not _DURATION.fullmatch(text):
        raise ValueError(f"{text!r} is no duration; write 100ms, 30s or 1h30m")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    if seconds > _LONGEST:
        raise ValueError(f"{text[:80]!r} is longer than a century")
    return seconds


def interval(text: str) -> float:
    """Seconds between two rounds of work, at least 100 ms: a pause of 0 would be a loop without one."""
    if (seconds := duration(text)) < 0.1:
        raise ValueError(f"{text!r} is too short; write 100ms or more")
    return seconds


def boolean(text: str) -> bool:
    match text.lower():
        case "true" | "1" | "t":
            return True
        case "false" | "0" | "f" | "":
            return False
    raise ValueError(f"{text!r} is neither true nor false")


def size(text: str) -> int:
    """Bytes; a Kubernetes quantity such as 512Mi or 2G. Raises ValueError."""
    match = re.fullmatch(r"(\d+)(|K|M|G|Ki|Mi|Gi|Ti)", text)
    if not match:
        raise ValueError(f"{text!r} is no size; write 512Mi or 2G")
    bytes_ = int(match[1]) * _SIZES[match[2]]
    if bytes_ >= 2**63:
        raise ValueError(f"{text[:80]!r} is more than anything holds")
    return bytes_


def room(text: str) -> int:
    """Bytes of a stream, at least 64Ki: 0 would be one without a limit, which would then be refused as drifted."""
    if (found := size(text)) < 2**16:
        raise ValueError(f"{text!r} is too little; write 64Ki or more")
    return found


def maybe_address(text: str) -> tuple[str, int] | None:
    """As `address`; None when empty. Raises ValueError."""
    return address(text) if text else None


def address(text: str) -> tuple[str, int]:
    """host:port. `:8080` is every interface, as in Go. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit() and int(port) <= 65535):
        raise ValueError(f"{text!r} is no address; write 127.0.0.1:8080")
    return host.strip("[]") or "0.0.0.0", int(port)


def text(value: str) -> str:
    return value


def url(value: str) -> str:
    """An address, or several with commas. What stands before its @ or after its ? is never told to others."""
    return value


def key(value: str) -> str:
    """One public key of the index, or nothing."""
    if value and not re.fullmatch(r"[0-9A-Fa-f]{16}", value):
        raise ValueError(f"{value!r} is not 16 hex digits")
    return value


def one_of(*choices: str) -> Callable[[str], str]:
    def read(value: str) -> str:
        if value not in choices:
            raise ValueError(f"{value!r} is none of {', '.join(filter(None, choices))}")
        return value

    return read


def at_least(lowest: int) -> Callable[[str], int]:
    def read(value: str) -> int:
        if not re.fullmatch(r"-?[0-9]+", value) or int(value) < lowest:
            raise ValueError(f"{value!r} is no whole number of at least {lowest}")
        return int(value)

    return read


class Flag(msgspec.Struct, frozen=True):
    """`default` is text, read like any other value; None means that the flag must be given."""

    name: str
    help: str
    default: str | None = ""
    read: Callable[[str], Any] = text
    secret: bool = False  # never logged, never in settings.seen
    short: str = ""  # one letter

    @property
    def variable(self) -> str:
        return "WARMLOG_" + self.name.upper().replace("-", "_")


class UsageError(Exception):
    """One line about a flag; the program ends with status 2."""


class Values(dict[str, Any]):
    """The effective value of each flag, by name."""

    def told(self, flags: Sequence[Flag]) -> dict[str, str]:
        """What may be told to others: every value as text, secrets left out."""
        return {
            flag.name: addresses.shown(self[flag.name]) if flag.read is url else str(self[flag.name])
            for flag in flags
            if not flag.secret
        }


def with_ages(words: Sequence[str]) -> list[str]:
    """`--since -10m` as `--since=-10m`: argparse takes what begins with a dash for a flag."""
    joined: list[str] = []
    for word in words:
        if joined and _AGE.fullmatch(word) and joined[-1].startswith("--") and "=" not in joined[-1]:
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def _reader(flag: Flag) -> Callable[[str], Any]:
    def read(value: str) -> Any:
        try:
            return flag.read(value)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


def add(parser: argparse.ArgumentParser, flags: Sequence[Flag]) -> None:
    for flag in flags:
        note = "required" if flag.default is None else f"default {flag.default}" if flag.default else ""
        parser.add_argument(
            *([f"-{flag.short}"] if flag.short else []),
            f"--{flag.name}",
            dest=flag.name,
            type=_reader(flag),
            nargs="?" if flag.read is boolean else None,
            const=True if flag.read is boolean else None,
            default=argparse.SUPPRESS,
            metavar=flag.name.rsplit("-", 1)[-1].upper(),
            help=f"{flag.help} [{', '.join(filter(None, (note, flag.variable)))}]".replace("%", "%%"),
        )


def resolve(given: argparse.Namespace, flags: Sequence[Flag], environ: Mapping[str, str] | None = None) -> Values:
    """Every flag's value: command line, else environment, else default. Raises UsageError."""
    environ = os.environ if environ is None else environ
    values = Values()
    for flag in flags:
        if hasattr(given, flag.name):
            values[flag.name] = getattr(given, flag.name)
            continue
        raw = environ.get(flag.variable, flag.default)
        if raw is None:
            raise UsageError(f"--{flag.name} (or {flag.variable}) is required: {flag.help}")
        try:
            values[flag.name] = flag.read(raw)
        except ValueError as error:
            raise UsageError(f"{flag.variable}: {error}") from None
    return values
