"""Follow everything that Warmlog learns and decides: python audit_subscriber.py nats://127.0.0.1:4222 [token]"""

import asyncio
import sys

from eventstore import events
from eventstore.jetstream import connect, store


async def main(url: str, token: str | None = None) -> None:
    async with await connect.connect(url, connect.Options(name="audit", token=token), wait=10) as connection:
        log = store.JetStreamStore(connection)
        async for batch in log.read(follow=True):  # an empty batch says: nothing more for now
            for stored in batch:
                match events.decode(stored):
                    case events.Decoded(envelope=event, data=data):
                        print(stored.sequence, event.time, event.type, event.subject, data, flush=True)
                    case events.Undecodable(reason=reason):
                        print(stored.sequence, "skipped:", reason, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
