"""Decodes keys and values into typed Arrow columns, with schemas from a registry.

The Rust core decodes whole batches (`src/registry`). This package looks up the schemas that a batch needs, and makes a plan for each
schema. A plan tells the core how to decode values. The package combines the decoded columns into a batch. The
module `column` does this for one column. The modules `avro`, `protobuf` and `json_types` contain the code for each
format.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from klamm._klamm import ArrowColumns
from klamm.errors import ConfigError, KafkaError
from klamm.registry.client import AsyncSchemaRegistry, SchemaRegistry
from klamm.registry.columns.column import FORMATS, UNITS, Column, ReaderSchema
from klamm.registry.subjects import check_strategy
from klamm.waiting import run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Sequence

    from typing_extensions import Self

    from klamm._klamm import Records
    from klamm.batches import ValueFormat
    from klamm.errors import DeserializationError

__all__ = ["ReaderSchema", "TypedColumns"]

_ALLOWED: dict[str, tuple[Any, ...]] = {
    "on_error": ("raise", "null", "column"),
    "on_new_fields": ("drop", "raise"),
    "id_bytes": (4, 8),
    "timestamp_unit": (None, *UNITS),
}
"""The values of options. The first one is the default."""
_INVERTED = bytes(byte ^ 0xFF for byte in range(256))


class TypedColumns:
    """Turns records into Arrow batches with typed keys or values, for one iteration or table.

    Args:
        names: Names of the columns, or None for all columns.
        layout: Layout of the columns that are not typed, as for `ArrowColumns`.
        options: How keys and values are decoded.
        appends_offset: Whether the offset of each record comes after the columns, as a column of its own. The fields of
            keys and values do not avoid the name of this column.
        folded: Function that maps names that are considered equal to one name. The names of `value_fields` are such names.
        in_microseconds: Whether all timestamps have the unit microsecond. A timestamp that does not fit is treated as a
            value that cannot be decoded.

    Raises:
        ConfigError: An option is invalid, or a column does not exist.
    """

    def __init__(
        self,
        names: Sequence[str] | None,
        options: ValueFormat,
        layout: str = "klamm",
        *,
        appends_offset: bool = False,
        folded: Callable[[str], str] = str,
        in_microseconds: bool = False,
    ) -> None:
        _check(options)
        on_error, unit = options.get("on_error", "raise"), options.get("timestamp_unit")
        self._stops, self._has_errors, self._flattens = (
            on_error == "raise",
            on_error == "column",
            options.get("flatten"),
        )
        all_columns = ArrowColumns(names, layout)
        self._names: list[str] = pa.schema(all_columns).names
        self.registry, self._owns_registry = _registry(options.get("registry"))
        strategy = check_strategy(options.get("subject_name_strategy", "TOPIC"))
        self._specs: dict[str, Column] = {}
        for field in ("key", "value"):
            kind = options.get(f"{field}_format")
            schema = options.get(f"{field}_schema")
            if kind is None and schema is not None:
                raise ConfigError(f"{field}_schema needs {field}_format", hint=f"allowed: {', '.join(FORMATS)}")
            if kind is not None and field in self._names:
                column = Column(field, kind, schema, self.registry, strategy, options.get("id_bytes", 4))  # type: ignore[arg-type]
                column.in_microseconds = in_microseconds
                if field == "value" and options.get("value_fields") is not None:
                    column.choose(options["value_fields"], folded)  # type: ignore[arg-type]
                column.json_plan = ["json", None if unit is None else UNITS[unit]]
                column.set_message(options.get(f"{field}_message"), options.get("recursion_depth", 1))
                if options.get("on_new_fields") == "raise":
                    column.refuse_new_fields()
                self._specs[field] = column
        self._plain_names = [name for name in self._names if name not in self._specs]
        self._appends_offset = appends_offset
        if appends_offset and "offset" not in self._plain_names:
            self._plain_names.append("offset")
        self._plain = ArrowColumns(self._plain_names, layout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._owns_registry:
            self.registry.close()  # type: ignore[union-attr]

    def schema(self, topics: Sequence[str]) -> pa.Schema:
        """Return the schema of the batches, before the first batch exists."""
        self._check_blocking()
        for topic in topics or ("",):
            for spec in self._specs.values():
                run(spec.prepare_empty(topic))
        arrays = {name: pa.array([], spec.field.type) for name, spec in self._specs.items()}
        plain = {field.name: pa.array([], field.type) for field in pa.schema(self._plain)}
        return self._assembled(plain, arrays, {name: {} for name in arrays}, 0).schema

    def schemas_of(self, topics: Sequence[str]) -> dict[str, ReaderSchema]:
        """Look up the current schemas for the typed columns of topics, for use later or in other processes.

        Raises:
            ConfigError: The topics have different schemas.
        """
        return {name: run(spec.schema_of(topics)) for name, spec in self._specs.items()}

    def read(self, consumer: Any, records: Records[Any, Any]) -> Iterator[pa.RecordBatch]:
        """Decode records into batches. The consumer takes back the records after an error."""
        self._check_blocking()
        with _put_back_on_error(consumer, records):
            run(self._prepare(records))
        yield from self._batches(consumer, records)

    async def read_async(self, consumer: Any, records: Records[Any, Any]) -> AsyncIterator[pa.RecordBatch]:
        """Decode records into batches, like `read`, but without blocking the event loop.

        The program can cancel the lookups of schemas, seek or pause meanwhile, so the consumer has the records during
        the lookups. If they are no longer the next records, there is no batch, and the next poll continues.
        """
        consumer._put_back(records)  # noqa: SLF001
        await self._await(lambda: self._prepare(records))
        if consumer._take_again(records):  # noqa: SLF001
            for batch in self._batches(consumer, records):
                yield batch

    def _batches(self, consumer: Any, records: Records[Any, Any]) -> Iterator[pa.RecordBatch]:
        """Return the batch of the records before the first record that raises, and raise its error.

        While the program handles the batch, the consumer has the other records, so a commit does not include them.
        """
        with _put_back_on_error(consumer, records):
            batch, end, error = self._decode(records)
        if end < len(records):
            consumer._put_back(records[end:])  # noqa: SLF001
        if batch.num_rows:
            yield batch
        if error is not None and consumer._take_again(records[end : end + 1]):  # noqa: SLF001
            raise error

    def _check_blocking(self) -> None:
        if isinstance(self.registry, AsyncSchemaRegistry):
            raise ConfigError("a Consumer cannot wait for an AsyncSchemaRegistry", hint="pass a SchemaRegistry")

    async def _await(self, make: Callable[[], Any]) -> None:
        if self.registry is None or isinstance(self.registry, AsyncSchemaRegistry):
            await make()
            return
        import asyncio

        await asyncio.to_thread(lambda: run(make()))

    async def _prepare(self, records: Records[Any, Any]) -> None:
        for spec in self._specs.values():
            await spec.prepare(records, self._stops)

    def _decode(self, records: Records[Any, Any]) -> tuple[pa.RecordBatch, int, DeserializationError | None]:
        """Decode the records before the first record that raises an error.

        Return the batch, the number of its records, and the error of the next record or None.
        """
        arrays, failures = {}, {}
        error = None
        end = len(records)
        for name, spec in self._specs.items():
            part = spec.decode(records if end == len(records) else records[:end], 0, self._stops)
            failed = part.failures
            arrays[name] = pa.array(part)
            stop = len(part)
            if self._stops and failed:
                row = failed[0][0]
                if error is None or row < error[0]:
                    error = row, spec, failed[0]
            failures[name] = failed
            end = min(end, stop)
        arrays = {name: array[:end] for name, array in arrays.items()}
        taken = records[:end]
        plain = pa.record_batch(taken._columns(self._plain))  # noqa: SLF001
        columns = dict(zip(self._plain_names, plain.columns, strict=True))
        rows = {
            name: {
                row: (str(spec.cause(prefix, path, why)), getattr(records[row], f"raw_{name}"))
                for row, prefix, path, why in failures[name]
                if row < end
            }
            for name, spec in self._specs.items()
        }
        batch = self._assembled(columns, arrays, rows, end)
        raised = None
        if error is not None and error[0] == end:
            _, spec, (row, prefix, path, why) = error
            raised = spec.error(records[row], prefix, path, why)
        for spec in self._specs.values():
            spec.forget_failures()
        return batch, end, raised

    def _taken(self, typed: Iterable[str]) -> set[str]:
        """Return the names that the columns of fields must not have, in lower case.

        Spark compares names without case, and has another name for `timestamp_type`.
        """
        taken = {name.lower() for name in self._names}
        if "timestamp_type" in taken:
            taken.add("timestamptype")
        if self._has_errors:
            taken.update(f"{name}_{suffix}" for name in typed for suffix in ("error", "raw"))
        taken.update(f"{name}_is_null" for name in typed if self._flattens)
        return taken

    def _assembled(
        self, plain: dict[str, Any], typed: dict[str, pa.Array], failed: dict[str, dict[int, Any]], rows: int
    ) -> pa.RecordBatch:
        """Combine plain and typed columns into a batch, in the order of the requested names.

        `failed` has the error and the bytes of each value that cannot be decoded, by row.
        """
        arrays: list[Any] = []
        fields: list[pa.Field] = []
        taken = self._taken(typed)

        def add(name: str, array: Any, of: pa.Field | None = None) -> None:
            arrays.append(array)
            fields.append(pa.field(name, array.type) if of is None else of.with_name(name))

        for name in self._names:
            if name not in typed:
                add(name, plain[name])
                continue
            spec, array = self._specs[name], typed[name]
            if self._flattens and pa.types.is_struct(array.type):
                taken.discard(name)
                for field, child in zip(array.type, array.flatten(), strict=True):
                    add(_free(field.name, name, taken), child, field)
                add(f"{name}_is_null", _are_null(array, failed[name]))
            else:
                add(name, array, spec.field)
            if self._has_errors:
                errors: list[str | None] = [None] * rows
                raw: list[bytes | None] = [None] * rows
                for row, found in failed[name].items():
                    errors[row], raw[row] = found
                add(f"{name}_error", pa.array(errors, pa.string()))
                add(f"{name}_raw", pa.array(raw, pa.binary()))
        if self._appends_offset:
            add("offset", plain["offset"])
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _check(options: ValueFormat) -> None:
    for name, allowed in _ALLOWED.items():
        value = options.get(name, allowed[0])
        if value not in allowed:
            shown = ", ".join(str(each) for each in allowed if each is not None)
            raise ConfigError(f"{name} cannot be {value!r}", hint=f"allowed: {shown}")


def _are_null(array: pa.Array, failed: Collection[int]) -> pa.Array:
    """Return whether values are null. For values that cannot be decoded, the result is null."""
    rows = len(array)
    if not array.null_count:
        return pa.repeat(False, rows)
    if failed:
        return pa.array([None if row in failed else not value.is_valid for row, value in enumerate(array)], pa.bool_())
    # The method `is_null` imports pyarrow.compute, which takes 0.1 s.
    inverted = pa.py_buffer(array.buffers()[0].to_pybytes().translate(_INVERTED))
    return pa.Array.from_buffers(pa.bool_(), rows, [None, inverted], offset=array.offset)


def _free(field: str, column: str, taken: set[str]) -> str:
    """Return the name of a column for a field, and add the name to the names that are taken."""
    free = field if field.lower() not in taken else f"{column}_{field}"
    while free.lower() in taken:
        free += "_"
    taken.add(free.lower())
    return free


def _registry(given: Any) -> tuple[SchemaRegistry | AsyncSchemaRegistry | None, bool]:
    if given is None or isinstance(given, (SchemaRegistry, AsyncSchemaRegistry)):
        return given, False
    return SchemaRegistry(given), True


@contextmanager
def _put_back_on_error(consumer: Any, records: Records[Any, Any]) -> Iterator[None]:
    """If the block raises, let the consumer return the records again."""
    try:
        yield
    except BaseException:
        with suppress(KafkaError):  # the consumer is closed
            consumer._put_back(records)  # noqa: SLF001
        raise
