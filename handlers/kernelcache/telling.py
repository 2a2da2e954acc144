"""What the log holds of Kernel Cache's configuration: known keys, with numbers and what is well formed in them.

Of everything else only that it is there; what was wrong with the text as it was written is told beside it. ConfigMaps
hold secrets by mistake, and this one belongs to KServe.

Rules: design.md section 2, "Privacy"; config says what each key may be.
"""

import re
from typing import Any, Final

import msgspec

from handlers import tokens
from handlers.kernelcache import config
from handlers.outcome import Object

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*")
_KEY: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}")


def told(text: str) -> Object:
    """What the log may hold of the text, and what is wrong with it as it is written. Told again it is the same."""
    problem = config.problem_of(text)
    try:
        given = msgspec.json.decode(text or "{}")
    except (msgspec.MsgspecError, RecursionError):
        given = None
    if not isinstance(given, dict):
        kept = text if tokens.STORED.fullmatch(text) else tokens.token("", text)
    else:
        kept = msgspec.json.encode(_safe(given, config.Config, "")).decode() if given else text
    return {"kernelcache": kept, "problem": problem} if problem else {"kernelcache": kept}


def _safe(value: Any, struct: Any, at: str) -> Any:
    """Known keys with numbers and what is well formed; of every other key that it is there."""
    fields = {one.encode_name: one.type for one in msgspec.structs.fields(struct)}
    found: Object = {}
    for key, one in value.items():
        if key not in fields:
            found[key if _KEY.fullmatch(key) else _hidden(key)] = None
        elif at + key in config.PARTS and isinstance(one, dict):
            found[key] = _safe(one, config.PARTS[at + key], f"{at}{key}.")
        else:
            found[key] = _shown(at + key, one, text=fields[key] is str)
    return found


def _shown(key: str, value: Any, *, text: bool) -> Any:
    if isinstance(value, dict | list):
        return type(value)()  # it is in the wrong place: the problem says so
    if not isinstance(value, str) or not value.strip():
        return value
    if not text:
        return _hidden(value)
    if key in config.CHOICES:
        return value if value in config.CHOICES[key] else _hidden(value)
    return value if config.FORMS.get(key, _NAME).fullmatch(value) else _hidden(value)


def _hidden(value: str) -> str:
    return value if tokens.STORED.fullmatch(value) else tokens.token("", value)
