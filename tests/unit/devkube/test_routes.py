"""URLs as requests: the table of upstream's requestinfo, and what is not there."""

import pytest

from devkube import routes
from devkube.builtin.catalog import builtin_resources
from devkube.errors import StatusError
from devkube.kinds import Catalog
from devkube.routes import Route

CATALOG = Catalog(builtin_resources())


@pytest.mark.parametrize(
    ("method", "path", "query", "verb", "where"),
    [
        ("GET", "/api/v1/namespaces", "", "list", "//v1/namespaces///"),
        ("GET", "/api/v1/namespaces/n", "", "get", "//v1/namespaces/n/n/"),
        ("PUT", "/api/v1/namespaces/n/finalize", "", "update", "//v1/namespaces/n/n/finalize"),
        ("GET", "/api/v1/namespaces/n/pods", "", "list", "//v1/pods/n//"),
        ("GET", "/api/v1/namespaces/n/pods/p", "", "get", "//v1/pods/n/p/"),
        ("GET", "/api/v1/namespaces/n/pods/p", "watch=true", "get", "//v1/pods/n/p/"),
        ("GET", "/api/v1/namespaces/n/pods/p/status", "", "get", "//v1/pods/n/p/status"),
        ("GET", "/api/v1/pods", "watch=1", "watch", "//v1/pods///"),
        ("GET", "/api/v1/pods", "watch=", "watch", "//v1/pods///"),
        ("GET", "/api/v1/pods", "watch=false", "list", "//v1/pods///"),
        ("GET", "/api/v1/pods/", "", "list", "//v1/pods///"),
        ("POST", "/apis/apps/v1/namespaces/n/deployments", "", "create", "/apps/v1/deployments/n//"),
        ("PATCH", "/apis/apps/v1/namespaces/n/deployments/d/scale", "", "patch", "/apps/v1/deployments/n/d/scale"),
        ("DELETE", "/apis/apps/v1/namespaces/n/deployments", "", "deletecollection", "/apps/v1/deployments/n//"),
        ("DELETE", "/apis/apps/v1/namespaces/n/deployments/d", "", "delete", "/apps/v1/deployments/n/d/"),
        ("OPTIONS", "/api/v1/pods", "", "", "//v1/pods///"),
    ],
)
def test_a_resource(method: str, path: str, query: str, verb: str, where: str) -> None:
    found = routes.parse(method, path, dict([query.split("=")]) if query else {})
    parts = (found.group, found.version, found.plural, found.namespace, found.name, found.subresource)
    assert (found.verb, "/" + "/".join(parts)) == (verb, where)


@pytest.mark.parametrize("path", ["/", "/api", "/api/v1", "/apis/apps", "/apis/apps/v1", "/healthz", "/version/", "//"])
def test_not_a_resource(path: str) -> None:
    found = routes.parse("GET", path, {})
    assert (found.plural, found.verb, found.path) == ("", "get", path)


def test_a_list_that_selects_one_name_is_about_that_name() -> None:
    for selector in ("metadata.name=p", "status.phase=Running,metadata.name==p"):
        found = routes.parse("GET", "/api/v1/namespaces/n/pods", {"fieldSelector": selector})
        assert (found.verb, found.name, found.named) == ("list", "p", False)
    assert routes.parse("GET", "/api/v1/pods", {"fieldSelector": "metadata.name!=p"}).name == ""


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/namespaces/n/pods"),
        ("GET", "/api/v1/pods"),
        ("GET", "/api/v1/namespaces/n"),
        ("DELETE", "/api/v1/namespaces/n"),
        ("POST", "/api/v1/namespaces"),
        ("POST", "/api/v1/namespaces/n/serviceaccounts/s/token"),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
        ("POST", "/apis/authorization.k8s.io/v1/namespaces/n/localsubjectaccessreviews"),
        ("PATCH", "/apis/apps/v1/namespaces/n/deployments/d/scale"),
    ],
)
def test_what_is_served_is_found(method: str, path: str) -> None:
    route = routes.parse(method, path, {})
    assert routes.find(CATALOG, route).plural == route.plural


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/api/v1/pots", 404),
        ("GET", "/api/v2/pods", 404),
        ("GET", "/apis/apps/v1/pods", 404),
        ("GET", "/api/v1/namespaces/n/nodes", 404),  # a cluster's resource inside a namespace
        ("GET", "/api/v1/pods/p", 404),  # a namespace's object without one
        ("GET", "/api/v1/namespaces/n/pods/p/scale", 404),
        ("GET", "/api/v1/namespaces/n/pods/p/status/more", 404),
        ("POST", "/api/v1/pods", 405),
        ("POST", "/api/v1/namespaces/n/pods/p", 405),
        ("PUT", "/api/v1/namespaces/n/pods", 405),
        ("DELETE", "/api/v1/namespaces", 405),
        ("DELETE", "/api/v1/namespaces/n/pods/p/status", 405),
        ("GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", 405),
        ("OPTIONS", "/api/v1/namespaces/n/pods", 405),
    ],
)
def test_what_is_not_served_is_refused(method: str, path: str, code: int) -> None:
    with pytest.raises(StatusError) as caught:
        routes.find(CATALOG, routes.parse(method, path, {}))
    assert caught.value.code == code


def test_route_of_a_namespace_keeps_its_name_for_rbac_as_namespace() -> None:
    assert routes.parse("GET", "/api/v1/namespaces/n", {}) == Route(
        "get", "/api/v1/namespaces/n", "", "v1", "namespaces", "n", "n"
    )
