"""From a container's command and arguments to the options that decide which kernels are compiled.

Not a parser of the engine's command line: unknown options are passed over. A launch that cannot be read with certainty
is *opaque*, with the reasons: a shell, a configuration file, an abbreviated flag, a variable whose value is unknown.
Whoever hashes an opaque launch hashes all of it.

Rules: seed 000, "Command and argument precedence" (args after command, the later wins; shells are not interpreted);
spec/kernelcache.md section 2.6; the engine's parser is Python's argparse.
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from handlers.kernelcache import normalise, options
from handlers.kernelcache.environment import Environment, expand
from handlers.outcome import Object

_SHELLS: Final = frozenset(("sh", "bash", "dash", "zsh", "ash", "ksh", "busybox"))
_WRAPPERS: Final = frozenset(("tini", "dumb-init", "catatonit", "exec", "nice", "numactl", "setsid", "stdbuf", "env"))
_NEGATIVE: Final = re.compile(r"-\d+|-\d*\.\d+")
_GLUED: Final = ("-q", "-O")  # single letters take a value without a blank


class Given(NamedTuple):
    """An option's value: `where` is `args[3]`."""

    key: str
    value: str
    where: str


class Launch(NamedTuple):
    """`factors` are normalised, the last usable of each; `others` are (name, value as written)."""

    factors: dict[str, Given]
    others: tuple[tuple[str, str], ...]
    opaque: tuple[str, ...]


class Word(NamedTuple):
    text: str
    where: str
    known: bool  # every variable in it is


def words(container: Object, environment: Environment) -> list[Word]:
    """The final command line, as Kubernetes makes it."""
    found = []
    for field in ("command", "args"):
        for number, text in enumerate(container.get(field) or ()):
            made = expand(str(text), environment.values, environment.unsure)
            found.append(Word(made.text, f"{field}[{number}]", made.whole))
    return found


def read(container: Object, environment: Environment) -> Launch:
    reading = _Reading(words(container, environment))
    reading.run()
    if environment.sources:
        reading.opaque.append("envFrom: its variables are not in the manifest")
    others = sorted(reading.others, key=lambda pair: pair[0])
    return Launch(reading.factors, tuple(others), tuple(dict.fromkeys(reading.opaque)))


class _Reading:
    def __init__(self, given: Sequence[Word]) -> None:
        self.words, self.at = given, 0
        self.factors: dict[str, Given] = {}
        self.others: list[tuple[str, str]] = []
        self.opaque: list[str] = []

    def run(self) -> None:
        if self._wrapped():
            return
        while self.at < len(self.words):
            word = self.words[self.at]
            if word.text == "--":
                if any(_starts_an_engine(one.text) for one in self.words[self.at :]):
                    self.opaque.append(f"{word.where}: another program starts the engine after --")
                return
            self._word(word)
            self.at += 1

    def _wrapped(self) -> bool:
        """A shell, or a wrapper around one, says by itself what runs."""
        first = True
        for word in self.words:
            name = word.text.rsplit("/", 1)[-1]
            if first and not word.known:
                self.opaque.append(f"{word.where}: the program is a variable that is not in the manifest")
                return True
            if name in _SHELLS:
                self.opaque.append(f"{word.where}: a shell ({name}) is not interpreted")
                return True
            if name not in _WRAPPERS:
                return False
            if name == "env":
                self.opaque.append(f"{word.where}: env changes the environment of what it starts")
                return True
            first = False
        return False

    def _word(self, word: Word) -> None:
        text = word.text
        if not text.startswith("-") or text == "-" or " " in text.partition("=")[0]:
            self._positional(word)
            return
        flag, equals, value = text.partition("=")
        flag = options.canonical(flag)
        self._option(word, flag, value if equals else None)

    def _positional(self, word: Word) -> None:
        if not word.known:
            self.opaque.append(f"{word.where}: a variable that is not in the manifest")
        before = self.words[self.at - 1].text if self.at else ""
        if before == "serve" and word.text.rstrip("/") != options.MODEL_DIRECTORY:
            self.others.append(("--model", word.text))

    def _option(self, word: Word, flag: str, value: str | None) -> None:
        if (factor := options.FACTORS.get(flag)) is not None:
            if factor.kind == "bool":
                self._switch(word, flag, factor.key, value)
            else:
                self._valued(word, flag, factor, value)
        elif flag in options.OTHERS:
            if (given := self._value(word, flag, value)) is not None:
                self._other(options.OTHERS[flag], given.text)
        elif flag in options.OTHER_SWITCHES:
            self.others.append((flag, "true" if value is None else value))
        elif flag.startswith("--no-") and (positive := "--" + flag[5:]) in (*options.FACTORS, *options.OTHER_SWITCHES):
            self._negated(word, positive)
        elif (head := flag.partition(".")[0]) in options.DOTTED:
            if (given := self._value(word, flag, value)) is not None:
                self.others.append((options.DOTTED[head], f"{flag[len(head) :]}={given.text}"))
        elif flag in options.FILES:
            self.opaque.append(f"{word.where}: {flag} names a file that is not in the manifest")
        elif (short := flag[:2]) in _GLUED and not flag.startswith("--") and len(flag) > 2:
            self._option(word, short, word.text[2:])
        elif flag.startswith("--") and options.abbreviates(flag):
            self.opaque.append(f"{word.where}: {flag} abbreviates an option, which one depends on the engine's version")
        elif not word.known and "$(" in flag:
            self.opaque.append(f"{word.where}: a variable that is not in the manifest")
        else:
            self._pass_over(value)

    def _pass_over(self, value: str | None) -> None:
        """An unknown option. A variable after it is taken for its value."""
        if value is None and self.at + 1 < len(self.words) and not self.words[self.at + 1].known:
            self.at += 1

    def _other(self, name: str, value: str) -> None:
        if name != "--model" or value.rstrip("/") != options.MODEL_DIRECTORY:
            self.others.append((name, normalise.bare(value)))

    def _value(self, word: Word, flag: str, value: str | None) -> Word | None:
        """Of an option that needs one; None where it is missing, as the contract has it."""
        if value is not None:
            return self._seen(word._replace(text=value), flag)
        following = self.words[self.at + 1] if self.at + 1 < len(self.words) else None
        if following is None or (following.text.startswith("-") and not _NEGATIVE.fullmatch(following.text)):
            return None
        self.at += 1
        return self._seen(following, flag)

    def _seen(self, word: Word, flag: str) -> Word:
        if not word.known:
            self.opaque.append(f"{word.where}: {flag} has a value that is not in the manifest")
        return word

    def _valued(self, word: Word, flag: str, factor: options.Factor, value: str | None) -> None:
        given = self._value(word, flag, value)
        if given is None:
            return
        usable = normalise.KINDS[factor.kind](given.text)
        if usable is not None:
            self.factors[factor.key] = Given(factor.key, usable, word.where)

    def _switch(self, word: Word, flag: str, key: str, value: str | None) -> None:
        """`--flag`, `--flag=true`, `--flag false`. The engine takes no value here, and may read one otherwise than the
        contract does: launches that give one are told apart from those that do not."""
        following = self.words[self.at + 1] if value is None and self.at + 1 < len(self.words) else None
        said = value
        if following is not None and normalise.boolean(following.text) is not None:
            self.at += 1
            said = self._seen(following, flag).text
        elif following is not None and not following.known:
            self.at += 1
            self._seen(following, flag)
        if said is not None:
            self.others.append((flag, said if value is None else f"={said}"))
        usable = "true" if said is None else normalise.boolean(said)
        if usable is not None:
            self.factors[key] = Given(key, usable, word.where)

    def _negated(self, word: Word, positive: str) -> None:
        factor = options.FACTORS.get(positive)
        if factor is None:
            self.others.append((positive, "false"))
        elif factor.kind == "bool":
            self.factors[factor.key] = Given(factor.key, "false", word.where)


def _starts_an_engine(text: str) -> bool:
    return text.rsplit("/", 1)[-1] == "vllm" or text.startswith("vllm.")
