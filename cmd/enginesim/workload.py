"""A deterministic chat workload: sessions of several turns over a few shared system prompts, sticky to a replica.

Every prompt is the whole conversation so far: system prompt, user text, the engine's own answers (`continuation`, the
same function that the simulated engine answers with), more user text. Popular system prompts are shared by many
sessions; most turns go to the session's replica and some jump, so that prefixes come to be held twice.

Not here: sending anything. The caller drives the engines and keeps the truth. The same seed gives the same turns on
every machine and Python version that keeps random.Random stable.
"""

import hashlib
import random
from array import array
from collections.abc import Iterator, Sequence

import msgspec

VOCABULARY = 128_000


def continuation(tokens: Sequence[int], count: int) -> list[int]:
    """The `count` tokens that every simulated engine generates after `tokens`: the same in every process."""
    seed = hashlib.sha256(array("I", tokens).tobytes()).digest()
    chance = random.Random(seed)
    return [chance.randrange(VOCABULARY) for _ in range(count)]


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """How the traffic looks; lengths are in tokens, ranges inclusive."""

    sessions: int = 24
    turns: tuple[int, int] = (2, 6)
    systems: int = 4
    system_length: tuple[int, int] = (256, 1024)
    user_length: tuple[int, int] = (24, 160)
    answer_length: tuple[int, int] = (16, 96)
    replicas: int = 3
    jump: float = 0.15  # the chance that a turn goes to another replica than the session's
    concurrent: int = 8  # sessions that are open at the same time


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One request: prompt tokens, and how many tokens to generate."""

    session: int
    turn: int  # from 0
    replica: int  # 0..replicas-1
    token_ids: list[int]
    max_tokens: int


class _Session:
    def __init__(self, number: int, shape: Shape, chance: random.Random, system: list[int]) -> None:
        self.number = number
        self.left = chance.randint(*shape.turns)
        self.turn = 0
        self.home = chance.randrange(shape.replicas)
        self.tokens = list(system)

    def next(self, shape: Shape, chance: random.Random) -> Turn:
        self.tokens += _text(chance, chance.randint(*shape.user_length))
        if chance.random() < shape.jump:
            self.home = chance.randrange(shape.replicas)
        turn = Turn(
            session=self.number,
            turn=self.turn,
            replica=self.home,
            token_ids=list(self.tokens),
            max_tokens=chance.randint(*shape.answer_length),
        )
        self.tokens += continuation(turn.token_ids, turn.max_tokens)
        self.turn += 1
        self.left -= 1
        return turn


def turns(seed: int = 7, shape: Shape | None = None) -> Iterator[Turn]:
    """Every turn of the workload, sessions interleaved."""
    shape = shape or Shape()
    chance = random.Random(seed)
    systems = [_text(chance, chance.randint(*shape.system_length)) for _ in range(shape.systems)]
    open_sessions: list[_Session] = []
    started = 0
    while open_sessions or started < shape.sessions:
        while started < shape.sessions and len(open_sessions) < shape.concurrent:
            # Popularity falls off as 1/rank: the first system prompt is the busiest.
            system = chance.choices(systems, weights=[1 / rank for rank in range(1, shape.systems + 1)])[0]
            open_sessions.append(_Session(started, shape, chance, system))
            started += 1
        session = chance.choice(open_sessions)
        yield session.next(shape, chance)
        if session.left == 0:
            open_sessions.remove(session)


def _text(chance: random.Random, count: int) -> list[int]:
    """Text-like ids: most are small, as in a real vocabulary."""
    return [chance.randrange(32_000 if chance.random() < 0.7 else VOCABULARY) for _ in range(count)]
