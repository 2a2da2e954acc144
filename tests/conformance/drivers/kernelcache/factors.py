"""Area factors: options and variables of the runtime's container, from handlers/kernelcache/factors.py.

Every `option.` and `env.` factor is compared; factors of ours beside them are not the cases' business.
"""

from typing import Any

from handlers.kernelcache import factors, identity
from tests.conformance import forms


def run(given: dict[str, Any]) -> dict[str, Any]:
    if "containers" in given:
        forms.only(given, "containers")
        container = identity.runtime_container({"spec": {"containers": given["containers"]}})
        assert container is not None
    else:
        forms.only(given, "command", "args", "env")
        container = given
    found = factors.of(container)
    assert found.opaque == ()
    return {"optionFactors": {k: v for k, v in found.factors.items() if k.startswith(("option.", "env."))}}
