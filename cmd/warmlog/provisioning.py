"""The streams that roles make when they are not there: how large, and how often copied.

A server and a controller make the control log and WARMLOG_KV, whichever comes first; a controller also what it keeps
beside them. A stream that is there already must be as declared: one that has drifted raises Misconfigured.

Rules: eventstore/streams.py declares them.
"""

import asyncio
from typing import Final

import structlog

from eventstore import store, streams
from eventstore.jetstream import connect, provision
from warmlog import flags

log = structlog.get_logger()

FLAGS: Final = (
    flags.Flag("log-max-bytes", "size of WARMLOG when it is made", "1Gi", flags.room),
    flags.Flag("kv-max-bytes", "size of WARMLOG_KV when it is made", "1Gi", flags.room),
    flags.Flag("stream-replicas", "copies of both streams when they are made", "1", flags.at_least(1)),
)


async def logs(values: flags.Values, connection: connect.Connection) -> None:
    """The control log and WARMLOG_KV, waiting for a JetStream that is still starting."""
    replicas = values["stream-replicas"]
    for wanted in (
        streams.control_log(max_bytes=values["log-max-bytes"], replicas=replicas),
        streams.kv_log(max_bytes=values["kv-max-bytes"], replicas=replicas),
    ):
        while True:
            try:
                await provision.provision(connection, wanted)
                break
            except store.Unavailable as error:
                log.warning("waiting for JetStream", stream=wanted.name, reason=str(error))
                await asyncio.sleep(0.5)


async def beside(values: flags.Values, connection: connect.Connection) -> None:
    """Keyframes of the world and reports of skipped events; after the logs, which wait for JetStream."""
    replicas = values["stream-replicas"]
    for wanted in (
        streams.snapshots(max_bytes=values["log-max-bytes"], replicas=replicas),
        streams.dead_letters(replicas=replicas),
    ):
        await provision.provision(connection, wanted)
