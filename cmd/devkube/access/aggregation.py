"""ClusterRoles with an aggregationRule: their rules are those of the ClusterRoles their selectors find.

`resolve` is what authorization counts with; nobody writes the gathered rules into the objects, as upstream's controller
does a moment later. What stands in `rules` of such a role is not asked; a role never gathers itself.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from devkube import selectors
from devkube.kinds import Object


def resolve(roles: Iterable[Object]) -> dict[str, list[Any]]:
    """The rules of every ClusterRole by its name, gathered ones included, through any number of steps."""
    by_name = {role["metadata"]["name"]: role for role in roles}
    found = {name: list(role.get("rules") or ()) for name, role in by_name.items() if not _selectors(role)}
    gathering = {name: _members(role, by_name) for name, role in by_name.items() if _selectors(role)}
    return {name: found[name] if name in found else _gathered(name, gathering, found) for name in sorted(by_name)}


def _selectors(role: Object) -> list[Object]:
    found: list[Object] = (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or []
    return found


def _members(role: Object, by_name: Mapping[str, Object]) -> list[str]:
    own = role["metadata"]["name"]
    return [
        name
        for name in sorted(by_name)
        if name != own
        and any(selectors.matches(one, by_name[name]["metadata"].get("labels") or {}) for one in _selectors(role))
    ]


def _gathered(name: str, gathering: Mapping[str, list[str]], found: Mapping[str, list[Any]]) -> list[Any]:
    """Depth first, each role once: roles that gather each other end here too."""
    rules: list[Any] = []
    seen: set[str] = set()

    def visit(one: str) -> None:
        if one in seen:
            return
        seen.add(one)
        for member in gathering.get(one, ()):
            visit(member)
        rules.extend(rule for rule in found.get(one, ()) if rule not in rules)

    visit(name)
    return rules
