"""kubectl, as its users type it. Excluded: what it prints of objects that nobody runs (logs, exec, port-forward)."""

import asyncio
import json
import re
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.support import kubernetes
from tests.support.kubectl import Kubectl
from tests.support.kubeobjects import configmap, container, crd, deployment, pod, version
from tests.support.kubernetes import Client, Cluster, Space

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(scope="module", loop_scope="session", params=list(kubernetes.backends()))
async def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    async with kubernetes.running(request.param, tmp_path_factory.mktemp(request.param)) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="session")
async def kube(cluster: Cluster) -> AsyncIterator[Client]:
    async with cluster.session() as session:
        yield Client(session, cluster.url, token=cluster.token)


@pytest_asyncio.fixture(loop_scope="session")
async def space(kube: Client) -> Space:
    name = f"k-{secrets.token_hex(4)}"
    await kube.create("/api/v1/namespaces", {"metadata": {"name": name}})
    return Space(name)


@pytest.fixture
def kubectl(cluster: Cluster, space: Space, tmp_path: Path) -> Kubectl:
    return Kubectl(cluster.kubeconfig, tmp_path, namespace=space.name)


async def widgets(kubectl: Kubectl, space: Space) -> str:
    """A CRD in use, by its full name."""
    columns = [{"name": "Size", "type": "integer", "jsonPath": ".spec.size", "description": "how big"}]
    properties = {"size": {"type": "integer", "description": "How big it is."}, "color": {"type": "string"}}
    schema = {
        "spec": {"type": "object", "description": "What is wanted.", "properties": properties},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    }
    one = version(schema=schema, subresources={"status": {}}, additionalPrinterColumns=columns)
    (await kubectl("apply", "-f", "-", stdin=crd(space.group, one))).ok()
    name = f"widgets.{space.group}"
    (await kubectl("wait", "--for=condition=Established", f"crd/{name}", "--timeout=20s")).ok()
    return name


async def test_apply_creates_configures_and_leaves(kubectl: Kubectl) -> None:
    """The three words of client-side apply, by the annotation last-applied-configuration."""
    body = configmap("a", {"x": "1", "y": "1"})
    assert (await kubectl("apply", "-f", "-", stdin=body)).ok() == "configmap/a created\n"
    assert (await kubectl("apply", "-f", "-", stdin=body)).ok() == "configmap/a unchanged\n"
    body["data"] = {"x": "2"}
    assert (await kubectl("apply", "-f", "-", stdin=body)).ok() == "configmap/a configured\n"
    found = json.loads((await kubectl("get", "configmap", "a", "-o", "json")).ok())
    assert found["data"] == {"x": "2"}
    assert "kubectl.kubernetes.io/last-applied-configuration" in found["metadata"]["annotations"]


async def test_apply_merges_deployments_and_custom_resources(kubectl: Kubectl, space: Space) -> None:
    """Three-way strategic merge for built-in kinds, JSON merge for the others; several objects in one file."""
    name = await widgets(kubectl, space)
    widget: dict[str, Any] = {
        "apiVersion": f"{space.group}/v1",
        "kind": "Widget",
        "metadata": {"name": "w"},
        "spec": {"size": 1},
    }
    first = deployment("d")
    first["spec"]["template"]["spec"]["containers"] = [container("main", env=[{"name": "A", "value": "1"}])]
    done = (await kubectl("apply", "-f", "-", stdin=[first, widget])).ok()
    assert done == f"deployment.apps/d created\nwidget.{space.group}/w created\n"
    (await kubectl("set", "env", "deployment/d", "B=2")).ok()
    first["spec"]["template"]["spec"]["containers"][0]["image"] = "registry.example/app:2"
    widget["spec"] = {"size": 2, "color": "red"}
    done = (await kubectl("apply", "-f", "-", stdin=[first, widget])).ok()
    assert done == f"deployment.apps/d configured\nwidget.{space.group}/w configured\n"
    path = "jsonpath={.spec.template.spec.containers[0].image} {.spec.template.spec.containers[0].env[*].name}"
    assert (await kubectl("get", "deployment", "d", "-o", path)).ok() == "registry.example/app:2 A B"
    assert (await kubectl("get", name, "w", "-o", "jsonpath={.spec}")).ok() == '{"color":"red","size":2}'


async def test_server_side_apply_and_its_conflicts(kubectl: Kubectl) -> None:
    """--server-side, the conflict's advice, --force-conflicts, --field-manager."""
    body = configmap("a", {"x": "1"})
    apply = ("apply", "--server-side", "-f", "-")
    assert (await kubectl(*apply, stdin=body)).ok() == "configmap/a serverside-applied\n"
    body["data"] = {"x": "2"}
    (await kubectl(*apply, "--field-manager=other", stdin=body)).failed(
        'conflict with "kubectl": .data.x', "Please review the fields above"
    )
    (await kubectl(*apply, "--field-manager=other", "--force-conflicts", stdin=body)).ok()
    assert (await kubectl("get", "configmap", "a", "-o", "jsonpath={.data.x}")).ok() == "2"


async def test_client_side_managers_migrate(kubectl: Kubectl) -> None:
    """After kubectl apply, kubectl apply --server-side owns the fields and can remove them."""
    (await kubectl("apply", "-f", "-", stdin=configmap("a", {"x": "1", "y": "1"}))).ok()
    (await kubectl("apply", "--server-side", "-f", "-", stdin=configmap("a", {"x": "1"}))).ok()
    assert (await kubectl("get", "configmap", "a", "-o", "jsonpath={.data}")).ok() == '{"x":"1"}'
    shown = (await kubectl("get", "configmap", "a", "-o", "yaml", "--show-managed-fields")).ok()
    assert "kubectl-client-side-apply" not in shown


async def test_get_in_every_form(kubectl: Kubectl, kube: Client, space: Space) -> None:
    """Table, wide, custom columns, JSONPath, names, labels, sorted, selected."""
    for name, node in (("a", "n1"), ("b", "n2")):
        await kube.create(space.pods, pod(name, spec={"nodeName": node}, labels={"app": name}))
    lines = (await kubectl("get", "pods")).ok().splitlines()
    assert lines[0].split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert lines[1].split()[:4] == ["a", "0/1", "Pending", "0"]
    wide = (await kubectl("get", "po", "-o", "wide")).ok().splitlines()
    assert wide[0].split()[5:7] == ["IP", "NODE"]
    assert wide[2].split()[5:7] == ["<none>", "n2"]
    columns = "custom-columns=NAME:.metadata.name,NODE:.spec.nodeName"
    assert (await kubectl("get", "pods", "-o", columns)).ok().split() == ["NAME", "NODE", "a", "n1", "b", "n2"]
    assert (await kubectl("get", "pods", "-o", "jsonpath={.items[*].metadata.name}")).ok() == "a b"
    assert (await kubectl("get", "pods", "-o", "name")).ok() == "pod/a\npod/b\n"
    assert "app=b" in (await kubectl("get", "pods", "--show-labels", "-l", "app=b")).ok()
    assert (await kubectl("get", "pods", "-L", "app", "--no-headers", "b")).ok().split()[-1] == "b"
    sorted_ = (await kubectl("get", "pods", "--sort-by={.spec.nodeName}", "-o", "name")).ok()
    assert sorted_ == "pod/a\npod/b\n"
    assert (await kubectl("get", "pods", "--field-selector", "spec.nodeName=n2", "-o", "name")).ok() == "pod/b\n"
    assert space.name in (await kubectl("get", "pods", "-A")).ok()
    assert (await kubectl("get", "pod", "none")).failed('pods "none" not found')
    assert "No resources found" in (await kubectl("get", "deployments")).err


async def test_get_all_and_custom_resources(kubectl: Kubectl, space: Space) -> None:
    """Categories; the columns of a CRD; short forms are found by discovery."""
    await widgets(kubectl, space)
    widget = {"apiVersion": f"{space.group}/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 7}}
    (await kubectl("apply", "-f", "-", stdin=[widget, deployment("d", replicas=0)])).ok()
    lines = (await kubectl("get", f"widget.{space.group}")).ok().splitlines()
    assert [line.split() for line in lines] == [["NAME", "SIZE"], ["w", "7"]]
    assert "deployment.apps/d" in (await kubectl("get", "all")).ok()
    shown = (await kubectl("api-resources", "--api-group", space.group, "--no-headers")).ok().split()
    assert shown == ["widgets", f"{space.group}/v1", "true", "Widget"]
    assert "apps/v1" in (await kubectl("api-versions")).ok().split()


async def test_get_watches(kubectl: Kubectl, kube: Client, space: Space) -> None:
    """--watch prints a line for each change, until the request times out."""
    await kube.create(space.configmaps, configmap("a"))

    async def change() -> None:
        for number in range(20):
            (await kube.merge(f"{space.configmaps}/a", {"data": {"n": str(number)}})).ok()
            await asyncio.sleep(0.15)

    task = asyncio.create_task(change())
    watching = ("get", "configmap", "a", "--watch", "--output-watch-events", "--request-timeout=3s")
    done = await kubectl(*watching)
    await task
    events = [line.split()[0] for line in done.out.splitlines()[1:]]
    assert events[0] == "ADDED"
    assert "MODIFIED" in events


async def test_describe(kubectl: Kubectl, kube: Client, space: Space) -> None:
    """Pods with their events, Deployments, custom resources."""
    name = await widgets(kubectl, space)
    made = await kube.create(space.pods, pod("a", spec={"nodeName": "n1"}))
    event = {
        "metadata": {"name": "a.1"},
        "involvedObject": {
            "kind": "Pod",
            "apiVersion": "v1",
            "namespace": space.name,
            "name": "a",
            "uid": made["metadata"]["uid"],
        },
        "reason": "Pulled",
        "message": "image is there",
        "type": "Normal",
        "source": {"component": "tester"},
    }
    await kube.create(space.of("v1", "events"), event)
    told = (await kubectl("describe", "pod", "a")).ok()
    for part in ("Name:", "Status:", "Pending", "Image:", "registry.example/app:1", "Pulled", "image is there"):
        assert part in told
    await kube.create(space.deployments, deployment("d", replicas=0))
    assert re.search(r"Replicas:\s+0 desired", (await kubectl("describe", "deployment", "d")).ok())
    widget = {"apiVersion": f"{space.group}/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 7}}
    (await kubectl("apply", "-f", "-", stdin=widget)).ok()
    assert re.search(r"Size:\s+7", (await kubectl("describe", name, "w")).ok())
    assert re.search(r"Status:\s+Active", (await kubectl("describe", "namespace", space.name)).ok())
    assert "image is there" in (await kubectl("events", "--for", "pod/a")).ok()


async def test_wait_for_conditions_values_and_deletion(kubectl: Kubectl, kube: Client, space: Space) -> None:
    """--for=condition, jsonpath, create and delete, and its timeout."""
    await kube.create(space.pods, pod("a"))
    (await kubectl("wait", "--for=condition=Ready", "pod/a", "--timeout=300ms")).failed("timed out waiting")
    waiting = asyncio.create_task(kubectl("wait", "--for=condition=Ready", "pod/a", "--timeout=20s"))
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    (await kube.strategic(f"{space.pods}/a/status", {"status": status})).ok()
    assert (await waiting).ok() == "pod/a condition met\n"
    (await kubectl("wait", "--for=jsonpath={.status.phase}=Running", "pod/a", "--timeout=20s")).ok()
    waiting = asyncio.create_task(kubectl("wait", "--for=delete", "pod/a", "--timeout=20s"))
    (await kube.delete(f"{space.pods}/a", gracePeriodSeconds="0")).ok()
    (await waiting).ok()
    waiting = asyncio.create_task(kubectl("wait", "--for=create", "pod/late", "--timeout=20s"))
    await kube.create(space.pods, pod("late"))
    (await waiting).ok()


async def test_label_and_annotate(kubectl: Kubectl, kube: Client, space: Space) -> None:
    """Set, refuse to overwrite, overwrite, remove; all of a selection."""
    await kube.create(space.pods, pod("a", labels={"app": "x"}))
    assert (await kubectl("label", "pod", "a", "tier=front")).ok() == "pod/a labeled\n"
    (await kubectl("label", "pod", "a", "tier=back")).failed("already has a value (front), and --overwrite is false")
    (await kubectl("label", "pod", "a", "tier=back", "--overwrite")).ok()
    (await kubectl("label", "pod", "-l", "tier=back", "tier-")).ok()
    (await kubectl("label", "pod", "a", "bad=not ok")).failed("invalid label value")
    assert (await kubectl("annotate", "pod", "a", "note=some words")).ok() == "pod/a annotated\n"
    found = (await kube.read(f"{space.pods}/a"))["metadata"]
    assert (found["labels"], found["annotations"]) == ({"app": "x"}, {"note": "some words"})


async def test_scale(kubectl: Kubectl, kube: Client, space: Space) -> None:
    """Through the scale subresource, with the precondition of a current size."""
    await kube.create(space.deployments, deployment("d", replicas=0))
    assert (await kubectl("scale", "deployment/d", "--replicas=3")).ok() == "deployment.apps/d scaled\n"
    assert (await kube.read(f"{space.deployments}/d"))["spec"]["replicas"] == 3
    (await kubectl("scale", "deployment/d", "--current-replicas=9", "--replicas=1")).failed("xpected replicas to be 9")


@pytest.mark.parametrize("verb", ["status", "restart", "pause"])
async def test_rollout(kubectl: Kubectl, kube: Client, space: Space, cluster: Cluster, verb: str) -> None:
    """status waits for what a controller writes; restart and pause change the template and the spec."""
    await kube.create(space.deployments, deployment("d", replicas=2))
    if verb != "status":
        (await kubectl("rollout", verb, "deployment/d")).ok()
        spec = (await kube.read(f"{space.deployments}/d"))["spec"]
        restarted = "kubectl.kubernetes.io/restartedAt" in str(spec["template"]["metadata"].get("annotations"))
        assert restarted if verb == "restart" else spec["paused"]
        return
    if "controllers" in cluster.has:
        pytest.skip("its controllers write the status, and no kubelet makes the Pods ready")
    waiting = asyncio.create_task(kubectl("rollout", "status", "deployment/d", "--timeout=20s"))
    status = {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 1, "availableReplicas": 1}
    (await kube.merge(f"{space.deployments}/d/status", {"status": status})).ok()
    status |= {"readyReplicas": 2, "availableReplicas": 2}
    (await kube.merge(f"{space.deployments}/d/status", {"status": status})).ok()
    assert 'deployment "d" successfully rolled out' in (await waiting).ok()


async def test_delete(kubectl: Kubectl, kube: Client, space: Space) -> None:
    """By name, by file, by selection, all; with a finalizer it waits; --cascade goes as propagation."""
    for name in "abcd":
        await kube.create(space.configmaps, configmap(name, labels={"l": name}))
    assert (await kubectl("delete", "configmap", "a")).ok().startswith('configmap "a" deleted')
    (await kubectl("delete", "-f", "-", stdin=configmap("b"))).ok()
    (await kubectl("delete", "configmap", "-l", "l=c")).ok()
    (await kubectl("delete", "configmap", "a")).failed('configmaps "a" not found')
    (await kubectl("delete", "configmap", "a", "--ignore-not-found")).ok()
    await kube.create(space.configmaps, configmap("held", finalizers=["example.com/wait"]))
    deleting = asyncio.create_task(kubectl("delete", "configmap", "held", "--timeout=20s"))
    async with kube.watch(space.configmaps, fieldSelector="metadata.name=held") as watch:
        await watch.until(lambda event: "deletionTimestamp" in event.object["metadata"])
    assert not deleting.done()
    (
        await kubectl("patch", "configmap", "held", "--type=json", '-p=[{"op":"remove","path":"/metadata/finalizers"}]')
    ).ok()
    (await deleting).ok()
    (await kubectl("delete", "configmap", "d", "--cascade=orphan")).ok()
    await kube.create(space.configmaps, configmap("e"))
    (await kubectl("delete", "configmap", "e", "--cascade=foreground", "--now")).ok()
    await kube.create(space.pods, pod("p"))
    (await kubectl("delete", "pods", "--all", "--force", "--grace-period=0")).ok()
    assert await kube.names(space.pods) == []


async def test_explain(kubectl: Kubectl, space: Space) -> None:
    """From OpenAPI v3: built-in kinds and CRDs, a field below, and one that does not exist."""
    await widgets(kubectl, space)
    told = (await kubectl("explain", "deployment.spec.replicas")).ok()
    assert "FIELD: replicas <integer>" in told
    assert "Number of desired pods" in told
    assert re.search(r"containers\s+<\[\]Container> -required-", (await kubectl("explain", "pod.spec")).ok())
    assert "restartPolicy" in (await kubectl("explain", "pods", "--recursive")).ok()

    for _ in range(60):  # a real server publishes a new type a moment later
        done = await kubectl("explain", "widgets.spec", f"--api-version={space.group}/v1")
        if done.code == 0 and "size" in done.out:
            break
        await asyncio.sleep(0.3)
    assert re.search(r"size\s+<integer>\s+How big it is\.", done.ok())
    (await kubectl("explain", "pod.spec.nothing")).failed('field "nothing" does not exist')


async def test_auth(kubectl: Kubectl, kube: Client, space: Space) -> None:
    """can-i for oneself and for others, the list, whoami."""
    assert (await kubectl("auth", "can-i", "create", "deployments")).ok() == "yes\n"
    account = f"system:serviceaccount:{space.name}:robot"
    (
        await kubectl(
            "create", "-f", "-", stdin={"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
        )
    ).ok()
    assert (await kubectl("auth", "can-i", "get", "pods", "--as", account)).failed() == "no\n"
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]
    await kube.create(space.of("rbac.authorization.k8s.io/v1", "roles"), {"metadata": {"name": "r"}, "rules": rules})
    binding = {
        "metadata": {"name": "r"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": space.name}],
    }
    await kube.create(space.of("rbac.authorization.k8s.io/v1", "rolebindings"), binding)
    for _ in range(40):  # a real server's authorizer learns of it a moment later
        done = await kubectl("auth", "can-i", "get", "pods", "--as", account)
        if done.code == 0:
            break
        await asyncio.sleep(0.1)
    assert done.ok() == "yes\n"
    long = f"pods/{'a' * 200}"  # a length of two bytes in protobuf
    assert (await kubectl("auth", "can-i", "delete", long, "--as", account)).failed() == "no\n"
    listed = (await kubectl("auth", "can-i", "--list", "--as", account)).ok()
    assert re.search(r"pods\s+\[\]\s+\[\]\s+\[get list\]", listed)
    assert re.search(r"Username\s+\S+", (await kubectl("auth", "whoami")).ok())


async def test_diff(kubectl: Kubectl) -> None:
    """Nothing is 0, something is 1 with a diff; with --server-side too."""
    (await kubectl("apply", "-f", "-", stdin=configmap("a", {"x": "1"}))).ok()
    assert (await kubectl("diff", "-f", "-", stdin=configmap("a", {"x": "1"}))).ok() == ""
    (await kubectl("diff", "-f", "-", stdin=configmap("a", {"x": "2"}))).failed('-  x: "1"', '+  x: "2"')
    changed = configmap("b", {"y": "1"})
    (await kubectl("diff", "--server-side", "-f", "-", stdin=changed)).failed('"1"', "kind: ConfigMap")
    assert (await kubectl("get", "configmaps", "--field-selector=metadata.name=b", "-o", "name")).ok() == ""


async def test_create_replace_patch_edit(kubectl: Kubectl, kube: Client, space: Space) -> None:
    """The imperative verbs, from files."""
    assert (await kubectl("create", "-f", "-", stdin=configmap("a", {"k": "1"}))).ok() == "configmap/a created\n"
    (await kubectl("create", "-f", "-", stdin=configmap("a"))).failed("AlreadyExists")
    assert (await kubectl("replace", "-f", "-", stdin=configmap("a", {"k": "2"}))).ok() == "configmap/a replaced\n"
    (await kubectl("patch", "configmap", "a", "--type=merge", "-p", '{"data":{"k":"3"}}')).ok()
    (await kubectl("patch", "configmap", "a", "-p", '{"data":{"l":"4"}}')).ok()
    assert (await kube.read(f"{space.configmaps}/a"))["data"] == {"k": "3", "l": "4"}
    await kube.create(space.deployments, deployment("d", replicas=0))
    (await kubectl("set", "image", "deployment/d", "main=registry.example/app:9")).ok()
    spec = (await kube.read(f"{space.deployments}/d"))["spec"]["template"]["spec"]
    assert spec["containers"][0]["image"] == "registry.example/app:9"
    done = await kubectl("create", "-f", "-", "--dry-run=server", "-o", "name", stdin=pod("dry"))
    assert done.ok() == "pod/dry\n"
    assert await kube.names(space.pods) == []


async def test_bad_files_are_told(kubectl: Kubectl) -> None:
    """Unknown fields, unknown kinds, what a rule says: kubectl validates strictly."""
    body = pod("a")
    body["spec"]["nope"] = 1
    (await kubectl("apply", "-f", "-", stdin=body)).failed("strict decoding error", 'unknown field "spec.nope"')
    nothing = {"apiVersion": "nowhere.example.com/v1", "kind": "Thing", "metadata": {"name": "a"}}
    (await kubectl("apply", "-f", "-", stdin=nothing)).failed('no matches for kind "Thing"')
    (await kubectl("apply", "-f", "-", stdin=pod("a", container("x"), container("x")))).failed(
        'The Pod "a" is invalid', "Duplicate value"
    )


async def test_the_server_is_known(kubectl: Kubectl) -> None:
    """version, cluster-info and raw paths."""
    assert "Server Version: v1.36" in (await kubectl("version")).ok()
    assert (await kubectl("get", "--raw", "/readyz")).ok() == "ok"
    assert "is running at" in (await kubectl("cluster-info")).ok()


async def test_nodes(kubectl: Kubectl, kube: Client, space: Space) -> None:
    """cordon, uncordon and taint are patches of Nodes."""
    await kube.create("/api/v1/nodes", {"metadata": {"name": space.name}})
    (await kubectl("cordon", space.name)).ok()
    assert (await kube.read(f"/api/v1/nodes/{space.name}"))["spec"]["unschedulable"] is True
    (await kubectl("uncordon", space.name)).ok()
    (await kubectl("taint", "node", space.name, "k=v:NoSchedule")).ok()
    taints = (await kube.read(f"/api/v1/nodes/{space.name}"))["spec"]["taints"]
    assert ("k", "NoSchedule") in [(taint["key"], taint["effect"]) for taint in taints]
    assert space.name in (await kubectl("get", "nodes", "-o", "wide")).ok()
    (await kubectl("delete", "node", space.name)).ok()


async def test_what_is_sent_as_protobuf_is_told_how_to_be_sent(kubectl: Kubectl, cluster: Cluster) -> None:
    """kubectl create configmap and its like: devkube points to -f, others take it."""
    done = await kubectl("create", "configmap", "quick", "--from-literal=k=v")
    if cluster.devkube is None or done.code == 0:
        done.ok()
    else:
        done.failed("-f")
        text = (
            await kubectl("create", "configmap", "quick", "--from-literal=k=v", "--dry-run=client", "-o", "yaml")
        ).ok()
        (await kubectl("create", "-f", "-", stdin=text)).ok()
