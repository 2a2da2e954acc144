"""One write on its way: its options, what it warns of, and the steps that create, update and patch share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from devkube import managedfields, parameters, scale
from devkube.errors import About, Cause, StatusError, bad_request, invalid
from devkube.kinds import Object, Resource
from devkube.machinery import Machinery
from devkube.requests import Attributes, Request
from devkube.store import encode
from devkube.strategies import dedup_owners

_ATTEMPTS: Final = 5


@dataclass
class Write:
    """One request on its way."""

    m: Machinery
    request: Request
    options: parameters.Write
    kind: str  # CreateOptions, UpdateOptions, PatchOptions

    @property
    def warnings(self) -> list[str]:
        return self.request.warnings

    @property
    def resource(self) -> Resource:
        return self.request.resource

    def decoded(self, obj: Object, repeated: Sequence[str] = (), *, patch: bool = False) -> None:
        """Prune what the type does not know, in place, and say so as the client wants it said."""
        strict = self.options.validation == "Strict"
        try:
            told = self.resource.rules.decode(obj, validation="Warn" if strict else self.options.validation)
        except StatusError as error:
            if not patch:
                raise
            raise _misfit(obj, error.message.partition(f" cannot be handled as a {self.resource.kind}: ")[2]) from None
        if self.options.validation != "Ignore":
            told = [*repeated, *told]
        faults = [one for one in told if one.startswith(("unknown field", "duplicate field"))] if strict else []
        self.warnings.extend(one for one in told if one not in faults)
        if not faults:
            return
        why = f"strict decoding error: {', '.join(faults)}"
        if patch:
            raise _misfit(obj, why)
        kind, version = self.resource.kind, self.resource.version
        raise bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {why}')

    def track(self, new: Object, old: Object | None) -> None:
        managedfields.track_update(
            new,
            old,
            manager=self.options.manager,
            schema=self.resource.rules.schema,
            subresource=self.request.subresource,
            now=self.m.clock.timestamp(),
            group_version=self.resource.group_version,
        )

    def attributes(self, new: Object, old: Object | None) -> Attributes:
        request = self.request
        kind = "CreateOptions" if old is None else "UpdateOptions"
        scaled = request.subresource == "scale" and old is not None
        if scaled and old is not None:
            new, old = scale.of(new, self.resource), scale.of(old, self.resource)
        return Attributes(
            operation="CREATE" if old is None else "UPDATE",
            resource=self.resource,
            namespace=request.namespace,
            name=request.name or new["metadata"].get("name") or "",
            object=new,
            old=old,
            user=request.user,
            subresource=request.subresource,
            dry_run=self.options.dry_run,
            options=self.options.options(kind),
            kind=scale.KIND if scaled else None,
            warnings=self.warnings,
        )

    async def admitted(self, new: Object, old: Object | None) -> Object:
        """After mutating webhooks: another object when they changed it, decoded and defaulted again."""
        attributes = self.attributes(new, old)
        sent = attributes.object
        found = await self.m.admission.mutate(attributes)
        if attributes.kind is not None:
            if found is not sent:
                scale.write(new, found, self.resource)
            return new
        if found is not new:
            self.resource.rules.decode(found, validation="Ignore")
            self.resource.rules.default(found)
            dedup_owners(found, self.warnings, " after mutating admission happens")
        return found

    async def allowed(self, new: Object, old: Object | None) -> None:
        await self.m.admission.validate(self.attributes(new, old))

    def refuse(self, name: str, causes: Sequence[Cause]) -> None:
        if causes:
            raise invalid(self.resource.about(name), causes)


def _misfit(patched: Object, why: str) -> StatusError:
    """What a patch made is not of its type: the patch is at fault."""
    text = encode(patched).decode()
    return invalid(About("", "", ""), [Cause("FieldValueInvalid", f'Invalid value: "{text}": {why}', "patch")])
