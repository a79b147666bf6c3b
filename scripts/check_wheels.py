"""Checks the sdist and the wheels in a folder: contents, size, paths of the build machine, and the rendered README.

`make wheels` calls this script. The script runs auditwheel and abi3audit, and imports readme_renderer. The dependency
group `wheels` contains these three packages.
"""

from __future__ import annotations

import argparse
import io
import re
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

MOST_BYTES = 7_000_000
"""Maximum size of a wheel. Nearly all bytes of a wheel belong to the extension module."""

LICENCES = ("LICENSE", "NOTICE", "THIRD-PARTY-LICENSES.txt")
# The build replaces the path of cargo's directory by `cargo`, so such paths are allowed.
BUILD_PATHS = re.compile(rb"(?:/home/|/root/|/Users/|/github/|C:\\Users\\|(?<!cargo)/registry/src/[a-z])[\x20-\x7e]*")
# scripts/remap_wheels.py replaces the directory of the source tree by /klamm.
LOCAL_CRATE = re.compile(rb"path\+file://(?!/klamm#)[^\"]*")
RELATIVE_LINK = re.compile(r"\]\((?!https?://|#)([^)]+)\)")


def wheel_findings(path: Path) -> list[str]:
    """Return a text for each problem of a wheel."""
    found = []
    if path.stat().st_size > MOST_BYTES:
        found.append(f"{path.stat().st_size:,} bytes are more than {MOST_BYTES:,}")
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        found += [
            f"no {name} in .dist-info/licenses"
            for name in LICENCES
            if not any(n.endswith(f"licenses/{name}") for n in names)
        ]
        found += [f"no {name}" for name in ("klamm/py.typed", "klamm/_klamm.pyi") if name not in names]
        sboms = [name for name in names if "/sboms/" in name]
        if not sboms:
            found.append("no SBOM in .dist-info/sboms")
        for name in sboms:
            found += [f"the SBOM names {url.decode()}" for url in LOCAL_CRATE.findall(archive.read(name))[:1]]
        extensions = [name for name in names if name.startswith("klamm/_klamm.") and name.endswith((".so", ".pyd"))]
        if len(extensions) != 1:
            found.append(f"{len(extensions)} extension modules")
        for name in extensions:
            paths = BUILD_PATHS.findall(archive.read(name))
            found += [f"{len(paths)} paths of the build machine, such as {paths[0].decode()}"] if paths else []
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        found += readme_findings(archive.read(metadata))
    if "linux" in path.name:
        # A musl wheel needs `libc.so`. On a machine with glibc, this file is a linker script, which auditwheel cannot read.
        auditwheel = [] if "musllinux" in path.name else [["auditwheel", "show"]]
        for command in (*auditwheel, ["abi3audit", "--strict"]):
            run = subprocess.run(
                [Path(sys.executable).with_name(command[0]), *command[1:], path],
                capture_output=True,
                text=True,
                check=False,
            )
            if run.returncode:
                found.append(f"{' '.join(command)}: {run.stdout}{run.stderr}")
    return found


def readme_findings(metadata: bytes) -> list[str]:
    """Return a text for each problem that the README would have on the page of a package index."""
    from readme_renderer import markdown

    message = message_from_bytes(metadata)
    text = message.get_payload()
    relative = RELATIVE_LINK.findall(text) if message.get_all("Project-URL") else []  # before the first release
    found = [f"README links to {link}, which is relative; run scripts/write_links.py" for link in relative]
    problems = io.StringIO()
    if markdown.render(text, stream=problems) is None:
        found.append(f"README does not render: {problems.getvalue()}")
    return found


def sdist_findings(path: Path) -> list[str]:
    """Return a text for each file of the repository that an sdist does not contain."""
    tracked = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=False).stdout.split()
    with tarfile.open(path) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    return [f"no {name}" for name in tracked if name not in packed and Path(name).exists()]


def main() -> int:
    """Check all wheels and sdists of a folder, print the problems, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    failed = False
    files = sorted([*folder.glob("*.whl"), *folder.glob("*.tar.gz")])
    for file in files:
        findings = wheel_findings(file) if file.suffix == ".whl" else sdist_findings(file)
        print(f"{file.name}: {file.stat().st_size:,} bytes, {'; '.join(findings) or 'complete'}")
        failed |= bool(findings)
    return int(failed or not files)


if __name__ == "__main__":
    sys.exit(main())
