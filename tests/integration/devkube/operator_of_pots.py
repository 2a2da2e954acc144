"""An operator as kopf's users write them: it fills Pots with ConfigMaps and empties them before they go."""

import kopf

GROUP = "pots.example.com"


@kopf.on.startup()
def quietly(settings: kopf.OperatorSettings, **_: object) -> None:
    settings.posting.level = 20
    settings.networking.connect_timeout = 5
    settings.peering.standalone = True
    settings.batching.worker_limit = 5


@kopf.on.create(GROUP, "v1", "pots")
async def fill(spec: kopf.Spec, name: str, namespace: str, patch: kopf.Patch, **_: object) -> dict[str, object]:
    from kubernetes_asyncio import client, config

    configuration = client.Configuration()
    await config.load_kube_config(client_configuration=configuration)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{name}-soup"}, "data": {"of": spec["soup"]}}
    kopf.adopt(body)
    async with client.ApiClient(configuration) as api:
        await client.CoreV1Api(api).create_namespaced_config_map(namespace, body)
    patch.status["phase"] = "Full"
    return {"soup": spec["soup"]}


@kopf.on.update(GROUP, "v1", "pots", field="spec.soup")
async def stir(old: str, new: str, patch: kopf.Patch, **_: object) -> None:
    patch.status["stirred"] = f"{old} to {new}"


@kopf.on.delete(GROUP, "v1", "pots")
async def empty(body: kopf.Body, name: str, **_: object) -> None:
    kopf.info(body, reason="Emptied", message=f"{name} is empty")


@kopf.on.event("v1", "configmaps", labels={"taste": kopf.PRESENT})
async def taste(event: kopf.RawEvent, **_: object) -> None:
    print(f"tasted {event['type']} {event['object']['metadata']['name']}", flush=True)
