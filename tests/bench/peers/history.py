"""What a fleet of engines does while it serves chats, documents and agent loops: the events it publishes, as bytes, the
prompts a router would ask for, and which replica holds how much of each. Deterministic for a seed.

    prompts    24 shared system prompts of 0.5 to 8 k tokens (Zipf), multi-turn sessions up to 36 k tokens; four turns
               out of five stay on their replica, the others move, so that prefixes get copied
    caches     least recently used, leaves first, 19.2 M tokens over the fleet
    events     a store of at most 8,192 tokens per prefill step, one block per store while decoding, one block per
               removal, rarely AllBlocksCleared: 98 % of all events name one block
    questions  of 64, 512 and 2,048 blocks: a tenth cold, half whole, the rest diverging somewhere

The history comes in parts (`PARTS`), because what is measured while events stream differs from part to part; the truth
is that after the last one. Each part ends with one block of its own on every replica (`marks`), by which a reader is
known to have read it all.

Not here: forms of the wire (wires), publishing (feed). Made once per shape and kept in build/bench-data.
"""

import bisect
import pickle
import random
from array import array
from collections import OrderedDict
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec

from tests.bench.peers import wires

BLOCK: Final = 16
VOCABULARY: Final = 128_000
CHUNK: Final = 8192 // BLOCK
CAPACITY: Final = 19_200_000 // BLOCK  # blocks over the whole fleet
LONGEST: Final = 36_000
#: Share of the block operations: counted at full speed, with lookups beside, at the rate of the latency bar.
PARTS: Final = (0.6, 0.2, 0.2)
LENGTHS: Final = {64: 400, 512: 300, 2048: 120}  # blocks -> questions
KEPT: Final = Path(__file__).parents[3] / "build" / "bench-data"


class Question(msgspec.Struct, frozen=True):
    tokens: list[int]
    depths: dict[int, int]  # replica -> leading blocks held; replicas that hold none are not named


class Part(msgspec.Struct, frozen=True):
    messages: list[tuple[int, bytes]]  # replica, payload
    operations: int  # blocks stored and removed
    marks: dict[int, list[int]]  # replica -> the tokens of its mark


class History(msgspec.Struct, frozen=True):
    replicas: int
    wire: str
    parts: list[Part]
    questions: dict[int, list[Question]]
    held: int  # replica-blocks at the end
    distinct: int
    single: float  # share of the events that name one block


class _Session:
    def __init__(self, kind: str, home: int, tokens: "array[int]", chain: list[int]) -> None:
        self.kind, self.home, self.tokens, self.chain = kind, home, tokens, chain


class _Fleet:
    """The engines' caches and what they have published."""

    def __init__(self, replicas: int, form: wires.Form, rng: random.Random) -> None:
        self.form = form
        self.caches: list[OrderedDict[int, None]] = [OrderedDict() for _ in range(replicas)]
        self.capacity = CAPACITY // replicas
        self.salts = [rng.getrandbits(64) if form.private else 0 for _ in range(replicas)]
        self.messages: list[tuple[int, bytes]] = []
        self.at: list[int] = []  # block operations up to and with each message
        self.operations = self.events = self.singles = self.tokens = 0
        self._time = 1.7e9

    def publish(self, replica: int, events: list[wires.Event]) -> None:
        self._time += 0.01
        for event in events:
            blocks = wires.blocks(event)
            self.operations += blocks
            self.singles += blocks == 1
        self.events += len(events)
        self.messages.append((replica, self.form.encode(self._time, events, self.salts[replica])))
        self.at.append(self.operations)

    def store(self, chain: list[int], tokens: "array[int]", start: int, end: int) -> wires.Event:
        self.tokens += (end - start) * BLOCK
        parent = chain[start - 1] if start else None
        return wires.Stored(chain[start:end], parent, tokens[start * BLOCK : end * BLOCK].tolist())

    def serve(self, session: _Session, prompt: int) -> None:
        """Prefill `prompt` tokens, decode the rest. Everything in the way goes first, every block touched ends
        as the newest, heads last."""
        replica, chain = session.home, session.chain
        cache = self.caches[replica]
        hit = 0
        while hit < len(chain) and chain[hit] in cache:
            hit += 1
        for block in reversed(chain[:hit]):
            cache.move_to_end(block)
        events: list[wires.Event] = []
        for _ in range(max(0, len(cache) + len(chain) - hit - self.capacity)):
            events.append(wires.Removed([cache.popitem(last=False)[0]]))
        at, whole = hit, prompt // BLOCK
        while at < whole:
            end = min(whole, at + CHUNK)
            events.append(self.store(chain, session.tokens, at, end))
            self.publish(replica, events)
            events, at = [], end
        while at < len(chain):
            events.append(self.store(chain, session.tokens, at, at + 1))
            at += 1
            if len(events) >= 4:
                self.publish(replica, events)
                events = []
        if events:
            self.publish(replica, events)
        for block in reversed(chain[hit:]):
            cache[block] = None
        for block in reversed(chain[:hit]):
            cache.move_to_end(block)

    def clear(self, replica: int) -> None:
        self.caches[replica].clear()
        self.publish(replica, [wires.CLEARED])

    def mark(self, replica: int, tokens: "array[int]") -> list[int]:
        chain: list[int] = []
        lengthen(tokens, chain)
        self.publish(replica, [self.store(chain, tokens, 0, 1)])
        self.caches[replica][chain[0]] = None
        return tokens.tolist()


def lengthen(tokens: "array[int]", chain: list[int]) -> None:
    """Engine hashes of the whole blocks that `chain` does not name yet: opaque numbers, of content and parent."""
    data = tokens.tobytes()
    width = BLOCK * tokens.itemsize
    above = chain[-1] if chain else 0
    for at in range(len(chain), len(tokens) // BLOCK):
        content = above.to_bytes(8, "big") + data[at * width : (at + 1) * width]
        above = int.from_bytes(blake2b(content, digest_size=8).digest(), "big")
        chain.append(above)


def _fresh(rng: random.Random, count: int) -> "array[int]":
    """Token ids as text has them: seven of ten below 32 k, so that MessagePack writes them in three or five bytes."""
    raw = array("I", rng.randbytes(4 * count))
    return array("I", [word & 0x7FFF if word >> 28 < 11 else (word & 0xFFFFFFF) % VOCABULARY for word in raw])


def _converse(fleet: _Fleet, budget: int, rng: random.Random) -> list[_Session]:
    """Serve turns until `budget` tokens were stored."""
    systems = [_fresh(rng, rng.choice((512, 1024, 1536, 2048, 4096, 8192))) for _ in range(24)]
    heads: list[list[int]] = [[] for _ in systems]
    for system, head in zip(systems, heads, strict=True):
        lengthen(system, head)
    replicas = len(fleet.caches)
    sessions: list[_Session] = []
    turns = clears = 0
    while fleet.tokens < budget:
        turns += 1
        session: _Session | None = None
        if sessions and rng.random() < 0.72:  # rather one of the newer sessions
            session = sessions[int(len(sessions) * (1 - rng.random() ** 2) * 0.999_999)]
            if len(session.tokens) > LONGEST - 2000:
                session = None
        if session is None:
            which = min(int(rng.paretovariate(0.9)) - 1, len(systems) - 1)
            kind = rng.choices(("chat", "document", "agent"), (6, 1, 3))[0]
            session = _Session(kind, rng.randrange(replicas), systems[which][:], heads[which][:])
            sessions.append(session)
            said = rng.randrange(8_000, 24_000) if kind == "document" else rng.randrange(60, 1500)
        else:
            said = rng.randrange(300, 3000) if session.kind == "agent" else rng.randrange(60, 900)
        if len(session.tokens) + said > LONGEST:
            said = 200
        session.tokens.extend(_fresh(rng, said))
        prompt = len(session.tokens)
        session.tokens.extend(_fresh(rng, rng.randrange(60, 700)))
        lengthen(session.tokens, session.chain)
        if rng.random() < 0.2:
            session.home = rng.randrange(replicas)
        fleet.serve(session, prompt)
        if replicas > 8 and clears < 2 and turns % 1500 == 1499:
            clears += 1
            fleet.clear(rng.randrange(replicas))
    return sessions


def _ask(sessions: list[_Session], length: int, count: int, rng: random.Random) -> list["array[int]"]:
    whole = [session for session in sessions if len(session.chain) >= length]
    some = [session for session in sessions if len(session.chain) >= length // 4]
    prompts = []
    for _ in range(count):
        dice = rng.random()
        if dice < 0.1 or not some:
            prompt = _fresh(rng, length * BLOCK)
        elif dice < 0.6 and whole:
            prompt = rng.choice(whole).tokens[: length * BLOCK]
        else:
            session = rng.choice(some)
            kept = min(len(session.chain), int(length * rng.uniform(0.25, 0.97)))
            prompt = session.tokens[: kept * BLOCK]
            prompt.extend(_fresh(rng, (length - kept) * BLOCK))
        prompts.append(prompt)
    return prompts


def _truth(prompt: "array[int]", holders: dict[int, int]) -> dict[int, int]:
    """replica -> leading blocks held, by the engines' own hashes."""
    chain: list[int] = []
    lengthen(prompt, chain)
    standing, depths = -1, {}
    for depth, block in enumerate([*chain, None]):
        left = standing & (holders.get(block, 0) if block is not None else 0)
        lost = (standing if standing >= 0 else 0) & ~left
        while lost:
            low = lost & -lost
            depths[low.bit_length() - 1] = depth
            lost ^= low
        standing = left
        if not left:
            break
    return depths


def generate(*, replicas: int, wire: str, tokens: int, seed: int = 7) -> History:
    rng = random.Random(seed)
    fleet = _Fleet(replicas, wires.FORMS[wire], rng)
    sessions = _converse(fleet, tokens, rng)
    parts, begin = [], 0
    told = fleet.messages, fleet.at
    for share in [sum(PARTS[: number + 1]) for number in range(len(PARTS))]:
        end = bisect.bisect_left(told[1], round(share * told[1][-1])) + 1
        parts.append((begin, min(end, len(told[0]))))
        begin = end
    marks = []
    for _ in parts:  # the last thing each replica says; in the wire's order they stand at the end of their part
        first = len(fleet.messages)
        named = {replica: fleet.mark(replica, _fresh(rng, BLOCK)) for replica in range(replicas)}
        marks.append((named, fleet.messages[first:]))
    ends = [0, *(told[1][end - 1] for _, end in parts)]
    holders: dict[int, int] = {}
    for replica, cache in enumerate(fleet.caches):
        for block in cache:
            holders[block] = holders.get(block, 0) | 1 << replica
    questions = {
        length: [Question(prompt.tolist(), _truth(prompt, holders)) for prompt in _ask(sessions, length, count, rng)]
        for length, count in LENGTHS.items()
    }
    return History(
        replicas,
        wire,
        [
            Part([*told[0][begin:end], *last], ends[number + 1] - ends[number] + replicas, named)
            for number, ((begin, end), (named, last)) in enumerate(zip(parts, marks, strict=True))
        ],
        questions,
        sum(map(len, fleet.caches)),
        len(holders),
        fleet.singles / fleet.events,
    )


def kept(*, replicas: int, wire: str, tokens: int) -> tuple[Path, History]:
    """The history and the file it lies in; made when it is not there."""
    path = KEPT / f"{replicas}-{wire}-{tokens}.pickle"
    if not path.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        half = path.with_suffix(".half")
        half.write_bytes(pickle.dumps(generate(replicas=replicas, wire=wire, tokens=tokens), 5))
        half.rename(path)
    return path, load(path)


def load(path: Path) -> History:
    found: History = pickle.loads(path.read_bytes())
    return found
