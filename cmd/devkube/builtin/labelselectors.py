"""A LabelSelector inside an object: is it well formed, and does it select these labels.

Rule: `apimachinery/pkg/apis/meta/v1/validation`. (Selectors in URLs are text: `devkube.selectors`.)
"""

from collections.abc import Iterator, Mapping
from typing import Any

from devkube.builtin import names
from devkube.builtin.causes import forbidden, invalid, required
from devkube.builtin.metadata import labels
from devkube.errors import Cause


def label_selector(selector: Mapping[str, Any], at: str) -> Iterator[Cause]:
    yield from labels(selector.get("matchLabels") or {}, f"{at}.matchLabels")
    for index, one in enumerate(selector.get("matchExpressions") or ()):
        here, operator, values = f"{at}.matchExpressions[{index}]", one.get("operator") or "", one.get("values") or ()
        if operator in ("In", "NotIn"):
            if not values:
                yield required(f"{here}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                yield forbidden(f"{here}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
        elif operator:
            yield invalid(f"{here}.operator", operator, "not a valid selector operator")
        if one.get("key"):
            yield from names.check(f"{here}.key", one["key"], names.qualified)
        for number, value in enumerate(values):
            yield from names.check(f"{here}.values[{number}]", value, names.label_value)


def selects(selector: Mapping[str, Any], found: Mapping[str, str]) -> bool:
    if not (selector.get("matchLabels") or {}).items() <= found.items():
        return False
    for one in selector.get("matchExpressions") or ():
        value, values = found.get(one.get("key")), one.get("values") or ()
        if not {
            "In": value in values,
            "NotIn": value not in values,
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }.get(one.get("operator"), True):
            return False
    return True
