"""What is served, against facts of upstream's discovery."""

import subprocess
import sys

from devkube.builtin.catalog import builtin_resources
from devkube.kinds import ALL_VERBS, Catalog


def test_every_row_has_a_schema_and_columns(catalog: Catalog) -> None:
    for resource in catalog:
        assert resource.rules.schema.get("properties"), resource.kind
        assert resource.columns, resource.kind


def test_pods_as_discovery_shows_them(catalog: Catalog) -> None:
    pods = catalog.find("", "v1", "pods")
    assert pods is not None
    assert (pods.singular, pods.short_names, pods.categories) == ("pod", ("po",), ("all",))
    assert pods.verbs == ALL_VERBS
    eviction = pods.subresources["eviction"]
    assert (eviction.kind, eviction.group, eviction.version, eviction.verbs) == (
        "Eviction",
        "policy",
        "v1",
        ("create",),
    )


def test_namespaces_have_no_deletecollection(catalog: Catalog) -> None:
    namespaces = catalog.find("", "v1", "namespaces")
    assert namespaces is not None
    assert "deletecollection" not in namespaces.verbs
    assert namespaces.subresources["finalize"].verbs == ("update",)
    assert not namespaces.namespaced


def test_scale_is_of_autoscaling(catalog: Catalog) -> None:
    for plural in ("deployments", "replicasets", "statefulsets"):
        found = catalog.find("apps", "v1", plural)
        assert found is not None
        assert (found.subresources["scale"].group, found.subresources["scale"].kind) == ("autoscaling", "Scale")


def test_two_servers_do_not_share_addresses() -> None:
    first, second = (Catalog(builtin_resources()).find("", "v1", "services") for _ in range(2))
    assert first is not None
    assert second is not None
    addresses = []
    for found in (first, second):
        obj = {"metadata": {"name": "s", "namespace": "n"}, "spec": {"type": "ClusterIP", "ports": [{"port": 80}]}}
        found.rules.prepare(obj, None, "")
        addresses.append(obj["spec"]["clusterIP"])  # type: ignore[index]
    assert addresses[0] == addresses[1]


def test_a_start_reads_no_schema_and_imports_nothing_heavy() -> None:
    """The server must be ready in a second: schemas are read when the first object arrives."""
    code = (
        "import sys; from devkube.builtin.catalog import builtin_resources; rows = builtin_resources();"
        "from devkube.builtin.document import document; assert not document.cache_info().currsize;"
        "print(sorted(set(sys.modules) & {'jsonschema', 'yaml', 'kubernetes_validate', 'aiohttp'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": "cmd"})
    assert done.stdout.strip() == "[]", done.stderr
