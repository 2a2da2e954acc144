"""Where a Pod may run: affinity, tolerations, spreading, gates. Rule: upstream's `pkg/apis/core/validation`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from devkube.builtin import names
from devkube.builtin.causes import duplicate, forbidden, invalid, required, unsupported
from devkube.builtin.labelselectors import label_selector
from devkube.errors import Cause

Json = Mapping[str, Any]
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")
MUST, SHOULD = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"


def scheduling(spec: Json, at: str) -> Iterator[Cause]:
    yield from tolerations(spec.get("tolerations") or (), f"{at}.tolerations")
    affinity = spec.get("affinity") or {}
    yield from _nodes(affinity.get("nodeAffinity") or {}, f"{at}.affinity.nodeAffinity")
    for kind in ("podAffinity", "podAntiAffinity"):
        yield from _pods(affinity.get(kind) or {}, f"{at}.affinity.{kind}")
    yield from _spread(spec.get("topologySpreadConstraints") or (), f"{at}.topologySpreadConstraints")
    seen = set()
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        name = gate.get("name") or ""
        yield from names.check(f"{at}.schedulingGates[{index}]", name, names.qualified)
        if name in seen:
            yield duplicate(f"{at}.schedulingGates[{index}]", name)
        seen.add(name)
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        here = f"{at}.readinessGates[{index}].conditionType"
        yield from names.check(here, gate.get("conditionType") or "", names.qualified)


def tolerations(found: Sequence[Json], at: str) -> Iterator[Cause]:
    for index, one in enumerate(found):
        here, operator = f"{at}[{index}]", one.get("operator") or ""
        key, value, effect = (one.get(name) or "" for name in ("key", "value", "effect"))
        if key:
            yield from names.check(f"{here}.key", key, names.qualified)
        elif operator != "Exists":
            text = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            yield invalid(f"{here}.operator", operator, text)
        if one.get("tolerationSeconds") is not None and effect != "NoExecute":
            yield invalid(f"{here}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
        if operator in ("", "Equal"):
            if wrong := names.label_value(value):
                yield invalid(f"{here}.operator", value, ";".join(wrong))
        elif operator == "Exists":
            if value:
                yield invalid(f"{here}.operator", value, "value must be empty when `operator` is 'Exists'")
        else:
            yield unsupported(f"{here}.operator", operator, ("Equal", "Exists"))
        if effect and effect not in _EFFECTS:
            yield unsupported(f"{here}.effect", effect, _EFFECTS)


def _weight(one: Json, at: str) -> Iterator[Cause]:
    if not 1 <= one.get("weight", 0) <= 100:
        yield invalid(f"{at}.weight", one.get("weight", 0), "must be in the range 1-100")


def _nodes(affinity: Json, at: str) -> Iterator[Cause]:
    if (must := affinity.get(MUST)) is not None:
        here, terms = f"{at}.{MUST}.nodeSelectorTerms", must.get("nodeSelectorTerms") or ()
        if not terms:
            yield required(here, "must have at least one node selector term")
        for index, term in enumerate(terms):
            yield from _node_term(term, f"{here}[{index}]")
    for index, one in enumerate(affinity.get(SHOULD) or ()):
        here = f"{at}.{SHOULD}[{index}]"
        yield from _weight(one, here)
        yield from _node_term(one.get("preference") or {}, f"{here}.preference")


def _node_term(term: Json, at: str) -> Iterator[Cause]:
    for index, one in enumerate(term.get("matchExpressions") or ()):
        here, operator, values = f"{at}.matchExpressions[{index}]", one.get("operator") or "", one.get("values") or ()
        if operator in ("In", "NotIn"):
            if not values:
                yield required(f"{here}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                yield forbidden(f"{here}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
        elif operator in ("Gt", "Lt"):
            if len(values) != 1:
                text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
                yield required(f"{here}.values", text)
        else:
            yield invalid(f"{here}.operator", operator, "not a valid selector operator")
        yield from names.check(f"{here}.key", one.get("key") or "", names.qualified)
        for number, value in enumerate(values):
            yield from names.check(f"{here}.values[{number}]", value, names.label_value)


def _pods(affinity: Json, at: str) -> Iterator[Cause]:
    terms = [(f"{at}.{MUST}[{index}]", one) for index, one in enumerate(affinity.get(MUST) or ())]
    for index, one in enumerate(affinity.get(SHOULD) or ()):
        here = f"{at}.{SHOULD}[{index}]"
        yield from _weight(one, here)
        terms.append((f"{here}.podAffinityTerm", one.get("podAffinityTerm") or {}))
    for here, term in terms:
        for key in ("labelSelector", "namespaceSelector"):
            yield from label_selector(term.get(key) or {}, f"{here}.{key}")
        topology = term.get("topologyKey") or ""
        if not topology:
            yield required(f"{here}.topologyKey", "can not be empty")
        yield from names.check(f"{here}.topologyKey", topology, names.qualified)


def _spread(found: Sequence[Json], at: str) -> Iterator[Cause]:
    seen = set()
    for index, one in enumerate(found):
        here, key, action = f"{at}[{index}]", one.get("topologyKey") or "", one.get("whenUnsatisfiable") or ""
        if one.get("maxSkew", 0) <= 0:
            yield invalid(f"{here}.maxSkew", one.get("maxSkew", 0), "must be greater than zero")
        if not key:
            yield required(f"{here}.topologyKey", "can not be empty")
        if action not in _UNSATISFIABLE:
            yield unsupported(f"{here}.whenUnsatisfiable", action, _UNSATISFIABLE)
        if (key, action) in seen:
            yield duplicate(f"{here}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}")
        seen.add((key, action))
        yield from label_selector(one.get("labelSelector") or {}, f"{here}.labelSelector")
