"""KVCacheBackend: a store that is run here, or one that somebody else runs.

The position of a member group is its identity: groups are appended, removed from the end, edited in place.

Rules: spec/worker-gpustack.md section 1.1.
"""

import re
from collections.abc import Callable
from typing import Final

from crds.kvcache import External, KVCacheBackend, Leader, LocalDisk, Managed, MemberGroup
from handlers.admission.decision import Violation
from handlers.kvcachepool.inject import Settings
from handlers.kvcachepool.validate.common import LABEL, SUBDOMAIN, Found, arguments, environment, frozen, size

MANAGED: Final = "spec.connection.managed"
LEADER: Final = f"{MANAGED}.leader"
ENDPOINTS: Final = "spec.connection.external.endpoints"
LISTED: Final = 20
_LEADER_FLAGS: Final = frozenset(
    (
        *("port", "rpc_port", "metrics_port", "rpc_address", "rpc_interface", "etcd_endpoints", "cluster_id"),
        *("enable_oplog", "enable_cxl", "memory_allocator", "enable_offload", "offload_on_evict"),
        *("enable_multi_tenants", "tenant_quota_connector_uri", "allocation_strategy"),
        *("enable_ha", "ha_backend_type", "ha_backend_connstring"),
        *("flagfile", "fromenv", "tryfromenv"),  # would bring the others in from elsewhere
    )
)
_LEADER_PREFIXES: Final = ("cxl_", "enable_snapshot", "snapshot_")
_LEADER_ENV: Final = frozenset(("KUBERNETES_POD_IP",))
_MEMBER_ENV: Final = frozenset(
    (
        *("MOONCAKE_TE_META_DATA_SERVER", "MOONCAKE_MASTER", "MOONCAKE_PROTOCOL", "MOONCAKE_LOCAL_HOSTNAME"),
        *("MOONCAKE_GLOBAL_SEGMENT_SIZE", "MOONCAKE_LOCAL_BUFFER_SIZE", "MC_TE_METRIC"),
    )
)
_IMAGE: Final = re.compile(
    r"([a-zA-Z0-9][-a-zA-Z0-9.]*(:\d+)?/)?[a-z0-9]+([._/-]+[a-z0-9]+)*(:[\w][\w.-]{0,127})?(@[a-z0-9+._-]+:[0-9a-fA-F]{32,})?",
    re.ASCII,
)


def violations(new: KVCacheBackend, old: KVCacheBackend | None, settings: Settings) -> list[Violation]:
    found = [one for check in CHECKS for one in check(new)]
    if old is None:
        return [*found, *_names(new), *_some_image(new, settings)]
    before = [one for check in CHECKS for one in check(old)]
    found = [one for one in found if one not in before]
    if new.spec.image != old.spec.image:
        found += _some_image(new, settings)
    return [*found, *_changes(new, old)]


def warnings(new: KVCacheBackend) -> list[str]:
    own = new.spec.transport.protocol
    found = []
    for number, group in enumerate(_groups(new)):
        protocol = (group.transport.protocol if group.transport else "") or own
        if group.fabric_interface_count is not None and protocol not in ("RDMA", "EFA"):
            found.append(
                f"{MANAGED}.members[{number}].fabricInterfaceCount means nothing for transport {protocol}: only RDMA "
                "and EFA groups get fabric interfaces"
            )
    return found


def _groups(backend: KVCacheBackend) -> list[MemberGroup]:
    managed = backend.spec.managed
    return (managed.members or []) if managed else []


def branch(backend: KVCacheBackend) -> Found:
    """Exactly one of managed and external."""
    given = backend.spec.connection
    if given is None or (given.managed is None) == (given.external is None):
        yield Violation("Invalid", "spec.connection", "must have exactly one of managed and external")


def image(backend: KVCacheBackend) -> Found:
    """An image that is said is an image reference."""
    places = [("spec.image", backend.spec.image)]
    places += [(f"{MANAGED}.members[{number}].image", one.image) for number, one in enumerate(_groups(backend))]
    for at, given in places:
        if given and not _IMAGE.fullmatch(given):
            yield Violation("Invalid", at, "must be an image reference", given)
    for number, secret in enumerate(backend.spec.image_pull_secrets or ()):
        if not SUBDOMAIN.fullmatch(secret.name):
            yield Violation("Invalid", f"spec.imagePullSecrets[{number}].name", "must be a Secret's name", secret.name)


def leader(backend: KVCacheBackend) -> Found:
    """Several masters need an election; flags and variables that we derive are ours."""
    managed = backend.spec.managed
    if managed is None:
        return
    given: Leader = managed.leader
    if given.election_backend == "None" and (given.replicas or 1) > 1:
        yield Violation("Invalid", f"{LEADER}.replicas", "must be 1 without an electionBackend", given.replicas)
    yield from arguments(given.extra_args, f"{LEADER}.extraArgs", derived)
    yield from environment(given.extra_env, f"{LEADER}.extraEnv", _LEADER_ENV)


def derived(key: str) -> bool:
    """Whether a master's flag is derived; `noX` switches the flag X off."""
    names = (key, key.removeprefix("no"))
    return any(one in _LEADER_FLAGS or one.startswith(_LEADER_PREFIXES) for one in names)


def members(backend: KVCacheBackend) -> Found:
    """Sizes are sizes; a tier of local disks stands in one group."""
    with_disks = 0
    for number, group in enumerate(_groups(backend)):
        at = f"{MANAGED}.members[{number}]"
        yield from size(group.capacity_per_member, f"{at}.capacityPerMember")
        yield from size(group.local_buffer_size, f"{at}.localBufferSize", required=False)
        yield from arguments(group.extra_args, f"{at}.extraArgs", lambda key: key == "port")
        yield from environment(group.extra_env, f"{at}.extraEnv", _MEMBER_ENV)
        with_disks += bool(group.local_disks)
        if group.local_disks and with_disks > 1:
            yield Violation("Forbidden", f"{at}.localDisks", "one group only may have local disks")
        for place, disk in enumerate(group.local_disks or ()):
            yield from _disk(disk, f"{at}.localDisks[{place}]")


def _disk(disk: LocalDisk, at: str) -> Found:
    parts = disk.path.split("/")
    if not disk.path.startswith("/") or not disk.path.strip("/") or ".." in parts:
        yield Violation("Invalid", f"{at}.path", "must be absolute, not /, and without ..", disk.path)
    elif [part for part in parts if part][:2] == ["dev", "infiniband"]:
        yield Violation("Invalid", f"{at}.path", "must not lie under /dev/infiniband", disk.path)
    yield from size(disk.capacity, f"{at}.capacity", required=False)
    mark = disk.eviction.watermark if disk.eviction else None
    if mark is None:
        return
    if disk.capacity is None:
        yield Violation("Required", f"{at}.capacity", "an eviction watermark is a share of it")
    if mark.low is not None and mark.high is not None and mark.low >= mark.high:
        yield Violation("Invalid", f"{at}.eviction.watermark.low", "must be less than high", mark.low)


def external(backend: KVCacheBackend) -> Found:
    """Both endpoints, each host:port."""
    given: External | None = backend.spec.connection.external if backend.spec.connection else None
    if given is None:
        return
    names = [one.name for one in given.endpoints or ()]
    for name in ("Client", "Admin"):
        if names.count(name) != 1:
            yield Violation("Invalid", ENDPOINTS, f"must have exactly one endpoint {name}", names)
    for number, one in enumerate(given.endpoints or ()):
        if why := _no_address(one.address):
            yield Violation("Invalid", f"{ENDPOINTS}[{number}].address", f"must be host:port: {why}", one.address)


def _no_address(text: str) -> str:
    host, _, port = text.rpartition(":")
    if any(character.isspace() for character in text):
        return "no spaces"
    if "://" in text or "/" in text:
        return "no scheme and no path"
    if not host:
        return "the port is missing"
    if not re.fullmatch(r"[0-9]{1,5}", port) or not 1 <= int(port) <= 65535:
        return "the port is a number from 1 to 65535"
    return "it is too long" if len(text) > 259 else ""


CHECKS: Final[tuple[Callable[[KVCacheBackend], Found], ...]] = (branch, image, leader, members, external)


def _some_image(backend: KVCacheBackend, settings: Settings) -> Found:
    """A managed store runs an image: its own, or the setting's."""
    if backend.spec.managed is not None and not backend.spec.image.strip() and not settings.backend_image.strip():
        yield Violation("Required", "spec.image", "must be set: the setting kv-cache-backend-image is empty too")


def _names(backend: KVCacheBackend) -> Found:
    """Workloads are named after a backend; their names are DNS labels that start with a letter."""
    name = backend.metadata.name
    if backend.spec.managed is not None and (
        not LABEL.fullmatch(f"{name}-member-31") or not LABEL.fullmatch(name) or not name[:1].isalpha()
    ):
        detail = "must be a DNS label that starts with a letter, of at most 53 characters: workloads are named after it"
        yield Violation("Invalid", "metadata.name", detail, name)


def _changes(new: KVCacheBackend, old: KVCacheBackend) -> Found:
    yield from frozen(old.spec.type, new.spec.type, "spec.type")
    before, after = old.spec.connection, new.spec.connection
    if before is None or after is None:
        return
    if (before.managed is None) != (after.managed is None):
        yield from frozen(True, False, "spec.connection")
    if before.managed is not None and after.managed is not None:
        yield from _tenancy(before.managed, after.managed, old)
        yield from _moved(before.managed.members or [], after.managed.members or [])


def _tenancy(old: Managed, new: Managed, backend: KVCacheBackend) -> Found:
    """A ledger is not taken from under those who are charged by it."""
    if old.leader.multi_tenancy is False or new.leader.multi_tenancy is not False:
        return
    if claims := [str(one) for one in backend.status.used_by or ()]:
        more = f" and {len(claims) - LISTED} more" if len(claims) > LISTED else ""
        detail = f"cannot be switched off while it is used by {', '.join(claims[:LISTED])}{more}: remove these first"
        yield Violation("Forbidden", f"{LEADER}.multiTenancy", detail)


def _moved(old: list[MemberGroup], new: list[MemberGroup]) -> Found:
    for number, group in enumerate(new[: len(old)]):
        at = f"{MANAGED}.members[{number}]"
        if group == old[number]:
            continue
        if any(group == one and new[place : place + 1] != [one] for place, one in enumerate(old)):
            detail = "is another group's place: groups are removed from the end, appended, or edited where they stand"
            yield Violation("Forbidden", at, detail)
            continue
        yield from frozen(old[number].medium, group.medium, f"{at}.medium")
        yield from frozen(_paths(old[number]), _paths(group), f"{at}.localDisks")


def _paths(group: MemberGroup) -> list[str]:
    return [disk.path for disk in group.local_disks or ()]
