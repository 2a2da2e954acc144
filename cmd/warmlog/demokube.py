"""The demo's Kubernetes: a CacheBackend is declared, engine Pods come back wired, its status follows the log.

Whatever is said of the cluster is read back from its API and held against what it must be; the first that differs
raises Wrong.
"""

import asyncio
import hashlib
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import msgspec

from crds import core
from crds.cachebackend import CACHE_BACKENDS
from handlers import canonical
from handlers.outcome import Object
from warmlog import lab, labkube, labobjects
from warmlog.children import together
from warmlog.demoasking import Wrong
from warmlog.demoengines import Engines

ABOUT: Final = f"cachebackend/{lab.TENANT}/{labobjects.BACKEND}"
MARK: Final = "inferencecache.io/injected-by"
FLAG: Final = "--kv-transfer-config"
WIRED: Final = ("engine-a", "engine-b")  # vLLM's; engine-c is SGLang's and nobody's
OUTAGE: Final = 1.0  # seconds
WIDTH: Final = 130
#: A status follows within: a summary each second, and counts alone are written at most every 5 s.
FOLLOWS: Final = 12.0


class Before(NamedTuple):
    """What the API showed, and when."""

    at: datetime
    status: dict[str, Any]


class Cluster:
    def __init__(self, story: Engines, choice: labkube.Choice) -> None:
        self.story, self.lab = story, story.lab
        self.kube = labkube.Kube(self.lab, choice)
        self.lab.summary_interval = "1s"

    # The parts ----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        what = {"devkube": "devkube", "assets": "a real kube-apiserver"}[self.kube.choice]
        self.story.step(f"Start: nats-server, Kubernetes ({what}), a controller, a webhook, a server")
        await together(self.lab.start_nats(), self.kube.start())
        self.story.say(f"KUBECONFIG={self.kube.kubeconfig}")
        if note := self.kube.kubectl.note:
            self.story.say(note)
        lines = await self.kube.install()
        crds = sum(line.startswith("customresourcedefinition") for line in lines)
        self.story.say(f"kubectl apply: {crds} CRDs, {sum('webhookconf' in line for line in lines)} configurations")
        await self.kube.start_roles()
        await together(self.lab.start_server(), self.kube.roles_ready())
        self.story.say("the controller leads; the API server trusts the certificate that it made for the webhook")
        self.story.say(f"LookupRoute answers on {self.lab.lookup}/v1/lookup")

    async def declare(self) -> None:
        self.story.step("kubectl apply: a CacheBackend for vLLM, then three engines, each a Deployment")
        told = await self.kube.kubectl.apply(labobjects.backend())
        await self.kube.judged(CACHE_BACKENDS, lab.TENANT, labobjects.BACKEND)
        told += await self.kube.kubectl.apply(*(labobjects.deployment(spec) for spec in lab.ENGINES))
        self.story.say("\n".join(told))
        for spec in lab.ENGINES:
            pod = await self._pod(spec.name)
            self.lab.replicas[spec.name] = pod["metadata"]["name"]
            self._wiring(spec, pod)
        ready = await self._condition("False", "AwaitingFirstKVEvent")
        await self._show()
        self.story.say(f"Ready is {ready['status']}: {ready['reason']}, {ready['message']}")

    async def engines(self) -> None:
        self.story.step("The engines start; here each Pod is played by a process, a subscriber speaks for it")
        await self.story.start_engines()
        loop = asyncio.get_running_loop()
        started = loop.time()
        await self.story.first_prompts()
        ready = await self._condition("True", "KVEventsObserved")
        took = loop.time() - started
        self.story.say(f"{took:.1f} s after the first prompt Ready is {ready['status']}: {ready['reason']}")
        await self._show()

    async def explain(self) -> None:
        """Why the CacheBackend is Ready, and why a Pod was wired: the events behind it, decided again."""
        self.story.step("Ask why: what is shown is followed back to events, and decided again from them")
        pod = f"pod/{lab.TENANT}/{self.lab.replicas[WIRED[0]]}"
        asked = (
            (ABOUT, ("Ready is True", "replica.observed", "decided again there: the same bytes")),
            (pod, ("patched it: injected", f"-> CacheBackend {labobjects.BACKEND}", "decided again there: the same")),
        )
        answers = await asyncio.gather(*(self.story.tool("explain", about) for about, _ in asked))
        for (about, wanted), told in zip(asked, answers, strict=True):
            if missing := [words for words in wanted if words not in told]:
                raise Wrong(f"warmlog explain {about} does not say {missing}: {told}")
            self.story.say(f"$ warmlog explain {about}")
            for line in gist(told):
                self.story.say(line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…")

    async def outage(self, count: int) -> Before:
        """The API goes away under the controller and the webhook. The status that it showed before."""
        self.story.step("Kill Kubernetes' API server with -9 and start it again")
        await self._prefixes_counted()
        await self._show()
        before = await self._still()
        await self.kube.server.away()
        since = asyncio.get_running_loop().time()
        served = await self.story.chat(count)
        await asyncio.sleep(max(0.0, OUTAGE - (asyncio.get_running_loop().time() - since)))
        self.story.say(f"while it is away engines serve {len(served)} turns, every answer right")
        await self.kube.server.back()
        await self.lab.until(self.kube.answers, what="the API to be back")
        for condition, old in zip(*(one["conditions"] for one in (await self._status(), before.status)), strict=True):
            if condition["lastTransitionTime"] != old["lastTransitionTime"]:
                raise Wrong(f"the outage changed a condition: {old} became {condition}")
        keeps = "etcd" if self.kube.choice == "assets" else "its journal, where a real one has etcd"
        self.story.say(f"back: the same objects (from {keeps}), no condition changed meanwhile")
        await self.kube.kubectl.apply(labobjects.deployment(lab.ENGINES[1], replicas=2))
        self.story.say("engine-b is scaled to 2")
        return before

    async def _still(self) -> Before:
        """A status that the log has too: its write was not just being told."""
        while True:
            status = await self._status()
            await asyncio.sleep(0.3)
            if status == await self._status():
                return Before(datetime.now(UTC), status)

    async def _scaled_pod_counted(self) -> None:
        """Watches and webhook are alive: one more Pod is wired, and counted."""

        async def matched() -> bool:
            return (await self._status()).get("matchedEnginePods") == len(WIRED) + 1

        await self.lab.until(matched, what="the new Pod to be counted", within=FOLLOWS)
        for pod in await self.kube.find(core.PODS, lab.TENANT, "engine=engine-b"):
            self._wiring(lab.ENGINES[1], pod, quiet=True)
        self.story.say("the Pod that engine-b was scaled by is wired, and counted")

    async def look_back(self, before: Before) -> None:
        self.story.step("Ask about the past: the CacheBackend of before the outage")
        await self._scaled_pod_counted()
        words = ("replay", "--at", before.at.isoformat(), "--about", ABOUT)
        past = msgspec.json.decode(await self.story.tool(*words, "-o", "json"))
        then, found = canonical.encode(before.status), canonical.encode(past["object"]["written"]["status"])
        if then != found:
            raise Wrong(f"the past changed: the API showed {then.decode()}, replayed is {found.decode()}")
        self.story.say(f"$ warmlog replay --at {before.at:%H:%M:%S} --about {ABOUT}: position {past['position']}")
        self.story.say(
            f"the status written last is byte for byte what the API showed then: {len(then)} bytes, {digest(then)}"
        )
        since = await self.story.tool(*words[:3], "--diff", datetime.now(UTC).isoformat(), *words[3:])
        changed = "status.matchedEnginePods: 2 -> 3"
        if changed not in since:
            raise Wrong(f"what changed since does not tell of the third engine Pod: {since}")
        self.story.say(f"$ warmlog replay --at … --diff {datetime.now(UTC):%H:%M:%S} --about {ABOUT}: {changed}")

    # Checking -----------------------------------------------------------------------------------------------------

    async def _pod(self, engine: str) -> Object:
        found: list[Object] = []

        async def there() -> bool:
            found[:] = await self.kube.find(core.PODS, lab.TENANT, f"engine={engine}")
            return bool(found)

        await self.lab.until(there, what=f"a Pod of {engine}")
        return found[0]

    def _wiring(self, spec: lab.EngineSpec, pod: Object, *, quiet: bool = False) -> None:
        """What admission made of the Pod. Raises Wrong."""
        metadata, container = pod["metadata"], pod["spec"]["containers"][0]
        words, mark = container["args"], (metadata.get("annotations") or {}).get(MARK, "")
        wanted = f"{lab.TENANT}/{labobjects.BACKEND}" if spec.name in WIRED else ""
        if mark != wanted or (FLAG in words) != bool(wanted):
            raise Wrong(f"Pod {metadata['name']} was to be wired to {wanted or 'nothing'}: {mark!r}, {words}")
        if quiet:
            return
        self.story.say(f"Pod {metadata['name']}:")
        if not wanted:
            self.story.say("  SGLang, no CacheBackend selects it: admitted as it came")
            return
        flag = words.index(FLAG)
        self.story.say(f"  + {FLAG} '{words[flag + 1]}', and {len(container['env'])} environment variables")
        self.story.say(f"  + {MARK}: {mark}")

    async def _status(self) -> dict[str, Any]:
        found: dict[str, Any] = (await self.kube.get(CACHE_BACKENDS, lab.TENANT, labobjects.BACKEND)).get(
            "status"
        ) or {}
        return found

    async def _condition(self, status: str, reason: str) -> dict[str, Any]:
        """Ready, once it is as wanted."""
        found: dict[str, Any] = {}

        async def so() -> bool:
            conditions = (await self._status()).get("conditions", ())
            found.update(next((one for one in conditions if one["type"] == "Ready"), {}))
            return (found.get("status"), found.get("reason")) == (status, reason)

        await self.lab.until(so, what=f"Ready to be {status} for {reason}", within=FOLLOWS)
        return found

    async def _prefixes_counted(self) -> None:
        """The status' prefix count is what the index holds of its Pods; summaries round down to two digits."""

        async def so() -> bool:
            rows = await self.story.replicas()
            held = sum(rows[name]["prefixCount"] for name in WIRED)
            told = (await self._status())["indexParticipation"]["prefixCount"]
            return bool(held * 0.9 <= told <= held)

        await self.lab.until(so, what="the status to count the prefixes of its engines", within=FOLLOWS)

    async def _show(self) -> None:
        self.story.say("$ kubectl get cachebackends\n" + await self.kube.kubectl.table(CACHE_BACKENDS, lab.TENANT))


def digest(body: bytes) -> str:
    """Enough of a hash to be compared by eye."""
    return f"sha256 {hashlib.sha256(body).hexdigest()[:12]}…"


def gist(told: str) -> list[str]:
    """Of what explain prints: Ready and its cause, or the decision; without what it all stood on."""
    lines = told.partition("  it stood on:")[0].splitlines()[1:]
    ready = next((number for number, line in enumerate(lines) if line.startswith("  Ready ")), 0)
    return [line for line in lines[ready:] if "patch: " not in line]
