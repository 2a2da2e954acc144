"""The demo is the main job's acceptance test: real processes, real sockets, kill -9, every answer checked by itself."""

import subprocess
import sys

from tests.support import natsserver


def test_the_demo_runs_the_main_job_to_its_end_and_finds_no_wrong_answer() -> None:
    natsserver.require()
    done = subprocess.run(
        [sys.executable, "-m", "warmlog", "demo", "--turns", "15"], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "none wrong" in done.stdout
    for said in (
        "engine-a: wire form vllm-0.33",
        "engine-b: wire form vllm-0.13, blocks of 32 tokens, without replay socket",
        "engine-c: wire form sglang",
        "PREFIX_MATCH → engine-a",
        "nothing of its old life is credited",
        "engine-b: 5 turns while nobody listened; partial",
        "every answer is right again",
        "warmlog lookup --at",
        "engine-a: gone",
    ):
        assert said in done.stdout, done.stdout
