"""How roles and tools reach NATS: the shared flags, and the options that they become.

Without --nats a tool uses the `warmlog dev` that runs on this machine; a role must be told. Secrets come from files or
the environment, never from the command line, where every process could read them.
"""

from pathlib import Path

import structlog

from eventstore import store
from eventstore.jetstream import connect
from warmlog import place
from warmlog.flags import Flag, UsageError, Values, url

log = structlog.get_logger()

FLAGS = (
    Flag("nats", "address of NATS, as nats://host:4222 or several with commas", "", url),
    Flag("nats-token-file", "file with a token"),
    Flag("nats-user", "user name; its password comes from --nats-password-file"),
    Flag("nats-password-file", "file with the password"),
    Flag("nats-creds", "a .creds file"),
    Flag("nats-nkey-file", "file with an nkey seed"),
    Flag("nats-tls-ca", "PEM file of the authority that signed the server's certificate"),
    Flag("nats-tls-cert", "PEM file of our own certificate"),
    Flag("nats-tls-key", "PEM file of its key"),
)
DIR = Flag("dir", "state directory of `warmlog dev`; default $XDG_STATE_HOME/warmlog")


class SecretFile:
    """A secret in a file that may be replaced. Making one raises UsageError where it cannot be read, or is empty."""

    def __init__(self, flag: str, path: str) -> None:
        self.flag, self.path = flag, Path(path)
        self.secret = self._read()

    def __call__(self) -> str:
        """What the file holds now; what it held before where it cannot be read."""
        try:
            self.secret = self._read()
        except UsageError as error:
            log.warning("the secret as it was is used again", why=str(error))
        return self.secret

    def _read(self) -> str:
        try:
            secret = self.path.read_text().strip()
        except OSError as error:
            raise UsageError(f"--{self.flag}: cannot read {self.path}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise UsageError(f"--{self.flag}: {self.path} holds bytes that are no text") from error
        if not secret:
            raise UsageError(f"--{self.flag}: {self.path} is empty")
        return secret


def _secret(values: Values, flag: str) -> SecretFile | None:
    return SecretFile(flag, values[flag]) if values[flag] else None


def options(values: Values, role: str) -> tuple[list[str], connect.Options]:
    """Addresses and options. Raises UsageError when nothing says where NATS is."""
    token: connect.Secret | None = _secret(values, "nats-token-file")
    addresses = values["nats"]
    if not addresses and "dir" in values:
        note = place.read(place.directory(values["dir"]))
        if note is None:
            raise UsageError(
                f"give --nats, or start `warmlog dev`: none runs with state in {place.directory(values['dir'])} "
                "(if one runs elsewhere, give the same --dir)"
            )
        addresses, token = note.nats, token or note.token
    if not addresses:
        raise UsageError("--nats (or WARMLOG_NATS) is required: the address of NATS")
    return addresses.split(","), connect.Options(
        name=f"warmlog-{role}",
        token=token,
        user=values["nats-user"] or None,
        password=_secret(values, "nats-password-file"),
        creds=values["nats-creds"] or None,
        nkey_seed=values["nats-nkey-file"] or None,
        tls_ca=values["nats-tls-ca"] or None,
        tls_cert=values["nats-tls-cert"] or None,
        tls_key=values["nats-tls-key"] or None,
        inbox_prefix=f"_INBOX_{role}",
    )


async def open_link(values: Values, role: str, *, wait: float | None = 10.0) -> connect.Connection:
    """A connection for a tool (wait a little) or a role (wait=None: for ever). Raises StoreError or UsageError."""
    addresses, how = options(values, role)
    return await connect.connect(addresses, how, wait=wait)


async def ended(connection: connect.Connection) -> None:
    """Returns never; raises Unavailable when the connection is closed for good."""
    await connection.closed.wait()
    raise store.Unavailable(f"the connection to NATS ended: {connection.why_closed}")
