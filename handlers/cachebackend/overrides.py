"""spec.integration.engineOverrides: the operator amends what is injected, and nothing else.

What belongs to the adapter is found by comparing the engine before and after: what it added or changed. Everything
else in the Pod is its author's, and an override that names it has no effect.

Rules: seed 004, "Engine-injection overrides"; spec/inferencecache.md section 6.10.
"""

import msgspec

from crds.cachebackend import EngineOverrides
from handlers.admission import podedit
from handlers.outcome import Object


def apply(before: Object, engine: Object, given: EngineOverrides, *, again: bool) -> None:
    """Amend `engine` in place; `before` is the engine as it came. `again`: the Pod was wired before, another webhook
    changed it since, so words without a flag were added then."""
    owned = _owned_flags(before.get("args") or [], engine.get("args") or [])
    users = set(podedit.flags(before.get("args") or [])) - owned
    words = engine.setdefault("args", [])
    for flag in given.suppress_args or ():
        if flag.split("=", 1)[0] in owned:
            _drop(words, flag.split("=", 1)[0])
    _arguments(words, list(given.args or ()), owned=owned, users=users, again=again)
    if not words:
        del engine["args"]
    _environment(before, engine, given)


def _owned_flags(before: list[str], after: list[str]) -> set[str]:
    old, new = podedit.flags(before), podedit.flags(after)
    return {flag for flag in new if old.get(flag) != new[flag]}


def _drop(words: list[str], flag: str) -> None:
    at = 0
    while at < len(words):
        size = podedit.size_of(words, at, flag)
        del words[at : at + size]
        at += 0 if size else 1


def _arguments(words: list[str], given: list[str], *, owned: set[str], users: set[str], again: bool) -> None:
    """Each override in turn: one or two words, replaced in place, ignored or appended."""
    at = 0
    while at < len(given):
        flag = given[at].split("=", 1)[0]
        size = max(1, podedit.size_of(given, at, flag)) if flag.startswith("-") else 1
        entry = given[at : at + size]
        at += size
        if not flag.startswith("-"):
            words += [] if again else entry
        elif flag in owned:
            _replace(words, flag, entry)
        elif flag not in users:
            words += entry


def _replace(words: list[str], flag: str, entry: list[str]) -> None:
    for at in range(len(words)):
        size = podedit.size_of(words, at, flag)
        if size:
            words[at : at + size] = entry
            return
    words += entry  # suppressed before: an override of it brings it back


def _environment(before: Object, engine: Object, given: EngineOverrides) -> None:
    old = {one["name"]: one for one in before.get("env") or []}
    items = engine.setdefault("env", [])
    owned = {one["name"] for one in items if old.get(one["name"]) != one}
    for name in given.suppress_env or ():
        if name in owned:
            items[:] = [one for one in items if one["name"] != name]
    for one in given.env or ():
        entry = _entry(one)
        if one.name in owned or one.name not in old:
            podedit.upsert(engine, "env", entry)
    if not engine["env"]:
        del engine["env"]


def _entry(one: msgspec.Struct) -> Object:
    found: Object = {key: value for key, value in msgspec.to_builtins(one).items() if value is not None}
    return found
