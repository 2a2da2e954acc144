"""Area backend-webhook: see resources."""

from tests.conformance.drivers.worker_gpustack.resources import compare, run

__all__ = ["compare", "run"]
