"""A model's address, without what is not its name: credentials, signatures, fragments.

Scheme in lower case; host, path and a trailing slash as they are. None where it cannot be read: then the model is
unknown, and neither selection nor capture happens.

Rules: spec/kernelcache.md section 2.4. Ours: parts of a query that name a version stay, in order of their names.
"""

import re
from typing import Final

from handlers.kernelcache import digest

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?=.)")
_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^\[\]:\s]*)(:[0-9]*)?")
#: Keys of a query that tell two contents at one path apart.
VERSIONS: Final = frozenset(("generation", "id", "ref", "revision", "sha", "snapshot", "version", "versionid"))


def normalised(uri: str) -> str | None:
    text = uri.strip()
    scheme = _SCHEME.match(text)
    if scheme is None or _CONTROL.search(text):
        return None
    rest, _, _ = text[scheme.end() :].partition("#")
    rest, _, query = rest.partition("?")
    authority, path = "", rest
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        host = host.rpartition("@")[2]
        if not _HOST.fullmatch(host):
            return None
        authority, path = f"//{host}", slash + path
    if _ESCAPE.search(path):
        return None
    kept = sorted(part for part in query.split("&") if part.partition("=")[0].lower() in VERSIONS)
    return f"{scheme[1].lower()}:{authority}{path}" + (f"?{'&'.join(kept)}" if kept else "")


def hashed(uri: str) -> str | None:
    """Of the normalised address; None where there is none."""
    found = normalised(uri)
    return None if found is None else digest.of_strings([found])
