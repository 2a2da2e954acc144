"""All webhooks of one request: the mutating ones one after the other, then the validating ones at once.

    chain = Chain(objects, catalog, Caller(services))
    object = await chain.mutate(attributes)        # StatusError when denied, or when a call fails under policy Fail
    await chain.validate(attributes)

Upstream's `mutating/dispatcher.go`, `validating/dispatcher.go` and `admission/reinvocation.go`: a changed object
brings a second round for those called before that ask for it (IfNeeded), and never a third. Warnings and audit
annotations are left in the attributes; the last annotated requests are in `audited`, because there is no audit log.
"""

import asyncio
import logging
import uuid
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from devkube import patches
from devkube.access.objects import Objects
from devkube.admission import matching, review
from devkube.admission.call import Caller, CallFailed
from devkube.admission.matching import Hook, Invocation
from devkube.errors import StatusError, bad_request, internal
from devkube.kinds import Catalog, Object
from devkube.requests import Attributes
from devkube.values import go_type

log = logging.getLogger("devkube.admission")
_AUDITED = 256
_MUTATED, _PATCH = "mutation.webhook.admission.k8s.io/", "patch.webhook.admission.k8s.io/"
_FAILED = {
    matching.MUTATING: f"failed-open.{_MUTATED}",
    matching.VALIDATING: "failed-open.validating.webhook.admission.k8s.io/",
}


@dataclass(frozen=True)
class Audited:
    """What webhooks noted about one request."""

    operation: str
    resource: str
    namespace: str
    name: str
    annotations: Mapping[str, str]


@dataclass
class Reinvocation:
    """Which hooks are due for a second round: called before another changed the object, and asking for it."""

    called: set[str] = field(default_factory=set)  # IfNeeded, and nothing changed since
    due: set[str] = field(default_factory=set)
    changed: bool = False

    def note(self, hook: Hook, *, changed: bool) -> None:
        if changed:
            self.due |= self.called
            self.called, self.changed = set(), True
        if hook.reinvoked:
            self.called.add(hook.uid)


class Chain:
    def __init__(self, objects: Objects, catalog: Catalog, caller: Caller) -> None:
        self._objects, self._catalog, self._caller = objects, catalog, caller
        self._hooks: dict[str, tuple[int, tuple[Hook, ...]]] = {}
        self.audited: deque[Audited] = deque(maxlen=_AUDITED)

    async def close(self) -> None:
        await self._caller.close()

    async def mutate(self, attributes: Attributes) -> Object:
        """The object after all of them; `attributes.object` is it as well."""
        found = () if matching.exempt(attributes) else self._configured(matching.MUTATING)
        again = Reinvocation()
        try:
            for turn in (0, 1) if found else ():
                for index, hook in enumerate(found):
                    called = self._concerned(hook, attributes)
                    if called is not None and (not turn or hook.uid in again.due):
                        again.note(hook, changed=await self._mutated(called, attributes, f"round_{turn}_index_{index}"))
                if not again.changed:
                    break
        finally:
            self._keep(attributes)
        return attributes.object or {}

    async def validate(self, attributes: Attributes) -> None:
        if matching.exempt(attributes):
            return
        found = [self._concerned(hook, attributes) for hook in self._configured(matching.VALIDATING)]
        concerned = [one for one in found if one is not None]
        if not concerned:
            return
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._validated(one, attributes, f"round_0_index_{index}"))
                    for index, one in enumerate(concerned)
                ]
        finally:
            self._keep(attributes)
        for task in tasks:
            if (error := task.result()) is not None:
                raise error

    def _configured(self, key: str) -> tuple[Hook, ...]:
        version = self._objects.version_of(key)
        found = self._hooks.get(key)
        if found is None or found[0] != version:
            found = self._hooks[key] = (version, matching.hooks(self._objects.list(key)))
        return found[1]

    def _concerned(self, hook: Hook, attributes: Attributes) -> Invocation | None:
        others = matching.equivalents(attributes.resource, attributes.subresource, self._catalog)
        return matching.invocation(hook, attributes, others, self._labels_of)

    def _labels_of(self, namespace: str) -> Mapping[str, str] | None:
        found = self._objects.get("namespaces", "", namespace)
        return None if found is None else found["metadata"].get("labels") or {}

    async def _mutated(self, called: Invocation, attributes: Attributes, place: str) -> bool:
        """Whether the hook changed the object, which is then in `attributes`."""
        changed = False
        try:
            response = await self._ask(called, attributes, mutating=True)
            if response.patch:
                changed = self._patched(called, attributes, response, place)
        except CallFailed as failed:
            self._fail(called.hook, failed, attributes, _FAILED[matching.MUTATING] + place)
        finally:
            _annotate(attributes, _MUTATED + place, {**_names(called.hook), "mutated": changed})
        return changed

    async def _validated(self, called: Invocation, attributes: Attributes, place: str) -> StatusError | None:
        try:
            await self._ask(called, attributes, mutating=False)
        except CallFailed as failed:
            try:
                self._fail(called.hook, failed, attributes, _FAILED[matching.VALIDATING] + place)
            except StatusError as error:
                return error
        except StatusError as error:
            return error
        return None

    def _fail(self, hook: Hook, failed: CallFailed, attributes: Attributes, note: str) -> None:
        told = f'failed calling webhook "{hook.name}": {failed}'
        if hook.failures == "Fail":
            raise internal(told) from failed
        log.warning("%s; failurePolicy is Ignore", told)
        attributes.audit.setdefault(note, hook.name)

    async def _ask(self, called: Invocation, attributes: Attributes, *, mutating: bool) -> review.Response:
        """CallFailed, or the StatusError of a denial."""
        hook = called.hook
        if attributes.dry_run and hook.side_effects not in ("None", "NoneOnDryRun"):
            raise bad_request(f'admission webhook "{hook.name}" does not support dry run')
        version = next((one for one in hook.review_versions if one in review.VERSIONS), None)
        if version is None:
            told = "webhook does not accept known AdmissionReview versions (v1)"
            raise CallFailed(f"could not create admission objects: {told}")
        uid = str(uuid.uuid4())
        body = msgspec.json.encode(review.request(uid, version, attributes, called.resource))
        raw = await self._caller.post(hook.client, body, hook.timeout)
        try:
            response = review.verify(raw, uid, version, mutating=mutating)
        except review.Undecodable as other:
            raise CallFailed(f"failed to call webhook: {other}") from None
        except review.Invalid as invalid:
            raise CallFailed(f"received invalid webhook response: {invalid}") from None
        for key, value in response.annotations.items():
            attributes.audit.setdefault(f"{hook.name}/{key}", value)
        attributes.warnings.extend(response.warnings)
        if not response.allowed:
            raise review.denial(hook.name, response.status)
        return response

    def _patched(self, called: Invocation, attributes: Attributes, response: review.Response, place: str) -> bool:
        """Apply a JSON Patch strictly: what does not apply fails the request, whatever failurePolicy says."""
        hook, resource = called.hook, called.resource
        operations = _operations(response.patch)
        if not operations:
            return False
        if attributes.object is None:
            told = "attempted to modify the object, which is not supported for this operation"
            raise internal(f'admission webhook "{hook.name}" {told}')
        if response.patch_type != "JSONPatch":
            raise CallFailed(f'unsupported patch type "{response.patch_type}"')
        before = review.as_version(attributes.object, attributes, resource) or {}
        try:
            after = patches.json_patch(before, operations)
            for key in ("apiVersion", "kind"):  # absent they are what they were
                if after.setdefault(key, before.get(key)) != before.get(key):
                    raise internal(f'admission webhook "{hook.name}" changed {key}')
            if not isinstance(after.setdefault("metadata", {}), dict):
                raise internal(f'admission webhook "{hook.name}" made metadata something else than an object')
            if attributes.kind is None:
                resource.rules.decode(after, validation="Ignore")
            changed = after != before
            if attributes.kind is None:
                resource.rules.default(after)
        except StatusError as error:
            if error.code == 500:
                raise
            told = error.message.removeprefix(f"{patches.REJECTED}: ")
            raise internal(told.rpartition(f" cannot be handled as a {resource.kind}: ")[2]) from error
        _annotate(attributes, _PATCH + place, {**_names(hook), "patch": operations, "patchType": "JSONPatch"})
        attributes.object = {**after, "apiVersion": attributes.object["apiVersion"]}
        return changed

    def _keep(self, attributes: Attributes) -> None:
        if attributes.audit:
            resource, name, namespace = attributes.resource.key, attributes.name, attributes.namespace
            kept = Audited(attributes.operation, resource, namespace, name, attributes.audit)
            if not self.audited or self.audited[-1].annotations is not attributes.audit:
                self.audited.append(kept)


def _operations(patch: bytes) -> list[Object]:
    told = "received undecodable patch in webhook response"
    try:
        found = msgspec.json.decode(patch)
    except msgspec.MsgspecError as error:
        raise CallFailed(f"{told}: {error}") from None
    if not isinstance(found, list):
        kind = go_type(found)
        raise CallFailed(f"{told}: json: cannot unmarshal {kind} into Go value of type jsonpatch.Patch")
    if wrong := [go_type(one) for one in found if not isinstance(one, dict)]:
        raise CallFailed(f"{told}: json: cannot unmarshal {wrong[0]} into Go value of type jsonpatch.Operation")
    return found


def _names(hook: Hook) -> Object:
    return {"configuration": hook.configuration, "webhook": hook.name}


def _annotate(attributes: Attributes, key: str, value: Object) -> None:
    attributes.audit.setdefault(key, msgspec.json.encode(value).decode())
