"""Keys of the target container that are ours: a Pod that sets one has answered a question twice, or has chosen another
configuration than the one that is injected. The same key is free on an engine that does not read it.

Rules: spec/worker-gpustack.md section 4.1, R12-R18.
"""

import posixpath
from collections.abc import Iterator

from handlers.admission import flags
from handlers.kvcachepool import names
from handlers.kvcachepool.engines.base import Engine
from handlers.kvcachepool.refusal import Refused
from handlers.outcome import Object

OFF = f'or set {names.INJECT} to "false" in the Pod template'


def words(container: Object) -> list[str]:
    """Command and arguments, as the container starts with them."""
    given = [*(container.get("command") or ()), *(container.get("args") or ())]
    return [one for one in given if isinstance(one, str)]


def check(engine: Engine, pod: Object, container: Object, at: str, *, dtype: bool) -> None:
    """Raises Refused. `dtype`: whether the dtype flag is rendered, and ours with that."""
    _env(container, engine.owned_env, "owned-env", at, "it selects the mechanism that the injection already chose")
    _args(engine, container, engine.owned_args, "owned-argument", at, f"the injection for {engine.name} renders it")
    if dtype:
        _dtype(engine, container, at)
    if engine.file:
        _volume(pod, container, at)
    unread = "it selects another configuration source, and nothing would read what is injected"
    _env(container, engine.source_env, "source-env", at, unread)
    _args(engine, container, engine.source_args, "source-argument", at, unread)


def named(items: object) -> Iterator[tuple[int, str, Object]]:
    """Objects of a list that have a name, with their places."""
    for number, one in enumerate(items if isinstance(items, list) else ()):
        if isinstance(one, dict) and isinstance(one.get("name"), str):
            yield number, one["name"], one


def _env(container: Object, keys: tuple[str, ...], check: str, at: str, why: str) -> None:
    """R12, R16."""
    for number, name, _ in named(container.get("env")):
        if name in keys:
            detail = f"container {container.get('name')} declares {name}: {why}; remove it, {OFF}"
            raise Refused(check, f"{at}.env[{number}]", detail)


def _args(engine: Engine, container: Object, keys: tuple[str, ...], check: str, at: str, why: str) -> None:
    """R13, R14, R17, in every spelling that the engine's parser takes."""
    for hit in flags.hits(words(container), keys, engine.dialect, engine.keys):
        detail = f"container {container.get('name')} has the argument {hit}: {why}; remove it, {OFF}"
        raise Refused(check, place(container, hit.at, at), detail)


def _dtype(engine: Engine, container: Object, at: str) -> None:
    """R15: the store's keys do not say the data type, so everybody in a domain must have the same."""
    for hit in flags.hits(words(container), (names.DTYPE,), engine.dialect, engine.keys):
        detail = (
            f"container {container.get('name')} has the argument {hit}: the data type is the one of the "
            "KVCachePoolBinding's spec.domain.dtype; remove it, name a Binding with the wanted dtype, or switch the "
            f"setting {names.SETTING} off"
        )
        raise Refused("owned-dtype", place(container, hit.at, at), detail)


def place(container: Object, word: int, at: str) -> str:
    """The field of a word of command ++ args."""
    before = len([one for one in container.get("command") or () if isinstance(one, str)])
    return f"{at}.command[{word}]" if word < before else f"{at}.args[{word - before}]"


def _volume(pod: Object, container: Object, at: str) -> None:
    """R18. A mount inside our directory would hide the file, however its path is written."""
    spec = pod.get("spec") or {}
    for number, name, _ in named(spec.get("volumes")):
        if name == names.VOLUME:
            detail = f"the volume name {name} is the injection's: rename yours, {OFF}"
            raise Refused("owned-volume", f"spec.volumes[{number}]", detail)
    for number, name, mount in named(container.get("volumeMounts")):
        path = mount.get("mountPath")
        if name == names.VOLUME:
            detail = f"container {container.get('name')} mounts {name}, a name of the injection's: rename it, {OFF}"
            raise Refused("owned-mount", f"{at}.volumeMounts[{number}]", detail)
        if isinstance(path, str) and _inside(path):
            detail = (
                f"container {container.get('name')} mounts {name} at {path}; {names.DIRECTORY} is where the injected "
                f"configuration lies: mount it elsewhere, {OFF}"
            )
            raise Refused("owned-path", f"{at}.volumeMounts[{number}]", detail)


def _inside(path: str) -> bool:
    clean = posixpath.normpath("/" + path.lstrip("/"))
    return clean == names.DIRECTORY or clean.startswith(f"{names.DIRECTORY}/")
