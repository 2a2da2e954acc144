"""Addresses as they may be shown: without what a URL carries beside the place it names.

A password may stand before the @ of a URL and a key in its query, and settings travel in events that every reader of
the log sees. Not here: how an address is read. Nothing fails; what is no address comes back as it was.

Rules: design.md section 2 ("Privacy": URL userinfo), section 3 (settings without secrets).
"""

import re
from typing import Final

_NEXT: Final = re.compile(r",(?=[a-z][a-z0-9+.-]*://)")  # between the addresses of a list
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*")


def shown(address: str) -> str:
    """One address or several with commas, `***` in place of userinfo and query."""
    return ",".join(_shown(one) for one in _NEXT.split(address))


def _shown(one: str) -> str:
    scheme, slashes, rest = one.partition("://")
    if not _SCHEME.fullmatch(scheme) or not slashes:
        scheme, slashes, rest = "", "", one
    _, at, place = rest.rpartition("@")  # the last one: a password may hold any character
    place, asks, _ = place.partition("?")
    return f"{scheme}{slashes}{'***@' if at else ''}{place}{'?***' if asks else ''}"
