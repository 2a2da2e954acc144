"""The state directory of `warmlog dev`, and the note in it by which tools on the same laptop find what is running.

    <dir>/dev.json   addresses and the generated token, readable by its owner only, removed when dev ends
    <dir>/nats/      nats-server's store; <dir>/journal/<replica>/ the subscribers' journals; <dir>/logs/

A note that cannot be read is treated as absent. Not here: anything of production; roles are told by flags.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec


class Note(msgspec.Struct, frozen=True):
    """What a running `warmlog dev` tells tools."""

    pid: int
    nats: str
    token: str
    lookup: str  # http://127.0.0.1:port
    admin: str
    kubeconfig: str = ""  # of its Kubernetes; none runs when empty


def default_dir(environ: Mapping[str, str] | None = None) -> Path:
    """$XDG_STATE_HOME/warmlog, or ~/.local/state/warmlog."""
    environ = os.environ if environ is None else environ
    state = environ.get("XDG_STATE_HOME", "")
    return (Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state") / "warmlog"


def directory(given: str) -> Path:
    return Path(given) if given else default_dir()


def read(place: Path) -> Note | None:
    """The note of a dev that is still running, or None."""
    try:
        note = msgspec.json.decode((place / "dev.json").read_bytes(), type=Note)
        os.kill(note.pid, 0)
    except (OSError, msgspec.MsgspecError, OverflowError):
        return None
    return note


def write(place: Path, note: Note) -> None:
    path = place / "dev.json"
    path.touch(mode=0o600)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(note)))


def remove(place: Path) -> None:
    (place / "dev.json").unlink(missing_ok=True)
