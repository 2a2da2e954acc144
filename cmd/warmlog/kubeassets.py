"""A real kube-apiserver on loopback, from the folder that KUBEBUILDER_ASSETS names (controller-runtime's variable).

etcd, kube-apiserver and, where it is there, kube-controller-manager; nothing is downloaded. No scheduler and no
kubelet: Pods stay Pending. Everything is new at each start.
"""

import contextlib
import os
import secrets
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import aiohttp
import yaml

from warmlog import certificates
from warmlog.children import LabError, Process, free_port
from warmlog.lab import Lab

VARIABLE: Final = "KUBEBUILDER_ASSETS"
PATIENCE: Final = 90.0
HOSTS: Final = ["127.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
#: Upstream's defaults that need what is not there: a controller that makes tokens first, a scheduler, a kubelet.
WITHOUT: Final = "ServiceAccount,TaintNodesByCondition,Priority,StorageObjectInUseProtection"


def folder() -> Path | None:
    """Where the binaries are, None when nobody said so."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named and os.access(Path(named) / "kube-apiserver", os.X_OK) else None


def binaries() -> Path:
    """The folder with all that is needed. Raises LabError."""
    found = folder()
    if found is None or not os.access(found / "etcd", os.X_OK):
        raise LabError(f"{VARIABLE} must name a folder with kube-apiserver and etcd")
    return found


class Assets:
    """`start`, then `kubeconfig` works; `away` kills the API server alone, `back` starts it on the same etcd."""

    def __init__(self, lab: Lab, directory: Path) -> None:
        self.lab, self.directory = lab, directory
        self.kubeconfig = directory / "kubeconfig"
        self.port, self.etcd = free_port(), f"http://127.0.0.1:{free_port()}"
        self.url = f"https://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Raises LabError."""
        self.bin = found = binaries()
        self._files()
        peer = f"http://127.0.0.1:{free_port()}"
        await self._spawn(
            "etcd",
            *_flags(listen_client_urls=self.etcd, advertise_client_urls=self.etcd, listen_peer_urls=peer),
            *_flags(initial_advertise_peer_urls=peer, initial_cluster=f"e={peer}", name="e", log_level="warn"),
            *_flags(data_dir=self.directory / "etcd"),
            "--unsafe-no-fsync",
        )
        await self.back()
        if os.access(found / "kube-controller-manager", os.X_OK):
            await self._spawn(
                "kube-controller-manager",
                *_flags(kubeconfig=self.kubeconfig, leader_elect="false", kube_api_qps=200),
                *_flags(authentication_kubeconfig=self.kubeconfig, authorization_kubeconfig=self.kubeconfig),
                *_flags(bind_address="127.0.0.1", secure_port=free_port(), cert_dir=self.directory / "manager"),
                *_flags(service_account_private_key_file=self.directory / "server.key"),
                *_flags(root_ca_file=self.directory / "ca.crt", kube_api_burst=400),
            )

    async def away(self) -> None:
        await self.lab.processes["kube-apiserver"].kill()

    async def back(self) -> None:
        process = await self._spawn(
            "kube-apiserver",
            *_flags(etcd_servers=self.etcd, bind_address="127.0.0.1", advertise_address="127.0.0.1"),
            *_flags(secure_port=self.port, endpoint_reconciler_type="none", authorization_mode="RBAC"),
            *_flags(tls_cert_file=self.directory / "server.crt", tls_private_key_file=self.directory / "server.key"),
            *_flags(token_auth_file=self.directory / "tokens.csv", service_account_issuer=self.url),
            *_flags(service_account_key_file=self.directory / "server.crt"),
            *_flags(service_account_signing_key_file=self.directory / "server.key"),
            *_flags(service_cluster_ip_range="10.96.0.0/16", allow_privileged="true", profiling="false"),
            *_flags(disable_admission_plugins=WITHOUT),
        )
        await self.lab.until(self._ready, what="kube-apiserver to be ready", process=process, within=PATIENCE)

    async def _ready(self) -> bool:
        headers = {"Authorization": f"Bearer {self.token}"}
        with contextlib.suppress(aiohttp.ClientError, TimeoutError):
            async with self.lab.http.get(f"{self.url}/readyz", ssl=self.trust, headers=headers) as answer:
                return answer.status == 200
        return False

    async def _spawn(self, name: str, *words: str) -> Process:
        process = await self.lab.spawn(name, [str(self.bin / name), *words])
        process.patience = 0.2  # an apiserver would wait for a minute, and nothing of it is needed again
        return process

    def _files(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        made = certificates.make(HOSTS, now=datetime.now(UTC))
        self.token = secrets.token_urlsafe(24)
        private = {"server.key": made.key, "tokens.csv": f'{self.token},admin,admin,"system:masters"\n'}
        for name, text in {"ca.crt": made.authority, "server.crt": made.certificate, **private}.items():
            (self.directory / name).touch(mode=0o600)
            (self.directory / name).write_text(text)
        self.trust = ssl.create_default_context(cadata=made.authority)
        cluster = {"server": self.url, "certificate-authority": str(self.directory / "ca.crt")}
        context = {"cluster": "laptop", "user": "admin"}
        self.kubeconfig.touch(mode=0o600)
        self.kubeconfig.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "laptop",
                    "clusters": [{"name": "laptop", "cluster": cluster}],
                    "users": [{"name": "admin", "user": {"token": self.token}}],
                    "contexts": [{"name": "laptop", "context": context}],
                }
            )
        )


def _flags(**named: object) -> list[str]:
    return [f"--{name.replace('_', '-')}={value}" for name, value in named.items()]
