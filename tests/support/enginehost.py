"""Run as a script by realengine.py: one process in which an engine's own, unmodified KV event module runs.

argv: the directory that the module lies in, the engine, the descriptor of a socket. Over it come tuples, a command and
its arguments; each is answered with (True, value) or (False, text).

The module is imported under its own name. What it imports and does not need here is filled in: loggers, the type
of a block hash, addresses of this machine. Its config class is its own from vLLM 0.10.2 on and in every SGLang; up to
vLLM 0.10.1 it lies in a module that needs torch, so a class with the same fields stands in for it.
"""

import dataclasses
import importlib
import json
import logging
import sys
import time
import traceback
import types
from multiprocessing.connection import Connection
from typing import Any

MODULES = {"vllm": "vllm.distributed.kv_events", "sglang": "sglang.srt.disaggregation.kv_events"}


@dataclasses.dataclass
class EarlyConfig:
    """KVEventsConfig of vLLM 0.9.0 to 0.10.1, field for field."""

    enable_kv_cache_events: bool = False
    publisher: str = "null"
    endpoint: str = "tcp://*:5557"
    replay_endpoint: str | None = None
    buffer_steps: int = 10_000
    hwm: int = 100_000
    max_queue_size: int = 100_000
    topic: str = ""


def as_config(cls: type) -> type:
    """What vLLM's @config does for such a class."""
    import pydantic.dataclasses

    return cls if dataclasses.is_dataclass(cls) else pydantic.dataclasses.dataclass(cls)


def unneeded(*_: Any) -> Any:
    raise AssertionError("this is for endpoints and settings that the tests do not use")


NETWORK = dict.fromkeys(["get_ip", "get_tcp_uri", "is_valid_ipv6_address", "split_zmq_path"], unneeded)
STANDINS: dict[str, dict[str, Any]] = {
    "vllm.logger": {"init_logger": logging.getLogger},
    "vllm.config.utils": {"config": as_config},
    "vllm.utils.network_utils": NETWORK,
    "vllm.v1.core.kv_cache_utils": {"ExternalBlockHash": bytes | int},
    "sglang.srt.runtime_context": {"get_parallel": unneeded},
    "sglang.srt.utils.network": {"NetworkAddress": unneeded},
}


def stand_in() -> None:
    for name, contents in STANDINS.items():
        module = types.ModuleType(name)
        vars(module).update(contents)
        sys.modules[name] = module


class Host:
    def __init__(self, engine: str) -> None:
        self.engine = engine
        stand_in()
        try:
            self.config: Any = None if engine == "sglang" else importlib.import_module("vllm.config.kv_events")
        except ModuleNotFoundError:
            sys.modules["vllm.config"] = self.config = types.ModuleType("vllm.config")
            self.config.KVEventsConfig = EarlyConfig
        self.module = importlib.import_module(MODULES[engine])
        self.publishers: list[Any] = []
        self.published: list[int] = []

    def fields(self, name: str) -> tuple[str, ...] | None:
        """The fields of one of the module's structs, None when it has no such struct."""
        struct = getattr(self.module, name, None)
        return None if struct is None else struct.__struct_fields__

    def start(self, rank: int, settings: dict[str, Any]) -> int:
        """A publisher made by the engine's own factory; its number."""
        factory = self.module.EventPublisherFactory
        if self.engine == "sglang":
            made = factory.create(json.dumps({"publisher": "zmq", **settings}), attn_dp_rank=rank)
        else:
            config = self.config.KVEventsConfig(enable_kv_cache_events=True, publisher="zmq", **settings)
            ranks = {"data_parallel_rank": rank} if "data_parallel_rank" in self.fields("KVEventBatch") else {}
            made = factory.create(config, **ranks)
        assert type(made).__name__ == "ZmqEventPublisher", made
        self.publishers.append(made)
        self.published.append(0)
        return len(self.publishers) - 1

    def publish(self, number: int, batches: list[tuple[float, list[tuple[str, dict[str, Any]]]]]) -> None:
        """Batches of the engine's own event objects; back when its thread has sent them and kept them for replay."""
        publisher = self.publishers[number]
        for ts, events in batches:
            made = [self.event(name, values) for name, values in events]
            publisher.publish(self.module.KVEventBatch(ts=ts, events=made))
            self.published[number] += 1
        while not publisher._buffer or publisher._buffer[-1][0] != self.published[number] - 1:
            time.sleep(0.001)

    def event(self, name: str, values: dict[str, Any]) -> Any:
        media = getattr(self.module, "StorageMedium", None)
        if media is not None and values.get("medium") is not None:
            values = values | {"medium": media(values["medium"])}
        if "metadata" in values:  # SGLang 0.5.18 and 0.5.19
            values = values | {"metadata": self.module.BlockStoredMetadata(**values["metadata"])}
        return getattr(self.module, name)(**values)


def main() -> None:
    root, engine, descriptor = sys.argv[1:]
    sys.path.insert(0, root)
    connection = Connection(int(descriptor))
    host = Host(engine)
    connection.send((True, None))
    while True:
        try:
            command, *arguments = connection.recv()
        except EOFError:
            return
        try:
            connection.send((True, getattr(host, command)(*arguments)))
        except Exception:  # told to the test, which fails with it
            connection.send((False, traceback.format_exc()))


if __name__ == "__main__":
    main()
