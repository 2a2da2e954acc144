"""How stable a runtime image's reference is, which decides what footprints a Pod has.

digest    both footprints            tag       compatibility only
floating  neither: latest, untagged  (a reference that cannot be read is an error)

A port of the registry is no tag. `latest` counts exactly so: `Latest` and `latest-cu128` are ordinary tags.

Rules: seed 000, "Runtime image references"; spec/kernelcache.md section 2.5. Ours: Docker Hub's short and full names
agree, and a tag beside a digest says nothing.
"""

import re
from typing import Final, Literal, NamedTuple

Class = Literal["digest", "tag", "floating"]

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_HUB: Final = re.compile(r"(?:index\.)?docker\.io/(?:library/)?|library/(?=[^/]+$)")


class Image(NamedTuple):
    """`reference` is the form that is compared and hashed."""

    class_: Class
    reference: str


class ImageError(ValueError):
    """A reference that cannot be read; `code` is image-empty, image-whitespace, image-digest or image-empty-tag."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def read(reference: str) -> Image:
    """Raises ImageError."""
    text = reference.strip()
    if not text:
        raise ImageError("image-empty", "the runtime image is empty")
    if any(character.isspace() for character in text):
        raise ImageError("image-whitespace", f"the runtime image {text[:80]!r} has a blank in it")
    name, _, digest = text.rpartition("@sha256:") if "@sha256:" in text else (text, "", "")
    if "@" in name or ("@" in text and (not name or not _DIGEST.fullmatch(digest))):
        raise ImageError("image-digest", f"the runtime image {text[:80]!r} has no digest of 64 lower-case hex digits")
    repository, tag = _tag(name)
    if tag == "":
        raise ImageError("image-empty-tag", f"the runtime image {text[:80]!r} has an empty tag")
    if digest:
        return Image("digest", f"{_short(repository)}@sha256:{digest}")
    if tag is None or tag == "latest":
        return Image("floating", f"{_short(repository)}:latest")
    return Image("tag", f"{_short(repository)}:{tag}")


def _tag(name: str) -> tuple[str, str | None]:
    """Repository and tag; None without a tag. A colon before the last slash belongs to a port."""
    at = name.rfind(":")
    return (name, None) if at <= name.rfind("/") else (name[:at], name[at + 1 :])


def _short(repository: str) -> str:
    return _HUB.sub("", repository, count=1) if _HUB.match(repository) else repository
