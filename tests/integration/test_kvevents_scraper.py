"""Fetching an engine's metrics over real HTTP. Excluded: what a page says (tests/unit/test_kvevents_metrics.py)."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import structlog
from aiohttp import web

from subscribers.kvevents import metrics

PAGE = "vllm:num_requests_running 2\nvllm:num_requests_waiting 0\nvllm:kv_cache_usage_perc 0.5\n"


class Engine:
    """A /metrics page whose answers a test changes."""

    def __init__(self) -> None:
        self.status = 200
        self.text = PAGE
        self.first: list[str] = []  # pages before `text`
        self.delay = 0.0
        self.url = ""

    async def page(self, request: web.Request) -> web.Response:
        await asyncio.sleep(self.delay)
        return web.Response(status=self.status, text=self.first.pop(0) if self.first else self.text)


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[Engine]:
    engine = Engine()
    app = web.Application()
    app.router.add_get("/metrics", engine.page)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    engine.url = f"http://127.0.0.1:{runner.addresses[0][1]}/metrics"
    try:
        yield engine
    finally:
        await runner.cleanup()


def scraper(url: str, **options: float) -> metrics.Scraper:
    return metrics.Scraper(
        url, metrics.Options(ceiling=4), interval=0.01, timeout=options.get("timeout", 2.0), clock=lambda: 9.0
    )


async def test_three_failures_are_one_stale_line_and_the_next_success_one_recovered_line() -> None:
    async with serving() as engine, asyncio.timeout(10):
        with structlog.testing.capture_logs() as logs:
            async with contextlib.aclosing(scraper(engine.url).loads()) as loads:
                first = await anext(loads)
                assert first is not None
                assert (first.stats.at, first.stats.pressure) == (9.0, 0.5)
                engine.status = 500
                assert await anext(loads) is None
                recovering = asyncio.ensure_future(anext(loads))
                await asyncio.sleep(0.1)
                engine.status = 200
                assert await recovering is not None
        assert [entry["event"] for entry in logs] == ["load_signal_stale", "load_signal_recovered"]
        assert "500" in logs[0]["error"]
        assert logs[1]["failures"] > 3


async def test_two_failures_are_nothing_to_speak_of() -> None:
    async with serving() as engine, asyncio.timeout(10):
        engine.first = ["", "other 1\n"]
        with structlog.testing.capture_logs() as logs:
            async with contextlib.aclosing(scraper(engine.url).loads()) as loads:
                assert await anext(loads) is not None
        assert (logs, engine.first) == ([], [])


async def test_every_kind_of_failure_counts() -> None:
    async with serving() as engine, asyncio.timeout(10):
        for change in ({"text": "other 1\n"}, {"text": PAGE, "delay": 5.0}):
            vars(engine).update(change)
            async with contextlib.aclosing(scraper(engine.url, timeout=0.05).loads()) as loads:
                assert await anext(loads) is None
    async with asyncio.timeout(10):  # nothing listens there any more
        async with contextlib.aclosing(scraper(engine.url).loads()) as loads:
            assert await anext(loads) is None


async def test_a_page_without_end_is_a_failure() -> None:
    async with serving() as engine, asyncio.timeout(20):
        engine.text = "x" * (17 * 1024 * 1024)
        with structlog.testing.capture_logs() as logs:
            async with contextlib.aclosing(scraper(engine.url, timeout=5.0).loads()) as loads:
                assert await anext(loads) is None
        assert "larger than" in logs[0]["error"]
