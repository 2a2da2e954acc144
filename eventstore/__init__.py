"""The logs: what an event is, how it is appended exactly once, how it is read back.

    what is said   envelope · events · upcast · facts      subjects · kvwire (WARMLOG_KV)
    where to       store (protocols, errors) ─ memory · jetstream      streams · incarnation
    the past       replay
    for readers    describe (docs/events.md) · asyncapi (docs/asyncapi.yaml) · examples

An audit subscriber needs `jetstream.connect`, `jetstream.store` and `events`: docs/examples/audit_subscriber.py.
"""
