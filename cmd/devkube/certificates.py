"""What a start writes: the server's own authority and certificate (ECDSA P-256, valid for a week), and a kubeconfig.

Nothing is reused between starts, so that a kubeconfig of an earlier life fails at the handshake and not in some odd
later way. Clients authenticate with bearer tokens; there are no client certificates. The private key of the authority
is never written: nobody can sign anything after the start.
"""

import base64
import datetime
import ipaddress
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID = datetime.timedelta(days=7)
SKEW = datetime.timedelta(hours=1)  # for containers whose clock is behind
NAME = "devkube"  # of cluster, user and context
ALWAYS = ("localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, both PEM."""

    certificate: bytes
    key: bytes


@dataclass(frozen=True)
class Issued:
    authority: bytes  # PEM of the CA's certificate
    server: Pair


@dataclass(frozen=True)
class Files:
    authority: Path
    certificate: Path
    key: Path


def issue(names: Iterable[str] = (), *, now: datetime.datetime | None = None) -> Issued:
    """A new authority and a server certificate for loopback, the in-cluster names, and `names` (hosts or addresses)."""
    now = now or datetime.datetime.now(datetime.UTC)
    ca_key, server_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca_name = _name(f"devkube-ca@{int(now.timestamp())}")
    ca = (
        _builder(ca_name, ca_name, ca_key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    server = (
        _builder(_name("devkube"), ca_name, server_key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(alternative_names((*ALWAYS, *names))), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    key = server_key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Issued(ca.public_bytes(pem), Pair(server.public_bytes(pem), key))


def write(issued: Issued, directory: Path) -> Files:
    """ca.crt, server.crt and server.key (mode 0600) in `directory`, which is made when it is missing."""
    directory.mkdir(parents=True, exist_ok=True)
    files = Files(directory / "ca.crt", directory / "server.crt", directory / "server.key")
    files.authority.write_bytes(issued.authority)
    files.certificate.write_bytes(issued.server.certificate)
    write_private(files.key, issued.server.key)
    return files


def write_private(path: Path, content: bytes) -> None:
    """Written so that nobody else can read it, not even for a moment."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        out.write(content)


def alternative_names(names: Iterable[str]) -> list[x509.GeneralName]:
    """Each name once, addresses as addresses."""
    found: list[x509.GeneralName] = []
    for name in dict.fromkeys(names):
        try:
            found.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            found.append(x509.DNSName(name))
    return found


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime.datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + VALID)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def kubeconfig(url: str, authority: bytes, token: str, *, namespace: str = "default") -> dict[str, Any]:
    """`authority` is the CA's certificate in PEM; it is embedded, so the file works wherever it is copied. Written as
    JSON, which every reader of YAML reads, so that a start needs no YAML library."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": NAME,
                "cluster": {"server": url, "certificate-authority-data": base64.b64encode(authority).decode()},
            }
        ],
        "users": [{"name": NAME, "user": {"token": token}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME, "namespace": namespace}}],
        "current-context": NAME,
    }


def write_kubeconfig(path: Path, content: dict[str, Any]) -> None:
    """Readable by its owner only: it holds the admin's token. Missing folders are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_private(path, json.dumps(content, indent=2).encode() + b"\n")
