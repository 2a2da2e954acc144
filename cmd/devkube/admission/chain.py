"""All webhooks of one request: the mutating ones one after the other, then the validating ones at once.

    chain = Chain(store, catalog, Caller(services))
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

import msgspec

from devkube import patches, strategies
from devkube.admission import matching, review
from devkube.admission.call import Caller, CallFailed
from devkube.admission.matching import Hook
from devkube.errors import StatusError, bad_request, internal
from devkube.kinds import Catalog, Object, Resource
from devkube.requests import Admission, Attributes
from devkube.store import Store, load

log = logging.getLogger("devkube.admission")
_AUDITED = 256


class Chain(Admission):
    def __init__(self, store: Store, catalog: Catalog, caller: Caller) -> None:
        self._store, self._catalog, self._caller = store, catalog, caller
        self.audited: deque[Attributes] = deque(maxlen=_AUDITED)  # whose `audit` webhooks filled

    async def close(self) -> None:
        await self._caller.close()

    async def mutate(self, attributes: Attributes) -> Object:
        """The object after all of them; `attributes.object` is it as well."""
        hooks = self._hooks(matching.MUTATING, attributes)
        called, due, changed = set[int](), set[int](), False  # by their places; `called`: and nothing changed since
        for turn in (0, 1):
            for at, hook in enumerate(hooks):
                if turn and at not in due:
                    continue
                resource = self._told_as(hook, attributes)
                if resource is None:
                    continue
                if await self._ask(hook, resource, attributes, mutating=True):
                    due, called, changed = due | called, set(), True
                if hook["reinvocationPolicy"] == "IfNeeded":
                    called.add(at)
            if not changed:
                break
        return attributes.object or {}

    async def validate(self, attributes: Attributes) -> None:
        hooks = self._hooks(matching.VALIDATING, attributes)
        found = [(hook, self._told_as(hook, attributes)) for hook in hooks]
        calls = [self._ask(hook, resource, attributes, mutating=False) for hook, resource in found if resource]
        for told in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(told, BaseException):
                raise told

    def _hooks(self, key: str, attributes: Attributes) -> list[Hook]:
        return [] if matching.exempt(attributes) else matching.hooks(map(load, self._store.select(key)))

    def _told_as(self, hook: Hook, attributes: Attributes) -> Resource | None:
        return matching.told_as(hook, attributes, self._catalog, self._labels_of)

    def _labels_of(self, namespace: str) -> Mapping[str, str]:
        found = self._store.get("namespaces", "", namespace)
        return found.labels if found else {}  # it ended while a webhook was asked

    async def _ask(self, hook: Hook, resource: Resource, attributes: Attributes, *, mutating: bool) -> bool:
        """Whether the hook changed the object, which is then in `attributes`. StatusError for a denial, and for a call
        that failed under policy Fail."""
        try:
            response = await self._answer(hook, resource, attributes, mutating=mutating)
            return bool(response.patch) and _patched(hook, resource, attributes, response)
        except CallFailed as failed:
            told = f'failed calling webhook "{hook["name"]}": {failed}'
            if hook["failurePolicy"] == "Fail":
                raise internal(told) from failed
            log.warning("%s; failurePolicy is Ignore", told)
            return False

    async def _answer(
        self, hook: Hook, resource: Resource, attributes: Attributes, *, mutating: bool
    ) -> review.Response:
        name = hook["name"]
        uid = str(uuid.uuid4())
        body = msgspec.json.encode(review.request(uid, attributes, resource))
        raw = await self._caller.post(hook["clientConfig"], body, hook["timeoutSeconds"])
        response = review.verify(raw, uid, mutating=mutating)
        attributes.warnings.extend(filter(None, response.warnings or ()))
        for key, value in (response.audit_annotations or {}).items():
            attributes.audit.setdefault(f"{name}/{key}", value or "")
        if attributes.audit and all(one.audit is not attributes.audit for one in self.audited):  # of another request
            self.audited.append(attributes)
        if not response.allowed:
            raise review.denial(name, response.status)
        return response


def _patched(hook: Hook, resource: Resource, attributes: Attributes, response: review.Response) -> bool:
    """Apply a JSON Patch strictly: what does not apply fails the request, whatever failurePolicy says."""
    operations = response.operations()
    if not operations:
        return False
    if response.patch_type != "JSONPatch":
        raise CallFailed(f'unsupported patch type "{response.patch_type}"')
    if attributes.object is None:
        told = "attempted to modify the object, which is not supported for this operation"
        raise internal(f'admission webhook "{hook["name"]}" {told}')
    before = review.as_version(attributes.object, attributes, resource) or {}
    try:
        after = patches.json_patch(before, operations)
        for key in ("apiVersion", "kind"):  # absent they are what they were
            if after.get(key) not in (None, before.get(key)):
                raise bad_request(f'admission webhook "{hook["name"]}" changed {key}')
            after[key] = before.get(key)
        strategies.metadata(after)
        if attributes.kind is None:
            resource.rules.decode(after, validation="Ignore")
        changed = after != before
        if attributes.kind is None:
            resource.rules.default(after)
    except StatusError as error:
        raise internal(error.message) from error
    attributes.object = {**after, "apiVersion": attributes.object["apiVersion"]}
    return changed
