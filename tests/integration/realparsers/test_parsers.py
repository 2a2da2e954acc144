"""What the injection renders, read by the engines' own argument parsers and configuration readers, and by the Mooncake
package's.

Excluded: that the configured client then works (no GPU here), and vLLM-Ascend, whose package needs its own runtime.
"""

import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devkube.patches import json_patch
from handlers.admission import flags
from handlers.kvcachepool import inject, names
from handlers.kvcachepool.engines import ENGINES
from handlers.kvcachepool.inject import Settings
from tests.support import enginefiles, real
from tests.support.kvpools import STORE, backend, binding, pod, pool, world

SHELL = Path(enginefiles.__file__).with_name("engineshell.py")


class Engine:
    """A process with the engine's own files."""

    def __init__(self, release: enginefiles.Release) -> None:
        self.release = release
        words = [sys.executable, str(SHELL), release.engine, str(enginefiles.require(release))]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **question: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        return found

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


def release(name: str) -> enginefiles.Release:
    return next(one for one in enginefiles.PARSERS if one.engine == name)


@pytest.fixture(scope="module")
def vllm() -> Iterator[Engine]:
    made = Engine(release("vllm"))
    yield made
    made.end()


@pytest.fixture(scope="module")
def sglang() -> Iterator[Engine]:
    made = Engine(release("sglang"))
    yield made
    made.end()


def injected(engine: str, annotations: Any = None, *objects: Any, **settings: Any) -> Any:
    given = pod(engine, annotations)
    decision = inject.decide(given, "team", world(*(objects or STORE)), Settings(**settings))
    assert decision.verdict == "patched", decision.reason
    return json_patch(given, list(decision.patch))


def container(given: Any) -> Any:
    return given["spec"]["containers"][0]


ROLES = {None: "kv_both", "Prefill": "kv_producer", "Decode": "kv_consumer"}


@pytest.mark.parametrize("role", ROLES)
def test_vllm_takes_every_argument(vllm: Engine, role: str | None) -> None:
    argv = container(injected("vLLM", {names.ROLE: role}))["args"][2:]
    assert vllm.ask(argv=argv) == {
        "read": {
            "kv_transfer_config": {"kv_connector": "MooncakeStoreConnector", "kv_role": ROLES[role]},
            "kv_cache_dtype": "bfloat16",
        }
    }


def test_vllm_takes_the_arguments_of_ascend(vllm: Engine) -> None:
    """Its parser is vLLM's; the connector is looked up later."""
    ascend = injected("vLLM", {names.MANUFACTURER: "ascend"}, binding(), pool(), backend(protocol="CANN"))
    read = vllm.ask(argv=container(ascend)["args"][2:])["read"]
    assert read["kv_transfer_config"]["kv_connector"] == "AscendStoreConnector"


def test_vllm_s_store_client_reads_the_file(vllm: Engine) -> None:
    document = json.loads(injected("vLLM")["metadata"]["annotations"][names.CLIENT_CONFIG])
    config = vllm.ask(file=document, env={})["config"]
    assert document.items() <= config.items()


def test_vllm_falls_back_to_the_default_tenant(vllm: Engine) -> None:
    """Without a ledger no tenant is written."""
    document = json.loads(injected("vLLM")["metadata"]["annotations"][names.CLIENT_CONFIG])
    del document["tenant_id"]
    assert vllm.ask(file=document, env={})["config"]["tenant_id"] == "default"


def test_sglang_takes_every_argument(sglang: Engine) -> None:
    argv = container(injected("SGLang"))["args"]
    assert sglang.ask(argv=argv)["read"] == {
        "hicache_storage_backend": "mooncake",
        "kv_cache_dtype": "bfloat16",
        "enable_hierarchical_cache": True,
    }


def env_of(given: Any) -> dict[str, str]:
    """As the kubelet resolves it."""
    return {one["name"]: one.get("value", "10.0.0.7") for one in container(given)["env"]}


def test_sglang_s_store_client_reads_the_environment(sglang: Engine) -> None:
    config = sglang.ask(env=env_of(injected("SGLang")))["config"]
    assert {
        "local_hostname": "10.0.0.7",
        "metadata_server": "P2PHANDSHAKE",
        "master_server_address": "m:50051",
        "protocol": "tcp",
        "device_name": "",
        "global_segment_size": 0,
        "tenant_id": "team-chat",
    }.items() <= config.items()


def mooncake() -> Any:
    try:
        return importlib.import_module("mooncake.mooncake_config")
    except ImportError as error:
        real.lacks(f"mooncake-transfer-engine-non-cuda: {error}")


def test_mooncake_s_own_reader_takes_both_vehicles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks for a host name, which vLLM adds when it starts."""
    config = mooncake().MooncakeConfig
    document = json.loads(injected("vLLM")["metadata"]["annotations"][names.CLIENT_CONFIG])
    (tmp_path / "c.json").write_text(json.dumps({**document, "local_hostname": "10.0.0.7"}))
    read = config.from_file(str(tmp_path / "c.json"))
    for name, value in env_of(injected("SGLang")).items():
        monkeypatch.setenv(name, value)
    for found in (read, config.load_from_env()):
        assert (found.master_server_address, found.metadata_server) == ("m:50051", "P2PHANDSHAKE")
        assert (found.protocol, found.device_name, found.global_segment_size) == ("tcp", "", 0)
    assert read.local_buffer_size == names.STAGING


#: What a word must be read as, by the parser and by us. `None`: neither takes it for the flag.
KV, DTYPE, BACKEND = names.KV_TRANSFER, names.DTYPE, names.HICACHE_BACKEND
CONFIG = '{"kv_connector":"X","kv_role":"kv_both"}'
SPELLINGS: list[tuple[str, list[str], str | None]] = [
    ("vllm", [KV, CONFIG], KV),
    ("vllm", [f"{KV}={CONFIG}"], KV),
    ("vllm", ["--kv_transfer_config", CONFIG], KV),
    ("vllm", ["--kv-tr", CONFIG], KV),
    ("vllm", ["--kv_tr", CONFIG], KV),
    ("vllm", [f"{KV}.kv_connector", "X", f"{KV}.kv_role", "kv_both"], KV),
    ("vllm", ["--kv_transfer_config.kv_connector=X", "--kv_transfer_config.kv_role=kv_both"], KV),
    ("vllm", [DTYPE, "fp8"], DTYPE),
    ("vllm", ["--kv_cache_dtype=fp8"], DTYPE),
    ("vllm", ["--kv-cache-dtype-skip-layers", "0"], None),
    ("vllm", ["--kv-cache-memory-bytes", "1"], None),
    ("sglang", [BACKEND, "file"], BACKEND),
    ("sglang", ["--hicache-storage-ba=file"], None),  # ambiguous for argparse, refused by us all the same
    ("sglang", [DTYPE, "bf16"], DTYPE),
    ("sglang", ["--kv-cache-dt=bf16"], DTYPE),
]
DESTINATIONS = {KV: "kv_transfer_config", DTYPE: "kv_cache_dtype", BACKEND: "hicache_storage_backend"}


@pytest.mark.parametrize(("engine", "argv", "key"), SPELLINGS, ids=lambda value: str(value)[:40])
def test_spellings_are_read_as_the_engine_reads_them(
    request: pytest.FixtureRequest, engine: str, argv: list[str], key: str | None
) -> None:
    asked: Engine = request.getfixturevalue(engine)
    ours = ENGINES[engine]
    answer = asked.ask(argv=[*(["--model-path", "m"] if engine == "sglang" else []), *argv])
    theirs = [flag for flag, name in DESTINATIONS.items() if name in answer.get("read", {})]
    found = {hit.key for hit in flags.hits(argv, (KV, DTYPE, BACKEND), ours.dialect, ours.keys)}
    assert theirs == ([key] if key else [])
    assert found == ({key} if key else set()) or "ambiguous" in answer.get("refused", "")


def test_sglang_does_not_rewrite_underscores(sglang: Engine) -> None:
    assert "unrecognized" in sglang.ask(argv=["--model-path", "m", "--kv_cache_dtype", "bf16"])["refused"]
    assert not flags.hits(["--kv_cache_dtype"], (DTYPE,), flags.SGLANG)


DTYPES = [("vllm", "bf16"), ("sglang", "fp8"), ("sglang", "float16")]


@pytest.mark.parametrize(("engine", "dtype"), DTYPES)
def test_data_types_that_an_engine_does_not_take(request: pytest.FixtureRequest, engine: str, dtype: str) -> None:
    """What we warn of."""
    asked: Engine = request.getfixturevalue(engine)
    model = ["--model-path", "m"] if engine == "sglang" else []
    assert "invalid choice" in asked.ask(argv=[*model, DTYPE, dtype])["refused"]
    assert "read" in asked.ask(argv=[*model, DTYPE, "bfloat16"])
