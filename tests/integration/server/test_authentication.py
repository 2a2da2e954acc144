"""The server role, as a process, asks for tokens: real ones of ServiceAccounts, reviewed by an API server that can be
away. It runs as its account of deploy/kubernetes, with the rights that are written there.

Excluded: what else the admin port answers (integration/http/test_admin), virtual time (unit/http/test_tokens).
"""

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest
import yaml

from subscribers.http import bearer
from tests.support import houseapi, natsserver
from tests.support.controllerhouse import Controller
from tests.support.ports import free_port
from tests.support.webhookhouse import DEPLOY, SYSTEM, WebhookHouse

CONTROLLER, POLICY = "inferencecache.io/controller", "inferencecache.io/policy"
ME, OTHER = "inference-cache-controller", "warmlog-webhook"
PROBE = {"backend": "a/b", "model": "m", "hashScheme": "vllm"}


class Answer(NamedTuple):
    code: int
    text: str
    challenge: str


class Running:
    """One server, and who asks it."""

    def __init__(self, house: WebhookHouse, process: Controller, http: str, admin: str) -> None:
        self.house, self.process, self.lookup, self.admin = house, process, http, admin

    async def token(self, account: str = ME, *audiences: str) -> str:
        """Past the proxy: also while the server's API is away."""
        path = f"/api/v1/namespaces/{SYSTEM}/serviceaccounts/{account}/token"
        spec = {"audiences": audiences or (CONTROLLER,), "expirationSeconds": 3600}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return str((await self.house.api.request("POST", path, body))["status"]["token"])

    async def ask(self, token: str = "", path: str = "/snapshot", scheme: str = "Bearer") -> Answer:
        headers = {"Authorization": f"{scheme} {token}"} if token else {}
        how: dict[str, Any] = {"json": PROBE} if path == "/probe" else {}
        async with (
            aiohttp.ClientSession() as session,
            session.request("POST" if how else "GET", self.admin + path, headers=headers, **how) as answer,
        ):
            return Answer(answer.status, await answer.text(), answer.headers.get("www-authenticate", ""))

    async def public(self, path: str) -> Answer:
        async with aiohttp.ClientSession() as session, session.get(self.lookup + path) as answer:
            return Answer(answer.status, await answer.text(), "")

    async def counted(self, name: str) -> dict[str, int]:
        """What is not 0, by result."""
        lines = (await self.public("/metrics")).text.splitlines()
        found = {line.split('"')[1]: int(line.split()[-1]) for line in lines if line.startswith(f"{name}{{")}
        return {result: count for result, count in found.items() if count}


def allowed() -> str:
    """The flag as the manifest has it."""
    deployment = next(iter(yaml.safe_load_all((DEPLOY / "server.yaml").read_text())))
    words: list[str] = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    return next(word for word in words if word.startswith("--allowed-controller-sa="))


@pytest.fixture(params=houseapi.names())
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Running]:
    natsserver.require()
    house = WebhookHouse(tmp_path, request.param)
    try:
        await house.start(crds=False)
        await house.apply("namespace.yaml", "rbac.yaml", "webhook.yaml")
        await house.connect()
        yield await started(house)
    finally:
        with contextlib.suppress(OSError):
            await house.close()
        await house.front.down()
        await house.reads.down()


async def started(house: WebhookHouse) -> Running:
    lookup, admin, output = free_port(), free_port(), house.directory / "server.log"
    words = (
        f"--nats={house.nats.url}", f"--kubeconfig={house.directory / 'server.kubeconfig'}", allowed(),
        f"--http-bind-address=127.0.0.1:{lookup}", f"--snapshot-bind-address=127.0.0.1:{admin}",
        "--log-format=text", "--log-level=debug", "--log-max-bytes=256Mi", "--kv-max-bytes=256Mi",
    )  # fmt: skip
    with output.open("ab") as out:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "warmlog", "server", *words, stdout=out, stderr=out
        )
    made = Controller("server", process, output)
    house.controllers["server"] = made  # ended with the house
    running = Running(house, made, f"http://127.0.0.1:{lookup}", f"http://127.0.0.1:{admin}")

    async def ready() -> bool:
        assert process.returncode is None, made.said()
        with contextlib.suppress(aiohttp.ClientError):
            return (await running.public("/readyz")).code == 200
        return False

    await house.until(ready, "the server is ready")
    return running


async def test_the_account_is_let_in_and_nobody_else(server: Running) -> None:
    mine = await server.token()
    assert (await server.ask(mine)).code == 200
    assert (await server.ask(mine, scheme="bEaReR")).code == 200
    assert '"routing":"ok"' in (await server.ask(mine, "/probe")).text

    other = await server.ask(await server.token(OTHER))
    assert other.code == 403
    assert f"system:serviceaccount:{SYSTEM}:{OTHER} may not ask this" in other.text

    for wrong in (await server.token(ME, POLICY), await server.token(ME, "elsewhere"), "ey.is.none"):
        found = await server.ask(wrong)
        assert (found.code, found.challenge) == (401, "Bearer")
        assert f"for the audience {CONTROLLER}" in found.text

    none = await server.ask()
    assert (none.code, none.challenge) == (401, "Bearer")
    assert "Authorization: Bearer <token>" in none.text
    assert all(one.text.count("\n") == 1 for one in (other, none))

    assert await server.counted("inferencecache_snapshot_auth_total") == {"ok": 2, "forbidden": 1, "unauth": 4}
    assert await server.counted("inferencecache_probe_auth_total") == {"ok": 1}
    assert server.house.refused == [], "the rights of deploy/kubernetes are enough"


async def test_a_token_for_the_api_server_itself_is_of_no_use(server: Running) -> None:
    """Every Pod has one; it is what the server itself asks the API with."""
    content = yaml.safe_load((server.house.directory / "controller.kubeconfig").read_text())
    found = await server.ask(content["users"][0]["user"]["token"])
    assert found.code == 401


async def test_the_intake_is_closed_to_whom_the_snapshot_is_closed_to(server: Running) -> None:
    path = f"{server.admin}/v1/intake/kv/team-a/pod-a?model=m"
    async with aiohttp.ClientSession() as session:
        for token, code in ((await server.token(OTHER), 403), (await server.token(), 400)):
            async with session.post(path, data=b"\x00", headers={"Authorization": f"Bearer {token}"}) as answer:
                assert answer.status == code, await answer.text()


async def test_while_the_api_is_away_a_token_that_was_accepted_is_let_in_and_a_new_one_gets_503(
    server: Running,
) -> None:
    known, new = await server.token(), await server.token()
    assert (await server.ask(known)).code == 200
    await server.house.proxy.down()
    assert (await server.ask(known)).code == 200
    assert (await server.ask(known, "/probe")).code == 200
    away = await server.ask(new)
    assert (away.code, away.challenge) == (503, "")
    assert "the Kubernetes API did not review the token" in away.text
    assert (await server.ask()).code == 401, "without a token nobody needs to be asked"
    assert [(await server.public(path)).code for path in ("/healthz", "/readyz", "/metrics")] == [200, 200, 200]
    assert await server.counted("inferencecache_snapshot_auth_total") == {"ok": 2, "error": 1, "unauth": 1}
    await server.house.proxy.up()
    assert (await server.ask(new)).code == 200


async def test_an_api_that_hangs_is_503_in_time_and_keeps_nobody_else_waiting(server: Running) -> None:
    token, began = await server.token(), time.monotonic()
    server.house.proxy.freeze()
    hanging = asyncio.ensure_future(server.ask(token))
    await asyncio.sleep(0.2)
    assert (await server.ask()).code == 401
    assert (await server.public("/readyz")).code == 200
    assert (await hanging).code == 503
    assert time.monotonic() - began < bearer.DEADLINE + 2
    server.house.proxy.thaw()


async def test_an_account_that_is_gone_is_refused(server: Running) -> None:
    token = await server.token()
    await server.house.api.request("DELETE", f"/api/v1/namespaces/{SYSTEM}/serviceaccounts/{ME}")
    assert (await server.ask(token)).code == 401


async def test_a_server_without_the_right_to_review_says_so(server: Running) -> None:
    binding = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/inference-cache-server"
    await server.house.api.request("DELETE", binding)

    async def refused() -> bool:  # a real API server notices after a moment
        return (await server.ask(await server.token())).code == 503

    await server.house.until(refused, "the review is refused")
    assert "a token cannot be reviewed" in server.process.said()
    assert "tokenreviews.authentication.k8s.io is forbidden" in server.process.said()


async def test_no_token_is_in_any_line_event_metric_or_answer(server: Running) -> None:
    sent = [await server.token(), await server.token(OTHER), await server.token(ME, POLICY), "ey.canary-token.x"]
    answers = [await server.ask(token) for token in sent]
    await server.house.proxy.down()
    sent.append(await server.token())
    answers += [await server.ask(token) for token in sent]
    assert [one.code for one in answers] == [200, 403, 401, 401, 200, 503, 503, 503, 503]

    async def events() -> str | None:
        found = "".join(f"{one.subject} {one.body!r}" for one in await server.house.stored())
        return found if "settings.seen" in found else None

    places = {
        "log": server.process.said(),
        "metrics": (await server.public("/metrics")).text,
        "answers": "".join(one.text for one in answers),
        "events": await server.house.until(events, "the server tells its settings"),
    }
    assert "a token cannot be reviewed" in places["log"]
    assert [(where, token) for where, text in places.items() for token in sent if token in text] == []
