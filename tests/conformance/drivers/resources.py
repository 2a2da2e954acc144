"""Area resources: the resources of managed containers, judged with everything else at admission."""

from tests.conformance.drivers.admission import compare, run

__all__ = ["compare", "run"]
