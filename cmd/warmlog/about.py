"""KIND/NAMESPACE/NAME as a person writes it: a kind by its plural, singular or short name, or in full."""

from typing import Final

from crds import definitions
from handlers.outcome import Key
from handlers.world import kinds
from warmlog.flags import UsageError

_SHORT: Final = {
    "po": "pods",
    "svc": "services",
    "deploy": "deployments.apps",
    "rs": "replicasets.apps",
    "hpa": "horizontalpodautoscalers.autoscaling",
}


def _names() -> dict[str, str]:
    found = dict(_SHORT)
    for kind in kinds.KINDS:
        plural = kind.partition(".")[0]
        found |= {kind: kind, plural: kind, plural.removesuffix("s"): kind}
    for one in definitions.DEFINITIONS:
        if one.name in kinds.KINDS:
            found |= dict.fromkeys((one.kind.lower(), *one.short), one.name)
    return found


NAMES: Final = _names()


def key(text: str, *, flag: str = "") -> Key:
    """Raises UsageError."""
    if not text:
        raise UsageError(f"{flag}give KIND/NAMESPACE/NAME, as in pod/team-a/engine-0")
    kind, _, rest = text.partition("/")
    namespace, slash, name = rest.partition("/")
    if not kind or not slash or not name or "/" in name:
        raise UsageError(f"{flag}{text!r} is not KIND/NAMESPACE/NAME")
    found = NAMES.get(kind.lower())
    if found is None:
        raise UsageError(f"{flag}{kind!r} is no kind that the log keeps; one of {', '.join(sorted(kinds.KINDS))}")
    return Key(found, namespace, name)
