"""10,000 Pods watched: our watch against kubernetes_asyncio's typed client, over the same HTTP, on the same bytes.

A process of its own serves the stream; CPU is this process's. Pods are as a cluster has them, 9 KB each.
"""

import asyncio
import gc
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

from crds import core
from subscribers.kubernetes.client import Client
from subscribers.kubernetes.lines import Lines
from subscribers.kubernetes.machine import Machine, Seen
from tests.bench.row import Row

PODS = 10_000
TYPED = 1_000  # of them by the typed client: its CPU is linear in them
BAR = 15.0

SERVER = """
import asyncio, sys
async def main():
    data = open(sys.argv[1], "rb").read()
    async def serve(reader, writer):
        head = await reader.readuntil(b"\\r\\n\\r\\n")
        count = int(head.split(b"labelSelector=n%3D")[1].split(b" ")[0].split(b"&")[0])
        writer.write(b"HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n")
        end = 0
        for _ in range(count):
            end = data.index(b"\\n", end) + 1
        for start in range(0, end, 65536):
            piece = data[start:min(start + 65536, end)]
            writer.write(b"%x\\r\\n" % len(piece) + piece + b"\\r\\n")
            await writer.drain()
        writer.write(b"0\\r\\n\\r\\n")
        await writer.drain()
        writer.close()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


def pod(number: int) -> dict[str, Any]:
    """As kubectl get -o json shows one: managed fields, probes, volumes, conditions, container statuses."""
    env = [{"name": f"SETTING_{n}", "value": f"value-{number}-{n}"} for n in range(24)]
    probe = {"httpGet": {"path": "/health", "port": 8000, "scheme": "HTTP"}, "periodSeconds": 10, "failureThreshold": 3}
    container = {
        "name": "engine", "image": "vllm/vllm-openai:v0.11.0", "args": [f"--flag-{n}=value" for n in range(16)],
        "env": env, "ports": [{"containerPort": 8000, "name": "http", "protocol": "TCP"}],
        "resources": {"limits": {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "1"}, "requests": {"cpu": "4"}},
        "livenessProbe": probe, "readinessProbe": probe, "startupProbe": probe,
        "volumeMounts": [{"name": f"v{n}", "mountPath": f"/mnt/v{n}", "readOnly": True} for n in range(8)],
    }  # fmt: skip
    fields: dict[str, Any] = {f'k:{{"name":"SETTING_{n}"}}': {".": {}, "f:name": {}, "f:value": {}} for n in range(24)}
    owned = {"f:spec": {"f:containers": {'k:{"name":"engine"}': {"f:env": fields}}}}
    managed = [
        {"manager": name, "operation": "Update", "apiVersion": "v1", "time": "2026-11-29T10:00:00Z",
         "fieldsType": "FieldsV1", "fieldsV1": owned}
        for name in ("kube-controller-manager", "kubelet")
    ]  # fmt: skip
    started = "2026-11-29T10:00:00Z"
    conditions = [
        {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": started}
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": f"engine-{number}", "namespace": f"team-{number % 50}", "uid": f"0000-{number}",
            "resourceVersion": str(number + 1), "creationTimestamp": started, "generateName": "engine-",
            "labels": {"app": "engine", "serve": f"m{number % 20}", "pod-template-hash": "5d4f7c9b8"},
            "annotations": {"kubectl.kubernetes.io/restartedAt": started, "prometheus.io/scrape": "true"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "engine-5d4f7c9b8", "uid": "rs",
                                 "controller": True, "blockOwnerDeletion": True}],
            "managedFields": managed,
        },
        "spec": {
            "containers": [container], "nodeName": f"node-{number % 100}", "restartPolicy": "Always",
            "volumes": [{"name": f"v{n}", "configMap": {"name": f"cm-{n}", "defaultMode": 420}} for n in range(8)],
            "tolerations": [{"key": f"t{n}", "operator": "Exists", "effect": "NoExecute"} for n in range(4)],
            "serviceAccountName": "engine", "schedulerName": "default-scheduler", "dnsPolicy": "ClusterFirst",
        },
        "status": {
            "phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}], "hostIP": "10.1.0.1",
            "startTime": started, "qosClass": "Burstable", "conditions": conditions,
            "containerStatuses": [{"name": "engine", "ready": True, "restartCount": 0, "started": True, "lastState": {},
                                   "image": "vllm/vllm-openai:v0.11.0", "imageID": "sha256:" + "0" * 64,
                                   "containerID": "containerd://" + "1" * 64,
                                   "state": {"running": {"startedAt": started}}}],
        },
    }  # fmt: skip


async def ours(config: Path, count: int) -> float:
    machine, seen = Machine(core.PODS), 0
    async with await Client.open(kubeconfig=str(config)) as client:
        gc.collect()
        began = time.process_time()
        lines = Lines()
        query = {"watch": "true", "labelSelector": f"n={count}"}
        async with client.stream("/api/v1/pods", query=query, silence=60.0, total=600.0) as response:
            async for chunk in response.content.iter_any():
                for line in lines.feed(chunk):
                    fact, _ = machine.line(line)
                    seen += isinstance(fact, Seen)
        used = time.process_time() - began
    assert seen == count, (seen, count)
    return used


async def typed(config: Path, count: int) -> float:
    from kubernetes_asyncio import client, watch
    from kubernetes_asyncio.config import load_kube_config

    settings = client.Configuration()
    await load_kube_config(str(config), client_configuration=settings)
    seen = 0
    async with client.ApiClient(settings) as connection:
        api, stream = client.CoreV1Api(connection), watch.Watch()
        gc.collect()
        began = time.process_time()
        async for event in stream.stream(api.list_pod_for_all_namespaces, label_selector=f"n={count}"):
            seen += event["object"].metadata.name.startswith("engine-")
            if seen == count:
                stream.stop()
        used = time.process_time() - began
        await stream.close()
    return used


async def rows() -> list[Row]:
    with tempfile.TemporaryDirectory() as directory:
        stream, config = Path(directory) / "stream", Path(directory) / "config"
        lines = [json.dumps({"type": "ADDED", "object": pod(n)}, separators=(",", ":")) for n in range(PODS)]
        stream.write_text("\n".join(lines) + "\n")
        server = await asyncio.create_subprocess_exec(
            sys.executable, "-c", SERVER, str(stream), stdout=asyncio.subprocess.PIPE
        )
        try:
            assert server.stdout is not None
            port = int(await server.stdout.readline())
            config.write_text(yaml.safe_dump(_config(port)))
            await ours(config, 100), await typed(config, 10)  # imports and caches
            pairs = [(await ours(config, PODS), await typed(config, TYPED) * PODS / TYPED) for _ in range(3)]
        finally:
            server.kill()
            await server.wait()
    mine, theirs = sorted(one for one, _ in pairs)[1], sorted(one for _, one in pairs)[1]
    size = sum(map(len, lines)) / PODS
    return [
        Row("a watched Pod, bytes", size, "B"),
        Row("CPU to watch 10,000 Pods: ours", mine, "s"),
        Row("CPU to watch 10,000 Pods: kubernetes_asyncio, typed", theirs, "s"),
        Row("times less CPU than the typed client", theirs / mine, "times", BAR, theirs / mine >= BAR),
    ]


def _config(port: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "x", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "x", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "current-context": "x",
    }
