"""Parts of object metadata that handlers read, and the standard condition."""

from typing import Annotated

import msgspec

from crds.schema import Is


class OwnerReference(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool = False


class Metadata(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[OwnerReference] = []
    finalizers: list[str] = []
    deletion_timestamp: str = ""
    creation_timestamp: str = ""
    generate_name: str = ""

    @property
    def controller(self) -> OwnerReference | None:
        return next((one for one in self.owner_references if one.controller), None)


class Condition(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """metav1.Condition."""

    type: Annotated[str, Is(required=True)] = ""
    status: Annotated[str, Is(enum=("True", "False", "Unknown"), required=True)] = ""
    reason: Annotated[str, Is(required=True)] = ""
    message: Annotated[str, Is(required=True)] = ""
    last_transition_time: Annotated[str, Is(required=True, format="date-time")] = ""
    observed_generation: Annotated[int | None, Is(format="int64")] = None
