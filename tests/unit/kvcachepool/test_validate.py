"""What custom resources may say, through the webhooks, as these see them."""

from typing import Any

import pytest

from crds import definitions, kvcache, render, schema
from handlers.admission.decision import Decision, Question
from handlers.kvcachepool import admit, masking
from handlers.kvcachepool.inject import Settings
from handlers.kvcachepool.validate import binding as binding_rules
from handlers.outcome import Object
from handlers.world.reader import Reader
from handlers.world.state import World
from tests.support.kvpools import DISABLED, STORE, backend, binding, changed, external, pool, world

HOOKS: dict[str, Any] = {
    "KVCacheBackend": admit.backends,
    "KVCachePool": admit.pools,
    "KVCachePoolBinding": admit.bindings,
}
BINDING, POOL, BACKEND = STORE
MANAGED = "spec__connection__managed"
LEADER = f"{MANAGED}__leader"
MEMBER = f"{MANAGED}__members__0"


def asked(new: Object, old: Object | None = None, objects: tuple[Object, ...] = (), **settings: Any) -> Decision:
    hook = HOOKS[new["kind"]](Settings(**settings))
    question = Question(
        uid="u",
        operation="CREATE" if old is None else "UPDATE",
        kind="",
        namespace=new["metadata"].get("namespace", ""),
        name=new["metadata"]["name"],
        view=hook.see(new).object,
        old=hook.see(old).object if old is not None else None,
    )
    return hook.decide(question, world(*objects))  # type: ignore[no-any-return]


def fields(decision: Decision) -> list[str]:
    assert (decision.verdict == "refused") == bool(decision.violations)
    return [one.field for one in decision.violations]


def leader(*args: str) -> Object:
    return changed(BACKEND, **{f"{LEADER}__extraArgs": list(args)})


def group(**given: Any) -> Object:
    return changed(BACKEND, **{f"{MEMBER}__{key}": value for key, value in given.items()})


AT = "spec.connection.managed"
DISK = {"path": "/mnt/kv", "capacity": "1Ti"}
DISKS = f"{AT}.members[0].localDisks"
ARGS = f"{AT}.leader.extraArgs"
BACKENDS: dict[str, tuple[Object, list[str]]] = {
    "as it is": (BACKEND, []),
    "external": (external(), []),
    "IPv6": (external(client="[fd00::1]:50051"), []),
    "both branches": (changed(BACKEND, spec__connection__external={"endpoints": []}),
                      ["spec.connection", *["spec.connection.external.endpoints"] * 2]),
    "one endpoint only": (changed(external(), spec__connection__external__endpoints=[]),
                          ["spec.connection.external.endpoints"] * 2),
    "port 65536": (external(client="h:65536"), ["spec.connection.external.endpoints[0].address"]),
    "a path": (external(admin="h:1/x"), ["spec.connection.external.endpoints[1].address"]),
    "blank image": (changed(BACKEND, spec__image="  "), ["spec.image"]),
    "image of a registry": (changed(BACKEND, spec__image="r.example:5000/a/b:1@sha256:" + "0" * 64), []),
    "no image reference": (changed(BACKEND, spec__image="a b"), ["spec.image"]),
    "secret without a name": (changed(BACKEND, spec__imagePullSecrets=[{}]), ["spec.imagePullSecrets[0].name"]),
    "several masters, no election": (
        changed(BACKEND, **{f"{LEADER}__replicas": 3, f"{LEADER}__electionBackend": "None"}), [f"{AT}.leader.replicas"]
    ),
    "a flag": (leader("-default_kv_lease_ttl=30s", "--metrics_host=0.0.0.0"), []),
    "a derived flag": (leader("-rpc_port=1"), [f"{ARGS}[0]"]),
    "a derived flag, spelled otherwise": (leader("--rpc-port=1", "-noenable_ha"), [f"{ARGS}[{n}]" for n in (0, 1)]),
    "a derived family": (leader("-enable_snapshot_restore=true"), [f"{ARGS}[0]"]),
    "a file of flags": (leader("-flagfile=/x"), [f"{ARGS}[0]"]),
    "no flag": (leader("rpc", "-", "-a -b", "-a=1 2"), [f"{ARGS}[{n}]" for n in range(4)]),
    "a flag twice": (leader("-a=1", "--a=2"), [f"{ARGS}[1]"]),
    "a derived variable": (group(extraEnv=[{"name": "MOONCAKE_MASTER", "value": "x"}]),
                           [f"{AT}.members[0].extraEnv[0].name"]),
    "a variable": (group(extraEnv=[{"name": "A", "value": "x"}]), []),
    "no capacity": (group(capacityPerMember="0"), [f"{AT}.members[0].capacityPerMember"]),
    "too much capacity": (group(capacityPerMember="8Ei"), [f"{AT}.members[0].capacityPerMember"]),
    "no quantity": (group(localBufferSize="lots"), [f"{AT}.members[0].localBufferSize"]),
    "a disk": (group(localDisks=[DISK]), []),
    "root as disk": (group(localDisks=[{**DISK, "path": "/"}]), [f"{DISKS}[0].path"]),
    "a disk above": (group(localDisks=[{**DISK, "path": "/a/../b"}]), [f"{DISKS}[0].path"]),
    "a disk among devices": (group(localDisks=[{**DISK, "path": "/dev/infiniband/x"}]), [f"{DISKS}[0].path"]),
    "watermarks": (group(localDisks=[{"path": "/m", "eviction": {"watermark": {"high": 5, "low": 5}}}]),
                   [f"{DISKS}[0].capacity", f"{DISKS}[0].eviction.watermark.low"]),
    "a name too long": (changed(BACKEND, metadata__name="a" * 54), ["metadata.name"]),
    "a name that begins with a digit": (changed(BACKEND, metadata__name="1a"), ["metadata.name"]),
    "wrong type": (changed(BACKEND, spec__transport="TCP"), ["spec"]),
}  # fmt: skip


@pytest.mark.parametrize("what", BACKENDS)
def test_backend(what: str) -> None:
    given, expected = BACKENDS[what]
    assert fields(asked(given)) == expected


def test_a_backend_needs_an_image_from_somewhere() -> None:
    assert fields(asked(BACKEND, backend_image="")) == ["spec.image"]
    assert fields(asked(external(), backend_image="")) == []
    assert fields(asked(BACKEND, BACKEND, backend_image="")) == []


def groups(*names: str) -> Object:
    made = backend("store", *["TCP"] * len(names))
    for one, name in zip(made["spec"]["connection"]["managed"]["members"], names, strict=True):
        one["nodeSelector"] = {"g": name}
    return made


MOVES = {
    ("ab", "ab"): [],
    ("ab", "abc"): [],
    ("ab", "a"): [],
    ("ab", "ax"): [],
    ("ab", "b"): [f"{AT}.members[0]"],
    ("ab", "ba"): [f"{AT}.members[0]", f"{AT}.members[1]"],
    ("abc", "ac"): [f"{AT}.members[1]"],
    ("ab", "bb"): [],  # edited in place; b is still where it was
}


@pytest.mark.parametrize(("old", "new"), MOVES)
def test_groups_are_where_they_are(old: str, new: str) -> None:
    assert fields(asked(groups(*new), groups(*old))) == MOVES[old, new]


def test_what_cannot_be_changed_of_a_backend() -> None:
    assert fields(asked(external(), BACKEND)) == ["spec.connection"]
    assert fields(asked(group(medium="VRAM"), BACKEND)) == [f"{AT}.members[0].medium"]
    assert fields(asked(group(localDisks=[DISK]), BACKEND)) == [f"{AT}.members[0].localDisks"]


def test_a_ledger_is_not_taken_from_under_its_claims() -> None:
    claims = [{"kind": "KVCachePool", "name": f"p{number}"} for number in range(22)]
    used, off = changed(BACKEND, status={"usedBy": claims}), changed(BACKEND, **{f"{LEADER}__multiTenancy": False})
    decision = asked(off, used)
    assert fields(decision) == [f"{AT}.leader.multiTenancy"]
    assert "KVCachePool p19 and 2 more" in decision.reason
    assert fields(asked(off, BACKEND)) == []


def test_a_stored_fault_does_not_keep_a_finalizer_on() -> None:
    stored = leader("-rpc_port=1")
    assert fields(asked(changed(stored, metadata__finalizers=[]), stored)) == []


def test_interfaces_are_for_fabrics() -> None:
    assert asked(group(fabricInterfaceCount=2)).warnings
    assert asked(changed(group(fabricInterfaceCount=2), spec__transport__protocol="RDMA")).warnings == ()


def test_no_value_of_a_backend_is_shown() -> None:
    given = leader("-a=hunter2", "hunter2", "-b hunter2", "-ü=hunter2")
    given = changed(given, **{f"{MEMBER}__extraEnv": [{"name": "A", "value": "hunter2"}]})
    made = masking.see(given)
    assert "hunter2" not in str(made.object)
    assert made.fill(made.object) == given


POOLS: dict[str, tuple[Object, list[str]]] = {
    "as it is": (POOL, []),
    "no backend": (pool(backend=""), ["spec.backends"]),
    "two backends": (changed(POOL, spec__backends=["a", "b"]), ["spec.backends", "spec.backends[0]"]),
    "blank backend": (changed(POOL, spec__backends=[" "]), ["spec.backends", "spec.backends[0]"]),
    "absent backend": (pool(backend="x"), ["spec.backends[0]"]),
    "no total": (changed(POOL, spec__quota={}), ["spec.quota.total"]),
}


@pytest.mark.parametrize("what", POOLS)
def test_pool(what: str) -> None:
    given, expected = POOLS[what]
    decision = asked(given, objects=(BACKEND,))
    assert fields(decision) == expected
    assert bool(decision.missed) == ("spec.backends[0]" in expected)


def test_a_pool_keeps_its_backend_and_does_not_look_for_it_again() -> None:
    assert fields(asked(pool(backend="other"), POOL)) == ["spec.backends"]
    assert fields(asked(changed(POOL, spec__quota__total="1Ti"), POOL)) == []


def test_a_pool_without_a_ledger_is_warned_of() -> None:
    assert asked(POOL, objects=(backend(tenancy=False),)).warnings
    assert asked(POOL, objects=(BACKEND,)).warnings == ()


BINDINGS: dict[str, tuple[Object, list[str]]] = {
    "as it is": (BINDING, []),
    "no pool": (changed(BINDING, spec__poolRef=None), ["spec.poolRef.name"]),
    "absent pool": (binding(pool="x"), ["spec.poolRef.name"]),
    "no domain": (changed(BINDING, spec__domain=None), ["spec.domain"]),
    "underscore": (changed(BINDING, spec__domain__name="_x"), ["spec.domain.name"]),
    "upper case": (changed(BINDING, spec__domain__dtype="BF16"), ["spec.domain.dtype"]),
    "two words": (changed(BINDING, spec__domain__dtype="a b"), ["spec.domain.dtype"]),
    "auto": (changed(BINDING, spec__domain__dtype="auto"), ["spec.domain.dtype"]),
    "ceiling above the total": (changed(BINDING, spec__quota__ceiling="11Gi"), ["spec.quota.ceiling"]),
    "ceiling as number": (changed(BINDING, spec__quota__ceiling=1024), []),
}


@pytest.mark.parametrize("what", BINDINGS)
def test_binding(what: str) -> None:
    given, expected = BINDINGS[what]
    assert fields(asked(given, objects=(POOL, BACKEND))) == expected


HOLDER = binding("first", "other")


def test_a_domain_is_one_on_a_backend_in_all_namespaces() -> None:
    decision = asked(BINDING, objects=(POOL, BACKEND, HOLDER))
    assert fields(decision) == ["spec.domain.name"]
    assert "other/first" in decision.reason
    assert "store" in decision.reason
    elsewhere = (POOL, BACKEND, pool("spare", "second"), backend("second"), binding("first", "other", "spare"))
    assert fields(asked(BINDING, objects=elsewhere)) == []
    second_pool = (POOL, BACKEND, pool("spare"), binding("first", "other", "spare"))
    assert fields(asked(BINDING, objects=second_pool)) == ["spec.domain.name"]
    gone = (POOL, BACKEND, binding("first", "other", "gone"))
    assert fields(asked(BINDING, objects=gone)) == []


def test_holders_are_found_among_what_was_read_live() -> None:
    """Where nothing was listed before: in every namespace."""
    known = world(POOL, BACKEND, HOLDER)
    live = {key: one for kind in admit.STORES for key, one in known.select(kind, None)}
    reader = Reader(World(), live=live, whole=frozenset((kind, "") for kind in admit.STORES))
    found = binding_rules.violations(schema.read(BINDING, kvcache.KVCachePoolBinding), None, reader, Settings())
    assert [one.field for one in found] == ["spec.domain.name"]


def test_a_store_without_a_ledger_holds_one_domain() -> None:
    other = changed(HOLDER, spec__domain__name="second")
    assert fields(asked(BINDING, objects=(pool(condition=DISABLED), BACKEND, other))) == ["spec.domain"]
    assert fields(asked(BINDING, objects=(POOL, backend(tenancy=False), other))) == ["spec.domain"]
    assert asked(BINDING, objects=(pool(condition=DISABLED), BACKEND)).warnings
    assert asked(BINDING, objects=(pool(condition=None), BACKEND, other)).warnings


def test_what_cannot_be_changed_of_a_binding() -> None:
    for path in ("poolRef__name", "domain__name", "domain__dtype", "domain__blockSize"):
        new = changed(BINDING, **{f"spec__{path}": 8 if path.endswith("Size") else "other"})
        assert fields(asked(new, BINDING, (POOL, BACKEND))) == [f"spec.{path.replace('__', '.')}"]


def test_a_ceiling_is_judged_when_its_value_moves() -> None:
    stored = changed(BINDING, spec__quota__ceiling="11Gi")
    assert fields(asked(changed(stored, spec__quota__ceiling="11264Mi"), stored, (POOL,))) == []
    assert fields(asked(changed(stored, spec__quota__ceiling="12Gi"), stored, (POOL,))) == ["spec.quota.ceiling"]
    assert fields(asked(changed(stored, spec__quota__ceiling="2Gi"), stored, (POOL,))) == []


def test_a_stored_object_that_cannot_be_read_is_not_in_the_way() -> None:
    assert asked(BINDING, changed(BINDING, spec__domain="x")).verdict == "allowed"


def test_both_versions_have_one_schema_and_the_older_is_stored() -> None:
    for one in (one for one in definitions.DEFINITIONS if one.group == "worker.gpustack.ai"):
        spec = render.definition(one)["spec"]
        first, second = spec["versions"]
        assert (first["name"], first["served"], first["storage"]) == ("v1", True, False)
        assert (second["name"], second["served"], second["storage"]) == ("v1alpha1", True, True)
        assert first["schema"] == second["schema"]
        assert spec["conversion"] == {"strategy": "None"}


def test_what_an_open_kind_has_beside_us_is_kept() -> None:
    spec = next(one.spec for one in definitions.DEFINITIONS if one.kind == "ModelDeployment")
    given = {"engine": {"name": "vLLM"}, "roles": [{"name": "a", "image": "x"}], "autoscaling": {"max": 2}}
    assert schema.violations(given, spec, "spec") == []
    assert render.struct(spec)["x-kubernetes-preserve-unknown-fields"]
