"""What of a CacheBackend may be a secret: values that an operator wrote for engines' environments and arguments, for
the command of a managed store, and a password in an address.

Rules: design.md section 2, "Privacy"; the same parts are hidden in what webhooks see (admit.backend_view).
"""

from handlers.outcome import Object
from handlers.tokens import Hider


def hide(document: Object, hider: Hider) -> None:
    """In place, of a document that decodes."""
    spec = document.get("spec") or {}
    given = (spec.get("integration") or {}).get("engineOverrides") or {}
    for one in given.get("env") or ():
        if one.get("value"):
            one["value"] = hider.hide(one["value"])
    for words in ("args", "suppressArgs"):
        if given.get(words):
            given[words] = [hider.word(word) for word in given[words]]
    storage = spec.get("remoteStorage") or {}
    for block in ("lmCacheServer", "mooncake"):
        one = storage.get(block) or {}
        if one.get("command"):
            one["command"] = [hider.word(word) for word in one["command"]]
    _endpoint(storage, hider)


def _endpoint(storage: Object, hider: Hider) -> None:
    """Stored before there was a rule against it, an address may hold a password, with or without a scheme."""
    secret, at, place = str(storage.get("endpoint") or "").rpartition("@")
    if at:
        scheme, slashes, rest = secret.rpartition("://")
        storage["endpoint"] = f"{scheme}{slashes}{hider.once(rest)}@{place}"
