"""Area factors-env: variables, as area factors."""

from tests.conformance.drivers.kernelcache.factors import run

__all__ = ["run"]
