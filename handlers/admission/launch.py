"""Which program a container starts, from its command and arguments: through launchers, shells and scripts.

    tini -- timeout 30 vllm serve m      a program: vllm
    env -S "vllm serve m"                hidden: a command line inside one word
    sh -c "vllm serve m"                 inline: a shell's command
    sh -e /app/run.sh                    a script
    tini --                              nothing: launchers with nothing behind them

`read` takes any words and never fails. What it looked at is recorded word by word, so that a view can keep readable
exactly what a reading depends on (`masked`): reading masked words gives the same launch.
Not here: what a program means to a system, and whether it may be started so.

Rules: spec/worker-gpustack.md section 4.2. Launchers that are not in the table (gosu, nohup, setsid …) are programs.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple

Found = Literal["program", "script", "inline", "hidden", "nothing"]
#: What a word was read as.
Part = Literal["program", "option", "operand", "assignment", "shell-option", "bundle", "end"]


class Launcher(NamedTuple):
    """`short` letters and `long` names take an operand; `opaque` ones take a whole command line."""

    short: str = ""
    long: tuple[str, ...] = ()
    opaque_short: str = ""
    opaque_long: str = ""
    assignments: bool = False
    positionals: int = 0


LAUNCHERS: Final[dict[str, Launcher]] = {
    "env": Launcher("uCa", ("--unset", "--chdir", "--argv0"), "S", "--split-string", assignments=True),
    "tini": Launcher("pe"),
    "dumb-init": Launcher("r", ("--rewrite",)),
    "timeout": Launcher("sk", ("--signal", "--kill-after"), positionals=1),
    "busybox": Launcher(),
    "toybox": Launcher(),
}
SHELLS: Final = frozenset(("sh", "bash", "dash", "ash", "zsh", "ksh"))
_SHELL_OPERANDS: Final = ("--rcfile", "--init-file")


class Launch(NamedTuple):
    """`program` is a basename, "" where there is none to name. `launcher` is the last one that was passed through.
    `option` is a shell's, as typed. `argv` is what is left for the program, itself included."""

    found: Found
    program: str = ""
    launcher: str = ""
    option: str = ""
    script: str = ""
    argv: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()


def basename(word: str) -> str:
    return word.rpartition("/")[2]


def read(words: Sequence[str]) -> Launch:
    """What command ++ args starts."""
    parts: list[Part] = []
    at, launcher = 0, ""
    while at < len(words) and basename(words[at]) in LAUNCHERS:
        launcher = basename(words[at])
        parts.append("program")
        at, ended = _through(words, at + 1, LAUNCHERS[launcher], parts)
        if ended is not None:
            return Launch(ended, launcher=launcher, parts=tuple(parts))
    if at >= len(words):
        return Launch("nothing", launcher=launcher, parts=tuple(parts))
    parts.append("program")
    program, argv = basename(words[at]), tuple(words[at:])
    if program in SHELLS:
        return _shell(words, at, program, launcher, argv, parts)
    if program.endswith(".sh"):
        return Launch("script", program, launcher, script=program, argv=argv, parts=tuple(parts))
    return Launch("program", program, launcher, argv=argv, parts=tuple(parts))


def _through(words: Sequence[str], at: int, launcher: Launcher, parts: list[Part]) -> tuple[int, Found | None]:
    """Past a launcher's own options and operands: where its command begins, or how the reading ends."""
    positionals = launcher.positionals
    while at < len(words):
        word = words[at]
        if word == "--":
            parts.append("end")
            return at + 1, None
        if word.startswith("-"):
            at, ended = _option(words, at, launcher, parts)
            if ended is not None:
                return at, ended
        elif launcher.assignments and "=" in word:
            parts.append("assignment")
            at += 1
        elif positionals:
            parts.append("operand")
            positionals -= 1
            at += 1
        else:
            return at, None
    return at, None


def _option(words: Sequence[str], at: int, launcher: Launcher, parts: list[Part]) -> tuple[int, Found | None]:
    word = words[at]
    parts.append("option" if word.startswith("--") else "bundle")
    takes, opaque, attached = _operand(word, launcher)
    if not takes or (attached and not opaque):
        return at + 1, None
    if not attached and "=" not in word:
        if at + 1 >= len(words):
            return at + 1, "nothing"
        parts.append("operand")
        return at + 2, "hidden" if opaque and words[at + 1] else None
    return at + 1, "hidden" if opaque and attached else None


def _operand(word: str, launcher: Launcher) -> tuple[bool, bool, str]:
    """Whether an option takes an operand, whether that is a command line, and what of it is attached."""
    if word.startswith("--"):
        name, _, attached = word.partition("=")
        return name in (*launcher.long, launcher.opaque_long), name == launcher.opaque_long, attached
    letters = f"{launcher.short}{launcher.opaque_short}"
    first = next((number for number, letter in enumerate(word) if number and letter in letters), 0)
    if not first:
        return False, False, ""
    return True, word[first] in launcher.opaque_short, word[first + 1 :]


def _shell(
    words: Sequence[str], at: int, shell: str, launcher: str, argv: tuple[str, ...], parts: list[Part]
) -> Launch:
    """A shell's own options, up to its command string or the file that it runs."""
    at += 1
    while at < len(words):
        word = words[at]
        if word == "--":
            parts.append("end")
            at += 1
            break
        if len(word) < 2 or word[0] not in "-+":
            break
        parts.append("shell-option")
        at += 1
        if word[0] == "-" and word[:2] != "--" and "c" in word:
            return Launch("inline", shell, launcher, option=word, argv=argv, parts=tuple(parts))
        if (word in _SHELL_OPERANDS or (word[:2] != "--" and word[-1] in "oO")) and at < len(words):
            parts.append("operand")
            at += 1
    if at < len(words):
        parts.append("program")
        if basename(words[at]).endswith(".sh"):
            script = basename(words[at])
            return Launch("script", shell, launcher, script=script, argv=argv, parts=tuple(parts))
    return Launch("program", shell, launcher, argv=argv, parts=tuple(parts))


# What of the words a reading depends on -------------------------------------------------------------------------------

#: A program's name that may be told; anything else may be a command line in one word.
_SAFE: Final = re.compile(r"[A-Za-z0-9._+-]{1,64}")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEAD: Final = re.compile(r"(--[A-Za-z][A-Za-z0-9_-]*)(?:([.=])(.*))?", re.DOTALL)
_LETTERS: Final = re.compile(r"[-+][A-Za-z]{1,3}")
Hide = Callable[[str], str]


def masked(words: Sequence[str], hide: Hide) -> list[str]:
    """The words that a reading looked at, with everything that it does not depend on given to `hide`. Names of programs
    stay where they look like names. `hide` gives "" for "" and something opaque without letters for anything else."""
    shown, launcher = [], Launcher()
    for word, part in zip(words, read(words).parts, strict=False):
        if part == "program":
            launcher = LAUNCHERS.get(basename(word), launcher)
            shown.append(_program(word, hide))
        elif part == "assignment":
            name, _, value = word.partition("=")
            shown.append(f"{name if _NAME.fullmatch(name) else hide(name)}={hide(value)}")
        elif part == "bundle":
            shown.append(_bundle(word, launcher, hide))
        elif part == "shell-option":
            shown.append(_shell_option(word, hide))
        else:
            shown.append(word if part == "end" else headed(word, hide))
    return shown


def plain(name: str) -> str:
    """A program's name, "" when it is none that may be told."""
    return name if _SAFE.fullmatch(name) else ""


def headed(word: str, hide: Hide) -> str:
    """A word of which only the name of a long flag is kept, with what separates it from the rest."""
    found = _HEAD.fullmatch(word)
    if found is None:
        return f"--{hide(word[2:])}" if word.startswith("--") else hide(word)
    return found[1] + (f"{found[2]}{hide(found[3])}" if found[2] else "")


def _program(word: str, hide: Hide) -> str:
    directory, slash, name = word.rpartition("/")
    if not _SAFE.fullmatch(name):
        stem, end = (name[:-3], ".sh") if name.endswith(".sh") else (name, "")
        name = (headed(stem, hide) if not slash else hide(stem)) + end
    return (headed(directory, hide) if directory else "") + slash + name


def _bundle(word: str, launcher: Launcher, hide: Hide) -> str:
    if _LETTERS.fullmatch(word) or word == "-":
        return word
    takes, _, attached = _operand(word, launcher)
    if not takes:
        return "-" + hide(word[1:])
    head = word[: len(word) - len(attached)]
    return (head if _LETTERS.fullmatch(head) else f"-{hide(head[1:-1])}{head[-1]}") + hide(attached)


def _shell_option(word: str, hide: Hide) -> str:
    if word.startswith("--"):
        return headed(word, hide)
    if _LETTERS.fullmatch(word):
        return word
    if word[0] == "-" and "c" in word:
        before, _, after = word[1:].partition("c")
        return f"-{hide(before)}c{hide(after)}"
    return f"{word[0]}{hide(word[1:-1])}{word[-1]}" if word[-1] in "oO" else word[0] + hide(word[1:])
