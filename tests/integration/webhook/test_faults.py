"""Whatever is away, Pods start: un-wired where it must be, with the reason as a warning to their author."""

from tests.support.webhookhouse import BACKENDS, PODS, SPACE, WebhookHouse, backend, client, engine

BY = "inferencecache.io/injected-by"


async def test_a_killed_webhook(house: WebhookHouse) -> None:
    """Pods are admitted as they come, custom resources are not; the next one wires again."""
    await house.ready()
    await house.api.request("POST", BACKENDS, backend("kv"))
    async with client(house) as kube:
        assert (await kube.create(PODS, engine("kv")))["metadata"]["annotations"][BY] == f"{SPACE}/kv"
        await house.webhooks["one"][0].kill()
        assert "annotations" not in (await kube.create(PODS, engine("kv")))["metadata"]
        refused = (await kube.post(BACKENDS, backend("other"))).refused(500)
        assert 'failed calling webhook "mcachebackend.inferencecache.io"' in refused["message"]
        await house.webhook("two")
        assert (await kube.create(PODS, engine("kv")))["metadata"]["annotations"][BY] == f"{SPACE}/kv"
        (await kube.post(BACKENDS, backend("other"))).ok(201)
    assert house.refused == []


async def test_nats_killed(house: WebhookHouse) -> None:
    """Reviews are answered from live reads; their decisions wait, with what was read, and are told afterwards."""
    await house.ready()
    await house.api.request("POST", BACKENDS, backend("kv"))
    await house.api.request("POST", PODS, engine("kv"))
    before = len(await house.decided(2))
    await house.nats.kill()
    for _ in range(3):
        pod = await house.api.request("POST", PODS, engine("kv"))
        assert pod["metadata"]["annotations"][BY] == f"{SPACE}/kv"
    await house.nats.start()
    assert len(await house.decided(before + 3)) == before + 3
    assert house.refused == []


async def test_a_webhook_that_starts_without_nats(house: WebhookHouse) -> None:
    """It never saw the log, and answers all the same."""
    await house.ready()
    await house.api.request("POST", BACKENDS, backend("kv"))
    await house.nats.kill()
    await house.webhooks["one"][0].kill()
    await house.webhook("two")
    pod = await house.api.request("POST", PODS, engine("kv"))
    assert pod["metadata"]["annotations"][BY] == f"{SPACE}/kv"
    await house.nats.start()
    told = [one for one in await house.decided(3) if one.kind == "pods"]
    assert [(one.position, one.check) for one in told] == [(":0", "injected")]
    assert list(told[0].live) == ["cachebackends.inferencecache.io/ml/*", "cachebackends.inferencecache.io/ml/kv"]


async def test_the_api_is_away_for_live_reads(house: WebhookHouse) -> None:
    """Nobody watches, and the webhook cannot read either: the Pod starts as it came and its author is told why."""
    await house.ready()
    await house.api.request("POST", BACKENDS, backend("kv"))
    await house.controllers["one"].kill()
    await house.reads.down()
    async with client(house) as kube:

        async def warned() -> list[str]:
            answer = await kube.post(PODS, engine("kv"))
            answer.ok(201)
            return [one for one in answer.warnings if one.startswith("admitted as it came")]

        (warning,) = await house.until(warned, "a warning")
        assert warning.startswith("admitted as it came, mpod.inferencecache.io could not decide: ")
        assert "cachebackends.inferencecache.io in namespace ml cannot be read" in warning
        await house.reads.up()

        async def wired() -> bool:
            pod = await kube.create(PODS, engine("kv"))
            return BY in pod["metadata"].get("annotations", {})

        await house.until(wired, "wired again, by live reads")
    told = [one for one in await house.decided(3) if one.check == "failed-open"]
    assert told[0].warnings[0].startswith(warning)  # what travels is cut at 240 characters


async def test_a_frozen_api_costs_a_pod_less_than_its_timeout(house: WebhookHouse) -> None:
    """It takes connections and never answers: 300 ms, then the Pod goes on."""
    await house.ready()
    await house.api.request("POST", BACKENDS, backend("kv"))
    await house.controllers["one"].kill()
    house.reads.freeze()
    async with client(house) as kube:

        async def warned() -> list[str]:
            answer = await kube.post(PODS, engine("kv"))
            answer.ok(201)
            return [one for one in answer.warnings if one.startswith("admitted as it came")]

        (warning,) = await house.until(warned, "a warning")
        assert "cannot be read" in warning
