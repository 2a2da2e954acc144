"""SGLang's own host cache: flags of the engine, nothing else.

What the author wrote is kept byte for byte where it says the same. Where it says something else, twice, or only half,
nothing is injected at all.

Rules: seed 004, "SGLang native HiCache"; spec/inferencecache.md section 6.8.
"""

import re
from typing import Final

from crds.cachebackend import CacheBackendSpec
from handlers.admission import podedit
from handlers.cachebackend.adapters.base import Declined, Remote
from handlers.outcome import Object

ENABLE: Final = "--enable-hierarchical-cache"
SIZE: Final = "--hicache-size"
RATIO: Final = "--hicache-ratio"
OTHER_CACHE: Final = ("--enable-lmcache", "--lmcache-config-file")
CHOICES: Final = ("--hicache-write-policy", "--hicache-io-backend", "--hicache-mem-layout")
_INTEGER: Final = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)


def inject(pod: Object, engine: Object, spec: CacheBackendSpec, remote: Remote | None) -> None:
    if remote is not None:
        raise Declined("binding", "SGLangHiCache has no remote tier")
    words = engine.setdefault("args", [])
    present = podedit.flags([*(engine.get("command") or []), *words])
    for flag in OTHER_CACHE:
        if flag in present:
            raise Declined("other-cache", f"the engine has {flag}: LMCache and HiCache exclude each other")
    wanted = _wanted(spec)
    for flag in (SIZE, RATIO):
        if flag in present and flag not in wanted:
            raise Declined("other-capacity", f"the engine has {flag}; spec.hiCache says its capacity the other way")
    for flag in CHOICES:
        if flag in present and flag not in wanted:
            _once(flag, present[flag])  # the author's choice, when it is one
    if ENABLE in present and (len(present[ENABLE]) > 1 or _valued(words, engine)):
        raise Declined("malformed", f"{ENABLE} is a switch: it stands once and takes no value")
    missing = [flag for flag, value in wanted.items() if not _agrees(flag, value, present.get(flag))]
    if ENABLE not in present:
        words.append(ENABLE)
    for flag in missing:
        words += [flag, wanted[flag]]


def _wanted(spec: CacheBackendSpec) -> dict[str, str]:
    given = spec.hi_cache
    if given is None or (given.size_gb is None) == (not given.ratio):
        raise Declined("capacity", "spec.hiCache must have exactly one of sizeGB and ratio")
    if spec.wiring.role != "ReadWrite" or not spec.wiring.fail_open:
        raise Declined(
            "role", "SGLang's own cache always reads, writes and fails open; the CacheBackend says otherwise"
        )
    named = {
        SIZE: None if given.size_gb is None else str(given.size_gb),
        RATIO: given.ratio,
        "--hicache-write-policy": given.write_policy,
        "--hicache-io-backend": given.io_backend,
        "--hicache-mem-layout": given.memory_layout,
    }
    return {flag: value for flag, value in named.items() if value}


def _valued(words: list[str], engine: Object) -> bool:
    return any(word.startswith(ENABLE + "=") for word in [*(engine.get("command") or []), *words])


def _agrees(flag: str, wanted: str, present: list[str | None] | None) -> bool:
    """True where the author said the same already, False where nothing was said. Raises Declined for anything else."""
    if present is None:
        return False
    value = _once(flag, present)
    form = {SIZE: _INTEGER, RATIO: _NUMBER}.get(flag)
    if form is not None and form.fullmatch(value) and form.fullmatch(wanted):
        same = float(value) == float(wanted)
    else:
        same = value == wanted
    if not same:
        raise Declined("different-value", f"the engine has {flag} {value}, the CacheBackend says {wanted}")
    return True


def _once(flag: str, present: list[str | None]) -> str:
    """The flag's one value. Raises Declined where it stands twice or has none."""
    if len(present) > 1:
        raise Declined("duplicate", f"the engine has {flag} {len(present)} times")
    if not present[0]:
        raise Declined("malformed", f"the engine has {flag} without a value")
    return present[0]
