"""Where does devkube differ from a real server? The same odd requests to both, their answers side by side.

    KUBEBUILDER_ASSETS=<folder> python -m tests.fuzz.compare --requests 2000 --seed 1 --only bodies,strategic

All writes are dry. Compared are code, reason and the fields of the causes; of successes the whole object but for what
every server chooses itself. Differences are grouped and shown with one example each, most frequent first: a list to
read, not a test, because some are kept on purpose (the README's table).
"""

import argparse
import asyncio
import collections
import contextlib
import copy
import json
import random
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp

from tests.fuzz import kube
from tests.support import kubernetes
from tests.support.kubernetes import APPLY, JSON_PATCH, MERGE_PATCH, STRATEGIC, Answer, Client, eventually

OWN = frozenset(("uid", "resourceVersion", "creationTimestamp", "managedFields", "clusterIP", "clusterIPs", "status"))
OWN |= {"serviceAccount", "serviceAccountName"}  # an admission that tests.support.realkube switches off
PATCHES = {
    "merge": (MERGE_PATCH, kube.MERGES, {}),
    "strategic": (STRATEGIC, kube.MERGES, {}),
    "json": (JSON_PATCH, kube.PATCHES, {}),
    "apply": (APPLY, kube.APPLIES, {"fieldManager": "compare", "force": "true"}),
}
TARGETS = (f"{kube.CORE}/pods/p", f"{kube.CORE}/configmaps/c", f"{kube.APPS}/deployments/d", f"{kube.WIDGETS}/w")
COLLECTIONS = {
    "Pod": f"{kube.CORE}/pods",
    "ConfigMap": f"{kube.CORE}/configmaps",
    "Deployment": f"{kube.APPS}/deployments",
    "Widget": kube.WIDGETS,
    "CustomResourceDefinition": kube.CRDS,
}


class Asked(NamedTuple):
    what: str
    method: str
    path: str
    body: Any
    media: str
    query: dict[str, str]


def asked(kind: str, chance: random.Random) -> Asked:
    """One request, mostly a valid one with up to two of its parts at odds."""
    if kind == "bodies":
        base = chance.choice(kube.NEW)
        path, method, media, query = (
            COLLECTIONS[base["kind"]],
            "POST",
            "application/json",
            {"fieldValidation": "Strict"},
        )
    else:
        media, corpus, query = PATCHES[kind]
        base, path, method = chance.choice(corpus), chance.choice(TARGETS), "PATCH"
    body = copy.deepcopy(base)
    for _ in range(chance.randint(0, 2)):
        kube.disturb(body, chance)
    return Asked(kind, method, path, body, media, {**query, "dryRun": "All"})


def summary(answer: Answer) -> tuple[Any, ...]:
    if answer.status < 300 or not isinstance(answer.body, dict):
        return (answer.status,)
    return answer.status, answer.body.get("reason"), *answer.causes


def differences(real: Any, ours: Any, path: str = "") -> Iterator[str]:
    """`.spec.x: real / ours` for each value that is not the same."""
    if isinstance(real, dict) and isinstance(ours, dict):
        for key in sorted((set(real) | set(ours)) - OWN):
            yield from differences(real.get(key), ours.get(key), f"{path}.{key}")
    elif isinstance(real, list) and isinstance(ours, list) and len(real) == len(ours):
        for index, pair in enumerate(zip(real, ours, strict=True)):
            yield from differences(*pair, f"{path}[{index}]")
    elif real != ours:
        yield f"{path}: {json.dumps(real)[:80]} / {json.dumps(ours)[:80]}"


def sorts(request: Asked, real: Answer, ours: Answer) -> Iterator[tuple[str, ...]]:
    """What kind of difference it is, without the numbers and names of the moment; nothing where there is none."""
    where = request.path.rsplit("/", 2 if request.method == "PATCH" else 1)[-2 if request.method == "PATCH" else -1]
    if summary(real) != summary(ours):
        told = (real if real.status >= 300 else ours).told[:100]
        yield request.what, where, f"{real.status} / {ours.status}", re.sub(r'\d+|"[^"]{12,}"', "_", told)
    elif real.status < 300:
        for one in differences(real.body, ours.body):
            yield request.what, where, re.sub(r"\d+", "_", one)


async def prepared(client: Client) -> Client:
    """With the objects that patches are for."""
    for path, body in kube.PRESENT:

        async def made(path: str = path, body: Any = body) -> None:
            answer = await client.post(path, body)
            assert answer.status in (201, 409), answer.told

        await eventually(made)
    return client


async def compare(count: int, seed: int, kinds: list[str]) -> collections.Counter[tuple[str, ...]]:
    found: collections.Counter[tuple[str, ...]] = collections.Counter()
    examples: dict[tuple[str, ...], tuple[Asked, Answer, Answer]] = {}
    chance = random.Random(seed)
    async with contextlib.AsyncExitStack() as stack:
        clients = []
        for name in ("kube-apiserver", "devkube"):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            cluster = await stack.enter_async_context(kubernetes.running(name, folder))
            session = await stack.enter_async_context(cluster.session())
            clients.append(await prepared(Client(session, cluster.url, token=cluster.token)))
        for _ in range(count):
            one = asked(chance.choice(kinds), chance)
            text = json.dumps(one.body)
            try:
                real, ours = [
                    await client.call(one.method, one.path, text, query=one.query, media=one.media)
                    for client in clients
                ]
            except aiohttp.ClientError as error:  # some strategic patches make a real server drop the connection
                print(f"{error}: {one.path} {text[:300]}")
                continue
            for sort in sorts(one, real, ours):
                found[sort] += 1
                examples.setdefault(sort, (one, real, ours))
    for sort, times in found.most_common():
        one, real, ours = examples[sort]
        print(f"\n{times} x {' | '.join(sort)}\n    sent  {json.dumps(one.body)[:500]}")
        if real.status >= 300 or ours.status >= 300:
            print(f"    real  {real.status} {real.told}\n    ours  {ours.status} {ours.told}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--only", default=",".join(("bodies", *PATCHES)), help="of bodies, merge, strategic, json, apply"
    )
    options = parser.parse_args()
    found = asyncio.run(compare(options.requests, options.seed, options.only.split(",")))
    print(f"\n{options.requests} requests, {found.total()} differences of {len(found)} sorts")
    return 0


if __name__ == "__main__":
    sys.exit(main())
