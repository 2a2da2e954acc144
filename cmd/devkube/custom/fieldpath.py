"""Paths that a CRD may give: `fieldPath` of rules and `selectableFields`, made of fields and map keys that exist."""

import re
from collections.abc import Mapping
from typing import Any

Node = Mapping[str, Any]
_STEP = re.compile(r"\.([^.\[\]]+)|\['((?:[^'\\]|\\.)*)'\]")


def resolved(path: str, node: Node, *, brackets: bool = True) -> tuple[str, Node]:
    """The path as errors print it (`.spec.a`, `.labels[x]`) and the schema it leads to. ValueError with the reason."""
    told, end = "", 0
    while end < len(path):
        step = _STEP.match(path, end)
        if step is None:
            raise ValueError(f"expected [ or . but got: {path[end:]}")
        if step[2] is not None and not brackets:
            raise ValueError("array notation is not allowed")
        name = step[1] if step[1] is not None else re.sub(r"\\(.)", r"\1", step[2])
        fields, values = node.get("properties"), node.get("additionalProperties")
        if fields and name in fields:
            node, told = fields[name], f"{told}.{name}"
        elif not fields and isinstance(values, Mapping):
            node, told = values, f"{told}[{name}]"
        else:
            raise ValueError("does not refer to a valid field")
        end = step.end()
    return told, node


def normalized(path: str, node: Node) -> str:
    """As errors print it; "" where it leads nowhere."""
    try:
        return resolved(path, node)[0]
    except ValueError:
        return ""
