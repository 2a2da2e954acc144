"""Policies of a past moment: from the world they are what the fold of their events makes of them."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from crds import inferencecache
from eventstore import events, store, subjects
from handlers.prefixindex import policies
from handlers.world.fold import fold
from handlers.world.state import World
from tests.support.histories import stored
from warmlog import past

KINDS = st.sampled_from((inferencecache.CACHE_POLICIES, inferencecache.CACHE_TENANTS))
NAMES = st.sampled_from(("a", "b"))
SPECS = st.sampled_from(
    ({}, {"minimumMatchedTokens": 16}, {"minimumMatchedTokens": -1}, {"tenantID": "t", "quota": {"maxIndexEntries": 5}})
)


def seen(kind: str, name: str, spec: dict[str, Any]) -> tuple[str, events.Event]:
    document = {"metadata": {"name": name, "namespace": "n"}, "spec": spec}
    subject = subjects.object_subject(kind, "n", name)
    return subject, events.ObjectSeen(uid="u", resource_version="1", shape=1, object=document)


SAID = st.one_of(
    st.builds(seen, KINDS, NAMES, SPECS),
    st.builds(lambda kind, name: (subjects.object_subject(kind, "n", name), events.ObjectGone(uid="u")), KINDS, NAMES),
    st.builds(lambda kind: (subjects.kind_subject(kind), events.KindListed(list_version="1", shape=1, count=0)), KINDS),
)


@given(st.lists(SAID, max_size=20))
def test_policies_of_the_world_are_those_of_their_own_fold(said: list[tuple[str, events.Event]]) -> None:
    world, known = World(), policies.UNKNOWN
    for number, one in enumerate(said, 1):
        event: store.Stored = stored(number, number, one)
        fold(world, event, incarnation="i")
        known = policies.fold(known, *one)
    found = past.governed_by(world)
    assert (found.policies, found.tenants, found.listed) == (known.policies, known.tenants, known.listed)
    assert (found.tenancy, found.quotas) == (known.tenancy, known.quotas)
