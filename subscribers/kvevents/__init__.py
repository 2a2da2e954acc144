"""An engine's KV events, from its ZMQ socket to messages of `WARMLOG_KV`.

    receiving   endpoints · sockets ─ link ─ cursor ─ sequencer ─ replay ─ source ─ facts
    meaning     decode ─ strict ─ lenient ─ batch → table ─ shortcut ─ naming ─ chaining ─ group ─
                pages ─ orphans ─ media ─ holds ─ notes
    keeping     journal ─ tablestate
    speaking    consumer ─ replica ─ session ─ sink
    beside it   metrics ─ exposition (the engine's own statistics)

Token ids come in here and do not leave: what is sent are keys.
"""
