"""Server-side tables, as kubectl get asks for them, and metadata-only answers."""

import pytest

from tests.support.kubeobjects import configmap, container, crd, custom, deployment, pod, version
from tests.support.kubernetes import Client, Space, eventually

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


async def table(kube: Client, path: str, **query: str) -> tuple[list[tuple[str, int]], list[list[object]]]:
    """Columns as (name, priority) and the cells of each row."""
    told = (await kube.call("GET", path, accept=TABLE, query=query)).ok(200)
    assert (told["kind"], told["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    columns = [(column["name"], column["priority"]) for column in told["columnDefinitions"]]
    return columns, [row["cells"] for row in told["rows"]]


async def test_pods_have_their_columns(kube: Client, space: Space) -> None:
    """The printers' columns; those of -o wide have priority 1."""
    await kube.create(space.pods, pod("a", container("x"), container("y"), spec={"nodeName": "n1"}))
    columns, (cells,) = await table(kube, space.pods)
    assert columns[:7] == [
        ("Name", 0),
        ("Ready", 0),
        ("Status", 0),
        ("Restarts", 0),
        ("Age", 0),
        ("IP", 1),
        ("Node", 1),
    ]
    assert cells[:3] == ["a", "0/2", "Pending"]
    assert str(cells[3]) == "0"
    assert cells[5:7] == ["<none>", "n1"]


def state(name: str, *, restarts: int = 0, **of: object) -> dict[str, object]:
    """A container's status; without a state it runs and is ready."""
    runs = not of
    fixed = {"image": "", "imageID": "", "lastState": {}, "restartCount": restarts}
    return {"name": name, "ready": runs, "started": runs, "state": of or {"running": {}}, **fixed}


ENDED = {"exitCode": 0, "reason": "Completed"}
INITIALIZED = [state("init", terminated=ENDED), state("side")]
READY = {"type": "Ready", "status": "True"}
GATED = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}


@pytest.mark.parametrize(
    ("first", "main", "fields", "told"),
    [
        ([state("init", waiting={"reason": "PodInitializing"})], [], {}, ("0/3", "Init:0/2", "0")),
        ([state("init", restarts=2, terminated={"exitCode": 3})], [], {}, ("0/3", "Init:ExitCode:3", "2")),
        (
            [INITIALIZED[0], state("side", waiting={"reason": "ErrImagePull"})],
            [],
            {},
            ("0/3", "Init:ErrImagePull", "0"),
        ),
        (
            INITIALIZED,
            [state("a", restarts=4, waiting={"reason": "CrashLoopBackOff"}), state("b")],
            {},
            ("2/3", "CrashLoopBackOff", "4"),
        ),
        (INITIALIZED, [state("a", terminated=ENDED), state("b")], {"conditions": [READY]}, ("2/3", "Running", "0")),
        (INITIALIZED, [state("a", terminated=ENDED), state("b")], {}, ("2/3", "NotReady", "0")),
        (
            INITIALIZED,
            [state("a", terminated=ENDED), state("b", terminated={"exitCode": 3})],
            {"phase": "Failed"},
            ("1/3", "ExitCode:3", "0"),
        ),
        (INITIALIZED, [state("a"), {**state("b"), "ready": False}], {}, ("2/3", "Running", "0")),
        ([], [], {"phase": "Pending", "conditions": [GATED]}, ("0/3", "SchedulingGated", "0")),
        ([], [], {"phase": "Failed", "reason": "Evicted"}, ("0/3", "Evicted", "0")),
    ],
)
async def test_a_pod_s_state_is_told_in_a_word(
    kube: Client,
    space: Space,
    first: list[object],
    main: list[object],
    fields: dict[str, object],
    told: tuple[str, str, str],
) -> None:
    """The reason of a waiting container wins over the phase; restarts are summed; sidecars count."""
    initial = [container("init"), container("side", restartPolicy="Always")]
    await kube.create(space.pods, pod("a", container("a"), container("b"), spec={"initContainers": initial}))
    status = {"phase": "Running", "initContainerStatuses": first, "containerStatuses": main, **fields}
    (await kube.merge(f"{space.pods}/a/status", {"status": status})).ok()
    _, (cells,) = await table(kube, space.pods)
    assert (cells[1], cells[2], str(cells[3])) == told


async def test_a_pod_that_is_going_terminates(kube: Client, space: Space) -> None:
    await kube.create(space.pods, pod("a", finalizers=["example.com/f"]))
    (await kube.delete(f"{space.pods}/a")).ok()
    _, (cells,) = await table(kube, space.pods)
    assert cells[2] == "Terminating"
    (await kube.merge(f"{space.pods}/a", {"metadata": {"finalizers": None}})).ok()


@pytest.mark.parametrize(
    ("group_version", "plural", "body", "wanted"),
    [
        (
            "v1",
            "services",
            {"spec": {"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 53, "protocol": "UDP"}]}},
            {"Type": "ClusterIP", "External-IP": "<none>", "Port(s)": "80/TCP,53/UDP", "Selector": "<none>"},
        ),
        (
            "v1",
            "services",
            {
                "spec": {
                    "type": "NodePort",
                    "ports": [{"port": 80, "nodePort": 30123}],
                    "selector": {"b": "2", "a": "1"},
                }
            },
            {"Type": "NodePort", "Port(s)": "80:30123/TCP", "Selector": "a=1,b=2"},
        ),
        (
            "v1",
            "services",
            {"spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}},
            {"Type": "LoadBalancer", "External-IP": "<pending>"},
        ),
        (
            "v1",
            "services",
            {"spec": {"type": "ExternalName", "externalName": "a.b"}},
            {"Type": "ExternalName", "Cluster-IP": "<none>", "External-IP": "a.b", "Port(s)": "<none>"},
        ),
        (
            "batch/v1",
            "jobs",
            {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container()]}}}},
            {"Status": "Running", "Completions": "0/1", "Images": "registry.example/app:1"},
        ),
        (
            "v1",
            "events",
            {
                "involvedObject": {"kind": "Pod", "name": "p"},
                "type": "Normal",
                "reason": "R",
                "message": " m ",
                "count": 2,
            },
            {"Last Seen": "<unknown>", "Type": "Normal", "Reason": "R", "Object": "pod/p", "Message": "m", "Count": 2},
        ),
        ("v1", "secrets", {"stringData": {"k": "v"}}, {"Type": "Opaque", "Data": 1}),
    ],
)
async def test_kinds_have_columns_of_their_own(
    kube: Client, space: Space, group_version: str, plural: str, body: dict[str, object], wanted: dict[str, object]
) -> None:
    """What kubectl get shows of them first; Events must be where their object is."""
    body = body | {"metadata": {"name": "x"}}
    if isinstance(of := body.get("involvedObject"), dict):
        body["involvedObject"] = {**of, "namespace": space.name}
    await kube.create(space.of(group_version, plural), body)
    columns, (cells,) = await table(kube, f"{space.of(group_version, plural)}/x")
    found = dict(zip([name for name, _ in columns], cells, strict=True))
    assert {name: found[name] for name in wanted} == wanted


async def test_deployments_count_what_is_ready(kube: Client, space: Space) -> None:
    """Ready, up to date, available; containers, images and selector when wide."""
    await kube.create(space.deployments, deployment("d", replicas=3))
    columns, (cells,) = await table(kube, space.deployments)
    assert [name for name, _ in columns] == [
        "Name",
        "Ready",
        "Up-to-date",
        "Available",
        "Age",
        "Containers",
        "Images",
        "Selector",
    ]
    assert (cells[0], cells[1], cells[3]) == ("d", "0/3", 0)
    assert cells[5:] == ["main", "registry.example/app:1", "app=d"]


async def test_one_object_is_a_table_of_one_row(kube: Client, space: Space) -> None:
    """kubectl get NAME."""
    await kube.create(space.configmaps, configmap("a", {"k": "v"}))
    columns, rows = await table(kube, f"{space.configmaps}/a")
    assert [name for name, _ in columns] == ["Name", "Data", "Age"]
    assert rows[0][:2] == ["a", 1]


@pytest.mark.parametrize(("include", "kind"), [(None, "PartialObjectMetadata"), ("Object", "Pod"), ("None", None)])
async def test_rows_carry_what_is_asked_for(kube: Client, space: Space, include: str | None, kind: str | None) -> None:
    """includeObject: metadata by default, for labels and sorting."""
    await kube.create(space.pods, pod("a", labels={"l": "1"}))
    query = {} if include is None else {"includeObject": include}
    told = (await kube.call("GET", space.pods, accept=TABLE, query=query)).ok(200)
    row = told["rows"][0]
    assert (row.get("object") or {}).get("kind") == kind
    if kind is not None:
        assert row["object"]["metadata"]["labels"] == {"l": "1"}
    answer = await kube.call("GET", space.pods, accept=TABLE, query={"includeObject": "All"})
    answer.refused(400, "BadRequest", "includeObject")


async def test_tables_have_pages_too(kube: Client, space: Space) -> None:
    """The list's metadata is the table's."""
    for name in "ab":
        await kube.create(space.pods, pod(name))
    told = (await kube.call("GET", space.pods, accept=TABLE, query={"limit": "1"})).ok(200)
    assert told["metadata"]["continue"]
    assert len(told["rows"]) == 1


async def test_a_crd_prints_its_columns(kube: Client, space: Space) -> None:
    """additionalPrinterColumns instead of Age: types, priorities, what is missing is null, dates become ages."""
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1},
        {"name": "Born", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "First", "type": "string", "jsonPath": ".spec.names[0]"},
        {"name": "Tenth", "type": "string", "jsonPath": ".spec.names[9]"},
        {"name": "Any", "type": "string", "jsonPath": ".spec.names[*]"},
        {"name": "All", "type": "string", "jsonPath": ".spec['names']"},
        {"name": "Ready", "type": "string", "jsonPath": '.spec.conditions[?(@.type=="Ready")].status'},
        {"name": "Two", "type": "string", "jsonPath": ".spec.conditions[?(@.n==2)].type"},
        {"name": "Held", "type": "integer", "jsonPath": ".spec.box.*"},
        {"name": "Odd", "type": "integer", "jsonPath": ".spec.names[0]"},
        {"name": "Whole", "type": "string", "jsonPath": ".spec.size"},
        {"name": "Later", "type": "date", "jsonPath": ".spec.later"},
        {"name": "Never", "type": "date", "jsonPath": ".spec.names[0]"},
    ]
    schema = {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    await kube.create(CRDS, crd(space.group, version(schema=schema, additionalPrinterColumns=columns)))
    path = space.of(f"{space.group}/v1", "widgets")
    conditions = [{"type": "Old", "status": "False", "n": 2}, {"type": "Ready", "status": "True"}]
    spec = {"size": 7, "box": {"x": 5}, "names": ["a", "b"], "conditions": conditions, "later": "9000-01-01T00:00:00Z"}
    await eventually(lambda: kube.create(path, custom(space.group, "a", spec)))
    found, (cells,) = await table(kube, path)
    assert found[:4] == [("Name", 0), ("Size", 0), ("Color", 1), ("Born", 0)]
    assert cells[:3] == ["a", 7, None]
    assert str(cells[3]).endswith("s")
    assert cells[4:] == ["a", None, "a", '["a","b"]', "True", "Old", 5, None, "7", "<invalid>", "<invalid>"]


async def test_a_crd_without_columns_has_an_age(kube: Client, space: Space) -> None:
    """The default of printer columns."""
    await kube.create(CRDS, crd(space.group))
    path = space.of(f"{space.group}/v1", "widgets")
    await eventually(lambda: kube.create(path, custom(space.group, "a", {"size": 7})))
    columns, _ = await table(kube, path)
    assert [name for name, _ in columns] == ["Name", "Age"]


async def test_an_empty_table_has_columns(kube: Client, space: Space) -> None:
    """rows is a list, so that kubectl says that nothing was found."""
    columns, rows = await table(kube, space.pods)
    assert rows == []
    assert columns[0][0] == "Name"


async def test_metadata_alone(kube: Client, space: Space) -> None:
    """PartialObjectMetadata of one object and PartialObjectMetadataList."""
    made = await kube.create(space.pods, pod("a"))
    one = (await kube.call("GET", f"{space.pods}/a", accept=PARTIAL)).ok(200)
    assert (one["kind"], one["apiVersion"], set(one)) == (
        "PartialObjectMetadata",
        "meta.k8s.io/v1",
        {"kind", "apiVersion", "metadata"},
    )
    assert one["metadata"] == made["metadata"]
    many = (await kube.call("GET", space.pods, accept=PARTIAL_LIST)).ok(200)
    assert many["kind"] == "PartialObjectMetadataList"
    assert [item["metadata"]["name"] for item in many["items"]] == ["a"]


@pytest.mark.parametrize("accept", ["as=Table;v=v9;g=meta.k8s.io", "as=Nothing;v=v1;g=meta.k8s.io"])
async def test_a_form_that_does_not_exist_is_not_acceptable(kube: Client, space: Space, accept: str) -> None:
    """406, unless plain JSON is accepted as well."""
    assert (await kube.call("GET", space.pods, accept=f"application/json;{accept}")).status == 406
    answer = await kube.call("GET", space.pods, accept=f"application/json;{accept},application/json")
    assert answer.ok(200)["kind"] == "PodList"


async def test_replica_sets_and_definitions_have_columns_of_their_own(kube: Client, space: Space) -> None:
    found = {**deployment("r"), "kind": "ReplicaSet"}
    await kube.create(space.of("apps/v1", "replicasets"), found)
    columns, rows = await table(kube, space.of("apps/v1", "replicasets"))
    shown = [name for name, priority in columns if not priority]
    assert shown == ["Name", "Desired", "Current", "Ready", "Age"]
    assert rows[0][:4] == ["r", 1, 0, 0]
    await kube.create(CRDS, crd(space.group))
    made = await kube.read(f"{CRDS}/widgets.{space.group}")
    columns, rows = await table(kube, f"{CRDS}/widgets.{space.group}")
    assert [name for name, _ in columns] == ["Name", "Created At"]
    assert rows[0][1] == made["metadata"]["creationTimestamp"]
