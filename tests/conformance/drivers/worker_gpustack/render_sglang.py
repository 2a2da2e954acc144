"""Area render-sglang: see pods."""

from tests.conformance.drivers.worker_gpustack.pods import compare, run

__all__ = ["compare", "run"]
