"""The layout's traps and promises that no linter knows. Excluded: who imports whom (pyproject.toml, import-linter)."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("cmd", "crds", "eventstore", "handlers", "subscribers")
MODULES = sorted(path for package in PRODUCT for path in (ROOT / package).rglob("*.py") if path.read_text().strip())


def test_cmd_is_a_source_root_and_never_a_package() -> None:
    assert not (ROOT / "cmd" / "__init__.py").exists(), "cmd/__init__.py shadows the standard library's cmd: remove it"


def test_no_init_under_tests() -> None:
    found = [path.relative_to(ROOT) for path in (ROOT / "tests").rglob("__init__.py")]
    assert found == [], "an __init__.py under tests/ replaces the real package of that name"


def test_the_standard_librarys_cmd_is_intact() -> None:
    subprocess.run([sys.executable, "-c", "import pdb, cmd; cmd.Cmd"], check=True, cwd=ROOT)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_says_what_it_is_and_is_read_in_one_sitting(path: Path) -> None:
    text = path.read_text()
    assert text.startswith(('"""', 'r"""')) or path.name == "__main__.py", (
        "open with a docstring: what, what not, when it fails"
    )
    assert text.count("\n") <= 450, "would this still be one room to its reader?"


def test_nothing_needs_files_outside_the_checkout() -> None:
    outside = re.compile(r"\.\./shared|/work/|shared/(cases|spec|seeds)")
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")
    found = [
        name
        for name in files
        if name
        and name != "tests/architecture/test_layout.py"
        and outside.search((ROOT / name).read_text(errors="ignore"))
    ]
    assert found == []


def test_no_cancellation_is_swallowed_by_wait_for() -> None:
    """Before Python 3.12 it returns the result when a cancellation comes together with it; asyncio.timeout never."""
    users = [path for path in MODULES if "asyncio.wait_for(" in path.read_text()]
    assert users == []


def test_import_contracts_hold() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"],
        cwd=ROOT,
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'cmd'}", "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
