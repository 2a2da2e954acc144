"""Names that are derived, so that doing it twice names the same thing. What would be longer than a DNS label is cut,
with a hash of the whole.

Rules: spec/kernelcache.md sections 4.1, 4.5, 4.7.
"""

import hashlib
import re
from typing import Final

LONGEST: Final = 63
_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")


def capture(service: str, revision: str | None) -> str | None:
    """`<service>-kcc-<revision>`; None without a revision, or with one that no name can hold."""
    if not service or not revision or not _LABEL.fullmatch(revision):
        return None
    whole = f"{service}-kcc-{revision}"
    if len(whole) <= LONGEST:
        return whole
    tail = f"-{_hash(whole, 8)}-kcc-{revision}"
    if len(tail) >= LONGEST:
        tail = f"-kcc-{_hash(whole, 24)}"
    return service[: LONGEST - len(tail)].rstrip("-.") + tail


def target(endpoint: str, *, namespace: str, service: str, revision: str, explicit: str | None = None) -> str | None:
    """The image to push; None where neither a target nor a registry is known."""
    if explicit:
        return explicit
    return f"{endpoint}/{namespace}/kernel-cache-{service}:{revision}" if endpoint else None


def cache(capture_name: str, reference: str) -> str:
    base = capture_name.removesuffix("-capture")[:38].rstrip("-.")
    return f"{base}-{_hash(reference, 24)}"


def access(to: str, capture_name: str) -> str:
    """Of the Secret that lets a sidecar report (`reporter`) or push (`pusher`)."""
    tail = f"-{_hash(capture_name, 8)}"
    head = f"kernel-cache-{to}-"
    return head + capture_name[: LONGEST - len(head) - len(tail)].rstrip("-.") + tail


def session(review: str, namespace: str, capture_name: str) -> str:
    """A session's id, in the form of a UUID: the same for the same review, another one for every other."""
    text = hashlib.sha256("\n".join((review, namespace, capture_name)).encode()).hexdigest()
    return "-".join((text[:8], text[8:12], f"8{text[13:16]}", f"a{text[17:20]}", text[20:32]))


def _hash(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]
