"""One Pod joins a pool: a chain of checks, then the edit, all or nothing. The first check that fails refuses; by then
nothing has changed.

Changed are environment, arguments and mounts of the target container, the Pod's volumes, and two annotations. An
author's variable of our name is overwritten in place, one entry per name; the two metrics toggles are the author's.

Rules: seed 003; spec/worker-gpustack.md section 2 ("Resolution order") and section 3.3.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from handlers.admission import flags, patches, podedit
from handlers.admission.decision import Decision, allowed
from handlers.kvcachepool import advisory, contract, launches, names, owned, record, resolve, shapes, transport
from handlers.kvcachepool.engines import ENGINES
from handlers.kvcachepool.engines.base import Engine, Rendered, Store, literal
from handlers.kvcachepool.refusal import Refused
from handlers.outcome import Object
from handlers.world.reader import Reader


class Settings(NamedTuple):
    """What an operator decides. `dtype_owned` is the setting model-deployment-kv-cache-dtype-owned; `backend_image` is
    what a KVCacheBackend without an image runs, "" for none."""

    dtype_owned: bool = True
    backend_image: str = "gpustack/mirrored-mooncake:0.3.13.post1-cpu"


def decide(view: Object, namespace: str, world: Reader, settings: Settings) -> Decision:
    """The answer for a Pod that is being created in `namespace`."""
    metadata = view.get("metadata")
    if not isinstance(metadata, dict) or not contract.opted_in(metadata.get("labels")):
        return allowed("not-opted-in")
    try:
        shapes.check(view)
        after, warnings = _injected(view, metadata.get("annotations") or {}, namespace, world, settings)
    except Refused as refused:
        return refused.decision()
    patch = tuple(patches.diff(view, after))
    return Decision(verdict="patched", check="injected", warnings=tuple(warnings), patch=patch)


def _injected(
    view: Object, annotations: Object, namespace: str, world: Reader, settings: Settings
) -> tuple[Object, list[str]]:
    asked = contract.read(annotations)
    engine = ENGINES[asked.engine]
    found = resolve.resolve(asked.binding, namespace, world)
    protocol = transport.chosen(engine, found.backend, names.annotation(names.BINDING))
    if settings.dtype_owned and not found.dtype:
        detail = f"KVCachePoolBinding {asked.binding} has no spec.domain.dtype: recreate it with one"
        raise Refused("dtype", names.annotation(names.BINDING), detail)
    dtype = found.dtype if settings.dtype_owned else None
    rendered = engine.render(Store(found.endpoint, protocol, found.tenant, dtype, asked.role))
    number = target(view, asked.container)
    container, at = view["spec"]["containers"][number], f"spec.containers[{number}]"
    owned.check(engine, view, container, at, dtype=dtype is not None)
    started = launches.check(engine, container, asked.forwarded, at)
    said = record.Record(
        binding=asked.binding,
        engine=engine.name,
        vehicle="file" if engine.file else "environment",
        domain=found.domain,
        tenant_injected=found.tenant is not None,
        launch_program=started.program,
        launch_args_forwarded=started.forwarded,
    )
    warnings = advisory.warnings(engine, container, protocol, dtype, found.tenant)
    return edited(view, number, engine, rendered, said), warnings


def target(view: Object, name: str) -> int:
    """The place of the container that is injected into. R10, R11: the first is never simply picked."""
    spec = view.get("spec") or {}
    given = [str(one.get("name", "")) for one in spec.get("containers") or ()]
    at = names.annotation(names.CONTAINER)
    if name in given and name:
        return given.index(name)
    listed = ", ".join(given) or "none"
    if not given:
        raise Refused("container-none", "spec.containers", "the Pod has no containers: there is nothing to inject into")
    if not name and names.CONTAINER in ((view.get("metadata") or {}).get("annotations") or {}):
        raise Refused("container-unknown", at, f'{names.CONTAINER} "" names no container: one of {listed}')
    if not name and len(given) > 1:
        detail = f"the Pod has {len(given)} containers ({listed}): name the engine's in {names.CONTAINER}"
        raise Refused("container-unnamed", at, detail, "Required")
    if not name:
        return 0
    if any(one.get("name") == name for one in spec.get("initContainers") or ()):
        detail = f"{names.CONTAINER} {name} is an init container and would cache nothing: name one of {listed}"
        raise Refused("container-init", at, detail)
    raise Refused(
        "container-unknown", at, f'{names.CONTAINER} "{name}" is no container of the Pod: name one of {listed}'
    )


def edited(view: Object, number: int, engine: Engine, rendered: Rendered, said: record.Record) -> Object:
    """A copy of the Pod with everything in it."""
    after = podedit.editable(view)
    container = after["spec"]["containers"][number]
    for entry in rendered.env:
        set_entry(container, entry)
    for toggle in names.TOGGLES:
        if not any(name == toggle for _, name, _ in owned.named(container.get("env"))):
            set_entry(container, literal(toggle, "1"))
    add_args(container, engine, rendered)
    if rendered.config is not None:
        add_file(after, container)
        podedit.annotate(after, names.CLIENT_CONFIG, msgspec.json.encode(rendered.config).decode())
    podedit.annotate(after, names.INJECTED, record.written(said))
    return after


def set_entry(container: Object, entry: Object) -> None:
    """In place of the first of its name, all others of that name away; else at the end."""
    items = [*(container.get("env") or ())]
    places = [number for number, name, _ in owned.named(items) if name == entry["name"]]
    if not places:
        container["env"] = [*items, dict(entry)]
        return
    items[places[0]] = dict(entry)
    container["env"] = [one for number, one in enumerate(items) if number not in places[1:]]


def add_args(container: Object, engine: Engine, rendered: Rendered) -> None:
    """The author's first, then ours, then the switches that the author did not name."""
    container["args"] = [
        *(container.get("args") or ()), *rendered.args, *defaulted(owned.words(container), engine, rendered)
    ]  # fmt: skip


def defaulted(words: Sequence[str], engine: Engine, rendered: Rendered) -> list[str]:
    groups = [group for group in rendered.defaulted if not flags.hits(words, group[:1], engine.dialect, engine.keys)]
    return [word for group in groups for word in group]


def add_file(pod: Object, container: Object) -> None:
    """The Pod's own annotation as a file: it lives exactly as long as the Pod."""
    path = f"metadata.annotations['{names.CLIENT_CONFIG}']"
    item = {"path": names.FILE, "fieldRef": {"fieldPath": path}}
    volume = {"name": names.VOLUME, "downwardAPI": {"items": [item]}}
    mount = {"name": names.VOLUME, "mountPath": names.DIRECTORY, "readOnly": True}
    pod["spec"]["volumes"] = [*(pod["spec"].get("volumes") or ()), volume]
    container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]
