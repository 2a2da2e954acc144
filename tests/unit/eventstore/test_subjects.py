"""Names that are longer than a subject may be.

Excluded: escaping and its inverse (tests/fuzz, tests/contract).
"""

from itertools import product

import pytest

from eventstore import subjects
from handlers.cachebackend.inject import Options
from handlers.world import kinds
from warmlog import systems

NAMES = ("", "a", "a" * 88, "a" * 89, "a" * 253, "a.b." * 63, "\u00fc" * 253)


@pytest.mark.parametrize(("namespace", "name"), [*product(NAMES, NAMES)])
def test_every_decision_has_a_subject(namespace: str, name: str) -> None:
    for hook in systems.hooks(Options()):
        subject = subjects.admission_subject(hook.admitter.name, namespace, name)
        assert len(subject) <= 254
        assert subject.count(".") == 4


@pytest.mark.parametrize("name", NAMES)
def test_every_write_has_a_subject(name: str) -> None:
    for kind in kinds.KINDS:
        assert len(subjects.effect_subject(kind, "n" * 63, name)) <= 254


def test_only_long_names_are_shortened() -> None:
    assert subjects.shortened("a" * 88) == "a" * 88
    assert subjects.shortened("a" * 89) == "=5e4b545fa5e2fc35422bc4244ef18874"
    assert len({subjects.shortened("a" * size) for size in range(80, 254)}) == 174


def test_a_reader_asks_for_all_webhooks() -> None:
    assert subjects.admission_subject("*", "a.b", "c") == "wl.admission.*.a%2Eb.c"
