"""Whether a Pod has the shape that the checks read. An API server judges that before any webhook; a tool without a
cluster is given whatever stands in a file.

Rules: core/v1.
"""

from typing import Any, Final

from handlers.kvcachepool.refusal import Refused
from handlers.outcome import Object

#: Lists of a container, and what is in them.
_LISTS: Final = {"command": str, "args": str, "env": dict, "volumeMounts": dict}


def check(pod: Object) -> None:
    """Raises Refused."""
    metadata, spec = pod.get("metadata"), pod.get("spec")
    _of(metadata, dict, "metadata")
    _of((metadata or {}).get("annotations"), dict, "metadata.annotations")
    for key, value in ((metadata or {}).get("annotations") or {}).items():
        _of(value, str, f"metadata.annotations[{key}]")
    _of(spec, dict, "spec")
    for field in ("containers", "initContainers", "volumes"):
        _list((spec or {}).get(field), dict, f"spec.{field}")
    for number, container in enumerate((spec or {}).get("containers") or ()):
        _of(container.get("name"), str, f"spec.containers[{number}].name")
        for field, inner in _LISTS.items():
            _list(container.get(field), inner, f"spec.containers[{number}].{field}")


def _list(value: Any, inner: type, at: str) -> None:
    _of(value, list, at)
    for number, one in enumerate(value or ()):
        if not isinstance(one, inner):
            _wrong(f"{at}[{number}]", inner)


def _of(value: Any, wanted: type, at: str) -> None:
    if value is not None and not isinstance(value, wanted):
        _wrong(at, wanted)


_SAID: Final[dict[type, str]] = {dict: "an object", list: "a list", str: "a string"}


def _wrong(at: str, wanted: type) -> None:
    raise Refused("shape", at, f"{at} must be {_SAID[wanted]}", "Invalid")
