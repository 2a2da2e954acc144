"""What is user information and what is not, and values on their way out of the log and back."""

import json

import msgspec
import pytest

from handlers import tokens

DIGEST = "sha256:" + "a" * 64
HIDDEN = {
    "https://user:pw@host/x": "https://T@host/x",
    "https://pw@host/x": "https://T@host/x",
    "user:pw@registry.io/x": "T@registry.io/x",
    "https://user:p@w@host": "https://T@host",
    "redis://user:p/w@host:6379/0": "redis://T@host:6379/0",
    "redis://:pw@host": "redis://T@host",
    "user:p/w@host": "T@host",
    f"user:pw@host/x:1@{DIGEST}": f"T@host/x:1@{DIGEST}",
    'say {"endpoint":"user:pw@host"} now': 'say {"endpoint":"T@host"} now',
    "--proxy=user:pw@host": "--proxy=T@host",
    "a https://u:p@h b v:w@i": "a https://T@h b T@i",
}
PLAIN = (
    f"registry:5000/x/y:tag@{DIGEST}", f"x@{DIGEST}", "somebody@example.com", "at 12:30 write to a@b", "model@revision",
    "https://host:8000/path@v1", "http://host/x?to=a@b", "{'a': 1}", '{"a":"b@c"}', "host:1", "",
)  # fmt: skip


@pytest.mark.parametrize(("text", "shown"), HIDDEN.items())
def test_user_information_is_hidden(text: str, shown: str) -> None:
    assert tokens.hidden(text, lambda found: "T") == shown


@pytest.mark.parametrize("text", PLAIN)
def test_other_texts_stay(text: str) -> None:
    assert tokens.hidden(text, lambda found: "T") == text


@pytest.mark.parametrize(
    "text", ["pw@registry/x", "https://pw@registry/x", f"pw@registry/x@{DIGEST}", " u:p@registry/x"]
)
def test_in_an_address_a_name_alone_is_hidden_too(text: str) -> None:
    shown = tokens.hidden(text, lambda found: "T", address=True)
    assert "pw" not in shown
    assert shown.endswith(text[text.index("@registry") :])


@pytest.mark.parametrize("text", [*HIDDEN, *PLAIN])
def test_bytes_say_where_nothing_can_be_hidden(text: str) -> None:
    hides = tokens.hidden(text, lambda found: "T") != text
    assert tokens.may_hide(msgspec.json.encode({"note": text})) or not hides
    assert tokens.may_hide(msgspec.json.encode({"image": f"pw@{text}"}))
    assert not tokens.may_hide(msgspec.json.encode({"image": f"x@{DIGEST}", "note": "a@b"}))


@pytest.mark.parametrize("piece", ["a:b,", "://", "a:", ":", "://a:", "a:b@", "a=b:", "{[", "@", "x@sha256:", "1:22/"])
def test_whatever_is_written_takes_no_longer_than_its_length(piece: str) -> None:
    """A search that begins again at each of 50,000 places takes minutes; a test may take two seconds."""
    for end in ("", "@", " @", ":@/"):
        text = piece * 50_000 + end
        for address in (False, True):
            assert tokens.hidden(text, lambda found: found, address=address) == text
        hides = tokens.hidden(text, lambda found: "T", address=True) != text
        assert tokens.may_hide(msgspec.json.encode({"image": text})) or not hides


def test_values_come_back_and_are_taken_out_again() -> None:
    hider = tokens.Hider("u")
    shown = {"command": [hider.word(one) for one in ("run", "--flag", "--key=secret", "secret", " ")], "n": 1}
    assert shown["command"][1] == "--flag"
    assert shown["command"][4] == " "
    assert "secret" not in str(shown)
    assert tokens.found(shown) == set(hider.values)
    assert tokens.filled(shown, hider.values) == {"command": ["run", "--flag", "--key=secret", "secret", " "], "n": 1}
    said = tokens.masked('Invalid value: "secret"', hider.values)
    assert said == f'Invalid value: "{tokens.token("u", "secret")}"'


def test_a_token_of_ours_stays_what_it_is() -> None:
    hider = tokens.Hider("u")
    once = hider.texts({"endpoint": "user:pw@host"})
    assert hider.texts(once) == once


#: Stays, and what is hidden in it only once something else was, or once it was cut.
UNSETTLED = (
    "see http://h,a?b:c@d",
    "://,?:;@;1;",
    f"FAIL: registry:5000/x@{DIGEST[:20]}",
    "image:⟦0123456789abcdef⟧@registry/x",
)


@pytest.mark.parametrize("text", [*HIDDEN, *UNSETTLED])
def test_what_we_write_is_told_as_it_was_written(text: str) -> None:
    once = tokens.settled(text)
    assert tokens.Hider("u").texts({"message": once}) == {"message": once}
    assert "pw@" not in once


@pytest.mark.parametrize("text", PLAIN)
def test_what_hides_nothing_is_written_as_it_is(text: str) -> None:
    assert tokens.settled(text) == text


@pytest.mark.parametrize(
    "secret", ['pa"ss-word', r"pa\ss-word", "pass\nword", "pass<word>&", "pass\u2028word", "pässword"]
)
def test_a_value_that_is_quoted_in_an_answer_is_masked_too(secret: str) -> None:
    """API servers quote with Go's JSON, what they say of a webhook's answer twice."""
    made = tokens.token("u", secret)
    once = json.dumps(secret, ensure_ascii=False)
    for said in (secret, once, once.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026")):
        for text in (
            f"Invalid value: {said}: no",
            f"denied: {json.dumps(f'Invalid value: {said}', ensure_ascii=False)}",
        ):
            shown = tokens.masked(text, {made: secret})
            assert made in shown
            assert "ss" not in shown


def test_a_value_that_looks_like_part_of_a_token_leaves_tokens_whole() -> None:
    values = {"⟦0123456789abcdef⟧": "secret", "⟦fedcba9876543210⟧": "4567"}
    assert tokens.masked("secret 4567", values) == "⟦0123456789abcdef⟧ ⟦fedcba9876543210⟧"
