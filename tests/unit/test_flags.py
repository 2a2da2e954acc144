"""Flags, their environment variables and what a wrong value is answered. Excluded: which flags a role has."""

import argparse

import pytest

from warmlog import cli, flags

DECLARED = (
    flags.Flag("window", "how long to collect", "100ms", flags.duration),
    flags.Flag("server", "where to", None),
    flags.Flag("quiet", "say less", "false", flags.boolean),
    flags.Flag("token", "a secret", "", secret=True),
)

DURATIONS = {"100ms": 0.1, "30s": 30, "1h30m": 5400, "1.5s": 1.5, "0": 0, "250us": 0.00025}
SIZES = {"512Mi": 2**29, "2G": 2 * 10**9, "7": 7}
ADDRESSES = {":8080": ("0.0.0.0", 8080), "127.0.0.1:0": ("127.0.0.1", 0), "[::1]:81": ("::1", 81)}
WRONG = [
    (flags.duration, "5"),
    (flags.duration, "s"),
    (flags.duration, "-1s"),
    (flags.duration, "1d"),
    (flags.interval, "0s"),
    (flags.room, "0"),
    (flags.room, "63Ki"),
    (flags.maybe_address, "9101"),
    (flags.interval, "99ms"),
    (flags.size, "1.5Gi"),
    (flags.size, "10 Mi"),
    (flags.address, "8080"),
    (flags.address, "h:99999"),
    (flags.boolean, "yes"),
    (flags.at_least(1), "0"),
    (flags.at_least(1), "٣"),
    (flags.one_of("a", "b"), "c"),
]


def parse(words: list[str], environ: dict[str, str]) -> flags.Values:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    flags.add(parser, DECLARED)
    return flags.resolve(parser.parse_args(words), DECLARED, environ)


@pytest.mark.parametrize(("text", "seconds"), DURATIONS.items(), ids=DURATIONS)
def test_durations_are_written_as_in_go(text: str, seconds: float) -> None:
    assert flags.duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(("text", "size"), SIZES.items(), ids=SIZES)
def test_sizes_are_kubernetes_quantities(text: str, size: int) -> None:
    assert flags.size(text) == size


@pytest.mark.parametrize(("text", "address"), ADDRESSES.items(), ids=ADDRESSES)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert flags.address(text) == address


@pytest.mark.parametrize(("read", "text"), WRONG, ids=[text for _, text in WRONG])
def test_a_wrong_value_is_named(read, text: str) -> None:
    with pytest.raises(ValueError, match=r".+") as caught:
        read(text)
    assert repr(text) in str(caught.value)


def test_the_command_line_beats_the_environment_beats_the_default() -> None:
    assert parse(["--server=a"], {})["window"] == 0.1
    assert parse(["--server=a"], {"WARMLOG_WINDOW": "2s"})["window"] == 2
    assert parse(["--server=a", "--window", "3s"], {"WARMLOG_WINDOW": "2s"})["window"] == 3


def test_a_boolean_flag_needs_no_value_and_takes_one() -> None:
    assert [parse(["--server=a", *words], {})["quiet"] for words in ([], ["--quiet"], ["--quiet=false"])] == [
        False,
        True,
        False,
    ]


def test_a_missing_flag_names_itself_its_variable_and_its_purpose() -> None:
    with pytest.raises(flags.UsageError, match=r"--server \(or WARMLOG_SERVER\) is required: where to"):
        parse([], {})


def test_a_wrong_variable_is_named() -> None:
    with pytest.raises(flags.UsageError, match="WARMLOG_WINDOW: 'soon' is no duration"):
        parse(["--server=a"], {"WARMLOG_WINDOW": "soon"})


def test_secrets_are_not_told() -> None:
    assert "token" not in parse(["--server=a", "--token=t"], {}).told(DECLARED)


ADDRESSES_TOLD = [
    ("nats://nats:4222", "nats://nats:4222"),
    ("nats://me:sEcReT@nats:4222", "nats://***@nats:4222"),
    ("nats://t0ken@nats:4222", "nats://***@nats:4222"),
    ("nats://a:x@h:1,nats://b:y@h:2", "nats://***@h:1,nats://***@h:2"),
    ("nats://a:x,y@h:1,tls://h:2", "nats://***@h:1,tls://h:2"),
    ("nats://a:x@y/z@h:1", "nats://***@h:1"),
    ("nats://a:x://y@h:1", "nats://***@h:1"),
    ("a:x://y@h:1", "***@h:1"),
    ("nats://a:x?y@h:1", "nats://***@h:1"),
    ("me:sEcReT@nats:4222", "***@nats:4222"),
    ("http://127.0.0.1:8000/metrics?key=sEcReT", "http://127.0.0.1:8000/metrics?***"),
    ("tcp://*:5557", "tcp://*:5557"),
    ("", ""),
]


@pytest.mark.parametrize(("given", "told"), ADDRESSES_TOLD, ids=[given for given, _ in ADDRESSES_TOLD])
def test_settings_tell_an_address_without_its_secrets(given: str, told: str) -> None:
    declared = (flags.Flag("server", "where to", "", flags.url),)
    assert flags.Values(server=given).told(declared) == {"server": told}


@pytest.mark.parametrize("role", ["server", "subscriber"])
def test_no_address_of_a_role_is_told_whole(role: str) -> None:
    declared = cli.parser_of(role)[1]
    addresses = [flag.name for flag in declared if flag.name.endswith(("nats", "server", "url", "endpoint"))]
    assert addresses
    values = flags.Values({flag.name: "nats://me:sEcReT@h:1?key=sEcReT" for flag in declared})
    assert not [name for name in addresses if "sEcReT" in values.told([f for f in declared if f.name == name])[name]]


@pytest.mark.parametrize(("words", "code"), [([], 2), (["--help"], 0), (["--version"], 0), (["servr"], 2)], ids=str)
def test_the_programs_own_words(words: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words) == code
    out, err = capsys.readouterr()
    assert "warmlog" in out + err


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([command, "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert "WARMLOG_" in text


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_a_misspelled_flag_ends_with_usage(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([command, "--no-such-flag"])
    assert ended.value.code == cli.USAGE
    assert "--no-such-flag" in capsys.readouterr().err
