"""One connection to a Kubernetes API server, from a kubeconfig or from inside a Pod.

kubernetes_asyncio finds the server and the credentials, and signs requests; nothing else of it is used: answers stay
bytes (its models cost twenty times a narrow Struct), every call has a deadline (it has none), errors are raised for
streams too. After a 401, or when the kubeconfig, a CA or a client certificate has changed, the connection is made anew,
so exec plugins run again and rotated files are read.

Rules: spec/kubernetes.md section 4, "Pitfalls of kubernetes_asyncio".
"""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import aiohttp
import msgspec
import structlog

from handlers.effects.cluster import ClusterError

log = structlog.get_logger()

DEADLINE: Final = 10.0
CONNECT: Final = 5.0
#: Seconds between two looks at certificate files.
LOOK: Final = 10.0

Query = Mapping[str, str]


class Answer(NamedTuple):
    status: int
    body: bytes


class Unconfigured(Exception):
    """There is no cluster to talk to; one line says why."""


class Client:
    """Make it with `open`. Safe for any number of tasks."""

    def __init__(self, kubeconfig: str, context: str) -> None:
        self._kubeconfig, self._context = kubeconfig, context
        self._api: Any = None
        self._files: tuple[tuple[str, float], ...] = ()
        self._looked = 0.0
        self._making = asyncio.Lock()
        self.made = 0  # how often the connection was made

    @classmethod
    async def open(cls, *, kubeconfig: str = "", context: str = "") -> "Client":
        """No kubeconfig means $KUBECONFIG, else the Pod's own account, else ~/.kube/config. Raises Unconfigured."""
        self = cls(kubeconfig, context)
        await self._make()
        return self

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        if self._api is not None:
            await self._api.close()

    @property
    def host(self) -> str:
        return str(self._api.configuration.host)

    async def _make(self) -> None:
        from kubernetes_asyncio import client, config  # 0.5 s and 70 MiB: only where it is used

        settings = client.Configuration()
        settings.connection_pool_maxsize = 64
        path = ""
        try:
            if not self._kubeconfig and not os.environ.get("KUBECONFIG") and _in_cluster():
                config.load_incluster_config(client_configuration=settings)  # type: ignore[no-untyped-call]
            else:
                path = self._kubeconfig or os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
                if not any(os.path.exists(os.path.expanduser(one)) for one in path.split(os.pathsep)):  # noqa: ASYNC240, PTH
                    raise FileNotFoundError(f"there is no kubeconfig at {path}")  # the loader prints a line of its own
                await config.load_kube_config(path, context=self._context or None, client_configuration=settings)
            made = client.ApiClient(settings)  # reads certificates: half a file is an OSError here
        except Exception as error:  # loaders of files and plugins raise whatever they like
            raise Unconfigured(f"no cluster: {' '.join(str(error).split())}; give --kubeconfig") from None
        old, self._api = self._api, made
        self._files = _stamps(path, settings.ssl_ca_cert, settings.cert_file, settings.key_file)
        self.made += 1
        if old is not None:
            await old.close()

    async def _renew(self, made: int) -> None:
        """Make the connection anew, once for all who found it stale. Raises ClusterError when it cannot be made."""
        async with self._making:
            if self.made == made:
                try:
                    await self._make()
                except Unconfigured as error:
                    raise ClusterError(0, "NoCredentials", str(error)) from None

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: object = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        deadline: float = DEADLINE,
    ) -> Answer:
        """An answer that is a success. Raises ClusterError, with code 0 where there was no answer."""
        timeout = aiohttp.ClientTimeout(total=deadline, sock_connect=CONNECT)
        made = self.made
        for again in (False, True):
            response = await self._send(method, path, query, body, content_type, accept, timeout)
            try:
                async with response:
                    found = Answer(response.status, await response.read())
                    after = response.headers.get("Retry-After", "")
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                raise _unanswered(error) from error
            if found.status == 401 and not again:
                await self._renew(made)
                continue
            break
        if found.status >= 300:
            raise refusal(found, _seconds(after))
        return found

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Query, silence: float, total: float
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A response that goes on. `silence` is how long nothing may come. Raises ClusterError."""
        timeout = aiohttp.ClientTimeout(total=total, sock_connect=CONNECT, sock_read=silence)
        made = self.made
        response = await self._send("GET", path, query, None, "application/json", "application/json", timeout)
        try:
            if response.status == 401:
                await self._renew(made)
            if response.status >= 300:
                after = _seconds(response.headers.get("Retry-After", ""))
                raise refusal(Answer(response.status, await response.read()), after)
            yield response
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise _unanswered(error) from error
        finally:
            response.close()

    async def _send(
        self, method: str, path: str, query: Query | None, body: object, content_type: str, accept: str,
        timeout: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:  # fmt: skip
        await self._look()
        api = self._api
        headers = {"Accept": accept}
        if body is not None:
            headers["Content-Type"] = content_type
        try:
            response: aiohttp.ClientResponse = await api.call_api(
                path,
                method,
                query_params=list((query or {}).items()),
                header_params=headers,
                body=body,
                auth_settings=["BearerToken"],
                _preload_content=False,
                _request_timeout=timeout,
            )
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            if isinstance(error, aiohttp.ClientSSLError):
                self._looked = 0.0  # perhaps the authority is another one by now
            raise _unanswered(error) from error
        except (AssertionError, RuntimeError) as error:  # what aiohttp says when its session is closed meanwhile
            if api is self._api:
                raise
            raise ClusterError(0, "NoAnswer", "the connection was made anew on the way") from error
        return response

    async def _look(self) -> None:
        """Whether a file was rotated; looked at now and then."""
        now = asyncio.get_running_loop().time()
        if now - self._looked < LOOK:
            return
        self._looked = now
        if self._files and self._files != _stamps(*(name for name, _ in self._files)):
            log.info("kubernetes-credentials-rotated")
            await self._renew(self.made)


def _in_cluster() -> bool:
    return bool(os.environ.get("KUBERNETES_SERVICE_HOST"))


def _stamps(*names: str | None) -> tuple[tuple[str, float], ...]:
    found = []
    for name in names:
        if name:
            try:
                found.append((name, os.stat(name).st_mtime))
            except OSError:
                found.append((name, 0.0))
    return tuple(found)


def _seconds(after: str) -> float:
    """Of a Retry-After header; a date, or nothing, is 0: the caller's own pause."""
    return float(after) if after.isdecimal() else 0.0


class _Status(msgspec.Struct):
    message: str = ""
    reason: str = ""


def refusal(answer: Answer, after: float) -> ClusterError:
    """What a status says, or the beginning of whatever else came."""
    try:
        said = msgspec.json.decode(answer.body, type=_Status)
    except msgspec.DecodeError:
        said = _Status(answer.body[:200].decode(errors="replace"))
    return ClusterError(answer.status, said.reason, said.message or f"HTTP {answer.status}", after)


def _unanswered(error: BaseException) -> ClusterError:
    return ClusterError(0, "NoAnswer", f"{type(error).__name__}: {error}".rstrip(": "))
