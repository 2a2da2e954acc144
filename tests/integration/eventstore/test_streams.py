"""Provisioning against a real server: every setting read back, drift refused, safe changes on request."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from eventstore import store, streams
from eventstore.jetstream import api, connect, provision
from eventstore.jetstream.store import JetStreamStore
from tests.support import natsserver
from tests.support.eventstores import moment

OPTIONS = connect.Options(name="test")


async def config_of(made: connect.Connection, name: str) -> dict[str, Any]:
    info = await api.stream_info(made, name)
    assert info is not None
    config: dict[str, Any] = info["config"]
    return config


@pytest.mark.parametrize("wanted", [streams.control_log(), streams.kv_log()], ids=["WARMLOG", "WARMLOG_KV"])
async def test_a_stream_is_made_once_and_verified_afterwards(nats: natsserver.Server, wanted: streams.Stream) -> None:
    async with await connect.connect(nats.url, OPTIONS, wait=5) as made:
        with pytest.raises(store.Misconfigured, match=f"there is no stream {wanted.name}"):
            await provision.provision(made, wanted, create=False)
        await asyncio.gather(*(provision.provision(made, wanted) for _ in range(5)))
        config = await config_of(made, wanted.name)
        assert config["allow_direct"]
        assert sorted(config["subjects"]) == sorted(wanted.subjects)
        await provision.provision(made, wanted, create=False)


DRIFTS: dict[str, tuple[dict[str, Any], str]] = {
    "discard": ({"discard": "old"}, "discard: wanted 'new', found 'old'"),
    "short window": ({"duplicate_window": 120 * 10**9}, "duplicate_window: wanted 600000000000, found 120000000000"),
    "deletable": ({"deny_delete": False}, "deny_delete: wanted True, found False"),
    "other subjects": ({"subjects": ["wl.a"]}, r"subjects: wanted \['wl.>'\], found \['wl.a'\]"),
    "in memory": ({"storage": "memory"}, "storage: wanted 'file', found 'memory'"),
    "per subject": ({"max_msgs_per_subject": 1}, "max_msgs_per_subject: wanted -1, found 1"),
    "transform": (
        {"subject_transform": {"src": "wl.>", "dest": "x.>"}},
        "subject_transform: wanted off, found .*'dest': 'x.>'",
    ),
    "asynchronous": ({"persist_mode": "async"}, "persist_mode: wanted 'default', found 'async'"),
}


@pytest.mark.parametrize(("change", "says"), DRIFTS.values(), ids=DRIFTS)
async def test_a_drifted_stream_is_refused_and_left_alone(
    nats: natsserver.Server, change: dict[str, Any], says: str
) -> None:
    wanted = streams.control_log()
    async with await connect.connect(nats.url, OPTIONS, wait=5) as made:
        await api.call(made, "STREAM.CREATE.WARMLOG", {**wanted.config(), **change})
        before = await config_of(made, "WARMLOG")
        with pytest.raises(store.Misconfigured, match=f"stream WARMLOG is not as Warmlog needs it: .*{says}"):
            await provision.provision(made, wanted)
        assert await config_of(made, "WARMLOG") == before


async def test_safe_changes_are_made_when_asked_and_keep_what_we_do_not_know(nats: natsserver.Server) -> None:
    small = streams.control_log(max_bytes=1 << 20, max_age=3600.0)
    async with await connect.connect(nats.url, OPTIONS, wait=5) as made:
        drifted = {**small.config(), "deny_delete": False, "description": "kept", "metadata": {"owner": "someone"}}
        await api.call(made, "STREAM.CREATE.WARMLOG", drifted)
        with pytest.raises(store.Misconfigured, match="nats stream edit WARMLOG"):
            await provision.provision(made, streams.control_log())
        await provision.provision(made, streams.control_log(), change=True)
        config = await config_of(made, "WARMLOG")
        assert (config["max_bytes"], config["deny_delete"], config["description"]) == (1 << 30, True, "kept")
        assert config["metadata"]["owner"] == "someone"
        with pytest.raises(store.Misconfigured, match="max_bytes: wanted 1048576, found 1073741824"):
            await provision.provision(made, small, change=True)


async def test_a_stream_larger_than_the_server_s_storage_is_refused(nats: natsserver.Server) -> None:
    async with await connect.connect(nats.url, OPTIONS, wait=5) as made:
        with pytest.raises(
            store.Misconfigured, match=r"cannot make stream WARMLOG: .*check the server's JetStream limits"
        ):
            await provision.provision(made, streams.control_log(max_bytes=1 << 60))


async def test_the_past_cannot_be_deleted(nats: natsserver.Server) -> None:
    async with await connect.connect(nats.url, OPTIONS, wait=5) as made:
        await provision.provision(made, streams.control_log())
        log = JetStreamStore(made)
        await log.append(moment(1))
        for verb, body in (("STREAM.MSG.DELETE.WARMLOG", {"seq": 1}), ("STREAM.PURGE.WARMLOG", None)):
            with pytest.raises(api.ApiError):
                await api.call(made, verb, body)
        await log.close()


async def test_a_missing_stream_is_said_by_every_operation(nats: natsserver.Server) -> None:
    async with await connect.connect(nats.url, OPTIONS, wait=5) as made:
        log = JetStreamStore(made, deadline=0.4)
        for operation in (log.append(moment(1)), log.extent(), log.last("wl.moment"), collect(log)):
            with pytest.raises(store.Misconfigured, match="there is no stream WARMLOG"):
                await operation
        with pytest.raises(store.Misconfigured, match="there is no stream WARMLOG"):
            await JetStreamStore.open(made)
        await log.close()


async def collect(log: store.EventStore) -> list[store.Stored]:
    return [one async for chunk in log.read() for one in chunk]


async def test_a_server_without_jetstream_is_unavailable_with_the_reasons(tmp_path: Path) -> None:
    natsserver.require()
    server = await natsserver.Server(tmp_path, extra="jetstream: disabled").start()
    try:
        async with await connect.connect(server.url, OPTIONS, wait=5) as made:
            with pytest.raises(store.Unavailable, match="JetStream is starting, has no leader, or is not enabled"):
                await provision.provision(made, streams.control_log())
    finally:
        await server.stop()
