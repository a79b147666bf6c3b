"""Leaves fields out of the reader's schema, so that the decoder skips them and their types do not matter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from klamm._klamm import AvroSchema


def chosen(available: Sequence[str], wanted: Sequence[str], folded: Callable[[str], str]) -> set[str]:
    """Return the fields that a projection keeps.

    Args:
        available: Names of all fields.
        wanted: Names of the fields to keep.
        folded: Function that maps names that are considered equal to one name.

    Raises:
        ConfigError: A wanted field does not exist.
    """
    names = {folded(name) for name in wanted}
    for name in wanted:
        if folded(name) not in map(folded, available):
            raise ConfigError(f"the value has no field {name!r}", hint=f"it has {', '.join(available)}")
    return {name for name in available if folded(name) in names}


def of_avro(schema: AvroSchema, wanted: Sequence[str], folded: Callable[[str], str]) -> AvroSchema:
    """Return an Avro schema whose record has only the wanted fields.

    Raises:
        ConfigError: A wanted field does not exist, or the schema is no record.
    """
    root = schema.node(schema.root)
    branches = (
        [node for node in map(schema.node, root) if node != {"type": "null"}] if isinstance(root, list) else [root]
    )
    names = [field["name"] for branch in branches for field in branch.get("fields", ())]
    found = schema.chosen(chosen(names, wanted, folded)) if len(branches) == 1 and "fields" in branches[0] else None
    if found is None:
        raise ConfigError("only the fields of a record can be chosen, and the schema is no record", hint="leave it out")
    return found
