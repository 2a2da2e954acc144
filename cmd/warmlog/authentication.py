"""Who may ask the server's admin endpoints: the flags, what is refused at start, and the authenticator they become.

A server is told one of two things: whose tokens count (--allowed-controller-sa), or that nobody is asked for one
(--insecure-disable-auth). Anything between is refused with one line and exit code 2, before anything is connected.
Whether the API answers is no matter of the start: while it does not, requests get 503.

Rules: spec/inferencecache.md section 1.1, "Start-up refusal", and section 1.10.
"""

import contextlib
from typing import Final

from handlers import access
from subscribers import metrics
from subscribers.http import bearer, identity, meters
from subscribers.kubernetes import tokenreviews
from subscribers.kubernetes.client import Client
from warmlog import cluster, flags

USUAL: Final = access.Rules(account="")

FLAGS: Final = (
    flags.Flag("allowed-controller-sa", "the one account that may ask: system:serviceaccount:<namespace>:<name>"),
    flags.Flag("insecure-disable-auth", "let everybody ask, without a token", "false", flags.boolean),
    flags.Flag("controller-audience", "of tokens for snapshot, probe, intake", USUAL.controller_audience),
    flags.Flag("policy-audience", "of tokens for policy", USUAL.policy_audience),
    *cluster.FLAGS,
)


def check(values: flags.Values) -> None:
    """Raises UsageError."""
    account: str = values["allowed-controller-sa"]
    if account and values["insecure-disable-auth"]:
        raise flags.UsageError("--allowed-controller-sa and --insecure-disable-auth exclude each other; leave one out")
    if not account and not values["insecure-disable-auth"]:
        raise flags.UsageError(
            "give --allowed-controller-sa=system:serviceaccount:<namespace>:<name>, or --insecure-disable-auth where "
            "nobody else reaches the admin port"
        )
    for name in ("allowed-controller-sa", "controller-audience", "policy-audience") if account else ():
        if not values[name].strip():
            raise flags.UsageError(f"--{name} is blank; name one")
        if values[name] != values[name].strip():
            raise flags.UsageError(f"--{name}: {values[name]!r} has whitespace around it; take that away")


async def open_cluster(values: flags.Values, closing: contextlib.AsyncExitStack) -> Client | None:
    """The API that reviews tokens; None when none are asked for. Raises cli.Failure where no cluster is configured."""
    if values["insecure-disable-auth"]:
        return None
    return await closing.enter_async_context(await cluster.open_cluster(values))


def authenticator(values: flags.Values, client: Client | None, registry: metrics.Registry) -> identity.Authenticate:
    """What the admin endpoints call; its counters are in `registry`."""
    if values["insecure-disable-auth"]:
        return identity.anonymous
    assert client is not None, "who is asked for a token is never let in for want of a reviewer"
    rules = access.Rules(
        account=values["allowed-controller-sa"],
        controller_audience=values["controller-audience"],
        policy_audience=values["policy-audience"],
    )
    return bearer.Bearer(rules, tokenreviews.TokenReviews(client), meter=meters.AuthMeter(registry))
