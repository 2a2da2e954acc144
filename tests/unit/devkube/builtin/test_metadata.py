"""Names, labels and what of metadata never changes, with upstream's paths and words."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devkube.builtin import names
from devkube.builtin.metadata import validate_metadata
from devkube.kinds import Catalog, Object, Resource


def told(catalog: Catalog, kind: str = "Pod", version: str = "v1", old: Object | None = None, **meta: Any) -> Object:
    resource = catalog.of_kind(version, kind)
    assert resource is not None
    where = {"namespace": "n"} if resource.namespaced else {}
    found = validate_metadata({"metadata": {"name": "a", **where, **meta}}, old, resource)
    return {cause.field: cause.message for cause in found}


def test_taken(catalog: Catalog) -> None:
    meta = {
        "labels": {"app.kubernetes.io/name": "a", "empty": ""},
        "annotations": {"Example.com/Any": "☃ anything"},
        "finalizers": ["example.com/f"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "u", "controller": True}],
    }
    assert told(catalog, **meta) == {}


@pytest.mark.parametrize(
    ("meta", "field", "message"),
    [
        ({"name": ""}, "metadata.name", "Required value: name or generateName is required"),
        ({"name": "A"}, "metadata.name", 'Invalid value: "A": a lowercase RFC 1123 subdomain must consist of'),
        ({"name": "a" * 254}, "metadata.name", "must be no more than 253 characters"),
        ({"labels": {"a": "b c"}}, "metadata.labels", 'Invalid value: "b c": a valid label must be an empty string'),
        ({"labels": {"-a": ""}}, "metadata.labels", 'Invalid value: "-a": name part must consist of alphanumeric'),
        ({"labels": {"/a": ""}}, "metadata.labels", 'Invalid value: "/a": prefix part must be non-empty'),
        ({"labels": {"a/b/c": ""}}, "metadata.labels", 'Invalid value: "a/b/c": a valid label key must consist of'),
        ({"annotations": {"a": "x" * 262144}}, "metadata.annotations", "Too long: may not be more than 262144 bytes"),
        ({"finalizers": ["f f"]}, "metadata.finalizers", 'Invalid value: "f f": name part must consist of'),
        ({"finalizers": ["orphan", "foregroundDeletion"]}, "metadata.finalizers", "cannot be both set"),
        ({"ownerReferences": [{"kind": "A"}]}, "metadata.ownerReferences.apiVersion", "must not be empty"),
    ],
)
def test_refused(catalog: Catalog, meta: Object, field: str, message: str) -> None:
    found = told(catalog, **meta)
    assert message in found[field]


def test_one_controller_only(catalog: Catalog) -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "uid": "u", "controller": True}
    found = told(catalog, ownerReferences=[{**owner, "name": "a"}, {**owner, "name": "b"}])
    assert found["metadata.ownerReferences"].endswith("Only one reference can have Controller set to true")


def test_names_differ_by_kind(catalog: Catalog) -> None:
    assert told(catalog, name="a.b") == {}
    assert "must not contain dots" in told(catalog, "Namespace", name="a.b")["metadata.name"]
    rbac = "rbac.authorization.k8s.io/v1"
    assert told(catalog, "ClusterRole", rbac, name="system:controller:x") == {}
    assert "may not contain '/'" in told(catalog, "ClusterRole", rbac, name="a/b")["metadata.name"]


@pytest.mark.parametrize("key", ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"])
def test_what_never_changes(catalog: Catalog, key: str) -> None:
    old = {"metadata": {"name": "a", "namespace": "n", key: "x"}}
    found = told(catalog, old=old, **{key: "y"})
    assert found == {f"metadata.{key}": 'Invalid value: "y": field is immutable'}


def test_no_new_finalizers_on_the_way_out(catalog: Catalog) -> None:
    meta = {"name": "a", "namespace": "n", "deletionTimestamp": "t", "finalizers": ["a.b/c"]}
    found = told(catalog, old={"metadata": meta}, **{**meta, "finalizers": ["a.b/c", "d.e/f"]})
    assert found["metadata.finalizers"].endswith('found new finalizers []string{"d.e/f"}')
    assert told(catalog, old={"metadata": meta}, **{**meta, "finalizers": []}) == {}


@given(st.text(max_size=70))
def test_a_label_is_also_a_subdomain(text: str) -> None:
    if not names.dns_label(text):
        assert not names.dns_subdomain(text)
        assert not names.qualified(text)
        assert not names.label_value(text)
    if not names.dns_1035_label(text):
        assert not names.dns_label(text)


@given(st.text(max_size=70), st.sampled_from(["a", "Zz", "0"]))
def test_a_valid_key_with_a_prefix(prefix: str, name: str) -> None:
    assert (not names.qualified(f"{prefix}/{name}")) == (not names.dns_subdomain(prefix))


def test_resources_of_crds_are_named_as_subdomains() -> None:
    custom = Resource("g", "v1", "roles", "Role", "role", True, rules=None, custom=True)  # type: ignore[arg-type]
    found = validate_metadata({"metadata": {"name": "a:b", "namespace": "n"}}, None, custom)
    assert [cause.field for cause in found] == ["metadata.name"]
