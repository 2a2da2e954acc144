"""Bytes of a request to JSON values: media types, syntax, duplicate keys, nesting. Types are `Rules.decode`'s matter.

Whatever is wrong with a body is a 400 whose message names the place; media types are `negotiation`'s.
"""

import json
import math
from typing import Any, Final

import msgspec
import yaml

from devkube import causes
from devkube.errors import bad_request, invalid
from devkube.kinds import Object, Resource
from devkube.values import check_depth

_YAML: Final = ("application/yaml", "application/apply-patch+yaml")


def _whole(text: str) -> int | float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"cannot unmarshal number {text:.40} into Go value of type float64")
    return int(number) if number.is_integer() and abs(number) < 1e21 else number


_decoders: Final = (msgspec.json.Decoder(), msgspec.json.Decoder(float_hook=_whole))


def decode(body: bytes, content_type: str, *, whole: bool = False) -> Any:
    """The value of a JSON or YAML body. ValueError with what is wrong with the text. `whole`: 2.0 is 2, as custom
    resources are stored."""
    try:
        value = _yaml(body, whole) if _is_yaml(body, content_type) else _decoders[whole].decode(body)
    except RecursionError:
        raise ValueError("parse error: exceeded max depth") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"json parse error: {error}") from None
    check_depth(value)
    return value


def decode_object(body: bytes, content_type: str, resource: Resource, *, kind: str = "") -> tuple[Object, list[str]]:
    """A body that must be one object of the resource's kind (or of `kind`, a subresource's own, of any version).

    Returns it with apiVersion and kind set, and the duplicate keys of its text as messages (`duplicate field "a.b"`).
    """
    wanted, own, strict = kind or resource.kind, not kind, resource.custom and not kind
    told = f"the object provided is unrecognized (must be of type {wanted}): couldn't get version/kind; "
    try:
        value = decode(body, content_type, whole=resource.custom)
    except ValueError as error:
        raise bad_request(f"{told}{error}") from None
    if not isinstance(value, dict):
        raise bad_request(f"{told}it is no JSON object")
    found, version = value.get("kind"), value.get("apiVersion")
    if not isinstance(found, str | None) or not isinstance(version, str | None):
        raise bad_request(f"{told}kind and apiVersion must be strings")
    if strict and not found:
        raise bad_request(f"{told}Object 'Kind' is missing")
    if found and found != wanted and strict:
        meta = value.get("metadata")
        name = meta.get("name", "") if isinstance(meta, dict) else ""
        raise invalid(resource.about(name), [causes.invalid("kind", found, f"must be {wanted}")])
    if found and found != wanted:
        raise bad_request(f'{found} in version "{version or resource.version}" cannot be handled as a {wanted}')
    if own and (version or strict) and version != resource.group_version:
        told = f"the API version in the data ({version or ''}) does not match the expected API version "
        raise bad_request(f"{told}({resource.group_version})")
    value["kind"] = wanted
    if own or not version:
        value["apiVersion"] = resource.group_version
    return value, duplicates(body, content_type)


def duplicates(body: bytes, content_type: str = "application/json") -> list[str]:
    """The keys that a JSON text repeats within one object, as messages. (Of YAML's the last one counts, unsaid.)"""
    if _is_yaml(body, content_type):
        return []
    found: dict[str, None] = {}

    def walk(value: Any, path: str) -> None:
        if isinstance(value, _Pairs):
            seen = set[str]()
            for key, child in value:
                here = f"{path}.{key}" if path else key
                if key in seen:
                    found[f'duplicate field "{here}"'] = None
                seen.add(key)
                walk(child, here)
        elif isinstance(value, list):
            for at, child in enumerate(value):
                walk(child, f"{path}[{at}]")

    walk(json.loads(body, object_pairs_hook=_Pairs), "")
    return list(found)


class _Pairs(list[tuple[str, Any]]):
    """An object as its pairs, told from an array."""


def _is_yaml(body: bytes, content_type: str) -> bool:
    return content_type in _YAML and body.lstrip()[:1] != b"{"


class _Loader(yaml.CSafeLoader):
    """JSON's types only: a date is a string."""


_Loader.add_constructor("tag:yaml.org,2002:timestamp", lambda loader, node: node.value)


def _yaml(body: bytes, whole: bool) -> Any:
    try:
        # Through JSON: only what that can say, and nothing shared.
        return decode(json.dumps(yaml.load(body, _Loader), allow_nan=False).encode(), "application/json", whole=whole)
    except (yaml.YAMLError, TypeError) as error:
        raise ValueError(f"yaml: {' '.join(str(error).split())}") from None
