"""Run as a script by tests/integration/realparsers: an engine's own argument parser and store configuration reader,
imported from single files of its wheel. What these import and is not there (torch, the rest of the engine) is an empty
stand-in; the parser's definitions, the configuration classes and the readers are the engine's, unchanged.

argv: engine, directory of its files. stdin: one JSON question per line, stdout: one JSON answer each.
    {"argv": [...]}             {"read": {flag: value}} or {"refused": the parser's line}
    {"file": {...}, "env": {…}} {"config": {...}} or {"refused": …}: what the store's client would be given
A process of its own, for the stand-ins take the place of whatever is not installed.
"""

import dataclasses
import importlib.abc
import importlib.machinery
import json
import os
import re
import sys
import tempfile
import types
import warnings
from typing import Any

ENGINES = ("vllm", "sglang")


class _Anything(type):
    """A class that can be subclassed, called, used as decorator, iterated and added: as nothing."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = _Anything(name, (Nothing,), {})
        type.__setattr__(cls, name, made)
        return made

    def __call__(cls, *words: Any, **named: Any) -> Any:
        if len(words) == 1 and callable(words[0]) and not named:
            return words[0]
        return type.__call__(cls)

    def __iter__(cls) -> Any:
        return iter(())

    def __len__(cls) -> int:
        return 0

    def __or__(cls, other: Any) -> Any:
        return cls

    __ror__ = __getitem__ = __or__

    def __add__(cls, other: Any) -> Any:
        return other

    __radd__ = __add__


class Nothing(metaclass=_Anything):
    def __init_subclass__(cls, **named: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing

    def __call__(self, *words: Any, **named: Any) -> Any:
        return words[0] if len(words) == 1 and callable(words[0]) and not named else Nothing()

    def __iter__(self) -> Any:
        return iter(())

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return ""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.any_schema()


class Absent(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name == "__version__":
            return "9.9.9"
        if name.startswith("__"):
            raise AttributeError(name)
        made = _Anything(name, (Nothing,), {})
        setattr(self, name, made)
        return made


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """The last finder: whatever nobody else has."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] in sys.stdlib_module_names:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> Any:
        return Absent(spec.name)

    def exec_module(self, module: Any) -> None:
        module.__path__ = []


def package(name: str, *where: str) -> Absent:
    """A package whose own __init__ is not run: submodules come from `where`, or are stand-ins."""
    module = Absent(name)
    module.__path__ = list(where)
    sys.modules[name] = module
    return module


class CPU(Nothing):
    device_type = "cpu"


def vllm(root: str) -> tuple[Any, Any]:
    sys.modules["regex"] = re
    package("vllm", f"{root}/vllm")
    package("vllm.config.quantization")  # kernels' formats: their classes check themselves against torch's
    package("vllm.platforms").current_platform = CPU()
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    def reader() -> Any:
        from vllm.distributed.kv_transfer.kv_connector.v1.mooncake.store.worker import MooncakeStoreConfig

        return MooncakeStoreConfig.load_from_config()

    return AsyncEngineArgs.add_cli_args(FlexibleArgumentParser(prog="vllm")), reader


def sglang(root: str) -> tuple[Any, Any]:
    import argparse

    for name in ("sglang", "sglang.srt", "sglang.srt.mem_cache", "sglang.srt.mem_cache.storage"):
        package(name, f"{root}/{name.replace('.', '/')}")
    from sglang.srt.server_args import ServerArgs

    parser = argparse.ArgumentParser(prog="sglang")
    ServerArgs.add_cli_args(parser)

    def reader() -> Any:
        from sglang.srt.mem_cache.storage.mooncake_store.mooncake_store import MooncakeStoreConfig

        return MooncakeStoreConfig.load_from_env()

    return parser, reader


class Refused(Exception):
    pass


def parsed(parser: Any, argv: list[str]) -> dict[str, Any]:
    def refuse(line: str) -> None:
        raise Refused(line)

    parser.error = refuse
    found = vars(parser.parse_args(argv))
    defaults = vars(parser.parse_args(["--model-path", "m"] if "--model-path" in argv else []))
    return {key: plain(value) for key, value in found.items() if plain(value) != plain(defaults.get(key))}


def plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        keep = ("kv_connector", "kv_role")
        return {one.name: plain(getattr(value, one.name)) for one in dataclasses.fields(value) if one.name in keep}
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def read(reader: Any, question: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as directory:
        env = dict(question["env"])
        if question.get("file") is not None:
            path = os.path.join(directory, "mooncake.json")
            with open(path, "w") as file:
                json.dump(question["file"], file)
            env["MOONCAKE_CONFIG_PATH"] = path
        os.environ.update(env)
        try:
            return dict(dataclasses.asdict(reader()))
        finally:
            for name in env:
                del os.environ[name]


def main() -> None:
    warnings.simplefilter("ignore")
    engine, root = sys.argv[1:]
    sys.meta_path.append(StandIns())
    out, sys.stdout = sys.stdout, sys.stderr  # engines print what they like
    parser, reader = {"vllm": vllm, "sglang": sglang}[engine](root)
    for line in sys.stdin:
        question = json.loads(line)
        try:
            if "argv" in question:
                answer: dict[str, Any] = {"read": parsed(parser, question["argv"])}
            else:
                answer = {"config": read(reader, question)}
        except (Refused, ValueError, TypeError, SystemExit) as error:
            answer = {"refused": str(error)}
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main()
