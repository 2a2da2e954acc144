"""How long a keyframe keeps the loop of a large, converged controller: `python -m tests.bench.keyframes`.

2,000 CacheBackends and 10,000 Pods. A keyframe is made, read back and loaded piece by piece, and the loop runs between
two pieces. Each row is the longest piece, of the best of some rounds: what disturbs one only ever adds. Without the
garbage collector: a role freezes what it holds once it has caught up.
"""

import copy
import gc
import hashlib
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from crds.cachebackend import CACHE_BACKENDS
from handlers.world import keyframe
from handlers.world.state import World
from tests.bench.row import Row
from tests.support import reviews
from tests.support.worlds import Teller

BACKENDS, PODS, SPACES = 2_000, 10_000, 100
ROUNDS = 5
BAR = 2.0  # milliseconds; design.md section 5, "slices"


def backend(number: int) -> dict[str, Any]:
    return {
        "metadata": {"namespace": f"ns-{number % SPACES}", "name": f"kv-{number}", "uid": f"uid-{number}"},
        "spec": {
            "runtime": "VLLM",
            "engineSelector": {"matchLabels": {"serve": f"model-{number}"}},
            "observation": {"modelID": "qwen"},
            "remoteStorage": {"provider": "LMCacheServer", "ownership": "External", "endpoint": "lm://cache.ml:65432"},
        },
    }


def pod(number: int) -> dict[str, Any]:
    made = copy.deepcopy(reviews.ENGINE)
    made["metadata"].update(namespace=f"ns-{number % SPACES}", name=f"pod-{number}", uid=f"pod-uid-{number}")
    return made


def world() -> World:
    told = Teller(CACHE_BACKENDS, "pods")
    for number in range(BACKENDS):
        told.seen(CACHE_BACKENDS, backend(number))
    for number in range(PODS):
        told.seen("pods", pod(number))
    return told.world


def longest(steps: Iterable[object]) -> float:
    """Milliseconds of the longest step, the one that finds the end included."""
    worst, going = 0.0, iter(steps)
    while True:
        began = time.perf_counter()
        ended = next(going, steps) is steps
        worst = max(worst, (time.perf_counter() - began) * 1000)
        if ended:
            return worst


def made(frozen: World) -> Iterator[str]:
    hashed = hashlib.sha256()
    for text in keyframe.cut(keyframe.rows(frozen)):
        hashed.update(text.encode())
        yield text


def rows() -> list[Row]:
    whole = world()
    frozen = keyframe.freeze(whole)
    pieces = list(made(frozen))

    kept: list[keyframe.Loader] = []  # a world is not freed in its last slice

    def read(reader: Callable[[], keyframe.Loader]) -> Iterator[None]:
        kept.append(one := reader())
        for piece in pieces:
            yield one.take(piece)

    ways: dict[str, Callable[[], Iterable[object]]] = {
        "frozen": lambda: (keyframe.freeze(whole) for _ in range(1)),
        "made": lambda: made(frozen),
        "read back": lambda: read(keyframe.Checker),
        "loaded": lambda: read(keyframe.Loader),
    }
    gc.collect()
    gc.disable()
    try:
        found = {name: min(longest(way()) for _ in range(ROUNDS)) for name, way in ways.items()}
    finally:
        gc.enable()
    size = sum(map(len, pieces)) / 2**20
    return [
        Row(f"keyframe of {size:.1f} MiB, longest slice {name}", worst, "ms", BAR, worst <= BAR)
        for name, worst in found.items()
    ]


if __name__ == "__main__":
    for row in rows():
        print(row)
