"""JSON values as Python holds them: copies, equality, depth, and what Go calls them. No rules of Kubernetes."""

import json
from json.encoder import encode_basestring
from typing import Any

# Levels of nesting: what recurses over a value may then do so without counting. Upstream allows 10,000; Python's own
# stack ends at about a thousand calls, and real CRDs stay far below this.
MAX_DEPTH = 200


def clone(value: Any) -> Any:
    """A copy that shares no dict and no list with the original."""
    if value.__class__ is dict:
        return {key: clone(item) for key, item in value.items()}
    return [clone(item) for item in value] if value.__class__ is list else value


def same(one: Any, other: Any) -> bool:
    """Equality of JSON: in Python 1, 1.0 and True are equal, in JSON they are not."""
    if one.__class__ is not other.__class__:
        return False
    if one.__class__ is dict:
        return one.keys() == other.keys() and all(same(item, other[key]) for key, item in one.items())
    if one.__class__ is list:
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def check_depth(value: Any) -> None:
    """ValueError for JSON nested deeper than MAX_DEPTH."""
    layer = [value]
    for _ in range(MAX_DEPTH):
        held = (one.values() if one.__class__ is dict else one for one in layer if one.__class__ in (dict, list))
        layer = [child for children in held for child in children]
        if not layer:
            return
    raise ValueError(f"the value is nested deeper than {MAX_DEPTH} levels")


def compact(value: Any) -> str:
    """JSON with sorted keys and no spaces, as Go writes it: HTML is escaped, whole floats are integers."""
    if value.__class__ is dict:
        return "{" + ",".join(f"{compact(key)}:{compact(value[key])}" for key in sorted(value)) + "}"
    if value.__class__ is list:
        return "[" + ",".join(map(compact, value)) + "]"
    if value.__class__ is float and value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    if value.__class__ is not str:
        return json.dumps(value)
    text = encode_basestring(value)
    for found in "<>&\u2028\u2029":
        text = text.replace(found, f"\\u{ord(found):04x}")
    return text


def go_type(value: Any) -> str:
    """How Go's JSON decoder names what it met."""
    names = {dict: "object", list: "array", str: "string", bool: "bool", int: "number", float: "number"}
    return names.get(type(value), "null")
