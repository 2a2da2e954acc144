"""A real control plane on loopback for a test run: etcd, kube-apiserver and, if there is one, kube-controller-manager.

    async with realkube.running(directory) as real:
        real.url, real.ca_file, real.certificate, real.key, real.kubeconfig

The binaries come from the folder that KUBEBUILDER_ASSETS names, the variable that controller-runtime's envtest reads;
nothing is downloaded or built. There is no kubelet and no scheduler. Without the controller manager nobody collects
what has lost its owner, and a deleted Namespace stays. Everything is thrown away at the end, by SIGKILL.
"""

import asyncio
import base64
import contextlib
import json
import os
import socket
import ssl
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp

from tests.support import pki

VARIABLE = "KUBEBUILDER_ASSETS"
PATIENCE = 90.0  # seconds until it must be ready: on two busy cores it has taken twenty
#: Upstream's defaults that need what is not there: a controller that makes tokens first, a scheduler, a kubelet.
WITHOUT = "ServiceAccount,TaintNodesByCondition,Priority,StorageObjectInUseProtection"

#: Only who asked what: told once it was answered. Objects are nobody's business.
AUDIT = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [{"level": "Metadata", "userGroups": ["system:serviceaccounts"]}, {"level": "None"}],
}


class RealKubeError(Exception):
    """It did not come up; the message ends with what its log says."""


def folder() -> Path | None:
    """Where the binaries are, or None when the run has not been given any."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named and os.access(Path(named) / "kube-apiserver", os.X_OK) else None


def version() -> str:
    """`Kubernetes v1.36.2`, asked of the binary."""
    found = folder()
    assert found is not None, f"{VARIABLE} is not set"
    asked = subprocess.run([found / "kube-apiserver", "--version"], capture_output=True, text=True, check=True)
    return asked.stdout.strip()


class Real:
    """`start` and `stop`; between them `down` and `up` of the API server alone, on the same etcd and port.

    With `token`: whoever shows it is in system:masters; `revoke` puts another in its place. With `audit`: `refusals`
    tells what was asked without the right to."""

    def __init__(self, directory: Path, *, token: str = "", audit: bool = False) -> None:
        self.directory, self.token = directory, token
        self._audit = directory / "audit.log" if audit else None
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    async def start(self) -> None:
        found = folder()
        if found is None or not os.access(found / "etcd", os.X_OK):
            raise RealKubeError(f"{VARIABLE} must name a folder with kube-apiserver and etcd")
        self._bin = found
        self.directory.mkdir(parents=True, exist_ok=True)
        client, peer, secure = _free_ports(3)
        authority = pki.Authority()
        self.ca_file = authority.write(self.directory)
        hosts = ("127.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
        authority.issue(self.directory, "apiserver", hosts=hosts)
        admin = authority.issue(self.directory, "test-admin", organization="system:masters")
        self.certificate, self.key = admin.certificate, admin.key
        self._signer = pki.signing_pair(self.directory, "sa")
        self.url, self.etcd = f"https://127.0.0.1:{secure}", f"http://127.0.0.1:{client}"
        self.kubeconfig = self.directory / "kubeconfig"
        self.kubeconfig.write_text(json.dumps(_kubeconfig(self.url, authority.pem, admin)))
        if self._audit is not None:
            (self.directory / "audit.yaml").write_text(json.dumps(AUDIT))
        self._spawn("etcd", *_etcd(self.directory, self.etcd, f"http://127.0.0.1:{peer}"))
        await self.up()
        (manager,) = _free_ports(1)  # asked for at the last moment: on a busy machine others take what is free
        self.controllers = os.access(found / "kube-controller-manager", os.X_OK)
        if self.controllers:
            self._spawn("kube-controller-manager", *_manager(self.directory, self.kubeconfig, manager, self._signer))
            await self._ready("kube-controller-manager", f"https://127.0.0.1:{manager}/healthz", None)

    async def stop(self) -> None:
        for name in reversed(self._running):
            self._running[name].kill()
            self._running[name].wait()

    async def up(self) -> None:
        more = []
        if self.token:
            tokens = self.directory / "tokens.csv"
            tokens.write_text(f'{self.token},admin,admin,"system:masters"\n')
            more += _flags(token_auth_file=tokens)
        if self._audit is not None:
            more += _flags(audit_policy_file=self.directory / "audit.yaml", audit_log_path=self._audit)
            more += _flags(enable_admission_plugins="OwnerReferencesPermissionEnforcement")  # as on OpenShift
        self._spawn("kube-apiserver", *_apiserver(self.directory, self.url, self.etcd, self._signer), *more)
        await self._ready("kube-apiserver", f"{self.url}/readyz", self.ca_file)

    async def down(self) -> None:
        """By SIGKILL: what it had in memory is gone, etcd has the rest."""
        process = self._running.pop("kube-apiserver")
        process.kill()
        await asyncio.to_thread(process.wait)

    async def revoke(self, token: str) -> None:
        await self.down()
        self.token = token
        await self.up()

    async def compact(self) -> None:
        """Every version known so far is too old: 410 for who resumes. The server keeps a window of its own in memory,
        so it starts anew."""
        await self.down()
        async with aiohttp.ClientSession() as session:
            body = {"key": base64.b64encode(b"x").decode()}
            async with session.post(f"{self.etcd}/v3/kv/range", json=body) as answer:
                revision = (await answer.json())["header"]["revision"]
            async with session.post(f"{self.etcd}/v3/kv/compaction", json={"revision": revision}) as answer:
                assert answer.status == 200, await answer.text()
        await self.up()

    def refusals(self) -> list[str]:
        """User, verb and path of each request that was forbidden, as the audit log tells them."""
        assert self._audit is not None, "start it with audit"
        told = [json.loads(line) for line in self._audit.read_text().splitlines() if line.endswith("}")]
        forbidden = [one for one in told if one["annotations"].get("authorization.k8s.io/decision") == "forbid"]
        return [f"{one['user']['username']} cannot {one['verb']} {one['requestURI']}" for one in forbidden]

    def _spawn(self, name: str, *arguments: str) -> None:
        with (self.directory / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                [self._bin / name, *arguments], stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

    async def _ready(self, name: str, url: str, ca: Path | None) -> None:
        def alive() -> None:
            if (code := self._running[name].poll()) is not None:
                raise RealKubeError(f"{name} ended with {code}:\n{_tail(self.directory, name)}")

        await _until_ready(url, ca, alive, lambda: _tail(self.directory, name))


@contextlib.asynccontextmanager
async def running(directory: Path) -> AsyncIterator[Real]:
    real = Real(directory)
    try:
        await real.start()
        yield real
    finally:
        await real.stop()


def _flags(**named: object) -> list[str]:
    return [f"--{name.replace('_', '-')}={value}" for name, value in named.items()]


def _etcd(directory: Path, client: str, peer: str) -> list[str]:
    urls = _flags(
        listen_client_urls=client,
        advertise_client_urls=client,
        listen_peer_urls=peer,
        initial_advertise_peer_urls=peer,
        initial_cluster=f"e={peer}",
    )
    return [*urls, *_flags(name="e", data_dir=directory / "etcd", log_level="warn"), "--unsafe-no-fsync"]


def _apiserver(directory: Path, url: str, etcd: str, signer: pki.Files) -> list[str]:
    return _flags(
        etcd_servers=etcd,
        bind_address="127.0.0.1",
        advertise_address="127.0.0.1",
        secure_port=url.rsplit(":", 1)[1],
        endpoint_reconciler_type="none",
        tls_cert_file=directory / "apiserver.crt",
        tls_private_key_file=directory / "apiserver.key",
        client_ca_file=directory / "ca.crt",
        service_account_issuer=url,
        service_account_key_file=signer.certificate,
        service_account_signing_key_file=signer.key,
        service_cluster_ip_range="10.96.0.0/16",
        authorization_mode="RBAC",
        allow_privileged="true",
        disable_admission_plugins=WITHOUT,
        profiling="false",
        v=1,
    )


def _manager(directory: Path, kubeconfig: Path, port: int, signer: pki.Files) -> list[str]:
    return _flags(
        kubeconfig=kubeconfig,
        authentication_kubeconfig=kubeconfig,
        authorization_kubeconfig=kubeconfig,
        bind_address="127.0.0.1",
        secure_port=port,
        cert_dir=directory / "manager",
        leader_elect="false",
        service_account_private_key_file=signer.key,
        root_ca_file=directory / "ca.crt",
        concurrent_gc_syncs=4,
        kube_api_qps=200,
        kube_api_burst=400,
        v=1,
    )


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


async def _until_ready(url: str, ca: Path | None, alive: Callable[[], None], tail: Callable[[], str]) -> None:
    context = ssl.create_default_context(cafile=ca) if ca else ssl._create_unverified_context()
    deadline = time.monotonic() + PATIENCE
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
        while True:
            alive()
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                async with session.get(url, timeout=aiohttp.ClientTimeout(total=2)) as answer:
                    if answer.status == 200:
                        return
            if time.monotonic() > deadline:
                raise RealKubeError(f"{url} was not ready within {PATIENCE:g} s:\n{tail()}")
            await asyncio.sleep(0.1)


def _tail(directory: Path, name: str) -> str:
    return (directory / f"{name}.log").read_text(errors="replace")[-2000:]


def _kubeconfig(url: str, authority: bytes, admin: pki.Files) -> dict[str, object]:
    def encoded(content: bytes) -> str:
        return base64.b64encode(content).decode()

    cluster = {"server": url, "certificate-authority-data": encoded(authority)}
    user = {
        "client-certificate-data": encoded(admin.certificate.read_bytes()),
        "client-key-data": encoded(admin.key.read_bytes()),
    }
    context = {"cluster": "real", "user": "admin", "namespace": "default"}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "real",
        "clusters": [{"name": "real", "cluster": cluster}],
        "users": [{"name": "admin", "user": user}],
        "contexts": [{"name": "real", "context": context}],
    }
