"""`warmlog ROLE-OR-TOOL [flags]`: finds the module, reads its flags, runs it, turns errors into exit codes.

0  done (a role: drained after SIGTERM)
1  it failed; one line on standard error says what and what to do
2  the command line or an environment variable is wrong
3  refused by the world: an old server, a drifted stream, a port in use, a missing part
4  fenced: a newer process speaks for the same replica
130  interrupted
"""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

from eventstore import store
from warmlog import VERSION, flags, logs, output

FAILED: Final = 1
USAGE: Final = 2
REFUSED: Final = 3
FENCED: Final = 4
INTERRUPTED: Final = 130

#: Each is a module here with FLAGS, run(values, arguments) -> exit code and, where it takes more than flags,
#: add_arguments(parser).
COMMANDS: Final = {
    "server": "role: prefix index, LookupRoute, snapshot, intake",
    "controller": "role: watches Kubernetes, writes status and workloads; one of two leads",
    "webhook": "role: answers admission reviews: engine Pods are wired, custom resources validated",
    "subscriber": "role: beside an engine, its KV events into the log",
    "dev": "everything on a laptop: nats-server, Kubernetes, all roles, simulated engines",
    "demo": "the main job once, from a wired Pod and its events to a routed prompt, checked and explained",
    "events": "read the control log",
    "replay": "the world as it was at a position or time",
    "explain": "why a Pod was wired or not, why a status is as it is: the events behind it",
    "inject": "what a Pod would become at admission, without a cluster",
    "validate": "whether manifests would be admitted, without a cluster",
    "crds": "the CRDs, as YAML for kubectl",
    "identity": "who a serving Pod is to Kernel Cache: factors, where they came from, footprints",
    "linker": "init container: puts a kernel cache where an engine looks for it",
    "lookup": "ask which replica holds a prompt, now or in the past",
}


class Failure(Exception):
    """One line for a person, and the exit code."""

    def __init__(self, line: str, code: int = FAILED) -> None:
        super().__init__(line)
        self.code = code


class Parser(argparse.ArgumentParser):
    """Argparse with one line for a wrong word, not a page of usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"{self.prog}: {message}; `{self.prog} --help` lists the flags\n")


def parser_of(command: str) -> tuple[argparse.ArgumentParser, Sequence[flags.Flag]]:
    module = importlib.import_module(f"warmlog.{command}")
    parser = Parser(
        prog=f"warmlog {command}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    if hasattr(module, "add_arguments"):
        module.add_arguments(parser)
    flags.add(parser, module.FLAGS)
    return parser, module.FLAGS


def usage() -> str:
    width = max(map(len, COMMANDS))
    rows = "\n".join(f"  {name:<{width}}  {summary}" for name, summary in COMMANDS.items())
    return (
        "usage: warmlog COMMAND [flags]\n\n"
        "An event-sourced control plane for inference caches.\n\n"
        f"{rows}\n\n"
        "`warmlog COMMAND --help` lists its flags. Every flag has an environment variable WARMLOG_….\n"
        "New here? `warmlog demo` shows the main job in a minute; `warmlog dev` keeps it running."
    )


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help", "help"):
        print(usage())
        return 0 if words else USAGE
    if words[0] in ("-V", "--version", "version"):
        print(f"warmlog {VERSION} (Python {sys.version.split()[0]})")
        return 0
    command, rest = words[0], words[1:]
    if command not in COMMANDS:
        print(f"warmlog: {command!r} is no command; one of {', '.join(COMMANDS)}", file=sys.stderr)
        return USAGE
    parser, declared = parser_of(command)
    arguments = parser.parse_args(flags.with_ages(rest))  # ends with status 2 and one line when it cannot
    logs.configure(role=command, form="text", level="warn")  # roles set their own
    try:
        values = flags.resolve(arguments, declared)
        code: int = importlib.import_module(f"warmlog.{command}").run(values, arguments)
    except flags.UsageError as error:
        return _say(command, error, USAGE)
    except Failure as error:
        return _say(command, error, error.code)
    except store.Refused as error:
        return _say(command, error, REFUSED)
    except store.StoreError as error:
        return _say(command, error, FAILED)
    except BrokenPipeError:  # `warmlog events | head`
        _drop_output()
        return 0
    except output.OutputError as error:
        _drop_output()
        return _say(command, error, FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _drop_output() -> None:
    """Nobody reads standard output any more: what is left in its buffer must not raise again at the very end."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(command: str, error: Exception, code: int) -> int:
    print(f"warmlog {command}: {error}", file=sys.stderr)
    return code
