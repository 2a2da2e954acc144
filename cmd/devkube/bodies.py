"""Bytes of a request to JSON values: media types, syntax, duplicate keys, nesting. Types are `Rules.decode`'s matter.

Whatever is wrong with a body is a 400 whose message names the place; media types are `negotiation`'s.
"""

import json
from typing import Any, Final

import msgspec

from devkube.errors import About, Cause, StatusError, bad_request, invalid
from devkube.kinds import Object, Resource

YAML_TYPES: Final = ("application/yaml", "application/x-yaml", "text/yaml", "application/apply-patch+yaml")
_DEEPEST: Final = 200  # levels of nesting; what recurses over an object may then do so without counting
_decode = msgspec.json.Decoder().decode


def decode(body: bytes, content_type: str) -> Any:
    """The value of a JSON or YAML body. msgspec.DecodeError or ValueError with what is wrong with the text."""
    if content_type in YAML_TYPES and body.lstrip()[:1] != b"{":
        return _yaml(body)
    try:
        value = _decode(body)
    except RecursionError:
        raise ValueError("json parse error: exceeded max depth") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"json parse error: {error}") from None
    except msgspec.DecodeError as error:
        raise ValueError(f"json parse error: {error}") from None
    if body.count(b"{") + body.count(b"[") > _DEEPEST and _depth(value) > _DEEPEST:
        raise ValueError(f"the value is nested deeper than {_DEEPEST} levels")
    return value


def decode_object(body: bytes, content_type: str, resource: Resource, *, kind: str = "") -> tuple[Object, list[str]]:
    """A body that must be one object of the resource's kind (or of `kind`, a subresource's own, of any version).

    Returns it with apiVersion and kind set, and the duplicate keys of its text as messages (`duplicate field "a.b"`).
    """
    wanted = kind or resource.kind
    if not body.strip():
        raise _unrecognized(wanted, "couldn't get version/kind; json parse error: unexpected end of JSON input", body)
    try:
        value = decode(body, content_type)
    except ValueError as error:
        raise _unrecognized(wanted, f"couldn't get version/kind; {error}", body) from None
    if not isinstance(value, dict):
        names = {list: "array", str: "string", bool: "bool", int: "number", float: "number"}
        what = names.get(type(value), "null")
        told = f"couldn't get version/kind; json parse error: json: cannot unmarshal {what} into Go value of type "
        raise _unrecognized(wanted, told + "struct { APIVersion string; Kind string }", body)
    _kind_of(value, resource, wanted, body, own=not kind)
    return value, duplicates(body, value, content_type)


def _kind_of(value: Object, resource: Resource, wanted: str, body: bytes, *, own: bool) -> None:
    found, version = value.get("kind"), value.get("apiVersion")
    for name, one in (("kind", found), ("apiVersion", version)):
        if one is not None and not isinstance(one, str):
            told = f"couldn't get version/kind; json parse error: json: {name} must be a string"
            raise _unrecognized(wanted, told, body)
    if resource.custom and own and not found:
        raise _unrecognized(wanted, f"Object 'Kind' is missing in '{body.decode(errors='replace')}'", body)
    if found and found != wanted and resource.custom and own:
        meta = value.get("metadata")
        name = meta.get("name", "") if isinstance(meta, dict) else ""
        told = f'Invalid value: "{found}": must be {wanted}'
        raise invalid(About(resource.group, resource.plural, name, found), [Cause("FieldValueInvalid", told, "kind")])
    if found and found != wanted:
        short = (version or resource.group_version).rpartition("/")[2]
        told = f'no kind "{found}" can be converted to {wanted}'
        raise bad_request(f'{found} in version "{short}" cannot be handled as a {wanted}: {told}')
    if own and (version or resource.custom) and version != resource.group_version:
        told = f"the API version in the data ({version or ''}) does not match the expected API version "
        raise bad_request(f"{told}({resource.group_version})")
    value["kind"] = wanted
    if own or not version:
        value["apiVersion"] = resource.group_version


def _unrecognized(kind: str, why: str, body: bytes) -> StatusError:
    summary = "empty" if not body else body[:30].hex() + (" ..." if len(body) > 30 else "")
    return bad_request(f"the object provided is unrecognized (must be of type {kind}): {why} ({summary})")


def duplicates(body: bytes, value: Any, content_type: str = "application/json") -> list[str]:
    """The keys that a JSON text repeats within one object, as messages. (A YAML text with some does not come here.)"""
    if content_type in YAML_TYPES and body.lstrip()[:1] != b"{":
        return []
    # `value` is what was read from the text, where a repeated key counts once: then it has fewer quotes than the text.
    if b"\\u" not in body and body.count(b'"') == msgspec.json.encode(value).count(b'"'):
        return []
    repeated = False

    def check(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal repeated
        found = dict(pairs)
        repeated = repeated or len(found) != len(pairs)
        return found

    json.loads(body, object_pairs_hook=check)
    return list(dict.fromkeys(_repeated(json.loads(body, object_pairs_hook=_Pairs), ""))) if repeated else []


class _Pairs(list[tuple[str, Any]]):
    """An object as its pairs, told from an array."""


def _repeated(value: Any, path: str) -> list[str]:
    found: list[str] = []
    if isinstance(value, _Pairs):
        seen = set[str]()
        for key, child in value:
            here = f"{path}.{key}" if path else key
            if key in seen:
                found.append(f'duplicate field "{here}"')
            seen.add(key)
            found += _repeated(child, here)
    elif isinstance(value, list):
        for at, child in enumerate(value):
            found += _repeated(child, f"{path}[{at}]")
    return found


def _depth(value: Any) -> int:
    deepest, level = 0, [value]
    while level:
        deepest += 1
        if deepest > _DEEPEST:
            break
        children = (one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list))
        level = [child for group in children for child in group]
    return deepest


def _yaml(body: bytes) -> Any:
    import yaml

    class Loader(yaml.CSafeLoader if hasattr(yaml, "CSafeLoader") else yaml.SafeLoader):  # type: ignore[misc]
        """As sigs.k8s.io/yaml: JSON's types only (a date is a string), and no key twice."""

        yaml_implicit_resolvers = {  # noqa: RUF012
            first: [one for one in resolvers if one[0] != "tag:yaml.org,2002:timestamp"]
            for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

    def mapping(loader: Any, node: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        loader.flatten_mapping(node)
        for key_node, value_node in node.value:
            key = loader.construct_object(key_node, deep=True)
            key = key if isinstance(key, str) else json.dumps(key)
            if key in found:
                raise ValueError(f'yaml: line {key_node.start_mark.line + 1}: key "{key}" already set in map')
            found[key] = loader.construct_object(value_node, deep=True)
        return found

    Loader.add_constructor("tag:yaml.org,2002:map", mapping)
    try:
        value = yaml.load(body, Loader)
        return json.loads(json.dumps(value, allow_nan=False))  # only what JSON can say, and nothing shared
    except (yaml.YAMLError, TypeError) as error:
        raise ValueError(f"yaml: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise ValueError("yaml: exceeded max depth") from None
