"""`warmlog identity`, and Kernel Cache through the tools that need no cluster."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from handlers.kernelcache import names
from tests.support import kernelcaches as kc
from warmlog import cli

Object = dict[str, Any]
SERVING = "serving.kserve.io/v1alpha1"


def file(path: Path, *documents: Object) -> str:
    path.write_text(yaml.safe_dump_all(documents))
    return str(path)


def pod(**container: Any) -> Object:
    return {"apiVersion": "v1", "kind": "Pod", **kc.pod(**container)}


def state(of: Object, **settings: Any) -> list[Object]:
    cache = kc.cache("c1", of)
    text = json.dumps({"enabled": True, **settings})
    return [
        {"apiVersion": SERVING, "kind": "KernelCache", **cache},
        {"apiVersion": SERVING, "kind": "KernelCacheNode", **kc.node("n1", cache)},
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": names.CONFIG_MAP, "namespace": "kserve"},
            "data": {names.CONFIG_KEY: text},
        },
    ]


def test_identity_explains_each_factor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = pod(command=["vllm", "serve"], args=["--dtype=half", "-O3"], env=[{"name": "VLLM_X", "value": "hunter2"}])
    assert cli.main(["identity", "-f", file(tmp_path / "pod", given)]) == 0
    out = capsys.readouterr().out
    for part in (
        "option.dtype  float16  (args[0])",
        "(container kserve-container: digest)",
        "(hf://org/m)",
        "(--optimization-level, VLLM_X)",
        "workload footprint: sha256:",
        "compatibility footprint: sha256:",
    ):
        assert part in out
    assert "hunter2" not in out


def test_identity_says_why_a_launch_is_opaque(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = pod(command=["sh", "-c", "vllm serve"], image="rt/vllm")
    assert cli.main(["identity", "-f", file(tmp_path / "pod", given)]) == 0
    out = capsys.readouterr().out
    assert "command[0]: a shell (sh) is not interpreted" in out
    assert "compatibility footprint: none: the image is floating, pin it" in out


def test_identity_of_a_pod_without_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["identity", "-f", file(tmp_path / "pod", pod(image="a b"))]) == cli.FAILED
    assert "no identity: the runtime image 'a b' has a blank in it" in capsys.readouterr().out


def test_identity_is_that_of_the_pod_before_it_was_admitted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`kubectl get pod -o yaml` shows what was added too."""
    plain = kc.pod(readinessProbe=kc.PROBE)
    captured, _ = kc.Cluster().decide(plain)
    found = []
    for one in (plain, captured):
        document = {"apiVersion": "v1", "kind": "Pod", **one}
        assert cli.main(["identity", "-o", "json", "-f", file(tmp_path / "pod", document)]) == 0
        found.append(json.loads(capsys.readouterr().out)["identity"])
    assert found[0] == found[1]


def test_identity_with_a_state_names_each_cache(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = file(tmp_path / "state", *state(pod(args=["--max-model-len=4096"])))
    fits, other = (file(tmp_path / n, pod(args=[f"--max-model-len={n}"])) for n in ("4096", "8192"))
    assert cli.main(["identity", "-f", fits, "--state", made]) == 0
    assert "cache c1: chosen by its workload footprint; ready on n1" in capsys.readouterr().out
    assert cli.main(["identity", "-f", other, "--state", made]) == 0
    assert "cache c1: footprints: option.maxModelLen is 8192 here and 4096 there" in capsys.readouterr().out


def test_a_file_without_a_pod(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["identity", "-f", file(tmp_path / "f", *state(pod()))]) == cli.FAILED
    assert "there is no Pod in it" in capsys.readouterr().err


def test_inject_mounts_and_warns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given, made = file(tmp_path / "pod", pod()), file(tmp_path / "state", *state(pod()))
    words = ["inject", "-f", given, "--state", made, "--kernel-cache-linker-image", "mine:1"]
    assert cli.main(words) == 0
    after = yaml.safe_load(capsys.readouterr().out.removeprefix("---\n"))
    assert after["spec"]["initContainers"][0]["image"] == "mine:1"
    assert "kernelCache" not in after
    broken = file(tmp_path / "broken", *state(pod(), abandonedCapturePolicy="drop"))
    assert cli.main(["inject", "-f", given, "--state", broken]) == 0
    assert "abandonedCapturePolicy must be retain or delete" in capsys.readouterr().err


def test_validate_judges_immutability(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = state(pod())[0], state(pod(args=["-tp=2"]))[0]
    words = ["validate", "-f", file(tmp_path / "new", new), "--old", file(tmp_path / "old", old)]
    assert cli.main(words) == cli.REFUSED
    assert "spec.artifact: " in (out := capsys.readouterr().out)
    assert "artifact is immutable" in out
    assert cli.main([*words[:2], words[4], *words[3:]]) == 0
