"""What a start writes: the server's own authority and certificate (ECDSA P-256, valid for a week), and a kubeconfig.

Nothing is reused between starts, so that a kubeconfig of an earlier life fails at the handshake and not in some odd
later way. Clients authenticate with bearer tokens; there are no client certificates. The private key of the authority
is never written: nobody can sign anything after the start.
"""

import base64
import ipaddress
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID = timedelta(days=7)
SKEW = timedelta(hours=1)  # for containers whose clock is behind
NAME = "devkube"  # of cluster, user and context
ALWAYS = ("localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
# Digital signatures, and signing certificates and revocation lists; strict verifiers want a CA to say so.
_SIGNS = x509.KeyUsage(True, False, False, False, False, True, True, False, False)


@dataclass(frozen=True)
class Issued:
    """All PEM: the CA's certificate, the server's, and the server's key."""

    authority: bytes
    certificate: bytes
    key: bytes


@dataclass(frozen=True)
class Files:
    authority: Path
    certificate: Path
    key: Path


def issue(names: Iterable[str] = ()) -> Issued:
    """A new authority and a server certificate for loopback, the in-cluster names, and `names` (hosts or addresses)."""
    signer, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority = f"devkube-ca@{datetime.now(UTC).isoformat()}"
    ca = _builder(authority, authority, signer).add_extension(x509.BasicConstraints(True, 0), critical=True)
    ca = ca.add_extension(_SIGNS, critical=True)
    server = _builder(NAME, authority, key)
    for extension in (
        x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]),
        x509.SubjectAlternativeName(alternative_names((*ALWAYS, *names))),
        x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()),
    ):
        server = server.add_extension(extension, critical=False)
    pem = serialization.Encoding.PEM
    return Issued(
        ca.sign(signer, hashes.SHA256()).public_bytes(pem),
        server.sign(signer, hashes.SHA256()).public_bytes(pem),
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )


def write(issued: Issued, directory: Path) -> Files:
    """ca.crt, server.crt and server.key (mode 0600) in `directory`, which is made when it is missing."""
    directory.mkdir(parents=True, exist_ok=True)
    files = Files(directory / "ca.crt", directory / "server.crt", directory / "server.key")
    files.authority.write_bytes(issued.authority)
    files.certificate.write_bytes(issued.certificate)
    _write_private(files.key, issued.key)
    return files


def write_kubeconfig(path: Path, url: str, authority: bytes, token: str) -> None:
    """Readable by its owner only: it holds the admin's token. The CA's certificate (PEM) is embedded, so the file works
    wherever it is copied. It is JSON, which every reader of YAML reads. Missing folders are made."""
    cluster = {"server": url, "certificate-authority-data": base64.b64encode(authority).decode()}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": cluster}],
        "users": [{"name": NAME, "user": {"token": token}}],
        "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME, "namespace": "default"}}],
        "current-context": NAME,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    _write_private(path, json.dumps(content, indent=2).encode() + b"\n")


def _write_private(path: Path, content: bytes) -> None:
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


def _builder(subject: str, issuer: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    by, of = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, one)]) for one in (issuer, subject))
    now, public = datetime.now(UTC), key.public_key()
    made = x509.CertificateBuilder(by, of, public, x509.random_serial_number(), now - SKEW, now + VALID)
    return made.add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
