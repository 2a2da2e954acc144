"""The description of our messages against AsyncAPI's own schema, and our examples against the description."""

import copy
from typing import Any

import jsonschema
import pytest
import referencing
from referencing import jsonschema as dialects

from eventstore import asyncapi
from tests.support import asyncapischema

DOCUMENT: dict[str, Any] = asyncapi.document()


@pytest.fixture(scope="module")
def official() -> jsonschema.Draft7Validator:
    return jsonschema.Draft7Validator(asyncapischema.require(DOCUMENT["asyncapi"]))


def test_asyncapi_s_own_schema_accepts_the_document(official: jsonschema.Draft7Validator) -> None:
    problems = [
        f"{'/'.join(map(str, error.absolute_path))}: {error.message[:300]}" for error in official.iter_errors(DOCUMENT)
    ]
    assert problems == []


BREAKAGES = {
    "an action of another name": lambda document: document["operations"]["giveOrder"].update(action="publish"),
    "a channel without an address": lambda document: document["channels"]["kv"].update(address=7),
    "a binding that NATS does not have": lambda document: document["operations"]["answerLookup"]["bindings"][
        "nats"
    ].update(group="lookup"),
    "a message without a name of its type": lambda document: document["components"]["messages"]["control"].update(
        name=1
    ),
    "a schema of an unknown type": lambda document: document["components"]["schemas"]["Envelope"].update(type="thing"),
    "no title": lambda document: document["info"].pop("title"),
}


@pytest.mark.parametrize("breakage", BREAKAGES.values(), ids=BREAKAGES)
def test_it_would_refuse_a_broken_one(official: jsonschema.Draft7Validator, breakage: Any) -> None:
    broken = copy.deepcopy(DOCUMENT)
    breakage(broken)
    assert not official.is_valid(broken)


@pytest.mark.parametrize("name", DOCUMENT["components"]["messages"])
def test_a_message_s_example_is_what_its_payload_describes(name: str) -> None:
    message = DOCUMENT["components"]["messages"][name]
    registry = referencing.Registry().with_resource(
        "urn:warmlog", referencing.Resource(DOCUMENT, specification=dialects.DRAFT7)
    )
    validator = jsonschema.Draft7Validator(
        {"$ref": f"urn:warmlog#/components/messages/{name}/payload"}, registry=registry
    )
    payload = message["examples"][0]["payload"]
    validator.validate(payload)
    if message["payload"] != {"type": "object"}:
        broken = [*payload[:1]] if isinstance(payload, list) else {}
        assert not validator.is_valid(broken)
