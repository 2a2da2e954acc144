"""Webhook configurations: what admission could not work with is refused here.

Rule: upstream's `pkg/apis/admissionregistration/validation` and `apiserver/pkg/util/webhook`.
"""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from devkube.admission import conditions
from devkube.builtin import names
from devkube.builtin.metadata import label_selector
from devkube.causes import duplicate, invalid, required
from devkube.errors import Cause
from devkube.kinds import Object

REVIEWS = ("v1",)


def webhooks(new: Object, old: Object | None, subresource: str) -> Iterator[Cause]:
    seen: set[str] = set()
    known = [one for hook in (old or {}).get("webhooks") or () for one in hook.get("matchConditions") or ()]
    for index, hook in enumerate(new.get("webhooks") or ()):
        at, name = f"webhooks[{index}]", hook.get("name") or ""
        if wrong := names.dns_subdomain(name) if name else ():
            yield invalid(f"{at}.name", name, ",".join(wrong))
        elif name and name.count(".") < 2:
            yield invalid(f"{at}.name", name, "should be a domain with at least three segments separated by dots")
        if name in seen:
            yield duplicate(f"{at}.name", name)
        seen.add(name)
        for number, rule in enumerate(hook.get("rules") or ()):
            yield from _rule(rule, f"{at}.rules[{number}]")
        if not 1 <= hook.get("timeoutSeconds", 10) <= 30:
            text = "the timeout value must be between 1 and 30 seconds"
            yield invalid(f"{at}.timeoutSeconds", hook["timeoutSeconds"], text)
        for key in ("namespaceSelector", "objectSelector"):
            yield from label_selector(hook.get(key) or {}, f"{at}.{key}")
        yield from _client(hook.get("clientConfig") or {}, f"{at}.clientConfig")
        versions = hook.get("admissionReviewVersions") or ()
        if versions and not set(versions) & set(REVIEWS):
            text = f"must include at least one of {', '.join(REVIEWS)}"
            yield invalid(f"{at}.admissionReviewVersions", list(versions), text)
        if hook.get("matchConditions"):
            yield from conditions.problems(hook["matchConditions"], f"{at}.matchConditions", known)


def _rule(rule: Mapping[str, Any], at: str) -> Iterator[Cause]:
    for key in ("operations", "apiGroups", "apiVersions", "resources"):
        found = rule.get(key) or ()
        if not found:
            yield required(f"{at}.{key}")
        elif "*" in found and len(found) > 1 and (key != "resources" or any("/" not in one for one in found[1:])):
            yield invalid(f"{at}.{key}", list(found), "if '*' is present, must not specify others")


def _client(client: Mapping[str, Any], at: str) -> Iterator[Cause]:
    if ("url" in client) == ("service" in client):
        yield required(at, "exactly one of url or service is required")
    elif "url" in client:
        here, url = f"{at}.url", urlsplit(client["url"])
        if url.scheme != "https":
            form = "; desired format: https://host[/path]"
            yield invalid(here, url.scheme, f"'https' is the only allowed URL scheme{form}")
        if not url.netloc:
            yield invalid(here, "", "host must be specified; desired format: https://host[/path]")
        if "@" in url.netloc:
            yield invalid(here, url.netloc.rpartition("@")[0], "user information is not permitted in the URL")
        if url.fragment:
            yield invalid(here, url.fragment, "fragments are not permitted in the URL")
        if url.query:
            yield invalid(here, url.query, "query parameters are not permitted in the URL")
    else:
        reference = client["service"]
        for key in ("name", "namespace"):  # in upstream's order
            if not reference.get(key):
                yield required(f"{at}.service.{key}")
        if not (reference.get("path") or "/").startswith("/"):
            yield invalid(f"{at}.service.path", reference["path"], "must start with a '/'")
        for text in names.port_number(reference.get("port", 443)):
            yield invalid(f"{at}.service.port", reference["port"], f"port is not valid: {text}")
