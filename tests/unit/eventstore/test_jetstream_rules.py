"""Rules of eventstore/jetstream that need no server: shapes, versions, drift, gaps."""

import msgspec
import pytest

from eventstore import store, streams
from eventstore.jetstream import api, connect, private, provision, reader

SHAPES = {
    "nine tokens": b"$JS.ACK.WARMLOG.c.1.42.7.1796024000123456789.3",
    "with domain and account": b"$JS.ACK._.hash.WARMLOG.c.1.42.7.1796024000123456789.3",
    "with a random token": b"$JS.ACK.hub.hash.WARMLOG.c.1.42.7.1796024000123456789.3.r4nd",
}


@pytest.mark.parametrize("reply", SHAPES.values(), ids=SHAPES)
def test_every_shape_of_an_acknowledgement_subject_is_read(reply: bytes) -> None:
    numbers = reply.rsplit(b".", reader.tail_of(reply))[1:5]
    assert numbers == [b"42", b"7", b"1796024000123456789", b"3"]


NO_SHAPES = [b"", b"_INBOX.a.b", b"$JS.FC.a.b.c.d.e.f.g", b"$JS.ACK.a.b.c", b"$JS.ACK.1.2.3.4.5.6.7.8"]


@pytest.mark.parametrize("reply", NO_SHAPES)
def test_what_is_no_acknowledgement_subject_ends_the_consumer(reply: bytes) -> None:
    with pytest.raises(reader._Lost):
        reader.tail_of(reply)


def numbered(*sequences: int) -> list[store.Stored]:
    return [store.Stored(sequence, 0, "wl.a", b"") for sequence in sequences]


def test_gaps_are_named_by_their_first_and_last_number() -> None:
    assert reader.gaps(4, numbered(5, 6, 7)) == []
    assert reader.gaps(4, numbered(8, 9, 12)) == [(5, 7), (10, 11)]
    assert reader.gaps(4, []) == []


def test_an_unread_version_of_nats_py_is_refused_with_what_to_install() -> None:
    private.check_version("2.16.3")
    with pytest.raises(ImportError, match=r"nats-py 2\.17\.0 is not supported.*pip install 'nats-py>=2\.16,<2\.17'"):
        private.check_version("2.17.0")


class Version:
    def __init__(self, text: str) -> None:
        self.major, self.minor, self.patch = map(int, text.split("."))


@pytest.mark.parametrize("version", ["2.9.10", "2.11.99", "1.4.0"])
def test_an_old_server_is_refused_with_what_to_do(version: str) -> None:
    fault = connect.too_old(Version(version), "nats.example:4222")
    assert isinstance(fault, store.Misconfigured)
    assert f"nats-server {version} at nats.example:4222 is too old" in str(fault)
    assert "upgrade it to 2.12 or newer" in str(fault)


@pytest.mark.parametrize("version", ["2.12.0", "2.15.1", "3.0.0"])
def test_a_server_that_knows_the_settings_is_accepted(version: str) -> None:
    assert connect.too_old(Version(version), "x") is None


TIMES = {
    "2026-11-30T07:17:27.123456789Z": 1796023047123456789,
    "2026-11-30T07:17:27.5Z": 1796023047500000000,
    "2026-11-30T07:17:27Z": 1796023047000000000,
    "2026-11-30T08:17:27.000000001+01:00": 1796023047000000001,
}


@pytest.mark.parametrize(("text", "nanoseconds"), TIMES.items(), ids=TIMES)
def test_go_s_times_are_read_to_the_nanosecond(text: str, nanoseconds: int) -> None:
    assert api.nanoseconds(text) == nanoseconds


def test_times_written_are_read_back() -> None:
    assert api.nanoseconds(api.rfc3339_nano(1796023047000000009)) == 1796023047000000009


def test_headers_are_found_by_their_whole_name() -> None:
    block = b"NATS/1.0\r\nX-Nats-Msg-Id: no\r\nNats-Msg-Id:  abc \r\nNats-Msg-Id2: no\r\n\r\n"
    assert api.header(block, b"Nats-Msg-Id") == b"abc"
    assert api.header(block, b"Absent") is None
    assert api.header(b"", b"Nats-Msg-Id") is None


def test_status_lines_are_read() -> None:
    assert api.status(b"NATS/1.0 409 Consumer Deleted\r\n\r\n") == (409, "Consumer Deleted")
    assert api.status(b"NATS/1.0 503\r\n\r\n") == (503, "")
    assert api.status(b"NATS/1.0\r\nA: 1\r\n\r\n") == (0, "")


# Drift ---------------------------------------------------------------------------------------------------------------

WANTED = streams.control_log()
AS_WANTED = {**WANTED.config(), "sealed": False, "compression": "none", "metadata": {"_nats.ver": "2.15.1"}}


def test_a_stream_as_wanted_has_no_drift_whatever_the_order_of_its_subjects() -> None:
    assert provision.drift(WANTED, AS_WANTED) == []
    kv = streams.kv_log()
    assert provision.drift(kv, {**kv.config(), "subjects": list(reversed(kv.subjects)), "persist_mode": "async"}) == []


def test_what_the_server_leaves_out_is_what_is_off() -> None:
    kv = streams.kv_log()
    config = {name: value for name, value in kv.config().items() if name not in ("deny_delete", "deny_purge")}
    assert provision.drift(kv, config) == []


CHANGES = {
    "discard": ("old", False),
    "storage": ("memory", False),
    "retention": ("workqueue", False),
    "subjects": (["wl.a"], False),
    "max_age": (1_000_000_000, True),
    "max_bytes": (1000, True),
    "duplicate_window": (120_000_000_000, True),
    "deny_delete": (False, True),
    "deny_purge": (False, True),
    "allow_direct": (False, True),
    "max_msgs": (100, False),
    "max_msgs_per_subject": (1, False),
    "max_msg_size": (100, True),
    "num_replicas": (0, False),
    "sealed": (True, False),
    "mirror": ({"name": "X"}, False),
    "sources": ([{"name": "X"}], False),
    "subject_transform": ({"src": "wl.>", "dest": "x.>"}, False),
    "republish": ({"src": "wl.>", "dest": "x.>"}, False),
    "no_ack": (True, False),
    "allow_rollup_hdrs": (True, False),
    "allow_msg_ttl": (True, False),
    "persist_mode": ("async", False),
}


@pytest.mark.parametrize(("field", "change"), CHANGES.items(), ids=CHANGES)
def test_each_drifted_setting_is_named_with_wanted_and_found(field: str, change: tuple[object, bool]) -> None:
    found, safe = change
    (one,) = provision.drift(WANTED, {**AS_WANTED, field: found})
    assert (one.field, one.found, one.safe) == (field, found, safe)
    line = provision.refusal("WARMLOG", [one])
    assert line.startswith("stream WARMLOG is not as Warmlog needs it: ")
    assert f"{field}: wanted" in line
    assert "nats stream edit" in line
    assert "\n" not in line


def test_shrinking_is_never_safe() -> None:
    small = streams.control_log(max_age=60.0, max_bytes=1000)
    assert [one.safe for one in provision.drift(small, AS_WANTED)] == [False, False]


def test_more_replicas_than_wanted_are_an_operator_s_choice() -> None:
    assert provision.drift(WANTED, {**AS_WANTED, "num_replicas": 3}) == []


def test_streams_declare_what_the_design_says() -> None:
    control, kv = streams.control_log(), streams.kv_log()
    assert (control.name, control.subjects) == ("WARMLOG", ("wl.>",))
    assert (kv.name, len(kv.subjects), kv.subjects[0]) == ("WARMLOG_KV", 64, "wlkv.0.*.*")
    config = control.config()
    assert config["duplicate_window"] == 600 * 10**9
    assert config["max_age"] == 30 * 86_400 * 10**9
    assert (config["discard"], config["retention"], config["storage"]) == ("new", "limits", "file")
    assert (config["deny_delete"], config["deny_purge"], config["allow_direct"]) == (True, True, True)
    assert (kv.config()["discard"], kv.config()["allow_direct"]) == ("old", True)
    assert msgspec.json.encode(config)
