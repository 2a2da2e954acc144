"""POST to a webhook over TLS: where `clientConfig` says, trusting its caBundle and nothing else (without one, the
system's authorities).

There is no cluster network: a Service reference is looked up in a table that the user gives (`--webhook-service`), and
TLS still asks for the Service's own name, `name.namespace.svc`, as a kube-apiserver does. The deadline is real time,
whatever devkube's clock says: the webhook is outside.
"""

import asyncio
import base64
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import aiohttp
from yarl import URL

_LONGEST = 16 * 1024 * 1024  # bytes of a response


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
    service, port = client["service"], client["service"]["port"]
    name, host = f"{service['namespace']}/{service['name']}", f"{service['name']}.{service['namespace']}.svc"
    path = f"/{(service.get('path') or '').lstrip('/')}?timeout={seconds}s"
    shown = f"https://{host}:{port}{path}"
    real = services.get(f"{name}:{port}") or services.get(name)
    if real is None:
        hint = f"tell devkube where it is: --webhook-service {name}:{port}=HOST:PORT"
        raise CallFailed(f'failed to call webhook: Post "{shown}": service "{service["name"]}" not found; {hint}')
    return Target(URL(f"https://{real}{path}"), shown, host, f"{host}:{port}")


class Caller:
    """`services`: "namespace/name" or "namespace/name:port" -> "host:port"."""

    def __init__(self, services: Mapping[str, str] | None = None) -> None:
        self._services = services or {}
        self._session: aiohttp.ClientSession | None = None

    async def post(self, client: Mapping[str, Any], body: bytes, seconds: int) -> bytes:
        """The body of a 2xx answer. Raises CallFailed."""
        where = target(client, self._services, seconds)
        context = trusting(client.get("caBundle") or "")
        headers = {"Content-Type": "application/json", "Accept": "application/json, */*", "User-Agent": "devkube"}
        if where.host:
            headers["Host"] = where.host
        if self._session is None:
            # No limit: each request waits for webhooks of its own, and theirs are few.
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), trust_env=False)
        answer = b""
        try:
            async with (
                asyncio.timeout(seconds),
                self._session.post(
                    where.url, data=body, headers=headers, ssl=context, server_hostname=where.server_name
                ) as response,
            ):
                async for chunk in response.content.iter_any():
                    answer += chunk
                    if len(answer) > _LONGEST:
                        raise CallFailed(f"failed to call webhook: its answer is longer than {_LONGEST} bytes")
        except TimeoutError:
            raise CallFailed(f'failed to call webhook: Post "{where.shown}": context deadline exceeded') from None
        except (aiohttp.ClientError, ssl.SSLError, OSError, ValueError) as error:
            raise CallFailed(f'failed to call webhook: Post "{where.shown}": {_told(error)}') from error
        if not response.ok:
            text = answer[:1024].decode(errors="replace").strip()
            told = f"the server responded with the status code {response.status}" + (f' ("{text}")' if text else "")
            raise CallFailed(f"failed to call webhook: {told}")
        return answer

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


@lru_cache(64)
def trusting(bundle: str) -> ssl.SSLContext:
    """A context that trusts a caBundle (base64 of PEM). CallFailed when there is no certificate in it."""
    try:
        pem = base64.b64decode(bundle, validate=True).decode("ascii") if bundle else None
        context = ssl.create_default_context(cadata=pem)
    except (ssl.SSLError, ValueError):
        told = "could not get REST client: unable to load root certificates: unable to parse bytes as PEM block"
        raise CallFailed(told) from None
    # Go takes a certificate of the bundle for trusted even where it is no authority, and minds less about extensions.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _told(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"tls: failed to verify certificate: {error.certificate_error}"
    if isinstance(error, aiohttp.ClientConnectorError):
        why = error.os_error
        told = os.strerror(why.errno).lower() if why.errno and why.errno > 0 else str(why)
        return f"dial tcp {error.host}:{error.port}: connect: {told}"
    return str(error) or type(error).__name__
