"""Area freeze: see pods."""

from tests.conformance.drivers.worker_gpustack.pods import compare, run

__all__ = ["compare", "run"]
