"""Addresses of remote tiers: what shape they must have, and whose namespace a Service name belongs to.

Rules: seed 004, remoteStorage.endpoint and allowCrossNamespace; spec/inferencecache.md section 6.3, last lines.
"""

import re
from typing import Final, NamedTuple

from handlers.cachebackend import matrix

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_HOST_PORT: Final = re.compile(r"(\[[0-9A-Fa-f:.%a-z]+\]|[^\[\]:]+):([0-9]+)")
_FORBIDDEN: Final = frozenset("/?#@")


class Address(NamedTuple):
    """`host` as it was written (IPv6 in brackets), `port` in decimal."""

    host: str
    port: str

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class EndpointError(ValueError):
    """One line that says what is wrong with an endpoint."""


def parse(provider: str, endpoint: str) -> Address:
    """Raises EndpointError. Outer whitespace is ignored; a scheme is accepted when it is the provider's own."""
    text = endpoint.strip()
    if any(character.isspace() or not character.isprintable() for character in text):
        raise EndpointError("must not contain whitespace or control characters")
    own = matrix.SCHEMES.get(provider)
    if found := _SCHEME.fullmatch(text):
        if found[1].lower() != own:
            takes = f"{own}:// or none" if own else "no scheme"
            raise EndpointError(f"scheme {found[1]}:// does not belong to {provider}, which takes {takes}")
        text = found[2]
    if _FORBIDDEN & set(text):
        raise EndpointError("must be host:port, without a path, a query or user information")
    parts = _HOST_PORT.fullmatch(text)
    if parts is None:
        raise EndpointError("must be host:port; an IPv6 address needs brackets")
    if not 1 <= int(parts[2][:6]) <= 65535 or len(parts[2]) > 5:
        raise EndpointError(f"port {parts[2][:12]} is not between 1 and 65535")
    return Address(parts[1], parts[2])


def url(provider: str, endpoint: str) -> str:
    """The endpoint with its provider's scheme, in lower case; the host keeps its case. Raises EndpointError."""
    return f"{matrix.SCHEMES[provider]}://{parse(provider, endpoint)}"


def namespace_of(endpoint: str) -> str:
    """The namespace of a Service's DNS name (`name.ns.svc` or longer), "" where none can be told.

    `name.ns` alone says nothing: it may as well be an external host name.
    """
    text = endpoint.strip().lower()
    text = re.sub(r"^[a-z][a-z0-9+.-]*://", "", text)
    text = re.split(r"[/?]", text, maxsplit=1)[0]
    text = re.sub(r":[^:.]*$", "", text).rstrip(".").removesuffix(".cluster.local")
    labels = text.split(".")
    return labels[-2] if len(labels) >= 3 and labels[-1] == "svc" else ""
