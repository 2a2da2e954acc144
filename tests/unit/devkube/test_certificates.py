"""The authority and the server's certificate, in handshakes."""

import datetime
import ssl
import stat
from pathlib import Path

import pytest
from cryptography import x509

from devkube import certificates


def test_a_client_that_trusts_the_authority_completes_a_handshake_by_name_and_by_address(tmp_path: Path) -> None:
    files = certificates.write(certificates.issue(["api.example.org"]), tmp_path)
    for name in ("127.0.0.1", "::1", "localhost", "kubernetes.default.svc", "api.example.org"):
        shake(files, name)


def test_a_name_that_was_not_asked_for_is_refused(tmp_path: Path) -> None:
    files = certificates.write(certificates.issue(), tmp_path)
    with pytest.raises(ssl.SSLCertVerificationError, match=r"api\.example\.org"):
        shake(files, "api.example.org")


def test_an_authority_of_an_earlier_start_is_not_trusted(tmp_path: Path) -> None:
    old = certificates.write(certificates.issue(), tmp_path / "old")
    new = certificates.write(certificates.issue(), tmp_path / "new")
    mixed = certificates.Files(old.authority, new.certificate, new.key)
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(mixed, "localhost")


def test_it_is_valid_an_hour_ago_and_for_a_week() -> None:
    made = x509.load_pem_x509_certificate(certificates.issue().certificate)
    now = datetime.datetime.now(datetime.UTC)
    minute = datetime.timedelta(minutes=1)
    assert abs(now - made.not_valid_before_utc - datetime.timedelta(hours=1)) < minute
    assert abs(made.not_valid_after_utc - now - datetime.timedelta(days=7)) < minute


def test_the_key_is_for_its_owner_only_also_when_an_older_file_was_not(tmp_path: Path) -> None:
    (tmp_path / "server.key").write_text("old")
    files = certificates.write(certificates.issue(), tmp_path)
    assert stat.S_IMODE(files.key.stat().st_mode) == 0o600


def test_a_name_is_listed_once_and_addresses_as_addresses() -> None:
    found = certificates.alternative_names(["a", "a", "10.0.0.1"])
    assert [type(one).__name__ for one in found] == ["DNSName", "IPAddress"]


def shake(files: certificates.Files, name: str) -> None:
    """A TLS handshake in memory: no sockets."""
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(files.certificate, files.key)
    client_side = ssl.create_default_context(cafile=str(files.authority))
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_side.wrap_bio(down, up, server_hostname=name)
    server = server_side.wrap_bio(up, down, server_side=True)
    done = set()
    while len(done) < 2:
        for side in (client, server):
            try:
                side.do_handshake()
                done.add(side)
            except ssl.SSLWantReadError:
                continue
