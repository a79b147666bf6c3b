"""Creates pools of Protobuf descriptors. A pool contains a file and its imports, and can create message classes."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from google.protobuf import descriptor_pool

from klamm.registry.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool

WELL_KNOWN = (
    "any",
    "api",
    "descriptor",
    "duration",
    "empty",
    "field_mask",
    "source_context",
    "struct",
    "timestamp",
    "type",
    "wrappers",
)
"""Names of the files in `google/protobuf` that every implementation of Protobuf has."""


def is_well_known(name: str) -> bool:
    """Return whether a file is part of Protobuf itself.

    A schema needs no reference in the registry to import Protobuf's own files.
    """
    return name.startswith("google/protobuf/") and name[16:].removesuffix(".proto") in WELL_KNOWN


def pool_of(file: FileDescriptorProto, references: Mapping[str, FileDescriptorProto]) -> DescriptorPool:
    """Return a pool with a file, and with all files that it imports directly or indirectly.

    Args:
        file: Descriptor of the file.
        references: Descriptors of the imported files by name.

    Raises:
        SchemaError: An import is missing, or the descriptors contradict each other.
    """
    pool = descriptor_pool.DescriptorPool()
    added: set[str] = set()

    def add(name: str, found: FileDescriptorProto | None, path: tuple[str, ...]) -> None:
        if name in added:
            return
        if name in path:
            raise SchemaError(f"the Protobuf schema is invalid: {' imports '.join((*path, name))}")
        if found is None and is_well_known(name):
            module = import_module(f"google.protobuf.{name[16:].removesuffix('.proto')}_pb2")
            found = type(file).FromString(module.DESCRIPTOR.serialized_pb)
        if found is None:
            raise SchemaError(
                f"the Protobuf schema imports {name!r}, and no reference has this name",
                hint="register the imported file, and list it in the references of the schema",
            )
        for dependency in found.dependency:
            add(dependency, references.get(dependency), (*path, name))
        try:
            pool.AddSerializedFile(found.SerializeToString())
        except TypeError as error:
            raise SchemaError(f"the Protobuf schema is invalid: {error}") from None
        added.add(name)

    add(file.name, file, ())
    return pool
