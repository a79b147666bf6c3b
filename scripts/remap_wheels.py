"""Removes the directory of the source tree from the bill of materials (SBOM) in wheels.

maturin copies the ID of the crate from cargo. This ID contains the URL of the source directory, and no option of
maturin removes the URL. Without this script, two builds of one commit in different directories would differ. `make
wheels` and the release workflow call the script.
"""

from __future__ import annotations

import argparse
import base64
import csv
import hashlib
import io
import re
import zipfile
from pathlib import Path

# If the name of the directory is not klamm, the ID also contains the name of the crate.
SOURCE = re.compile(rb'path\+file://[^"#]*#(?:klamm@)?')
REMAPPED = b"path+file:///klamm#"


def row(name: str, data: bytes) -> list[str]:
    """Return the row for a file in RECORD: name, SHA-256 digest and size."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return [name, f"sha256={digest}", str(len(data))]


def remap(path: Path) -> bool:
    """Replace the source directory in the SBOMs of a wheel, and return whether the wheel was changed."""
    with zipfile.ZipFile(path) as archive:
        infos = archive.infolist()
        files = {info.filename: archive.read(info) for info in infos}
    changed = {name: SOURCE.sub(REMAPPED, data) for name, data in files.items() if "/sboms/" in name}
    changed = {name: data for name, data in changed.items() if data != files[name]}
    if not changed:
        return False
    (record,) = (name for name in files if name.endswith(".dist-info/RECORD"))
    rows = csv.reader(io.StringIO(files[record].decode()))
    table = io.StringIO()
    csv.writer(table, lineterminator="\n").writerows(
        row(each[0], changed[each[0]]) if each[0] in changed else each for each in rows
    )
    files |= changed | {record: table.getvalue().encode()}
    written = path.with_suffix(".new")
    with zipfile.ZipFile(written, "w") as archive:
        for info in infos:
            archive.writestr(info, files[info.filename], compresslevel=9)
    written.replace(path)
    return True


def main() -> None:
    """Remap all wheels of a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    for path in sorted(parser.parse_args().folder.glob("*.whl")):
        remap(path)


if __name__ == "__main__":
    main()
