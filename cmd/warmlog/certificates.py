"""Certificates of the webhook: made by the leading controller, kept in a Secret, renewed long before they end.

Each renewal makes an authority and a server certificate of its own. The bundle that API servers trust holds the new
authority and the one before, so it does not matter who learns of the change first. A bundle that somebody changed or
emptied is put right.

Rules: design.md sections 1 ("the leader's certificate objects") and 4 ("webhook").
"""

import asyncio
import base64
import ipaddress
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import structlog
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from handlers.effects.cluster import ClusterError
from handlers.outcome import Key, Object
from subscribers.kubernetes.objects import Objects

log = structlog.get_logger()

LIFE: Final = timedelta(days=90)
RENEW: Final = timedelta(days=30)  # before the end
LOOK: Final = 5.0
#: Seconds in which API servers learn of a new bundle, before the certificate that needs it is used.
SETTLE: Final = 2.0
SELECTOR: Final = "app.kubernetes.io/part-of=warmlog"
CONFIGURATIONS: Final = (
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
)


class Made(NamedTuple):
    """PEM texts."""

    authority: str
    certificate: str
    key: str


def make(names: list[str], *, now: datetime, life: timedelta = LIFE) -> Made:
    """A server certificate for DNS names (or addresses) and the authority that signed it."""
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"warmlog-webhook-ca {now:%Y%m%d%H%M%S}")])
    authority = (
        _builder(issuer, issuer, authority_key, now, life)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signing=True), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])])
    certificate = (
        _builder(subject, issuer, key, now, life)
        .add_extension(x509.SubjectAlternativeName([_alternative(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signing=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Made(_pem(authority), _pem(certificate), private.decode())


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, life: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + life)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, signing: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signing,
        crl_sign=signing,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def expiring(certificate: str, *, now: datetime, names: list[str]) -> bool:
    """Whether it has to be renewed: it ends soon, cannot be read, or is for other names."""
    try:
        found = x509.load_pem_x509_certificate(certificate.encode())
        alternative = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, x509.ExtensionNotFound):
        return True
    said = {str(one.value) for one in alternative}
    return found.not_valid_after_utc - now < RENEW or not set(names) <= said


class Keeper:
    """`keep` while leading."""

    def __init__(self, objects: Objects, secret: Key, names: list[str]) -> None:
        self.objects, self.secret, self.names = objects, secret, names

    async def keep(self) -> None:
        trouble = ""
        while True:
            try:
                await self.look(datetime.now(UTC))
                trouble = ""
            except ClusterError as error:
                if str(error) != trouble:
                    trouble = str(error)
                    log.warning("certificates-troubled", error=trouble)
            await asyncio.sleep(LOOK)

    async def look(self, now: datetime) -> None:
        """The Secret as it should be, and every configuration of ours trusting it."""
        live = await self.objects.get(self.secret)
        data = _decoded(live)
        whole = live is not None and all(data.get(name) for name in ("ca.crt", "tls.crt", "tls.key"))
        if not whole or expiring(data["tls.crt"], now=now, names=self.names):
            made = make(self.names, now=now)
            before = data.get("ca.crt", "").split("-----END CERTIFICATE-----")[0]
            older = f"{before}-----END CERTIFICATE-----\n" if before.strip() else ""
            data = {"ca.crt": made.authority + older, "tls.crt": made.certificate, "tls.key": made.key}
            if older:  # trusted first, used then: an API server that was asked in between would refuse us
                await self._trust(data["ca.crt"])
                await asyncio.sleep(SETTLE)
            await self._write(live, data)
            log.info("webhook-certificate-made", secret=str(self.secret), names=self.names)
        await self._trust(data["ca.crt"])

    async def _write(self, live: Object | None, data: dict[str, str]) -> None:
        encoded = {name: base64.b64encode(text.encode()).decode() for name, text in data.items()}
        if live is not None:
            await self.objects.replace(self.secret, {**live, "data": encoded})
            return
        metadata = {"name": self.secret.name, "namespace": self.secret.namespace}
        body = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": metadata}
        await self.objects.create(self.secret, {**body, "data": encoded})

    async def _trust(self, bundle: str) -> None:
        encoded = base64.b64encode(bundle.encode()).decode()
        for kind in CONFIGURATIONS:
            for live in await self.objects.list(kind, labelSelector=SELECTOR):
                hooks = live.get("webhooks") or []
                if all(hook.get("clientConfig", {}).get("caBundle") == encoded for hook in hooks):
                    continue
                trusted = [{**hook, "clientConfig": {**hook["clientConfig"], "caBundle": encoded}} for hook in hooks]
                name = live["metadata"]["name"]
                await self.objects.replace(Key(kind, "", name), {**live, "webhooks": trusted})
                log.info("webhook-bundle-repaired", configuration=name)


def _decoded(live: Object | None) -> dict[str, str]:
    found = {}
    for name, text in ((live or {}).get("data") or {}).items():
        try:
            found[name] = base64.b64decode(text).decode()
        except ValueError:
            continue
    return found
