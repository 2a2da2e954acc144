"""The webhook's certificates: accepted by TLS, renewed in time, trusted before they are used, and repaired."""

import base64
import ssl
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from handlers.effects.cluster import ClusterError
from handlers.outcome import Key
from warmlog import certificates

NAMES = ["warmlog-webhook.inference-cache-system.svc", "127.0.0.1"]
NOW = datetime(2026, 11, 30, tzinfo=UTC)
SECRET = Key("secrets", "inference-cache-system", "warmlog-webhook-tls")
MUTATING, VALIDATING = certificates.CONFIGURATIONS


class Cluster:
    """One Secret and two configurations; `done` are the writes in order."""

    def __init__(self) -> None:
        self.secret: dict[str, Any] | None = None
        self.configurations = {kind: configuration() for kind in certificates.CONFIGURATIONS}
        self.done: list[str] = []

    async def get(self, key: Key) -> Any:
        assert key == SECRET
        return self.secret

    async def create(self, key: Key, body: Any) -> None:
        self.secret = {**body, "metadata": {**body["metadata"], "resourceVersion": "1"}}
        self.done.append("secret")

    async def replace(self, key: Key, body: Any) -> None:
        if key == SECRET:
            assert body["metadata"]["resourceVersion"] == "1"
            self.secret = body
            self.done.append("secret")
        else:
            self.configurations[key.kind] = body
            self.done.append(key.kind)

    async def list(self, kind: str, **query: str) -> list[Any]:
        assert query == {"labelSelector": certificates.SELECTOR}
        return [self.configurations[kind]]

    def data(self, name: str) -> str:
        assert self.secret is not None
        return base64.b64decode(self.secret["data"][name]).decode()

    def bundles(self) -> set[str]:
        return {
            base64.b64decode(hook["clientConfig"].get("caBundle", "")).decode()
            for one in self.configurations.values()
            for hook in one["webhooks"]
        }


def configuration() -> dict[str, Any]:
    return {
        "metadata": {"name": "warmlog"},
        "webhooks": [{"name": "a", "clientConfig": {"service": {"name": "s"}}}, {"name": "b", "clientConfig": {}}],
    }


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(certificates, "SETTLE", 0.0)
    return Cluster()


def keeper(cluster: Cluster) -> certificates.Keeper:
    return certificates.Keeper(cluster, SECRET, NAMES)  # type: ignore[arg-type]


def test_what_is_made_proves_its_names(tmp_path: Any) -> None:
    made = certificates.make(NAMES, now=datetime.now(UTC))
    pair = tmp_path / "pair.pem"
    pair.write_text(made.key + made.certificate)
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(pair)
    for name in NAMES:
        assert shaken(server_side, ssl.create_default_context(cadata=made.authority), name)
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken(server_side, ssl.create_default_context(cadata=made.authority), "other.svc")
    other = certificates.make(NAMES, now=datetime.now(UTC))
    with pytest.raises(ssl.SSLCertVerificationError):
        shaken(server_side, ssl.create_default_context(cadata=other.authority), NAMES[0])


def shaken(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> bool:
    """A handshake in memory."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(down, up, server_hostname=name)
    theirs = server.wrap_bio(up, down, server_side=True)
    for _ in range(4):
        for side in (ours, theirs):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return ours.getpeercert() is not None


@pytest.mark.parametrize(
    ("age", "names", "wanted"),
    [(0, NAMES, False), (59, NAMES, False), (61, NAMES, True), (200, NAMES, True), (0, [*NAMES, "new.svc"], True)],
)
def test_it_is_renewed_thirty_days_before_its_end(age: int, names: list[str], wanted: bool) -> None:
    made = certificates.make(NAMES, now=NOW)
    assert certificates.expiring(made.certificate, now=NOW + timedelta(days=age), names=names) is wanted


@pytest.mark.parametrize("text", ["", "nonsense", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_what_is_no_certificate_is_made_anew(text: str) -> None:
    assert certificates.expiring(text, now=NOW, names=NAMES)


async def test_the_first_look_makes_everything(cluster: Cluster) -> None:
    await keeper(cluster).look(NOW)
    assert cluster.done == ["secret", MUTATING, VALIDATING]
    assert cluster.bundles() == {cluster.data("ca.crt")}
    await keeper(cluster).look(NOW)
    assert len(cluster.done) == 3


async def test_a_new_authority_is_trusted_before_it_is_used(cluster: Cluster) -> None:
    await keeper(cluster).look(NOW)
    first = cluster.data("ca.crt")
    cluster.done.clear()
    await keeper(cluster).look(NOW + timedelta(days=61))
    assert cluster.done == [MUTATING, VALIDATING, "secret"]
    second = cluster.data("ca.crt")
    assert second != first
    assert second.endswith(first)
    assert cluster.bundles() == {second}
    await keeper(cluster).look(NOW + timedelta(days=130))
    third = cluster.data("ca.crt")
    assert third.count("BEGIN CERTIFICATE") == 2
    assert first not in third


async def test_a_bundle_that_somebody_changed_is_put_right(cluster: Cluster) -> None:
    await keeper(cluster).look(NOW)
    cluster.configurations[MUTATING]["webhooks"][1]["clientConfig"]["caBundle"] = ""
    cluster.done.clear()
    await keeper(cluster).look(NOW)
    assert cluster.done == [MUTATING]
    assert cluster.bundles() == {cluster.data("ca.crt")}
    assert cluster.configurations[MUTATING]["webhooks"][0]["clientConfig"]["service"] == {"name": "s"}


@pytest.mark.parametrize("lost", ["ca.crt", "tls.crt", "tls.key", "all"])
async def test_a_secret_that_was_spoiled_is_made_anew(cluster: Cluster, lost: str) -> None:
    await keeper(cluster).look(NOW)
    assert cluster.secret is not None
    kept = {name: text for name, text in cluster.secret["data"].items() if lost not in (name, "all")}
    cluster.secret["data"] = {**kept, "other": "%%%"}
    await keeper(cluster).look(NOW)
    assert not certificates.expiring(cluster.data("tls.crt"), now=NOW, names=NAMES)


async def test_a_write_that_lost_a_race_is_no_end(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two leaders for a moment: the second one's certificate is not written, it looks again later."""
    await keeper(cluster).look(NOW)

    async def conflict(key: Key, body: Any) -> None:
        raise ClusterError(409, "Conflict", "it was changed")

    monkeypatch.setattr(cluster, "replace", conflict)
    with pytest.raises(ClusterError):
        await keeper(cluster).look(NOW + timedelta(days=61))
