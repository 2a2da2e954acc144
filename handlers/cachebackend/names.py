"""Names that the contract fixes: annotations, labels, containers, flags, environment. Values never change.

Rules: seed 004; spec/inferencecache.md sections 3.5, 6, 7.
"""

from typing import Final

HANDLER: Final = "cachebackend"
MANAGED_BY: Final = "inference-cache-controller"

INJECTED_BY: Final = "inferencecache.io/injected-by"
INJECTED_BY_UID: Final = "inferencecache.io/injected-by-uid"
SKIP_INJECT: Final = "inferencecache.io/skip-inject"
INJECT_SKIPPED: Final = "inferencecache.io/inject-skipped"
KERNEL_CHECK: Final = "inferencecache.io/lmcache-kernel-check"
REQUIRE_KV_EVENTS: Final = "inferencecache.io/require-kv-events"
SKIP_PROBE: Final = "inferencecache.io/skip-functional-probe"
RESTART_TRIGGER: Final = "inferencecache.io/cache-server-restart-trigger"
BACKEND_TYPE: Final = "inferencecache.io/backend-type"

KERNEL_CHECK_VALUES: Final = ("", "auto", "report-only", "strict", "off")

SUBSCRIBER: Final = "kvevent-subscriber"
#: Containers that webhooks of ours put beside an engine: none of them is one.
SIDECARS: Final = frozenset((SUBSCRIBER, "mcv"))
KERNEL_CHECK_CONTAINER: Final = "lmcache-kernel-check"
MP_WORKER: Final = "lmcache-mp-worker"
