"""Roles as processes: what they refuse, how they end, and that a restart of any of them loses nothing it should not.

Excluded: random kills under load (tests/faults), the demo's story (test_demo).
"""

import asyncio
import json
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from eventstore import streams
from eventstore.jetstream import api, connect, provision
from eventstore.jetstream import store as jetstream
from tests.support import natsserver
from warmlog import lab

ENGINE = lab.ENGINES[0]
PROMPT = list(range(1, 641))


async def role(*words: str, timeout: float = 20) -> tuple[int, str]:
    """Run a role until it ends by itself: exit code and standard error."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "warmlog", *words), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(timeout):
            _, err = await child.communicate()
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    return child.returncode or 0, err.decode()


@pytest.fixture
async def laboratory(tmp_path: Path) -> AsyncIterator[lab.Lab]:
    natsserver.require()
    async with lab.Lab(tmp_path) as running:
        await running.start_nats()
        yield running


def nats_words(running: lab.Lab) -> list[str]:
    return [f"--nats={running.nats_url}", f"--nats-token-file={running.directory / 'token'}"]


def subscriber_words(running: lab.Lab, **changed: str) -> list[str]:
    address = running.engines[ENGINE.name]
    given = {
        "engine-endpoint": address.events,
        "replay-endpoint": address.replay or "",
        "engine-metrics-url": "",
        "replica-id": ENGINE.name,
        "tenant-id": lab.TENANT,
        "model-id": lab.MODEL,
        "server": running.nats_url,
        "nats-token-file": str(running.directory / "token"),
        **{name.replace("_", "-"): value for name, value in changed.items()},
    }
    return [f"--{name}={value}" for name, value in given.items()]


async def warm(running: lab.Lab, tokens: list[int] = PROMPT) -> None:
    await running.post(f"{running.engines[ENGINE.name].http}/v1/generate", {"token_ids": tokens, "max_tokens": 1})


async def matched(running: lab.Lab, tokens: list[int] = PROMPT) -> dict[str, int]:
    question = {"tenant_id": lab.TENANT, "model_id": lab.MODEL, "hash_scheme": "vllm", "token_ids": tokens}
    answer = await running.post(f"{running.lookup}/v1/lookup", question)
    return {score["replica_id"]: score["matched_tokens"] for score in answer["replica_scores"]}


async def until_matched(running: lab.Lab, tokens: list[int] = PROMPT, within: float = 10) -> None:
    async def check() -> bool:
        return (await matched(running, tokens)).get(ENGINE.name) == len(tokens)

    await running.until(check, what=f"{len(tokens)} tokens to be credited", within=within)


async def snapshot(running: lab.Lab) -> dict[str, Any]:
    found = await running.get(f"{running.admin}/snapshot")
    return {row["replicaId"]: row for row in found["replicas"]}


# What is refused -----------------------------------------------------------------------------------------------------


ACCOUNT = "--allowed-controller-sa=system:serviceaccount:cache:controller"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "give --allowed-controller-sa="),
        ((ACCOUNT, "--insecure-disable-auth"), "exclude each other"),
        ((ACCOUNT + " ",), "whitespace around it"),
        ((ACCOUNT, "--policy-audience="), "--policy-audience is blank"),
    ],
    ids=["neither", "both", "whitespace", "no audience"],
)
async def test_a_server_must_be_told_who_may_ask_its_admin_endpoints(words: tuple[str, ...], says: str) -> None:
    code, said = await role("server", "--nats=nats://127.0.0.1:1", *words)
    assert code == 2
    assert said.strip().count("\n") == 0
    assert says in said


async def test_a_server_that_reviews_tokens_needs_a_cluster_to_be_named(tmp_path: Path) -> None:
    missing = tmp_path / "none"
    code, said = await role("server", "--nats=nats://127.0.0.1:1", ACCOUNT, f"--kubeconfig={missing}")
    assert code == 3
    (line,) = said.splitlines()
    assert f"there is no kubeconfig at {missing}; give --kubeconfig" in line


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGINT])
async def test_a_server_that_waits_for_nats_ends_when_it_is_told_to(signal_number: signal.Signals) -> None:
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "warmlog", "server", "--insecure-disable-auth", "--nats=nats://127.0.0.1:1"),
        stderr=asyncio.subprocess.PIPE,
    )
    assert child.stderr is not None
    try:
        async with asyncio.timeout(20):
            assert b"trouble with NATS" in await child.stderr.readline()
            child.send_signal(signal_number)
            rest = await child.stderr.read()
            assert await child.wait() == 0
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    assert b"stopped before it served" in rest
    assert b"Traceback" not in rest


UNREADABLE = {
    "bytes that are no text": bytes(range(128, 256)),
    "is empty": b"\n",
}


@pytest.mark.parametrize(("says", "content"), UNREADABLE.items(), ids=UNREADABLE)
async def test_a_token_file_that_holds_none_is_named(says: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(content)
    words = ("--insecure-disable-auth", "--nats=nats://127.0.0.1:1", f"--nats-token-file={tmp_path / 'token'}")
    code, err = await role("server", *words)
    assert code == 2
    assert err.strip().count("\n") == 0
    assert f"--nats-token-file: {tmp_path / 'token'} " in err
    assert says in err


async def test_a_server_says_which_port_is_in_use(laboratory: lab.Lab) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = [f"--http-bind-address=127.0.0.1:{port}", "--snapshot-bind-address=127.0.0.1:0"]
        code, said = await role("server", *nats_words(laboratory), "--insecure-disable-auth", *words)
    assert code == 3
    assert f"cannot listen on 127.0.0.1:{port}" in said.splitlines()[-1]


async def test_a_drifted_stream_is_refused_with_field_and_remedy(laboratory: lab.Lab) -> None:
    options = connect.Options(name="test", token=laboratory.token)
    async with await connect.connect(laboratory.nats_url, options, wait=5) as connection:
        await provision.provision(connection, streams.control_log(duplicate_window=60))
    words = ["--http-bind-address=127.0.0.1:0", "--snapshot-bind-address=127.0.0.1:0", "--insecure-disable-auth"]
    code, said = await role("server", *nats_words(laboratory), *words)
    assert code == 3
    last = said.splitlines()[-1]
    assert "WARMLOG" in last
    assert "duplicate_window" in last
    assert "nats stream edit WARMLOG --dupe-window=600s" in last


async def test_a_full_control_log_is_told_with_the_remedy_and_lookups_go_on(laboratory: lab.Lab) -> None:
    await laboratory.start_server()
    await laboratory.start_engine(ENGINE)
    options = connect.Options(name="test", token=laboratory.token)
    async with await connect.connect(laboratory.nats_url, options, wait=5) as connection:

        async def give_room(size: int) -> None:
            info = await api.stream_info(connection, streams.CONTROL_LOG)
            assert info is not None
            await api.call(connection, f"STREAM.UPDATE.{streams.CONTROL_LOG}", {**info["config"], "max_bytes": size})

        async def events() -> list[bytes]:
            log = jetstream.JetStreamStore(connection)
            return [stored.body async for batch in log.read() for stored in batch]

        await give_room(1)
        child = await laboratory.start_subscriber(ENGINE)
        await warm(laboratory)
        await until_matched(laboratory)
        said = laboratory.processes["server"].log
        async with asyncio.timeout(10):
            while "takes no more" not in (text := said.read_text()):
                await asyncio.sleep(0.1)
        assert "nats stream edit WARMLOG --max-bytes" in text
        assert not any(b"first-event" in body for body in await events())
        await give_room(1 << 20)
        async with asyncio.timeout(15):
            while not any(b"first-event" in body for body in await events()):
                await asyncio.sleep(0.2)
        assert child.running


async def test_an_old_nats_server_is_refused_with_its_version() -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        info = {"server_id": "old", "version": "2.10.26", "headers": True, "max_payload": 1 << 20, "proto": 1}
        writer.write(b"INFO " + json.dumps(info).encode() + b"\r\n")
        while line := await reader.readline():
            if line.startswith(b"PING"):
                writer.write(b"PONG\r\n")
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        code, said = await role("server", f"--nats=nats://127.0.0.1:{port}", "--insecure-disable-auth")
    assert code == 3
    assert "2.10.26" in said.splitlines()[-1]
    assert "2.12" in said.splitlines()[-1]


@pytest.mark.parametrize(
    ("manifest", "says"),
    [
        ("kind: [", "while parsing"),
        ("{kind: Pod, apiVersion: v1, metadata: {name: p}}", "expected kind CachePolicy or CacheTenant"),
        ("{kind: CachePolicy, apiVersion: inferencecache.io/v1alpha1, spec: {}}", "without metadata.name"),
        (
            "{kind: CachePolicy, apiVersion: inferencecache.io/v1alpha1, metadata: {name: p}, "
            "spec: {minimumPrefixTokens: x}}",
            "minimumPrefixTokens",
        ),
    ],
    ids=["no YAML", "another kind", "no name", "a wrong field"],
)
async def test_a_manifest_that_cannot_be_used_is_named(tmp_path: Path, manifest: str, says: str) -> None:
    (tmp_path / "bad.yaml").write_text(manifest)
    words = [f"--policies={tmp_path}", "--insecure-disable-auth", "--nats=nats://127.0.0.1:1"]
    code, said = await role("server", *words)
    assert code == 2
    assert "bad.yaml" in said.splitlines()[-1]
    assert says in said.splitlines()[-1]


@pytest.mark.parametrize(
    ("changed", "code", "says"),
    [
        ({"server": "policy-server:9090"}, 2, "has no scheme that is known; give nats://host:port or http(s)://"),
        ({"server": "ftp://me:sEcReT@h:1"}, 2, "'ftp://***@h:1' has no scheme that is known"),
        ({"replica_id": "r" * 600}, 2, "--replica-id, --tenant-id: "),
        ({"metrics_bind_address": "9101"}, 2, "'9101' is no address; write 127.0.0.1:8080"),
        ({"replica_id": ""}, 2, "must not be empty"),
        ({"engine_endpoint": "tcp://127.0.0.1:0"}, 2, "port"),
        (
            {"engine_endpoint": "tcp://h:5557", "replay_endpoint": "tcp://h:5558", "data_parallel_size": "2"},
            2,
            "5558",
        ),
        ({"lora_adapter_names": "x=sql"}, 2, "is not ID=NAME"),
        ({"lora_adapter_names": "1=a,1=b"}, 2, "named twice"),
        ({"server": "http://user@host:1"}, 3, "is no intake URL"),
    ],
    ids=[
        "no scheme",
        "unknown scheme",
        "long name",
        "no port",
        "no replica",
        "port 0",
        "ranks collide",
        "adapter id",
        "adapter twice",
        "userinfo in URL",
    ],
)
async def test_a_subscriber_says_which_flag_is_wrong(changed: dict[str, str], code: int, says: str) -> None:
    given = {"replica_id": "r", "model_id": "m", "server": "nats://127.0.0.1:1", "engine_metrics_url": "", **changed}
    words = [f"--{name.replace('_', '-')}={value}" for name, value in given.items()]
    ended, said = await role("subscriber", *words)
    assert (ended, says in said.splitlines()[-1]) == (code, True), said


# How they end, and what a restart keeps ------------------------------------------------------------------------------


async def test_of_two_subscribers_for_one_replica_the_newer_wins_and_the_older_says_one_line(
    laboratory: lab.Lab,
) -> None:
    await laboratory.start_engine(ENGINE)
    await laboratory.start_server()
    older = asyncio.ensure_future(role("subscriber", *subscriber_words(laboratory), "--log-format=text"))
    await warm(laboratory)
    await until_matched(laboratory)
    await laboratory.start_subscriber(ENGINE)
    code, said = await asyncio.wait_for(older, 20)
    assert code == 4
    assert "fenced" in said.splitlines()[-1]
    await until_matched(laboratory)


async def test_sigterm_flushes_what_is_pending_and_says_goodbye(laboratory: lab.Lab) -> None:
    await laboratory.start_engine(ENGINE)
    await laboratory.start_server()
    process = await laboratory.start_subscriber(ENGINE)
    await warm(laboratory)
    await until_matched(laboratory)
    assert await process.stop() == 0
    assert "flushed and stopped" in process.log.read_text()

    async def gone() -> bool:
        return ENGINE.name not in await matched(laboratory)

    await laboratory.until(gone, what="the replica to be gone", within=3)


async def test_a_server_that_starts_again_is_ready_only_when_it_knows_what_the_one_before_knew(
    laboratory: lab.Lab,
) -> None:
    await laboratory.start_engine(ENGINE)
    process = await laboratory.start_server()
    await laboratory.start_subscriber(ENGINE)
    await warm(laboratory)
    await until_matched(laboratory)
    before = (await snapshot(laboratory))[ENGINE.name]["prefixCount"]
    await process.kill()
    await laboratory.start_server()  # returns when /readyz says 200
    assert await matched(laboratory) == {ENGINE.name: len(PROMPT)}
    assert (await snapshot(laboratory))[ENGINE.name]["prefixCount"] == before


async def test_edges_are_told_once_however_often_the_server_starts(laboratory: lab.Lab) -> None:
    await laboratory.start_engine(ENGINE)
    process = await laboratory.start_server()
    await laboratory.start_subscriber(ENGINE)
    await warm(laboratory)
    await until_matched(laboratory)
    for _ in range(2):
        await asyncio.sleep(0.3)
        await process.kill()
        process = await laboratory.start_server()
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "warmlog", "events", *nats_words(laboratory), "--type=replica.observed", "-o", "json"),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await child.communicate()
    edges = [json.loads(line)["event"]["data"] for line in out.splitlines()]
    told = [(edge["kv_sequence"], edge["edge"]) for edge in edges]
    assert len(told) == len(set(told))
    assert {edge for _, edge in told} >= {"first-event", "complete"}


async def test_a_subscriber_without_a_nats_credential_goes_through_the_intake(laboratory: lab.Lab) -> None:
    await laboratory.start_engine(ENGINE)
    await laboratory.start_server()
    words = subscriber_words(laboratory, server=laboratory.admin, nats_token_file="")
    through = asyncio.ensure_future(role("subscriber", *words, timeout=60))
    await warm(laboratory)
    await until_matched(laboratory)
    await laboratory.start_subscriber(ENGINE)  # the newer one fences it, through the intake's answers
    code, said = await asyncio.wait_for(through, 30)
    assert code == 4, said


async def test_events_that_come_while_nats_is_away_are_told_afterwards(laboratory: lab.Lab) -> None:
    await laboratory.start_engine(ENGINE)
    await laboratory.start_server()
    await laboratory.start_subscriber(ENGINE)
    await warm(laboratory)
    await until_matched(laboratory)
    assert laboratory.nats is not None
    await laboratory.nats.kill()
    later = list(range(5000, 5640))
    await warm(laboratory, later)
    assert await matched(laboratory) == {ENGINE.name: len(PROMPT)}, "what was known is answered meanwhile"
    await laboratory.restart_nats()
    await until_matched(laboratory, later)


async def test_a_subscriber_that_starts_before_nats_reads_meanwhile(tmp_path: Path) -> None:
    natsserver.require()
    async with lab.Lab(tmp_path) as running:
        await running.start_nats()
        assert running.nats is not None
        await running.nats.kill()
        await running.start_engine(ENGINE)
        await running.start_subscriber(ENGINE)
        await asyncio.sleep(1)
        await warm(running)
        await running.restart_nats()
        await running.start_server()
        await until_matched(running)


async def test_an_engine_that_publishes_nothing_is_told_with_what_to_look_at(laboratory: lab.Lab) -> None:
    await laboratory.start_server()
    free = lab.free_port()
    words = [
        *(f"--engine-endpoint=tcp://127.0.0.1:{free}", "--engine-metrics-url=", "--silent-after=500ms"),
        *("--replica-id=r", "--model-id=m", "--log-format=text"),
        *(f"--server={laboratory.nats_url}", f"--nats-token-file={laboratory.directory / 'token'}"),
    ]
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "warmlog", "subscriber", *words), stderr=asyncio.subprocess.PIPE
    )
    assert child.stderr is not None
    try:
        async with asyncio.timeout(20):
            while "kv-events-config" not in (line := (await child.stderr.readline()).decode()):
                assert line, "it ended without a word about it"
            child.send_signal(signal.SIGTERM)
            await child.stderr.read()
            assert await child.wait() == 0
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()


async def test_a_subscribers_metrics_tell_what_came_and_what_is_held(laboratory: lab.Lab) -> None:
    await laboratory.start_engine(ENGINE)
    await laboratory.start_server()
    port = lab.free_port()
    words = subscriber_words(laboratory, metrics_bind_address=f"127.0.0.1:{port}")
    running = asyncio.ensure_future(role("subscriber", *words, timeout=60))
    await warm(laboratory)
    await until_matched(laboratory)
    async with laboratory.http.get(f"http://127.0.0.1:{port}/metrics") as answer:
        page = await answer.text()
    async with laboratory.http.get(f"http://127.0.0.1:{port}/healthz") as answer:
        assert await answer.text() == "ok\n"
    samples = dict(line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
    assert float(samples['warmlog_subscriber_blocks{rank="0"}']) == len(PROMPT) // 16
    assert float(samples['warmlog_subscriber_complete{rank="0"}']) == 1
    assert float(samples['warmlog_subscriber_wire_forms_total{rank="0",form="map"}']) >= 1
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
