"""/healthz and /metrics of a role that answers nothing else.

`healthz` is 200 "ok" while the loop turns. A port that cannot be listened on raises hotpath.ListenError.
"""

from collections.abc import Callable

from aiohttp import web

from subscribers.http import admin, replies


def create_app(render: Callable[[], bytes]) -> web.Application:
    """`render` gives the text of /metrics and must not block."""

    async def healthz(_: web.Request) -> web.StreamResponse:
        return admin.response(replies.Reply(200, replies.TEXT, b"ok\n"))

    async def metrics(_: web.Request) -> web.StreamResponse:
        return admin.response(replies.Reply(200, replies.PROMETHEUS, render()))

    app = web.Application(middlewares=[admin.one_line_errors])
    app.add_routes([web.get("/healthz", healthz), web.get("/metrics", metrics)])
    return app
