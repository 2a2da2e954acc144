"""Flags, and what is said of bad ones."""

import shlex
from pathlib import Path

import pytest

from devkube import cli
from devkube.options import Settings

ALL = """
    --listen 0.0.0.0 --port 0 --kubeconfig k --directory d --name a --name b --authorization AlwaysAllow
    --admin-token t --webhook-service ns/w=127.0.0.1:9443 --webhook-service ns/v:8443=h:1
    --simulate --nodes 3 --history 50 --pull-seconds 0.2
    --node-label pool=gpu --node-label empty=
"""


def test_every_flag_reaches_the_settings() -> None:
    flags = cli.parser().parse_args(shlex.split(ALL))
    assert cli.settings_of(flags) == Settings(
        listen="0.0.0.0",
        port=0,
        kubeconfig=Path("k"),
        directory=Path("d"),
        names=("a", "b"),
        authorization="AlwaysAllow",
        admin_token="t",
        webhook_services={"ns/w": "127.0.0.1:9443", "ns/v:8443": "h:1"},
        simulate=True,
        nodes=3,
        node_labels={"pool": "gpu", "empty": ""},
        pull_seconds=0.2,
        history=50,
    )


def test_without_flags_it_is_a_server_on_loopback_that_checks_permissions() -> None:
    settings = cli.settings_of(cli.parser().parse_args([]))
    assert (settings.listen, settings.port, settings.authorization) == ("127.0.0.1", 6443, "RBAC")
    assert not settings.simulate


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--port", "70000"], "no port"),
        (["--port", "-1"], "no port"),
        (["--history", "many"], "invalid"),
        (["--pull-seconds", "soon"], "invalid"),
        (["--node-label", "pool"], "KEY=VALUE"),
        (["--authorization", "ABAC"], "invalid choice"),
        (["--webhook-service", "w=127.0.0.1:9443"], "NAMESPACE/NAME"),
        (["--webhook-service", "ns/w=127.0.0.1"], "HOST:PORT"),
        (["--webhook-service", "ns/w:https=127.0.0.1:9443"], "NAMESPACE/NAME"),
    ],
)
def test_flags_that_make_no_sense_are_told(flags: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.parser().parse_args(flags)
    assert caught.value.code == 2
    assert told in capsys.readouterr().err
