"""Webhook configurations: what admission could not work with is refused here.

Rule: upstream's `pkg/apis/admissionregistration/validation` and `apiserver/pkg/util/webhook`.
"""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from devkube.admission import conditions
from devkube.builtin import names
from devkube.builtin.causes import duplicate, invalid, required
from devkube.builtin.labelselectors import label_selector
from devkube.errors import Cause
from devkube.kinds import Object

REVIEWS = ("v1", "v1beta1")


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
        for number, version in enumerate(versions):
            if version in versions[:number]:
                yield invalid(f"{at}.admissionReviewVersions[{number}]", version, "duplicate version")
        named: set[str] = set()
        for number, condition in enumerate(hook.get("matchConditions") or ()):
            here = f"{at}.matchConditions[{number}].name"
            if not condition.get("name"):
                continue  # required by the schema
            yield from names.check(here, condition["name"], names.qualified)
            if condition["name"] in named:
                yield duplicate(here, condition["name"])
            named.add(condition["name"])
        if hook.get("matchConditions"):
            yield from conditions.problems(hook["matchConditions"], f"{at}.matchConditions", known)


def _rule(rule: Mapping[str, Any], at: str) -> Iterator[Cause]:
    for key, what in (("operations", "operations"), ("apiGroups", "API groups"), ("apiVersions", "API versions")):
        found = rule.get(key) or ()
        if not found:
            yield required(f"{at}.{key}")
        elif "*" in found and len(found) > 1:
            yield invalid(f"{at}.{key}", list(found), f"if '*' is present, must not specify other {what}")
    found = rule.get("resources") or ()
    if not found:
        yield required(f"{at}.resources")
    if "*/*" in found and len(found) > 1:
        yield invalid(f"{at}.resources", list(found), "if '*/*' is present, must not specify other resources")
    if "*" in found and any(one != "*" and "/" not in one for one in found):
        text = "if '*' is present, must not specify other resources without subresources"
        yield invalid(f"{at}.resources", list(found), text)


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
        yield from _path(reference.get("path") or "/", f"{at}.service.path")
        for text in names.port_number(reference.get("port", 443)):
            yield invalid(f"{at}.service.port", reference["port"], f"port is not valid: {text}")


def _path(path: str, at: str) -> Iterator[Cause]:
    if path in ("/", "//"):
        if path == "//":
            yield invalid(at, path, "segment[0] may not be empty")
        return
    if not path.startswith("/"):
        yield invalid(at, path, "must start with a '/'")
    for number, step in enumerate(path[1:].removesuffix("/").split("/")):
        if not step:
            yield invalid(at, path, f"segment[{number}] may not be empty")
        else:
            for text in names.dns_subdomain(step):
                yield invalid(at, path, f"segment[{number}]: {text}")
