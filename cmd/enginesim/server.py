"""The HTTP side of a simulated engine: generate, reset, sleep, the truth about the cache, and /metrics.

  POST /v1/generate         {token_ids, max_tokens?, lora?, cache_salt?, data_parallel_rank?} -> Answer
  POST /truth               {token_ids, lora?, cache_salt?} -> {held_tokens, by_rank}: leading tokens that are cached
  GET  /truth               every maximal prefix held, per rank, as token blocks
  POST /reset_prefix_cache  empties every rank and publishes AllBlocksCleared
  POST /sleep?level=1, /wake_up   as vLLM: the cache is dropped and no event says so
  GET  /metrics, /health

A malformed request is 400 with one line. Requests without a rank go round the ranks.
"""

import itertools
from collections.abc import Sequence

import msgspec
from aiohttp import web

from enginesim import engine, metrics


class Prompt(msgspec.Struct, kw_only=True):
    """A request body; `max_tokens` is read by /v1/generate only."""

    token_ids: list[int]
    max_tokens: int = 16
    lora: str = ""
    cache_salt: str = ""
    data_parallel_rank: int | None = None


class Server:
    """Routes over the ranks of one engine; all handlers run on one event loop, so requests are served one by one."""

    def __init__(self, ranks: Sequence[engine.Engine]) -> None:
        self._ranks = ranks
        self._turn = itertools.cycle(range(len(ranks)))

    def application(self) -> web.Application:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.add_routes(
            [
                web.post("/v1/generate", self.generate),
                web.post("/truth", self.truth_of),
                web.get("/truth", self.truth),
                web.post("/reset_prefix_cache", self.reset),
                web.post("/sleep", self.sleep),
                web.post("/wake_up", self.wake),
                web.get("/metrics", self.metrics),
                web.get("/health", self.health),
            ]
        )
        return app

    async def generate(self, request: web.Request) -> web.Response:
        prompt = _prompt(await request.read())
        rank = self._rank(prompt)
        try:
            answer = rank.generate(prompt.token_ids, prompt.max_tokens, lora=prompt.lora, salt=prompt.cache_salt)
        except ValueError as error:
            raise web.HTTPBadRequest(text=f"{error}\n") from error
        return _json(answer)

    async def truth_of(self, request: web.Request) -> web.Response:
        prompt = _prompt(await request.read())
        held = [rank.held_tokens(prompt.token_ids, lora=prompt.lora, salt=prompt.cache_salt) for rank in self._ranks]
        return _json({"held_tokens": max(held), "by_rank": held})

    async def truth(self, request: web.Request) -> web.Response:
        return _json(
            {
                "block_size": self._ranks[0].cache.block_size,
                "ranks": [
                    [
                        {
                            "lora": path[0].keyed_with[0],
                            "cache_salt": path[0].keyed_with[1],
                            "blocks": [block.tokens for block in path],
                        }
                        for path in rank.cache.prefixes()
                    ]
                    for rank in self._ranks
                ],
            }
        )

    async def reset(self, request: web.Request) -> web.Response:
        return _json({"cleared_blocks": [rank.reset() for rank in self._ranks]})

    async def sleep(self, request: web.Request) -> web.Response:
        level = request.query.get("level", "1")
        if level not in ("1", "2"):
            raise web.HTTPBadRequest(text=f"level is {level!r}; give 1 or 2\n")
        for rank in self._ranks:
            rank.sleep(int(level))
        return _json({"sleep_level": int(level)})

    async def wake(self, request: web.Request) -> web.Response:
        for rank in self._ranks:
            rank.wake()
        return _json({"sleep_level": 0})

    async def metrics(self, request: web.Request) -> web.Response:
        return web.Response(text=metrics.render(self._ranks), content_type="text/plain")

    async def health(self, request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    def _rank(self, prompt: Prompt) -> engine.Engine:
        wanted = prompt.data_parallel_rank
        if wanted is None:
            return self._ranks[next(self._turn)]
        if not 0 <= wanted < len(self._ranks):
            raise web.HTTPBadRequest(
                text=f"data_parallel_rank is {wanted}; there are ranks 0..{len(self._ranks) - 1}\n"
            )
        return self._ranks[wanted]


def _prompt(body: bytes) -> Prompt:
    try:
        return msgspec.json.decode(body, type=Prompt)
    except msgspec.MsgspecError as error:
        raise web.HTTPBadRequest(text=f"{error}\n") from error


def _json(value: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")
