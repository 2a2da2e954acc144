"""What an engine's own /metrics say about its load: usage, hit rate, pressure, the second tier, whether it sleeps.

`read` makes a Reading of a page, `load` makes a Load of two readings; both are pure. `Scraper` fetches: a failed fetch
is tried again at the next interval, three in a row are one `load_signal_stale` line and a None to the reader, the
first success after it is one `load_signal_recovered`.

A rank reads its own series (vLLM's label `engine`, SGLang's `dp_rank`) when the page has them per rank. Usage is the
highest of the series that remain, load their sum.

Not here: what load does to a ranking. Rules: spec of the reference's statistics (vLLM, SGLang profile); TR-15.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Final, Literal

import aiohttp
import msgspec
import structlog

from eventstore import addresses, kvwire
from subscribers.kvevents import exposition

log = structlog.get_logger()

CacheTier = Literal["auto", "kv", "gpu", "cpu"]
STALE_AFTER: Final = 3  # failures in a row
_PAGE_LIMIT: Final = 16 * 1024 * 1024
_RANK_LABELS: Final = ("engine", "dp_rank")


class MetricsError(ValueError):
    """A page that says nothing about load; the message says what is missing."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Which series count, and what they are measured against."""

    model: str = ""  # value of the label model_name; empty: any
    rank: int | None = None  # None: all ranks together
    tier: CacheTier = "auto"
    cache_bytes: int = 0  # of the whole cache; 0: unknown, memory is reported as 0
    ceiling: int = 256  # requests running and waiting at which pressure is 1


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """One page. Counters are lifetime tokens; `hit_rate` is set when the engine has a gauge for it."""

    usage: float
    requests: float
    hits: float = 0.0
    queries: float = 0.0
    hit_rate: float | None = None
    t2_hits: float = 0.0
    t2_queries: float = 0.0
    sleeping: bool = False


class Load(msgspec.Struct, frozen=True):
    """What a heartbeat carries. `sleeping`: the accelerator's part of the cache is gone, and no event says so."""

    stats: kvwire.Stats
    sleeping: bool


class _Page:
    """The samples that concern one rank and model."""

    def __init__(self, samples: Iterable[exposition.Sample]) -> None:
        self._values: dict[str, list[exposition.Sample]] = {}
        for sample in samples:
            self._values.setdefault(sample.name, []).append(sample)

    def series(self, name: str) -> list[exposition.Sample]:
        return self._values.get(name, [])

    def highest(self, *names: str) -> float | None:
        """Over all series of all these gauges; None when there is none."""
        return max((sample.value for name in names for sample in self.series(name)), default=None)

    def total(self, *names: str) -> float | None:
        """The sum over the series of the first of these names that the page has."""
        for name in names:
            if series := self.series(name):
                return sum(sample.value for sample in series)
        return None

    def counter(self, name: str) -> float:
        return self.total(f"{name}_total", name) or 0.0


def read(text: str, options: Options) -> Reading:
    """A page of vLLM or SGLang. Raises MetricsError when it is neither, or has no load gauges for this model."""
    samples = list(exposition.parse(text, ("vllm:", "sglang:")))
    if not samples:
        raise MetricsError("the page has no family of vllm: or sglang:; is it the engine's own /metrics?")
    page = _Page(_of_rank(_of_model(samples, options.model), options.rank))
    vllm = samples[0].name.startswith("vllm:")
    running, waiting = (
        ("vllm:num_requests_running", "vllm:num_requests_waiting")
        if vllm
        else ("sglang:num_running_reqs", "sglang:num_queue_reqs")
    )
    loads = [page.total(running), page.total(waiting)]
    if None in loads:
        raise MetricsError(f"the page lacks {running if loads[0] is None else waiting}; SGLang needs --enable-metrics")
    requests = sum(value for value in loads if value is not None)
    return _vllm(page, requests, options.tier) if vllm else _sglang(page, requests)


def load(previous: Reading | None, now: Reading, *, at: float, options: Options) -> Load:
    """Statistics at time `at` (seconds since the epoch) from a page and the one before it, if there was one."""
    return Load(
        kvwire.Stats(
            at=at,
            memory_bytes=int(_unit(now.usage) * options.cache_bytes),
            hit_rate=_hit_rate(previous, now),
            pressure=_unit(now.requests / options.ceiling),
            t2_hit_tokens=int(now.t2_hits),
            t2_query_tokens=int(now.t2_queries),
        ),
        now.sleeping,
    )


def _of_model(samples: list[exposition.Sample], model: str) -> list[exposition.Sample]:
    """The samples of one model; those without the label belong to every model."""
    if not model:
        return samples
    found = [sample for sample in samples if sample.labels.get("model_name", model) == model]
    if not found:
        names = ", ".join(sorted({sample.labels["model_name"] for sample in samples}))
        raise MetricsError(f"no series has model_name {model!r}; the page has {names}: set --engine-model-name")
    return found


def _of_rank(samples: list[exposition.Sample], rank: int | None) -> list[exposition.Sample]:
    """The samples of one rank; those without a rank label belong to every rank."""
    if rank is None:
        return samples
    return [s for s in samples if all(s.labels.get(label, str(rank)) == str(rank) for label in _RANK_LABELS)]


def _vllm(page: _Page, requests: float, tier: CacheTier) -> Reading:
    usage = None
    if tier in ("auto", "kv"):
        usage = page.highest("vllm:kv_cache_usage_perc")
    if usage is None and tier != "kv":
        usage = page.highest(*(f"vllm:{part}_cache_usage_perc" for part in ("gpu", "cpu") if tier in ("auto", part)))
    return Reading(
        usage=usage or 0.0,
        requests=requests,
        hits=page.counter("vllm:prefix_cache_hits"),
        queries=page.counter("vllm:prefix_cache_queries"),
        t2_hits=page.counter("vllm:external_prefix_cache_hits"),
        t2_queries=page.counter("vllm:external_prefix_cache_queries"),
        sleeping=_sleeping(page.series("vllm:engine_sleep_state")),
    )


def _sleeping(series: list[exposition.Sample]) -> bool:
    """One series per state: `awake` is 0, or one of the sleeping states is 1. Several ranks sleep when all do."""
    awake = [sample.value for sample in series if sample.labels.get("sleep_state") == "awake"]
    if awake:
        return not any(awake)
    return any(sample.value for sample in series)


def _sglang(page: _Page, requests: float) -> Reading:
    return Reading(
        usage=page.highest("sglang:token_usage") or 0.0,
        requests=requests,
        hit_rate=page.highest("sglang:cache_hit_rate") or 0.0,
    )


def _hit_rate(previous: Reading | None, now: Reading) -> float:
    """Between two pages. Counters that went back belong to another life of the engine: unknown, which is 0."""
    if now.hit_rate is not None:
        return _unit(now.hit_rate)
    if previous is None:
        return 0.0
    hits, queries = now.hits - previous.hits, now.queries - previous.queries
    return _unit(hits / queries) if hits >= 0 and queries > 0 else 0.0


def _unit(value: float) -> float:
    return min(1.0, max(0.0, value))


class Scraper:
    """Fetches one engine's page at an interval, for ever."""

    def __init__(
        self,
        url: str,
        options: Options,
        *,
        interval: float = 10.0,
        timeout: float = 5.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.url = url
        self.failures = 0  # in a row
        self._options = options
        self._interval = interval
        self._timeout = timeout
        self._clock = clock

    async def loads(self) -> AsyncGenerator[Load | None, None]:
        """A Load per successful fetch; None when the signal became stale. Use it inside contextlib.aclosing."""
        previous: Reading | None = None
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=self._timeout)) as session:
            while True:
                try:
                    now = read(await self._fetch(session), self._options)
                except (aiohttp.ClientError, TimeoutError, MetricsError) as error:
                    if self._failed(error):
                        yield None
                else:
                    self._succeeded()
                    yield load(previous, now, at=self._clock(), options=self._options)
                    previous = now
                await asyncio.sleep(self._interval)

    async def _fetch(self, session: aiohttp.ClientSession) -> str:
        async with session.get(self.url) as response:
            response.raise_for_status()
            page = bytearray()
            async for chunk in response.content.iter_any():
                page += chunk
                if len(page) > _PAGE_LIMIT:
                    raise MetricsError(f"the page is larger than {_PAGE_LIMIT} bytes")
            return page.decode(errors="replace")

    def _failed(self, error: Exception) -> bool:
        """Whether this failure is the one that makes the signal stale."""
        self.failures += 1
        if self.failures != STALE_AFTER:
            return False
        log.error("load_signal_stale", url=addresses.shown(self.url), failures=self.failures, error=_reason(error))
        return True

    def _succeeded(self) -> None:
        if self.failures >= STALE_AFTER:
            log.info("load_signal_recovered", url=addresses.shown(self.url), failures=self.failures)
        self.failures = 0


def _reason(error: Exception) -> str:
    """What went wrong, without the URL that some of aiohttp's errors repeat with its password."""
    if isinstance(error, aiohttp.ClientResponseError):
        return f"it answers {error.status} {error.message}"
    if isinstance(error, aiohttp.InvalidURL):
        return "this is no URL"
    return str(error) or type(error).__name__
