"""Kernel Cache's configuration: the JSON under `kernelcache` in ConfigMap inferenceservice-config.

One that cannot be used is told in one line and changes nothing: the last good one stays (the fold keeps it, see
handlers.world.kinds), and where there never was one, Kernel Cache is off. Serving is not touched by either.

No line about it repeats what was written: it may be a secret. What the log holds of it: telling.

Rules: spec/kernelcache.md section 7. Keys that nobody knows are noted, not refused: the ConfigMap belongs to KServe.
"""

import re
from typing import Any, Final, NamedTuple

import msgspec

from crds import core
from handlers.kernelcache import names
from handlers.world.reader import Reader


class ConfigError(ValueError):
    """One line: key, and what is expected. What was written instead may be a secret."""


class KeyRef(msgspec.Struct, frozen=True):
    name: str = ""
    key: str = ""


class RoleRef(msgspec.Struct, frozen=True):
    kind: str = ""
    name: str = ""


class Auth(msgspec.Struct, frozen=True, rename="camel"):
    type: str = "none"
    token_ttl_seconds: int = msgspec.field(default=600, name="tokenTTLSeconds")
    push_role_ref: RoleRef | None = None
    pull_role_ref: RoleRef | None = None


class Registry(msgspec.Struct, frozen=True, rename="camel"):
    endpoint: str = ""
    insecure: bool = False
    ca_config_map_ref: KeyRef | None = None
    auth: Auth = Auth()


class Certificates(msgspec.Struct, frozen=True, rename="camel"):
    signing_profile_ref: str = ""
    trust_bundle: str = ""
    trust_bundle_key: str = "ca.crt"
    subject_regexp: str = ""


class Security(msgspec.Struct, frozen=True, rename="camel"):
    mode: str = "none"
    failure_policy: str = "reject"
    cert: Certificates | None = None


class Prefetch(msgspec.Struct, frozen=True):
    enabled: bool = False


class Config(msgspec.Struct, frozen=True, rename="camel"):
    enabled: bool = False
    default_sidecar_injection: bool = True
    default_mount_type: str = "oci"
    default_node_group: str = ""
    job_namespace: str = "kserve-kernelcache-jobs"
    mcv_image: str = "kserve/kserve-mcv:latest-minimal"
    prefetch_image: str = "registry.access.redhat.com/ubi9/ubi-minimal:latest"
    registry: Registry = Registry()
    artifact_security: Security = Security()
    abandoned_capture_policy: str = "retain"
    job_ttl_seconds_after_finished: int = msgspec.field(default=600, name="jobTTLSecondsAfterFinished")
    mcv_capture_readiness_timeout_seconds: int = 600
    reconcile_interval_seconds: int = 300
    runtime_image_prefetch: Prefetch = Prefetch()


class Standing(NamedTuple):
    """The configuration in force. `problem` says why the newest one is not, or which of its keys nobody knows."""

    config: Config
    problem: str = ""


_ENDPOINT: Final = re.compile(r"(\[[0-9A-Fa-f:]+\]|[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)(:[0-9]{1,5})?")
_BUNDLE: Final = re.compile(r"[^/\s]+/[^/\s]+")
_IMAGE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:-]*(@[A-Za-z0-9+._-]+:[0-9A-Fa-f]+)?")
#: What a text may be, where it is one of a few.
CHOICES: Final = {
    "defaultMountType": ("oci",),
    "abandonedCapturePolicy": ("retain", "delete"),
    "artifactSecurity.mode": ("none", "cert"),
    "artifactSecurity.failurePolicy": ("reject",),
    "registry.auth.type": ("none", "serviceAccountToken"),
    "registry.auth.pushRoleRef.kind": ("Role", "ClusterRole"),
    "registry.auth.pullRoleRef.kind": ("Role", "ClusterRole"),
}
FORMS: Final = {"registry.endpoint": _ENDPOINT, "mcvImage": _IMAGE, "prefetchImage": _IMAGE}


def read(text: str) -> Config:
    """Raises ConfigError."""
    try:
        config = msgspec.json.decode(text or "{}", type=Config)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ConfigError(f"{names.CONFIG_KEY}: {error}") from None
    for problem in _problems(config):
        raise ConfigError(problem)
    return config


def _problems(config: Config) -> list[str]:
    found = []
    for key, value in (
        ("defaultMountType", config.default_mount_type),
        ("abandonedCapturePolicy", config.abandoned_capture_policy),
        ("artifactSecurity.mode", config.artifact_security.mode),
        ("artifactSecurity.failurePolicy", config.artifact_security.failure_policy),
        ("registry.auth.type", config.registry.auth.type),
    ):
        if value not in CHOICES[key]:
            found.append(f"{key} must be {' or '.join(CHOICES[key])}")
    for key, number, least in (
        ("jobTTLSecondsAfterFinished", config.job_ttl_seconds_after_finished, 0),
        ("mcvCaptureReadinessTimeoutSeconds", config.mcv_capture_readiness_timeout_seconds, 1),
        ("reconcileIntervalSeconds", config.reconcile_interval_seconds, 1),
    ):
        if number < least:
            found.append(f"{key} is {number}; it must be {least} or more")
    for key, text in (("jobNamespace", config.job_namespace), ("mcvImage", config.mcv_image),
                      ("prefetchImage", config.prefetch_image)):  # fmt: skip
        if not text.strip():
            found.append(f"{key} must not be empty")
        elif key in FORMS and not FORMS[key].fullmatch(text):
            found.append(f"{key} is no image reference: write registry/repository:tag or …@sha256:…")
    return [*found, *_registry(config.registry), *_security(config.artifact_security)]


def _registry(registry: Registry) -> list[str]:
    found = []
    if registry.endpoint and not _ENDPOINT.fullmatch(registry.endpoint):
        found.append("registry.endpoint must be host or host:port: no scheme, no path, no user information")
    authority = registry.ca_config_map_ref
    if authority is not None and not (authority.name and authority.key):
        found.append("registry.caConfigMapRef needs name and key")
    if registry.auth.type != "serviceAccountToken":
        return found
    if not registry.endpoint:
        found.append("registry.endpoint is required with registry.auth.type serviceAccountToken")
    for key, role in (("pushRoleRef", registry.auth.push_role_ref), ("pullRoleRef", registry.auth.pull_role_ref)):
        if role is None or not role.name or role.kind not in CHOICES[f"registry.auth.{key}.kind"]:
            found.append(f"registry.auth.{key} needs a name, and kind Role or ClusterRole")
    if not 600 <= registry.auth.token_ttl_seconds <= 3600:
        found.append(f"registry.auth.tokenTTLSeconds is {registry.auth.token_ttl_seconds}; it must be 600 to 3600")
    return found


def _security(security: Security) -> list[str]:
    if security.mode != "cert":
        return []
    cert = security.cert or Certificates()
    found = []
    if not cert.signing_profile_ref:
        found.append("artifactSecurity.cert.signingProfileRef is required in mode cert")
    if not _BUNDLE.fullmatch(cert.trust_bundle):
        found.append("artifactSecurity.cert.trustBundle must be <namespace>/<name> in mode cert")
    if not cert.subject_regexp:
        return [*found, "artifactSecurity.cert.subjectRegexp is required in mode cert"]
    try:
        re.compile(cert.subject_regexp)
    except (re.error, RecursionError, OverflowError) as error:
        said = error.msg if isinstance(error, re.error) else type(error).__name__
        found.append(f"artifactSecurity.cert.subjectRegexp is no regular expression: {said}")
    return found


PARTS: Final[dict[str, Any]] = {
    "registry": Registry,
    "registry.caConfigMapRef": KeyRef,
    "registry.auth": Auth,
    "registry.auth.pushRoleRef": RoleRef,
    "registry.auth.pullRoleRef": RoleRef,
    "artifactSecurity": Security,
    "artifactSecurity.cert": Certificates,
    "runtimeImagePrefetch": Prefetch,
}


def judge(given: core.ConfigMap) -> str:
    """What is wrong with a ConfigMap, "" where it can be used."""
    return given.data.problem or problem_of(given.data.kernelcache)


def problem_of(text: str) -> str:
    try:
        read(text)
    except ConfigError as error:
        return str(error)
    return ""


def unknown(text: str) -> list[str]:
    """Keys of a good configuration that nobody reads."""
    try:
        return _unread(msgspec.json.decode(text or "{}"), Config, "")
    except (msgspec.MsgspecError, RecursionError):
        return []


def _unread(value: Any, struct: Any, at: str) -> list[str]:
    known = {one.encode_name for one in msgspec.structs.fields(struct)}
    found = []
    for key, one in value.items():
        if key not in known:
            found.append(at + key)
        elif at + key in PARTS and isinstance(one, dict):
            found += _unread(one, PARTS[at + key], f"{at}{key}.")
    return found


def standing(world: Reader, namespace: str) -> Standing:
    """Of the world, which keeps the last good ConfigMap and why the newest is not it. Raises Unlisted."""
    known = world.get(core.CONFIG_MAPS, namespace, names.CONFIG_MAP)
    if known is None:
        return Standing(Config())
    said = f"ConfigMap {namespace}/{names.CONFIG_MAP} cannot be used: {known.problem}" if known.problem else ""
    if known.value is None:
        return Standing(Config(), said)
    text = known.value.data.kernelcache
    if problem := judge(known.value):  # read live, when the world did not judge it
        return Standing(Config(), f"ConfigMap {namespace}/{names.CONFIG_MAP} cannot be used: {problem}")
    config = read(text)
    if not said and (keys := unknown(text)):
        said = f"ConfigMap {namespace}/{names.CONFIG_MAP}: nobody knows {', '.join(keys)}"
    return Standing(config, said)
