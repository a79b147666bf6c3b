"""Parses real .proto files, and compares the descriptors with those of protoc. `make test-schemas` runs this program.

KLAMM_PROTOS has the include directories of copies of other projects, separated as in PATH. Each file has the name that it
has below its directory. Imports are searched in all directories. KLAMM_PROTOC is the command that runs protoc, for example
`python -m grpc_tools.protoc` of the package grpcio-tools; without it, the files are only parsed. KLAMM_PROTOC_FILES limits
the number of compared files (default 1000).

The comparison resolves the names of types first. It leaves out the positions in the text (`source_code_info`), the
visibility of types in edition 2024, empty options, and `json_name`, which protoc also writes if a file does not set it. Options are
compared as messages, with the extensions that the imports declare.
"""

from __future__ import annotations

import collections
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from klamm.registry.errors import SchemaError
from klamm.registry.known_protos import is_known
from klamm.registry.pools import pool_of
from klamm.registry.proto import parse

ROOTS = [Path(each) for each in os.environ.get("KLAMM_PROTOS", "").split(os.pathsep) if each]
PROTOC = shlex.split(os.environ.get("KLAMM_PROTOC", ""))
LIMIT = int(os.environ.get("KLAMM_PROTOC_FILES", "1000"))


def find(name: str, root: Path) -> Path | None:
    """Return the file with this name, first of all below its own include directory."""
    return next((path for each in (root, *ROOTS) if (path := each / name).is_file()), None)


def protoc(root: Path, names: list[str]) -> tuple[descriptor_pb2.FileDescriptorSet, str]:
    """Return the descriptors that protoc makes of files and their imports, or its errors."""
    with tempfile.NamedTemporaryFile() as out:
        command = [
            *PROTOC,
            "--experimental_editions",
            "--retain_options",
            "--include_imports",
            f"--descriptor_set_out={out.name}",
        ]
        includes = [f"-I{each}" for each in dict.fromkeys((root, *ROOTS))]
        done = subprocess.run([*command, *includes, *names], capture_output=True, text=True, check=False)
        found = descriptor_pb2.FileDescriptorSet()
        if done.returncode == 0:
            found.ParseFromString(Path(out.name).read_bytes())
        return found, "" if done.returncode == 0 else done.stderr or "protoc failed"


def parsed(root: Path, name: str) -> dict[str, Any]:
    """Return the descriptors of a file and of its imports by name, parsed by klamm."""
    files: dict[str, Any] = {}
    left = [name]
    while left:
        each = left.pop()
        path = find(each, root)
        if each in files or path is None or (is_known(each) and each != name):
            continue
        files[each] = parse(path.read_text("utf-8"), each)
        left += [*files[each].dependency, *getattr(files[each], "option_dependency", ())]
    return files


def plain(pool: Any, name: str, kinds: Any) -> Any:
    """Return a resolved descriptor without the parts that differ between compilers."""
    resolved = descriptor_pb2.FileDescriptorProto()
    pool.FindFileByName(name).CopyToProto(resolved)
    resolved.ClearField("source_code_info")

    def strip(message: Any) -> None:
        for field, value in message.ListFields():
            if field.name in ("json_name", "visibility") or (field.name == "options" and not value.ByteSize()):
                message.ClearField(field.name)
            elif isinstance(value, collections.abc.Iterable) and field.message_type is not None:
                for each in value:
                    strip(each)

    strip(resolved)
    try:
        kind = message_factory.GetMessageClass(kinds.FindMessageTypeByName("google.protobuf.FileDescriptorProto"))
    except KeyError:
        return resolved
    return kind.FromString(resolved.SerializeToString())


def compare(root: Path, name: str, theirs: Any) -> str:
    """Return why the descriptors of a file differ, or an empty text."""
    try:
        files = parsed(root, name)
        ours = pool_of(files.pop(name), files)
    except SchemaError as error:
        return f"refused: {error}"
    pool = descriptor_pool.DescriptorPool()
    for each in theirs.file:
        pool.AddSerializedFile(each.SerializeToString())
    one, two = plain(ours, name, pool), plain(pool, name, pool)
    if one == two:
        return ""
    lines = [set(str(each).splitlines()) for each in (one, two)]
    only = [" ".join(sorted(a - b)[:2]) for a, b in (lines, lines[::-1])]
    return f"differs: klamm has {only[0]!r}, protoc has {only[1]!r}"


def main() -> int:
    """Check all files, and print counts and the reasons of refusals."""
    if not ROOTS:
        sys.exit("set KLAMM_PROTOS to the include directories of .proto files")
    names = [(root, str(path.relative_to(root))) for root in ROOTS for path in sorted(root.rglob("*.proto"))]
    refused: list[tuple[Path, str, str]] = []
    accepted = []
    for root, name in names:
        try:
            parse((root / name).read_text("utf-8"), name)
            accepted.append((root, name))
        except (SchemaError, UnicodeDecodeError) as error:
            refused.append((root, name, str(error)))
    print(f"{len(names)} files: {len(accepted)} parsed, {len(refused)} refused")
    if not PROTOC:
        print("set KLAMM_PROTOC to compare with protoc")
        return 0
    wrong = 0
    for root, name, why in refused:
        _, error = protoc(root, [name])
        wrong += not error
        print(f"  {'refused by protoc too' if error else 'REFUSED BY KLAMM ONLY'}: {name}: {why}")
    step = max(1, len(accepted) // LIMIT)
    counts: collections.Counter[str] = collections.Counter()
    for root, name in accepted[::step]:
        theirs, error = protoc(root, [name])
        why = "not compiled by protoc" if error else compare(root, name, theirs) or "equal"
        counts["differs or refused" if why.startswith(("differs", "refused")) else why] += 1
        if why.startswith(("differs", "refused")):
            wrong += 1
            print(f"  {name}: {why}")
        elif error:
            counts["  " + re.sub(r"^.*?:\d+:\d+: ", "", error.splitlines()[0])[:60]] += 1
    for why, count in counts.most_common():
        print(f"{count:6} {why}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
