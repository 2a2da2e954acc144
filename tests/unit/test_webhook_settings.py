"""Settings that stand in patches: what is before the @ of an address is in what engines get, and in no event."""

import argparse
import base64
import json
from typing import Any

import msgspec

from eventstore import envelope, events
from subscribers.http import recording
from subscribers.kubernetes.client import Answer
from tests.support import reviews
from warmlog import flags, webhook

BACKEND = {
    "metadata": {"name": "kv", "namespace": "ml", "uid": "u", "resourceVersion": "7"},
    "spec": {
        "runtime": "VLLM",
        "engineSelector": {"matchLabels": {"serve": "qwen"}},
        "observation": {"modelID": "m"},
        "integration": {"engineOverrides": {"env": [{"name": "EXTRA", "value": "hunter3"}]}},
    },
}
GIVEN = {
    "WARMLOG_POLICY_SERVER_GRPC_ADDRESS": "nats://me:hunter2@nats:4222",
    "WARMLOG_KVEVENT_SUBSCRIBER_IMAGE": "registry/subscriber:1",
}


class Client:
    host = "cluster"

    async def request(self, *words: Any, **more: Any) -> Answer:
        return Answer(200, msgspec.json.encode({"metadata": {}, "items": [BACKEND]}))


async def test_a_password_in_a_setting_reaches_engines_and_no_event() -> None:
    values = flags.resolve(argparse.Namespace(), webhook.FLAGS, {**GIVEN, "WARMLOG_NATS": "nats://n:1"})
    role = webhook.Webhook(values, Client())  # type: ignore[arg-type]
    appended: list[envelope.Envelope] = []

    async def append(event: envelope.Envelope) -> None:
        appended.append(event)

    role.desk.recorder = recording.Recorder(append)
    body = msgspec.json.encode(reviews.of("pods", reviews.ENGINE, uid="r"))
    response = json.loads(await role.desk.answer("/mutate--v1-pod", body))["response"]
    patch = base64.b64decode(response["patch"]).decode()
    assert "--server=nats://me:hunter2@nats:4222" in patch
    assert "hunter3" in patch
    await role.desk.recorder.drain(1)
    (event,) = appended
    assert event.type == "io.warmlog.admission.decided.v1"
    decided = msgspec.json.decode(event.data, type=events.AdmissionDecided)
    assert decided.check == "injected"
    for text in (msgspec.json.encode(event).decode(), str(role.told)):
        assert "hunter" not in text
    assert "@nats:4222" in role.told["policy-server-grpc-address"]
    again = webhook.Webhook(values, Client())  # type: ignore[arg-type]
    assert again.told == role.told, "replicas say the same"
