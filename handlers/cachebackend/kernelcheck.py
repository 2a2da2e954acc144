"""An init container that asks, before the engine starts, whether LMCache's compiled kernels load on this image.

A mismatch of CUDA versions makes LMCache fall back to a slow path with a line in a log; this makes it visible. It never
blocks an engine unless the operator asked for `strict`.

Rules: seed 004, "LMCache client kernels"; spec/inferencecache.md section 6.6.
"""

from typing import Final

from crds.cachebackend import CacheBackend
from handlers import quantity
from handlers.admission import podedit
from handlers.cachebackend import converge, names
from handlers.outcome import Object

STRICT: Final = "KERNEL_CHECK_STRICT"
GPU: Final = "nvidia.com/gpu"

#: Loads the shared object itself: importing the module would meet LMCache's own fallback.
SCRIPT: Final = """\
import ctypes, glob, importlib.util, os, sys
def report(text):
    print(text, flush=True)
    try:
        with open("/dev/termination-log", "w") as log: log.write(text[:2000])
    except OSError: pass
try:
    spec = importlib.util.find_spec("lmcache")
    if spec is None or not spec.submodule_search_locations: raise RuntimeError("lmcache is not installed in this image")
    root = list(spec.submodule_search_locations)[0]
    found = sorted(glob.glob(os.path.join(root, "**", "c_ops*.so"), recursive=True))
    if not found: raise RuntimeError("lmcache has no compiled c_ops in " + root)
    import torch
    ctypes.CDLL(found[0])
    report("OK")
except BaseException as error:
    report("FAIL: " + (str(error) or type(error).__name__))
    sys.exit(1 if os.environ.get("KERNEL_CHECK_STRICT") == "1" else 0)
"""


def mode(backend: CacheBackend) -> str:
    """auto, report-only, strict or off. An unknown value, stored before it was refused, is auto."""
    value = backend.metadata.annotations.get(names.KERNEL_CHECK, "")
    return value if value in names.KERNEL_CHECK_VALUES and value else "auto"


def apply(pod: Object, engine: Object, backend: CacheBackend) -> None:
    """Put the init container into the Pod, or take an older one out, as the mode says. A container of the Pod's own
    that has its name leaves no place for it."""
    how = mode(backend)
    spec = pod["spec"]
    taken = podedit.named(podedit.containers(pod), names.KERNEL_CHECK_CONTAINER) is not None
    if taken or how == "off" or not engine.get("image") or (how == "auto" and not _has_gpu(engine)):
        podedit.remove(spec, "initContainers", names.KERNEL_CHECK_CONTAINER)
    else:
        converge.upsert(spec, "initContainers", container(engine, strict=how == "strict"))


def container(engine: Object, *, strict: bool) -> Object:
    """The engine's image, environment, mounts and user, so that what loads here loads there."""
    env = [one for one in engine.get("env") or [] if one.get("name") != STRICT]
    copied = ("imagePullPolicy", "securityContext", "workingDir", "envFrom", "volumeMounts", "volumeDevices")
    return {
        "name": names.KERNEL_CHECK_CONTAINER,
        "image": engine.get("image", ""),
        **{key: engine[key] for key in copied if engine.get(key)},
        "command": ["python3", "-c", SCRIPT],
        "env": [*env, {"name": STRICT, "value": "1" if strict else "0"}],
        "resources": {"requests": {"cpu": "50m", "memory": "256Mi"}},
    }


def _has_gpu(engine: Object) -> bool:
    resources = engine.get("resources") or {}
    for given in (resources.get("limits") or {}, resources.get("requests") or {}):
        try:
            if quantity.parse(given.get(GPU, "0")) > 0:
                return True
        except quantity.QuantityError:
            continue
    return False
