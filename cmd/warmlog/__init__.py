"""The program: one console script, one module per role or tool. Everything is wired here and nowhere else."""

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("warmlog")
except PackageNotFoundError:  # a bare checkout on PYTHONPATH
    VERSION = "0+checkout"
