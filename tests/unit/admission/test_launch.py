"""What a container starts. What a system allows to be started is not asked here."""

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.admission import launch

TABLE = {
    "vllm serve m": ("program", "vllm"),
    "/opt/venv/bin/vllm serve m": ("program", "vllm"),
    "python3 -m sglang.launch_server": ("program", "python3"),
    "tini -- vllm serve m": ("program", "vllm"),
    "tini -p SIGTERM -- vllm": ("program", "vllm"),
    "tini -pSIGTERM -g vllm": ("program", "vllm"),
    "dumb-init -r 15:2 -- vllm": ("program", "vllm"),
    "dumb-init --rewrite=15:2 vllm": ("program", "vllm"),
    "timeout 30 vllm": ("program", "vllm"),
    "timeout -k 5 --signal TERM 30 vllm": ("program", "vllm"),
    "timeout -- 30 vllm": ("program", "30"),  # what follows -- is the command
    "env A=1 -u B -C /w vllm": ("program", "vllm"),
    "env -iu B vllm": ("program", "vllm"),
    "env -uS vllm": ("program", "vllm"),  # the variable S is unset
    "env - vllm": ("program", "vllm"),
    "busybox env vllm": ("program", "vllm"),
    "gosu app vllm": ("program", "gosu"),
    "nohup vllm": ("program", "nohup"),
    "myapp -c cfg": ("program", "myapp"),
    "bash /app/start": ("program", "bash"),
    "sh": ("program", "sh"),
    "sh -o pipefail /app/start": ("program", "sh"),
    "/app/run.sh": ("script", "run.sh"),
    "sh /app/run.sh -c x": ("script", "sh"),
    "sh -- run.sh": ("script", "sh"),
    "bash +O extglob run.sh": ("script", "bash"),
    "sh -c x": ("inline", "sh"),
    "bash -lc x": ("inline", "bash"),
    "bash -o pipefail -ec x": ("inline", "bash"),
    "bash --rcfile f -c x": ("inline", "bash"),
    "bash --login -c x": ("inline", "bash"),
    "timeout 30 busybox sh -c x": ("inline", "sh"),
    "env -Svllm": ("hidden", ""),
    "env -iS vllm": ("hidden", ""),
    "env --split-string=vllm": ("hidden", ""),
    "env --split-string vllm": ("hidden", ""),
    "env --split-string= vllm": ("program", "vllm"),
    "env": ("nothing", ""),
    "env -u": ("nothing", ""),
    "env -S": ("nothing", ""),
    "env A=1": ("nothing", ""),
    "tini --": ("nothing", ""),
    "timeout 30": ("nothing", ""),
    "": ("nothing", ""),
}


@pytest.mark.parametrize("line", TABLE)
def test_what_a_line_starts(line: str) -> None:
    found = launch.read(line.split())
    assert (found.found, found.program) == TABLE[line]


def test_an_empty_command_line_in_one_word_is_passed_over() -> None:
    assert launch.read(["env", "-S", "", "vllm"]).program == "vllm"
    assert launch.read(["env", "-S", ""]) == launch.Launch(
        "nothing", launcher="env", parts=("program", "bundle", "operand")
    )


def test_what_a_refusal_names() -> None:
    assert launch.read(["tini", "--", "sh", "-ec", "x"])[:4] == ("inline", "sh", "tini", "-ec")
    assert launch.read(["sh", "/app/run.sh"]).script == "run.sh"
    assert launch.read(["tini", "vllm", "serve"]).argv == ("vllm", "serve")


NAMES = ["vllm", "python3", "env", "tini", "dumb-init", "timeout", "busybox", "sh", "bash", "gosu", "run.sh"]
WORDS = st.one_of(
    st.sampled_from([
        *NAMES, "/bin/env", "/a/run.sh", "we ird.sh", "x y/z", "", "-", "--", "-S", "-u", "-uS", "-c", "-ec", "-o",
        "+o", "+-o", "-iSx", "-hunter2", "--unset", "--unset=A", "--split-string=", "--split-string=x", "--rcfile",
        "--kv.ü=1", "A=1", "=x", "ü=1", "30", "-p", "⟦1⟧", "-1uX", "-xcoyy", "-abcdo", "--ö",
    ]),
    st.text(alphabet="-+=./ _aAcSuo0ü⟦\n", max_size=6),
)  # fmt: skip
LINES = st.lists(WORDS, max_size=8)


class Hide:
    """As a view does it: equal values have equal tokens."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def __call__(self, value: str) -> str:
        return self.values.setdefault(value, f"⟦{len(self.values) + 1}⟧") if value else ""


@given(LINES)
def test_any_line_is_read(words: list[str]) -> None:
    found = launch.read(words)
    assert len(found.parts) <= len(words)
    assert found.argv == tuple(words[len(words) - len(found.argv) :])


@given(LINES)
def test_masked_words_are_read_the_same(words: list[str]) -> None:
    hide = Hide()
    shown = launch.masked(words, hide)
    again = launch.read([*shown, *words[len(shown) :]])
    assert facts(again) == facts(launch.read(words))
    known = {token: value for value, token in hide.values.items()}
    for word, seen in zip(words, shown, strict=False):
        if "⟦" not in word:
            assert re.sub(r"⟦\d+⟧", lambda token: known[token[0]], seen) == word


def facts(found: launch.Launch) -> Sequence[object]:
    names = (found.program, found.script, found.launcher)
    return (found.found, *map(launch.plain, names), bool(found.option), found.parts, len(found.argv))


SECRETS = ["p@ss/word x", "-hunter2", "A=hunter2", "--token=hunter2", "-uhunter2"]


@pytest.mark.parametrize("secret", SECRETS)
def test_operands_and_assignments_are_hidden(secret: str) -> None:
    shown = launch.masked(["env", secret, "timeout", "-k", "hunter2", "30", "/opt/hunter2/vllm"], Hide())
    assert "hunter2" not in " ".join(shown)
    assert shown[-1].endswith("/vllm") or secret == "p@ss/word x"
