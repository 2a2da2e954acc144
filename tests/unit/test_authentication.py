"""How a server is told who may ask its admin endpoints, and what it refuses at start."""

import argparse
import contextlib

import pytest

from subscribers import metrics
from subscribers.http import identity
from warmlog import authentication, flags

ME = "system:serviceaccount:cache:controller"


def values(**given: str) -> flags.Values:
    environ = {f"WARMLOG_{name.upper()}": value for name, value in given.items()}
    return flags.resolve(argparse.Namespace(), authentication.FLAGS, environ)


REFUSED = {
    "neither": ({}, "give --allowed-controller-sa=system:serviceaccount:<namespace>:<name>, or --insecure"),
    "both": ({"allowed_controller_sa": ME, "insecure_disable_auth": "true"}, "exclude each other"),
    "both, and blanks": ({"allowed_controller_sa": " ", "insecure_disable_auth": "true"}, "exclude each other"),
    "blank before": ({"allowed_controller_sa": f" {ME}"}, "--allowed-controller-sa: .* whitespace around it"),
    "line break after": ({"allowed_controller_sa": f"{ME}\n"}, "--allowed-controller-sa: .* whitespace around it"),
    "blanks alone": ({"allowed_controller_sa": "  "}, "--allowed-controller-sa is blank"),
    "no audience": ({"allowed_controller_sa": ME, "controller_audience": ""}, "--controller-audience is blank"),
    "a blank audience": ({"allowed_controller_sa": ME, "policy_audience": "\t"}, "--policy-audience is blank"),
    "audience after blank": ({"allowed_controller_sa": ME, "controller_audience": " a"}, "--controller-audience: ' a'"),
    "audience before blank": ({"allowed_controller_sa": ME, "policy_audience": "a "}, "--policy-audience: 'a '"),
}


@pytest.mark.parametrize(("given", "says"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_at_start_is_one_line(given: dict[str, str], says: str) -> None:
    with pytest.raises(flags.UsageError, match=says) as told:
        authentication.check(values(**given))
    assert "\n" not in str(told.value)


ACCEPTED = {
    "an account": {"allowed_controller_sa": ME},
    "nobody is asked": {"insecure_disable_auth": "true"},
    "nobody is asked, and audiences do not matter": {"insecure_disable_auth": "true", "policy_audience": " "},
    "audiences of one's own": {"allowed_controller_sa": ME, "controller_audience": "a", "policy_audience": "b"},
}


@pytest.mark.parametrize("given", ACCEPTED.values(), ids=ACCEPTED)
def test_what_is_not_refused(given: dict[str, str]) -> None:
    authentication.check(values(**given))


def test_audiences_are_the_contracts() -> None:
    found = values(allowed_controller_sa=ME)
    assert found["controller-audience"] == "inferencecache.io/controller"
    assert found["policy-audience"] == "inferencecache.io/policy"


async def test_a_server_without_authentication_needs_no_cluster() -> None:
    given = values(insecure_disable_auth="true", kubeconfig="/nowhere")
    async with contextlib.AsyncExitStack() as closing:
        assert await authentication.open_cluster(given, closing) is None
    assert authentication.authenticator(given, None, metrics.Registry()) is identity.anonymous


def test_only_the_flag_lets_everybody_in() -> None:
    with pytest.raises(AssertionError, match="never let in"):
        authentication.authenticator(values(allowed_controller_sa=ME), None, metrics.Registry())
