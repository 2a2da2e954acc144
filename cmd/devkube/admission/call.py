"""POST to a webhook over TLS: where `clientConfig` says, trusting its caBundle and nothing else (without one, the
system's authorities).

There is no cluster network: a Service reference is looked up in a table that the user gives (`--webhook-service`), and
TLS still asks for the Service's own name, `name.namespace.svc`, as a kube-apiserver does. One session for all webhooks,
one connection pool per authority. The deadline is real time, whatever devkube's clock says: the webhook is outside.

Everything that goes wrong is a `CallFailed` with text as Go's HTTP client words it, since people search for those.
"""

import asyncio
import base64
import binascii
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec
from yarl import URL

_LONGEST = 16 * 1024 * 1024  # bytes of a response
_CONTEXTS = 64  # authorities remembered


class CallFailed(Exception):
    """The webhook could not be asked, or its answer not be used. What follows is failurePolicy's decision."""


@dataclass(frozen=True)
class Target:
    url: URL  # where the connection goes
    shown: str  # how errors name it
    server_name: str | None = None  # what the certificate must be for, when it is not the host of `url`
    host: str | None = None  # the Host header, likewise


def target(client: Mapping[str, Any], services: Mapping[str, str], seconds: int) -> Target:
    """Of a clientConfig. CallFailed for a Service nobody mapped."""
    if url := client.get("url"):
        asked = URL(url).update_query(timeout=f"{seconds}s")
        return Target(asked, str(asked))
    service = client.get("service") or {}
    namespace, name = service.get("namespace") or "", service.get("name") or ""
    port, path = service.get("port") or 443, "/" + (service.get("path") or "").lstrip("/")
    host = f"{name}.{namespace}.svc"
    shown = URL(f"https://{host}:{port}{path}").update_query(timeout=f"{seconds}s")
    real = services.get(f"{namespace}/{name}:{port}") or services.get(f"{namespace}/{name}")
    if real is None:
        hint = f"tell devkube where it is: --webhook-service {namespace}/{name}:{port}=HOST:PORT"
        raise CallFailed(f'failed to call webhook: Post "{_plain(shown)}": service "{name}" not found; {hint}')
    connect = URL(f"https://{real}{path}").update_query(timeout=f"{seconds}s")
    return Target(connect, _plain(shown), host, f"{host}:{port}")


def _plain(url: URL) -> str:
    """With the port told even where it is 443, as Go prints the URL of a Service."""
    return (
        str(url).replace(f"{url.host}/", f"{url.host}:{url.port}/", 1) if url.explicit_port in (None, 443) else str(url)
    )


class Caller:
    """`services`: "namespace/name" or "namespace/name:port" -> "host:port"."""

    def __init__(self, services: Mapping[str, str] | None = None) -> None:
        self._services = services or {}
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[str, ssl.SSLContext] = {}

    async def post(self, client: Mapping[str, Any], body: bytes, seconds: int) -> bytes:
        """The body of a 2xx answer. Raises CallFailed."""
        where = target(client, self._services, seconds)
        context = self._context(client.get("caBundle") or "")
        headers = {"Content-Type": "application/json", "Accept": "application/json, */*", "User-Agent": "devkube"}
        if where.host:
            headers["Host"] = where.host
        if self._session is None:
            # No limit: each request waits for webhooks of its own, and theirs are few.
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), trust_env=False)
        try:
            async with (
                asyncio.timeout(seconds),
                self._session.post(
                    where.url, data=body, headers=headers, ssl=context, server_hostname=where.server_name
                ) as response,
            ):
                answer = await response.content.read(_LONGEST + 1)
                while not response.content.at_eof() and len(answer) <= _LONGEST:
                    answer += await response.content.read(_LONGEST + 1 - len(answer))
                status, kind = response.status, response.headers.get("Content-Type", "")
        except TimeoutError:
            raise CallFailed(f'failed to call webhook: Post "{where.shown}": context deadline exceeded') from None
        except (aiohttp.ClientError, ssl.SSLError, OSError, ValueError) as error:
            raise CallFailed(f'failed to call webhook: Post "{where.shown}": {_told(error)}') from error
        if len(answer) > _LONGEST:
            raise CallFailed(f"failed to call webhook: its answer is longer than {_LONGEST} bytes")
        if not 200 <= status <= 299:
            raise CallFailed(f"failed to call webhook: {_refusal(status, answer, kind)}")
        if not answer:
            told = f"0-length response with status code: {status} and content type: {kind}"
            raise CallFailed(f"failed to call webhook: {told}")
        return answer

    def _context(self, bundle: str) -> ssl.SSLContext:
        found = self._contexts.get(bundle)
        if found is None:
            if len(self._contexts) >= _CONTEXTS:
                self._contexts.clear()
            found = self._contexts[bundle] = trusting(bundle)
        return found

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


def trusting(bundle: str) -> ssl.SSLContext:
    """A context that trusts a caBundle (base64 of PEM). CallFailed when there is no certificate in it."""
    try:
        pem = base64.b64decode(bundle, validate=True).decode("ascii") if bundle else None
        context = ssl.create_default_context(cadata=pem)
    except (binascii.Error, ssl.SSLError, UnicodeDecodeError, ValueError):
        told = "could not get REST client: unable to load root certificates: unable to parse bytes as PEM block"
        raise CallFailed(told) from None
    # Go takes a certificate of the bundle for trusted even where it is no authority, and minds less about extensions.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _told(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"tls: failed to verify certificate: {_certificate(error.certificate_error)}"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"dial tcp: lookup {error.host}: no such host"
    if isinstance(error, aiohttp.ClientConnectorError):
        why = "connection refused" if isinstance(error.os_error, ConnectionRefusedError) else str(error.os_error)
        return f"dial tcp {error.host}:{error.port}: connect: {why}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    return str(error) or type(error).__name__


def _certificate(error: Exception) -> str:
    reason = getattr(error, "verify_message", "") or str(error)
    if "issuer certificate" in reason or "self-signed" in reason or "self signed" in reason:
        return "x509: certificate signed by unknown authority"
    if "expired" in reason or "not yet valid" in reason:
        return f"x509: certificate has expired or is not yet valid: {reason}"
    return f"x509: {reason}"


def _refusal(status: int, answer: bytes, kind: str) -> str:
    """What an answer that is no success says: a Status' message, else the code and the beginning of the text."""
    try:
        told = msgspec.json.decode(answer)
    except msgspec.MsgspecError:
        told = None
    if isinstance(told, dict) and told.get("kind") == "Status" and told.get("status") != "Success":
        return str(told.get("message") or "unknown")
    text = answer[:1024].decode(errors="replace").strip() if not kind or kind.startswith("text/") else "unknown"
    return f"the server responded with the status code {status}" + (f' ("{text}")' if text else "")
