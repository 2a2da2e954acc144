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
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from tests.support import pki

VARIABLE = "KUBEBUILDER_ASSETS"
PATIENCE = 90.0  # seconds until it must be ready: on two busy cores it has taken twenty
#: Upstream's defaults that need what is not there: a controller that makes tokens first, a scheduler, a kubelet.
WITHOUT = "ServiceAccount,TaintNodesByCondition,Priority,StorageObjectInUseProtection"


class RealKubeError(Exception):
    """It did not come up; the message ends with what its log says."""


@dataclass(frozen=True)
class Real:
    url: str
    etcd: str
    ca_file: Path
    certificate: Path
    key: Path
    kubeconfig: Path
    controllers: bool


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


@contextlib.asynccontextmanager
async def running(directory: Path) -> AsyncIterator[Real]:
    bin_ = folder()
    if bin_ is None or not os.access(bin_ / "etcd", os.X_OK):
        raise RealKubeError(f"{VARIABLE} must name a folder with kube-apiserver and etcd")
    directory.mkdir(parents=True, exist_ok=True)
    client, peer, secure, manager = _free_ports(4)
    authority = pki.Authority()
    ca = authority.write(directory)
    hosts = ("127.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
    authority.issue(directory, "apiserver", hosts=hosts)
    admin = authority.issue(directory, "test-admin", organization="system:masters")
    signer = pki.signing_pair(directory, "sa")
    url, etcd = f"https://127.0.0.1:{secure}", f"http://127.0.0.1:{client}"
    kubeconfig = directory / "kubeconfig"
    kubeconfig.write_text(json.dumps(_kubeconfig(url, authority.pem, admin)))
    processes: list[subprocess.Popen[bytes]] = []

    def start(name: str, *arguments: str) -> Callable[[], None]:
        log = (directory / f"{name}.log").open("wb")
        process = subprocess.Popen([bin_ / name, *arguments], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        log.close()
        processes.append(process)

        def alive() -> None:
            if process.poll() is not None:
                raise RealKubeError(f"{name} ended with {process.returncode}:\n{_tail(directory, name)}")

        return alive

    try:
        start("etcd", *_etcd(directory, etcd, f"http://127.0.0.1:{peer}"))
        alive = start("kube-apiserver", *_apiserver(directory, url, etcd, signer))
        await _until_ready(f"{url}/readyz", ca, alive, lambda: _tail(directory, "kube-apiserver"))
        controllers = os.access(bin_ / "kube-controller-manager", os.X_OK)
        if controllers:
            alive = start("kube-controller-manager", *_manager(directory, kubeconfig, manager, signer))
            health = f"https://127.0.0.1:{manager}/healthz"
            await _until_ready(health, None, alive, lambda: _tail(directory, "kube-controller-manager"))
        yield Real(url, etcd, ca, admin.certificate, admin.key, kubeconfig, controllers)
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait()


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
