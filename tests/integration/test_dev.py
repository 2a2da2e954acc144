"""`warmlog dev` and the tools that find it: one process tree for the module. Excluded: what the demo shows."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import kubectl, natsserver
from tests.support.processes import children, lives

POLICY = """
apiVersion: inferencecache.io/v1alpha1
kind: CachePolicy
metadata: {name: eager, namespace: team-a}
spec: {minimumMatchedTokens: 16, affinityRouting: Disabled}
---
apiVersion: inferencecache.io/v1alpha1
kind: CacheTenant
metadata: {name: team-a, namespace: team-a}
spec: {tenantID: team-a, quota: {maxIndexEntries: 100000}}
"""
TOOLS = ("events", "replay", "lookup", "explain")
PROMPT = ["--tenant-id=team-a", "--model-id=demo-model", "--token-ids=1..320"]


class Dev:
    def __init__(self, directory: Path, policies: Path, *words: str) -> None:
        self.directory, self.policies = directory, policies
        self.process = subprocess.Popen(
            [sys.executable, "-m", "warmlog", "dev", f"--dir={directory}", f"--policies={policies}", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.said = ""

    def wait(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said += line
            if "Ctrl-C" in line:
                return
        raise AssertionError(self.said)

    @property
    def note(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.directory / "dev.json").read_text())
        return found

    def tool(self, *words: str, code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "warmlog", *words, f"--dir={self.directory}"],
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout if code == 0 else done.stdout + done.stderr


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    natsserver.require()
    policies = tmp_path_factory.mktemp("policies")
    (policies / "team-a.yaml").write_text(POLICY)
    running = Dev(tmp_path_factory.mktemp("dev"), policies, "--kubernetes=devkube")
    try:
        running.wait()
        engine = next(line.split()[1] for line in running.said.splitlines() if line.startswith("engine-a"))
        body = json.dumps({"token_ids": list(range(1, 321)), "max_tokens": 1}).encode()
        for _ in range(2):
            urllib.request.urlopen(urllib.request.Request(f"{engine}/v1/generate", data=body)).read()
        deadline = time.monotonic() + 10
        while "PREFIX_MATCH" not in running.tool("lookup", *PROMPT) and time.monotonic() < deadline:
            time.sleep(0.1)
        yield running
    finally:
        running.process.send_signal(signal.SIGTERM)
        running.process.wait(15)
        if running.process.stdout is not None:
            running.process.stdout.close()


def test_everything_listens_on_loopback_and_the_token_is_private(dev: Dev) -> None:
    assert dev.note["nats"].startswith("nats://127.0.0.1:")
    assert dev.note["lookup"].startswith("http://127.0.0.1:")
    assert (dev.directory / "dev.json").stat().st_mode & 0o077 == 0
    assert (dev.directory / "token").stat().st_mode & 0o077 == 0


def test_lookup_answers_over_http_and_over_nats_alike(dev: Dev) -> None:
    over_http = json.loads(dev.tool("lookup", *PROMPT, "-o", "json"))["answer"]
    over_nats = json.loads(
        dev.tool(
            "lookup", *PROMPT, "-o", "json", f"--nats={dev.note['nats']}", f"--nats-token-file={dev.directory}/token"
        )
    )["answer"]
    assert over_http["replica_scores"] == over_nats["replica_scores"]
    assert over_http["replica_scores"][0]["replica_id"] == "engine-a"
    assert over_http["replica_scores"][0]["matched_tokens"] == 320


def test_lookup_explains_each_replica(dev: Dev) -> None:
    said = dev.tool("lookup", *PROMPT, "--explain")
    assert "freshness 1.000" in said
    assert "engine-b" in said


def test_a_no_hint_says_which_cause_it_was(dev: Dev) -> None:
    said = dev.tool("lookup", "--tenant-id=team-a", "--model-id=demo-model", "--token-ids=1..3")
    assert said.startswith("NO_HINT: ")


def test_policies_from_the_directory_are_in_the_log_and_in_force(dev: Dev) -> None:
    told = [json.loads(line)["event"] for line in dev.tool("events", "-o", "json").splitlines()]
    ours = [one for one in told if "cachepolic" in one["subject"] or "cachetenant" in one["subject"]]
    seen = {one["subject"] for one in ours if one["type"] == "io.warmlog.object.seen.v1"}
    assert len(seen) == 2
    told_by = {one["actor"].partition("/")[0] for one in ours if ".object." in one["type"]}
    assert told_by == {"controller"}, "they are Kubernetes' objects"
    world = json.loads(dev.tool("replay", "--about", "cachepolicy/team-a/eager", "-o", "json"))
    assert world["policies"]["team-a/eager"]["spec"]["minimumMatchedTokens"] == 16
    short = json.loads(dev.tool("lookup", *PROMPT[:2], "--token-ids=1..16", "-o", "json"))["answer"]
    assert short["replica_scores"][0]["matched_tokens"] == 16, "the policy's floor of 16, not the default of 64"


def test_the_past_is_the_same_for_ever(dev: Dev) -> None:
    time.sleep(2.2)  # a moment is recorded every second
    now = json.loads(dev.tool("lookup", *PROMPT, "-o", "json"))["answer"]
    last = json.loads(dev.tool("events", "--type=moment", "--last=1", "-o", "json"))["sequence"]
    told = [json.loads(dev.tool("lookup", *PROMPT, f"--at={last}", "-o", "json")) for _ in range(2)]
    assert told[0]["answer"]["replica_scores"] == told[1]["answer"]["replica_scores"] == now["replica_scores"]
    assert told[0]["moment"].startswith(f"moment #{last} ")
    folded = [dev.tool("replay", f"--at={last}", "--index", "-o", "json") for _ in range(2)]
    assert folded[0] == folded[1]


def test_events_are_filtered_by_what_they_are_about(dev: Dev) -> None:
    lines = dev.tool("events", "--about=replica/team-a/engine-a", "-o", "json").splitlines()
    assert lines
    assert {json.loads(line)["event"]["data"]["replica"] for line in lines} == {"engine-a"}
    assert dev.tool("events", "--since=-1h", "--type=settings.seen").count("settings.seen") == 3, "one of each role"


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["lookup", "--model-id=m"], 2, "give --token-ids or --prefix-hash"),
        (["lookup", "--model-id=m", "--prefix-hash=zz"], 2, "--prefix-hash: 'zz' is not 16 hex digits"),
        (["explain", "pod/team-a/nobody"], 1, "there is no such Pod, and no decision is told under its name"),
        (["explain", "cb/team-a/nobody"], 1, "it does not exist"),
        (["explain"], 2, "give KIND/NAMESPACE/NAME, as in pod/team-a/engine-0"),
        (["lookup", *PROMPT, "--at=yesterday"], 2, "is no moment"),
        (["lookup", *PROMPT, "--at=2001-01-01"], 1, "no moment was recorded"),
        (["lookup", *PROMPT, "--at=99999999"], 1, "lies in the future"),
        (["events", "--about=pod"], 2, "is not KIND/NAMESPACE/NAME"),
        (["events", "--since=soon"], 2, "--since: 'soon' is no moment"),
        (["replay", "--at=99999999"], 1, "lies in the future"),
        (["replay", "--at=elsewhere.1:1"], 1, "another incarnation"),
        (["replay", "--about=cb/team-a/nobody"], 1, "does not exist"),
        (["replay", "--about=replica/team-a/nobody"], 1, "replica/team-a/nobody is not in the log up to there"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_question_that_cannot_be_answered_says_why(dev: Dev, words: list[str], code: int, says: str) -> None:
    assert says in dev.tool(*words, code=code)


def test_a_second_dev_on_the_same_directory_is_refused(dev: Dev) -> None:
    assert f"pid {dev.process.pid}" in dev.tool("dev", code=3)


def test_tools_without_a_dev_say_what_to_give(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "warmlog", "events", f"--dir={tmp_path}"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "give --nats, or start `warmlog dev`" in done.stderr


def test_metrics_ready_and_snapshot_answer(dev: Dev) -> None:
    with urllib.request.urlopen(f"{dev.note['lookup']}/metrics") as answer:
        page = answer.read().decode()
    assert 'warmlog_index_replicas{state="complete"}' in page
    with urllib.request.urlopen(f"{dev.note['lookup']}/readyz") as answer:
        assert json.load(answer)["ready"] is True
    with urllib.request.urlopen(f"{dev.note['admin']}/snapshot") as answer:
        assert {row["replicaId"] for row in json.load(answer)["replicas"]} == {"engine-a", "engine-b", "engine-c"}


@pytest.mark.parametrize(
    ("kubernetes", "count"),
    [("none", 8), ("devkube", 11)],  # nats-server, server, three engines, three subscribers; devkube and both roles
)
def test_ctrl_c_stops_everything_by_pid_and_leaves_no_note(tmp_path: Path, kubernetes: str, count: int) -> None:
    natsserver.require()
    (tmp_path / "policies").mkdir()
    running = Dev(tmp_path / "state", tmp_path / "policies", f"--kubernetes={kubernetes}")
    running.wait()
    pids = children(running.process.pid)
    assert len(pids) == count, running.said
    running.process.send_signal(signal.SIGINT)
    assert running.process.wait(20) == 0
    assert running.process.stdout is not None
    running.process.stdout.close()
    assert not (tmp_path / "state" / "dev.json").exists()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody tells a child that its parent has ended")
def test_what_dev_started_ends_with_it_when_it_is_killed_and_the_next_one_goes_on(tmp_path: Path) -> None:
    natsserver.require()
    (tmp_path / "policies").mkdir()
    for _ in range(2):
        running = Dev(tmp_path / "state", tmp_path / "policies", "--kubernetes=none")
        running.wait()
        pids = children(running.process.pid)
        assert len(pids) == 8
        running.process.kill()
        running.process.wait()
        assert running.process.stdout is not None
        running.process.stdout.close()
        deadline = time.monotonic() + 20
        while (left := [pid for pid in pids if lives(pid)]) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not left


def get(dev: Dev, *words: str) -> Any:
    """What real kubectl reads of dev's Kubernetes."""
    kubectl.require(kubectl.WHEEL)
    command = [Path(sys.executable).parent / "kubectl", "--kubeconfig", dev.note["kubeconfig"], "get", *words]
    return json.loads(subprocess.run([*command, "-o", "json"], capture_output=True, check=True, timeout=30).stdout)


def test_the_engines_pods_are_wired_and_what_engines_publish_is_in_the_backends_status(dev: Dev) -> None:
    pods = {one["metadata"]["name"]: one for one in get(dev, "pods", "--namespace=team-a")["items"]}
    assert set(pods) == {"engine-a", "engine-b", "engine-c"}
    assert pods["engine-a"]["metadata"]["annotations"]["inferencecache.io/injected-by"] == "team-a/chat"
    assert "inferencecache.io/injected-by" not in pods["engine-c"]["metadata"].get("annotations", {})
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        status = get(dev, "cb", "chat", "--namespace=team-a").get("status", {})
        if status.get("indexParticipation", {}).get("prefixCount"):
            break
        time.sleep(0.2)
    ready = next(one for one in status["conditions"] if one["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("True", "KVEventsObserved")
    assert status["indexParticipation"]["prefixCount"] == 20, "320 tokens in blocks of 16"
    assert status["matchedEnginePods"] == 2


def test_its_kubernetes_remembers_the_last_time(tmp_path: Path) -> None:
    natsserver.require()
    (tmp_path / "policies").mkdir()
    uids = []
    for _ in range(2):
        running = Dev(tmp_path / "state", tmp_path / "policies", "--kubernetes=devkube")
        try:
            running.wait()
            uids.append(get(running, "pod", "engine-a", "--namespace=team-a")["metadata"]["uid"])
        finally:
            running.process.send_signal(signal.SIGINT)
            assert running.process.wait(20) == 0
            assert running.process.stdout is not None
            running.process.stdout.close()
    assert uids[0] == uids[1]


def test_a_kubernetes_that_cannot_start_is_one_line(tmp_path: Path) -> None:
    natsserver.require()
    environment = {name: value for name, value in os.environ.items() if name != "KUBEBUILDER_ASSETS"}
    done = subprocess.run(
        [sys.executable, "-m", "warmlog", "dev", f"--dir={tmp_path}", "--kubernetes=assets"],
        capture_output=True,
        text=True,
        timeout=30,
        env=environment,
    )
    assert done.returncode == 1
    assert done.stdout == "", "it is told before anything is started"
    assert done.stderr.splitlines() == [
        "warmlog dev: KUBEBUILDER_ASSETS must name a folder with kube-apiserver and etcd"
    ]


def documented() -> list[str]:
    """Every tool's line that a --help or a page of docs shows and that needs nothing but a running dev."""
    root = Path(__file__).parents[2]
    pages = [*root.glob("docs/*.md"), root / "README.md", *(root / "cmd" / "warmlog").glob("*.py")]
    lines = {
        line.strip().strip("`").partition("  #")[0].strip()
        for page in pages
        for line in page.read_text().splitlines()
        if line.strip().strip("`").startswith(tuple(f"warmlog {tool}" for tool in TOOLS))
    }
    cells = {
        cell.strip("`")
        for page in pages
        if page.suffix == ".md"
        for cell in re.findall(rf"`(warmlog (?:{'|'.join(TOOLS)})[^`…]*)`", page.read_text())
    }
    return sorted(line for line in lines | cells if "…" not in line and not line.endswith("\\") and "`" not in line)


def test_every_documented_line_of_a_tool_runs_as_it_is_printed(dev: Dev, tmp_path: Path) -> None:
    lines = documented()
    assert len(lines) >= 8, lines
    (tmp_path / "prompt.json").write_text("[1, 2, 3]")
    fine = {0, 1}  # 1: the past that is asked about is not in this young log
    for line in lines:
        words = shlex.split(line, comments=True)[1:]
        if words[:1] == ["events"] and "--follow" in words:
            words.remove("--follow")
        if len(words) == 1:
            continue
        done = subprocess.run(
            [sys.executable, "-m", "warmlog", *words, f"--dir={dev.directory}"],
            capture_output=True,
            text=True,
            timeout=30,
            cwd=tmp_path,
        )
        assert done.returncode in fine, f"{line}: {done.stderr}"


def test_the_lines_that_dev_suggests_work(dev: Dev) -> None:
    suggested = dev.said.partition("Try:")[2].partition("Ctrl-C")[0].strip().splitlines()
    assert len(suggested) == 5
    assert subprocess.run(shlex.split(suggested[3]), capture_output=True, timeout=30).returncode == 0
    for line in suggested[1:3]:
        words = shlex.split(line)
        assert f"--dir {dev.directory}" in line
        assert dev.tool(*[word for word in words[1:] if word not in ("--dir", str(dev.directory))])


def test_an_age_needs_no_equals_sign(dev: Dev) -> None:
    assert dev.tool("events", "--since", "-10m", "--type", "settings.seen").count("settings.seen") == 3


def test_a_wrong_word_is_one_line(dev: Dev) -> None:
    said = dev.tool("events", "--sinc", "-10m", code=2)
    assert said.count("\n") == 1
    assert "--sinc" in said


def test_lookup_wants_a_url_of_a_lookup_route(dev: Dev) -> None:
    assert "is not http(s)://host:port" in dev.tool("lookup", *PROMPT, "--server=nats://127.0.0.1:1", code=2)
