"""Both logs on NATS JetStream; the only importer of nats.

the connection   connect ─ private (every private part of nats-py) ─ frames (parser before nats-py's)
writing          publisher ─ appender (exactly once)
reading          reader (every sequence checked)
streams          api ─ provision ─ stream (extent, incarnation)
the protocols    store · kvlog · bus
"""
