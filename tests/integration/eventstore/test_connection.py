"""One connection against real servers: refusals, outages, hung servers, permissions, and its end."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from eventstore import events, store, streams
from eventstore.jetstream import connect, provision
from eventstore.jetstream.bus import JetStreamBus
from eventstore.jetstream.store import JetStreamStore
from tests.support import natsserver
from tests.support.eventstores import insist, moment
from warmlog import link

OPTIONS = connect.Options(name="test")


async def test_no_server_is_said_with_the_address_and_without_a_secret() -> None:
    began = time.monotonic()
    with pytest.raises(store.Unavailable, match=r"no NATS server answers at 127\.0\.0\.1:1 within 0\.3 s") as refused:
        await connect.connect("nats://user:secret@127.0.0.1:1", OPTIONS, wait=0.3)
    assert "secret" not in str(refused.value)
    assert time.monotonic() - began < 3


async def test_a_wrong_token_is_refused_at_once_although_waiting_for_ever(tmp_path: Path) -> None:
    natsserver.require()
    server = await natsserver.Server(tmp_path, token="right").start()
    try:
        with pytest.raises(store.Misconfigured, match=r"refuses the credential of test .* give the token"):
            await asyncio.wait_for(connect.connect(server.url, connect.Options(name="test", token="wrong")), 5)
        async with await connect.connect(server.url, connect.Options(name="test", token="right"), wait=5) as made:
            assert made.connected
    finally:
        await server.stop()


async def test_a_token_that_is_replaced_is_asked_for_at_the_next_connect(tmp_path: Path) -> None:
    """In an outage that the replacing of the secret made, perhaps: the server's may come first."""
    natsserver.require()
    server = await natsserver.Server(tmp_path / "nats", token="old").start()
    token = tmp_path / "token"
    token.write_text("old")
    options = connect.Options(name="test", token=link.SecretFile("nats-token-file", str(token)))
    try:
        async with await connect.connect(server.url, options, wait=5) as made:
            await server.stop()
            server.token = "new"
            await server.start()
            with pytest.raises(store.Unavailable):
                await made.wait_connected(1)
            token.unlink()  # as it is for a moment where a file is replaced
            await asyncio.sleep(0.5)
            token.write_text("new\n")
            await made.wait_connected(5)
            assert made.life == 2
    finally:
        await server.stop()


async def old_server(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """What a server of 2.10 says first; enough of the protocol to be connected to."""
    writer.write(b'INFO {"version":"2.10.26","headers":true,"max_payload":1048576,"jetstream":true}\r\n')
    try:
        async for line in reader:
            if line.startswith(b"PING"):
                writer.write(b"PONG\r\n")
    finally:
        writer.close()


async def test_an_old_server_is_refused_with_what_to_do() -> None:
    async with await asyncio.start_server(old_server, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(
            store.Misconfigured, match=r"nats-server 2\.10\.26 .* too old.* upgrade it to 2\.12 or newer"
        ):
            await connect.connect(f"nats://127.0.0.1:{port}", OPTIONS, wait=5)


async def test_a_server_that_says_nothing_any_more_is_left_at_each_try() -> None:
    """What a stopped nats-server does: its kernel takes every connection. The next try must not leave it open."""
    came, gone, restarted = 0, 0, asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal came, gone
        came += 1
        try:
            if came == 1:
                writer.write(b'INFO {"version":"2.12.3","headers":true,"max_payload":1048576,"jetstream":true}\r\n')
                writer.write(b"PONG\r\n")
                await restarted.wait()
            else:
                while await reader.read(1024):
                    pass
        except ConnectionError:
            pass
        gone += 1
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with await connect.connect(f"nats://127.0.0.1:{port}", OPTIONS, wait=5):
            restarted.set()
            async with asyncio.timeout(20):
                while came < 4:
                    await asyncio.sleep(0.05)
            await asyncio.sleep(0.1)
            assert came - gone == 1


async def test_a_missing_certificate_file_is_said() -> None:
    with pytest.raises(store.Misconfigured, match="cannot read a TLS file"):
        await connect.connect("nats://127.0.0.1:1", connect.Options(name="test", tls_ca="/nowhere/ca.pem"), wait=1)


NEVER = {  # address, options; {} is a directory with a file `binary` that holds neither text nor a key
    "no creds file": ("nats://127.0.0.1:1", {"creds": "{}/none"}),
    "creds that are none": ("nats://127.0.0.1:1", {"creds": "{}/binary"}),
    "no nkey file": ("nats://127.0.0.1:1", {"nkey_seed": "{}/none"}),
    "an nkey that is none": ("nats://127.0.0.1:1", {"nkey_seed": "{}/binary"}),
    "a port that is none": ("nats://127.0.0.1:99999", {}),
    "no address": ("", {}),
}


@pytest.mark.parametrize(("address", "given"), NEVER.values(), ids=NEVER)
async def test_what_can_never_connect_is_one_line(address: str, given: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(bytes(range(128, 256)))
    options = connect.Options(name="test", **{field: path.format(tmp_path) for field, path in given.items()})
    with pytest.raises(store.Misconfigured, match="cannot connect to NATS at") as refused:
        await connect.connect(address, options, wait=2)
    assert "\n" not in str(refused.value)


async def test_an_outage_is_noticed_survived_and_told(nats: natsserver.Server) -> None:
    async with await connect.connect(nats.url, OPTIONS, wait=5) as made:
        heard: list[bytes] = []
        bus = JetStreamBus(made)
        await bus.hear("wlkv.ctl.t.r", heard.append)
        await nats.kill()
        await wait_until(lambda: not made.connected)
        assert made.write(b"PUB x 0\r\n\r\n") is False
        with pytest.raises(store.Unavailable):
            await made.wait_connected(0.1)
        await nats.start()
        await made.wait_connected(5)
        assert made.life == 2
        await bus.send("wlkv.ctl.t.r", b"again")
        await wait_until(lambda: heard == [b"again"])
        await bus.close()


async def test_a_hung_server_costs_a_deadline_and_no_event(nats: natsserver.Server) -> None:
    async with await connect.connect(nats.url, OPTIONS, wait=5) as made:
        await provision.provision(made, streams.control_log())
        log = JetStreamStore(made, deadline=0.5)
        await log.append(moment(1))
        nats.suspend()
        began = time.monotonic()
        with pytest.raises(store.Unavailable, match="may be stored"):
            await log.append(moment(2))
        assert time.monotonic() - began < 1.5
        nats.resume()
        assert (await insist(log, moment(2))).sequence == 2
        await log.close()


@pytest.mark.parametrize("state", ["alive", "dead", "hung"])
async def test_closing_takes_no_longer_than_two_seconds(nats: natsserver.Server, state: str) -> None:
    made = await connect.connect(nats.url, OPTIONS, wait=5)
    await made.tap("a.>", lambda taken: None)
    if state == "dead":
        await nats.kill()
    if state == "hung":
        nats.suspend()
        made.write(b"PUB x 4\r\nabcd\r\n" * 1_000_000)
    began = time.monotonic()
    await made.close()
    assert time.monotonic() - began < 3.5
    with pytest.raises(store.Unavailable, match="closed"):
        await made.request("x", timeout=1)


async def test_an_error_that_nats_py_does_not_know_is_a_reconnect_and_no_end(nats: natsserver.Server) -> None:
    async with await connect.connect(nats.url, OPTIONS, wait=5) as made:
        made.write(b"NONSENSE\r\n")  # the server answers -ERR 'Unknown Protocol Operation' and hangs up
        await wait_until(lambda: made.life == 2)
        assert not made.closed.is_set()


# Permissions ----------------------------------------------------------------------------------------------------------

LIMITED = """
authorization {
  users: [
    { user: admin, password: a }
    { user: role, password: r, permissions: {
        publish: ["wl.moment", "$JS.API.STREAM.INFO.WARMLOG"]
        subscribe: ["_INBOX_role.>"] } }
  ]
}
"""


async def limited(tmp_path: Path) -> natsserver.Server:
    natsserver.require()
    return await natsserver.Server(tmp_path, extra=LIMITED).start()


async def test_a_refused_subject_is_said_at_once_and_names_the_role(tmp_path: Path) -> None:
    server = await limited(tmp_path)
    try:
        async with await connect.connect(
            server.url, connect.Options(name="a", user="admin", password="a"), wait=5
        ) as admin:
            await provision.provision(admin, streams.control_log())
        options = connect.Options(name="role", user="role", password="r", inbox_prefix="_INBOX_role")
        async with await connect.connect(server.url, options, wait=5) as made:
            log = JetStreamStore(made, deadline=5)
            assert (await log.append(moment(1))).sequence == 1
            began = time.monotonic()
            with pytest.raises(store.Misconfigured, match=r"NATS refuses wl\.Other .*grant it to role role"):
                await log.append(moment(2, subject="wl.Other"))
            with pytest.raises(store.Misconfigured, match=r"NATS refuses \$JS\.API\.STREAM\.MSG\.GET\.WARMLOG"):
                await log.last("wl.moment")
            with pytest.raises(store.Misconfigured, match=r"\$JS\.API\.CONSUMER\.CREATE\.WARMLOG"):
                [chunk async for chunk in log.read()]
            assert time.monotonic() - began < 3
            assert made.errors >= 3
            await log.close()
    finally:
        await server.stop()


async def test_an_inbox_that_may_not_be_heard_is_said_by_every_operation(tmp_path: Path) -> None:
    server = await limited(tmp_path)
    try:
        options = connect.Options(name="role", user="role", password="r")  # the default inbox, not the role's
        async with await connect.connect(server.url, options, wait=5) as made:
            log = JetStreamStore(made, deadline=5)
            began = time.monotonic()
            for operation in (log.append(moment(1)), log.extent(), anext(log.read(follow=True))):
                with pytest.raises(store.Misconfigured, match=r"no answers to role role .* subscribe to _INBOX\.>"):
                    await operation
            assert time.monotonic() - began < 2
            await log.close()
    finally:
        await server.stop()


def test_options_show_no_secret() -> None:
    assert "hush" not in repr(connect.Options(name="x", token="hush", password="hush"))


# The bus --------------------------------------------------------------------------------------------------------------


async def test_requests_are_answered_by_one_of_a_queue_and_absence_is_said(nats: natsserver.Server) -> None:
    async with (
        await connect.connect(nats.url, OPTIONS, wait=5) as one,
        await connect.connect(nats.url, OPTIONS, wait=5) as two,
    ):
        answered: list[str] = []

        def answer(name: str) -> store.Answer:
            async def give(payload: bytes) -> bytes:
                answered.append(name)
                if payload == b"fail":
                    raise ValueError("cannot")
                return payload[::-1]

            return give

        buses = [JetStreamBus(one), JetStreamBus(two)]
        await buses[0].serve("wlq.lookup", answer("one"), queue="servers")
        await buses[1].serve("wlq.lookup", answer("two"), queue="servers")
        assert await buses[0].request("wlq.lookup", b"abc", timeout=2) == b"cba"
        assert len(answered) == 1
        with pytest.raises(store.Unavailable, match=r"within 0\.2 s"):
            await buses[0].request("wlq.lookup", b"fail", timeout=0.2)
        assert await buses[0].request("wlq.lookup", b"xy", timeout=2) == b"yx"
        with pytest.raises(store.Unavailable, match=r"nobody listens on wlq\.nothing"):
            await buses[0].request("wlq.nothing", b"", timeout=2)
        for bus in buses:
            await bus.close()


async def test_a_plain_nats_subscriber_reads_the_events(nats: natsserver.Server) -> None:
    """Nothing of ours on its side: nats-py's own subscription and the JSON in the message."""
    import json

    import nats as plain

    theirs = await plain.connect(nats.url)
    subscription = await theirs.subscribe("wl.>")
    await theirs.flush()
    async with await connect.connect(nats.url, OPTIONS, wait=5) as made:
        await provision.provision(made, streams.control_log())
        log = JetStreamStore(made)
        await log.append(moment(3), expected=0)
        message = await subscription.next_msg(timeout=2)
        event = json.loads(message.data)
        assert (event["specversion"], event["type"], event["data"]["kv_sequence"]) == ("1.0", "io.warmlog.moment.v1", 3)
        assert message.subject == event["subject"] == "wl.moment"
        assert message.headers is not None
        assert message.headers["Nats-Msg-Id"] == event["id"]
        assert set(message.headers) == {"Nats-Msg-Id", "Nats-Expected-Last-Subject-Sequence"}
        assert events.TYPES[event["type"]] is events.Moment
        await log.close()
    await theirs.close()


async def wait_until(true: object, timeout: float = 5.0) -> None:
    """Poll a condition that nothing announces."""
    assert callable(true)
    async with asyncio.timeout(timeout):
        while not true():
            await asyncio.sleep(0.01)


async def test_a_socket_that_uvloop_calls_closed_is_an_outage(
    nats: natsserver.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the loss of a socket and nats-py's hearing of it uvloop raises RuntimeError."""

    def closed(*words: Any, **more: Any) -> Any:
        raise RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed")

    async with await connect.connect(nats.url, connect.Options(name="test"), wait=5) as made:
        assert made.write(b"PING\r\n")
        with monkeypatch.context() as patch:
            patch.setattr(made.client._transport, "write", closed)
            assert not made.write(b"PING\r\n")
            patch.setattr(made.client, "request", closed)
            with pytest.raises(store.Unavailable, match=r"no answer from NATS on a .*the handler is closed"):
                await made.request("a")
