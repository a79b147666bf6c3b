"""Creates pools of Protobuf descriptors. A pool contains a file and its imports, and can create message classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.protobuf import descriptor_pool

from klamm.registry.errors import SchemaError
from klamm.registry.known_protos import is_known, known_file
from klamm.registry.proto import resolve_options

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool


def pool_of(file: FileDescriptorProto, references: Mapping[str, FileDescriptorProto]) -> DescriptorPool:
    """Return a pool with a file, and with all files that it imports directly or indirectly.

    Args:
        file: Descriptor of the file.
        references: Descriptors of the imported files by name.

    Raises:
        SchemaError: An import is missing, or the descriptors contradict each other.
    """
    files: dict[str, FileDescriptorProto] = {}

    def add(name: str, found: FileDescriptorProto | None, path: tuple[str, ...]) -> None:
        if name in files:
            return
        if name in path:
            raise SchemaError(f"the Protobuf schema is invalid: {' imports '.join((*path, name))}")
        if found is None and is_known(name):
            found = known_file(name)
        if found is None:
            raise SchemaError(
                f"the Protobuf schema imports {name!r}, and no reference has this name",
                hint="register the imported file, and list it in the references of the schema",
            )
        for dependency in found.dependency:
            add(dependency, references.get(dependency), (*path, name))
        for option in getattr(found, "option_dependency", ()):  # protobuf 6.33 and later
            if option in references or is_known(option):
                add(option, references.get(option), (*path, name))
        files[name] = found

    add(file.name, file, ())
    pool = _pool(files.values())
    # Extensions declare custom options, so the pool without these options is needed to resolve them.
    changed = [resolve_options(each, pool) for each in files.values()]
    return _pool(files.values()) if any(changed) else pool


def _pool(files: Iterable[FileDescriptorProto]) -> DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    for each in files:
        try:
            pool.AddSerializedFile(each.SerializeToString())
        except TypeError as error:
            raise SchemaError(f"the Protobuf schema is invalid: {error}") from None
    return pool
