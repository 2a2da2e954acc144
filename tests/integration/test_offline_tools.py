"""inject, validate and crds as a shell runs them: every documented line, exit codes, what goes to which stream.

Excluded: what is decided (tests/unit/test_offline.py, conformance).
"""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "deploy" / "samples"
TOOLS = ("inject", "validate", "crds")
BACKEND = """
apiVersion: inferencecache.io/v1alpha1
kind: CacheBackend
metadata: {name: kv}
spec: {runtime: VLLM, engineSelector: {matchLabels: {app: vllm}}}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: engine, labels: {app: vllm}}
spec: {containers: [{name: vllm, image: vllm/vllm-openai, args: [--model=m]}]}
"""


def run(place: Path, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "warmlog", *words], cwd=place, input=stdin, capture_output=True, text=True, timeout=30
    )


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with the files that examples speak of."""
    for name in ("cachebackend", "cachebackends", "new", "old"):
        (tmp_path / f"{name}.yaml").write_text(BACKEND)
    (tmp_path / "pod.yaml").write_text(POD)
    return tmp_path


def examples() -> list[str]:
    """The lines of --help and of docs that call one of the tools."""
    pages = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md", *(ROOT / "cmd" / "warmlog" / f"{t}.py" for t in TOOLS)]
    found = set()
    for page in pages:
        text = page.read_text()
        lines = [line.strip().partition("  #")[0].strip() for line in text.splitlines()]
        found |= {line for line in lines if re.match(rf"(kubectl [^|`]*\| *)?warmlog ({'|'.join(TOOLS)}) ", line)}
        if page.suffix == ".md":
            found |= set(re.findall(rf"`(warmlog (?:{'|'.join(TOOLS)}) [^`…]*)`", text.replace("\n", " ")))
    return sorted(found)


@pytest.mark.parametrize("line", examples())
def test_every_documented_line_runs_as_it_is_printed(place: Path, line: str) -> None:
    """What stands before the pipe gives the backends, what stands behind it is not run."""
    parts = [part.strip() for part in line.split("|")]
    stdin = BACKEND if parts[0].startswith("kubectl") else ""
    words = shlex.split(next(part for part in parts if part.startswith("warmlog ")))[1:]
    done = run(
        place, *({"FILE": "cachebackend.yaml", "POD": "pod.yaml"}.get(word, word) for word in words), stdin=stdin
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_examples_are_found() -> None:
    assert len(examples()) >= 6
    assert {line.partition("warmlog ")[2].partition(" ")[0] for line in examples()} >= set(TOOLS) - {"crds"}


def test_a_wired_pod_goes_to_standard_output_and_may_be_injected_again(place: Path) -> None:
    first = run(place, "inject", "-f", "pod.yaml", "--state", "cachebackends.yaml")
    pod = yaml.safe_load(first.stdout)
    assert pod["metadata"]["annotations"]["inferencecache.io/injected-by"] == "default/kv"
    again = run(place, "inject", "-f", "-", "--state", "cachebackends.yaml", stdin=first.stdout)
    assert yaml.safe_load(again.stdout) == pod


def test_why_a_pod_is_not_wired_goes_to_standard_error(place: Path) -> None:
    (place / "pod.yaml").write_text(POD.replace("[{name: vllm,", "[{name: a, image: a}, {name: b,"))
    done = run(place, "inject", "-f", "pod.yaml", "--state", "cachebackends.yaml")
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        "engine: mpod.inferencecache.io: not wired to CacheBackend default/kv: "
        "which of 2 containers is the engine? Name it vllm"
    ]
    assert "annotations" not in yaml.safe_load(done.stdout)["metadata"]


def test_a_pod_that_nothing_concerns_is_told_of_on_standard_error(place: Path) -> None:
    done = run(place, "inject", "-f", "pod.yaml")
    assert done.returncode == 0
    told = "engine: nothing would change: is it wired already?"
    assert done.stderr.splitlines() == [told, "engine: there is no CacheBackend in its namespace, default"]
    (place / "other.yaml").write_text(BACKEND.replace("matchLabels: {", "matchLabels: {tier: gold, "))
    done = run(place, "inject", "-f", "pod.yaml", "--state", "other.yaml")
    assert done.stderr.splitlines() == [told, "engine: CacheBackend kv: the Pod lacks tier=gold"]


def test_a_refused_manifest_is_exit_code_3_with_a_line_per_violation(place: Path) -> None:
    (place / "bad.yaml").write_text(BACKEND.replace("runtime: VLLM", "runtime: TGI, replicas: -1"))
    done = run(place, "validate", "-f", "bad.yaml")
    assert done.returncode == 3
    assert done.stdout.splitlines() == [
        'CacheBackend/default/kv: spec.runtime: Unsupported value: "TGI": supported values: "VLLM", "SGLang"',
        "CacheBackend/default/kv: spec.replicas: Invalid value: -1: should be greater than or equal to 0",
    ]
    assert done.stderr == ""


def test_an_update_may_keep_what_a_new_object_may_not_have(place: Path) -> None:
    broken = BACKEND.replace("runtime: VLLM", "runtime: VLLM, remoteStorage: {provider: Mooncake, ownership: External}")
    for name in ("old", "new"):
        (place / f"{name}.yaml").write_text(broken)
    assert run(place, "validate", "-f", "new.yaml").returncode == 3
    assert run(place, "validate", "-f", "new.yaml", "--old", "old.yaml").returncode == 0


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_samples_are_admitted(tmp_path: Path, path: Path) -> None:
    done = run(tmp_path, "validate", "-f", str(path))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["inject"], 2, "--file (or WARMLOG_FILE) is required"),
        (["inject", "-f", "absent.yaml"], 1, "absent.yaml: No such file or directory"),
        (["inject", "-f", "cachebackend.yaml"], 1, "there is no Pod in it"),
        (["inject", "-f", "pod.yaml", "--state", "absent"], 1, "absent: No such file or directory"),
        (["inject", "-f", "pod.yaml", "-o", "xml"], 2, "'xml' is none of"),
        (["validate", "-f", "broken.yaml"], 1, "while parsing"),
        (["validate", "-f", "empty.yaml"], 1, "there is no kind in it that a webhook here validates"),
        (["validate", "-f", "cachebackend.yaml", "--old", "absent.yaml"], 1, "absent.yaml: No such file"),
        (["validate", "-f", "binary.yaml"], 1, "binary.yaml: "),
        (["crds", "--group", "example.com"], 2, "there is no group 'example.com'; there are inferencecache.io"),
        (["crds", "more"], 2, "unrecognized arguments: more"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_what_cannot_be_done_is_one_line(place: Path, words: list[str], code: int, says: str) -> None:
    (place / "broken.yaml").write_text("[1,2")
    (place / "empty.yaml").write_text("---\n---\n")
    (place / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    done = run(place, *words)
    assert done.returncode == code, done.stderr
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""


def test_crds_are_what_is_checked_in() -> None:
    told = {one["metadata"]["name"]: one for one in yaml.safe_load_all(run(ROOT, "crds").stdout)}
    checked_in = [yaml.safe_load(path.read_text()) for path in (ROOT / "crds").glob("*.yaml")]
    assert told == {one["metadata"]["name"]: one for one in checked_in}
