"""Defines the data source `klamm`, which receives Spark's calls and creates readers and writers.

Spark creates and pickles the data source object, so the object stores nothing, and every method parses the options.
"""

# klamm supports Python 3.10, which does not have `typing.override`.
# mypy: disable-error-code="explicit-override"

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pyspark.sql import datasource

from klamm.errors import ConfigError
from klamm.spark import clients
from klamm.spark.failures import short_errors
from klamm.spark.options import read_options, write_options
from klamm.spark.read import KlammFilteringReader, KlammReader, columns_schema, with_schemas
from klamm.spark.settings import Settings
from klamm.spark.stream import KlammStreamReader
from klamm.spark.write import KlammStreamWriter, KlammWriter

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader
    from pyspark.sql.types import StructType

    from klamm.spark.options import WriteOptions

log = logging.getLogger("klamm.spark")


# Spark 4.0 does not pass filters to a data source.
HAS_FILTERS = hasattr(datasource, "Filter")


class KlammDataSource(datasource.DataSource):
    """The data source behind `format("klamm")`, for read, readStream, write and writeStream.

    docs/reference/spark.md lists the options.

    Example:
        frame = spark.read.format("klamm").options(**{"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t"}).load()
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the data source for `format(...)`: `klamm`."""
        return "klamm"

    @short_errors
    def schema(self) -> StructType:
        """Return the schema of a read. Also check options and configuration, because Spark calls this method first."""
        clients.prepare_process()
        options = read_options(Settings(self.options))
        if options.protocol is None:
            clients.check_consumer(options.config)
        else:
            from klamm.spark import legacy  # takes 20 ms to import, in each process of Spark

            legacy.check(options)
        return columns_schema(options)

    @short_errors
    def reader(self, schema: StructType) -> DataSourceReader:
        """Create the reader of a batch query."""
        clients.prepare_process()
        options = with_schemas(read_options(Settings(self.options), streaming=False))
        for name in (
            "maxOffsetsPerTrigger",
            "minOffsetsPerTrigger",
            "maxTriggerDelay",
            "maxBytesPerTrigger",
            "commitGroup",
        ):
            if name.lower() in self.options:
                log.warning("option '%s' has no effect in a batch read", name)
        if options.filter_pushdown and not HAS_FILTERS:
            log.warning("option 'filterPushdown' has no effect before Spark 4.1")
        if options.protocol is not None:
            from klamm.spark import legacy

            return legacy.KlammLegacyReader(options, schema)
        return (KlammFilteringReader if options.filter_pushdown else KlammReader)(options, schema)

    # Do not use `short_errors` here. If this method raises an error, the clean-up of Spark's process fails too, and
    # only the traceback shows the first error.
    def streamReader(self, schema: StructType) -> KlammStreamReader:
        """Create the reader of a streaming query."""
        options = with_schemas(read_options(Settings(self.options), streaming=True))
        if options.protocol is not None:
            raise ConfigError(
                f"option 'kafka.protocol' is {options.protocol}, but a stream needs Kafka 0.8 or newer",
                hint="copy the topic into a newer cluster with `klamm mirror --follow`, and stream from there",
            )
        if "groupidprefix" in self.options:
            log.warning(
                "option 'groupIdPrefix' has no effect: klamm's reads join no group; use 'commitGroup' to name one"
            )
        return KlammStreamReader(options, schema)

    @short_errors
    def writer(self, schema: StructType, overwrite: bool) -> KlammWriter:
        """Create the writer of a batch query."""
        return KlammWriter(self._write_options(), schema, overwrite)

    @short_errors
    def streamWriter(self, schema: StructType, overwrite: bool) -> KlammStreamWriter:  # noqa: ARG002
        """Create the writer of a streaming query."""
        # In output mode complete, Spark sets `overwrite`. klamm ignores `overwrite`: a topic keeps all rows, and the
        # newest row of a key is the current one.
        options = self._write_options()
        if options.txn is not None:
            raise ConfigError(
                "options 'txnAppId' and 'txnVersion' are only for batch writes: a stream has its query ID and its batch IDs",
                hint="leave them out",
            )
        return KlammStreamWriter(options, schema)

    def _write_options(self) -> WriteOptions:
        clients.prepare_process()
        options = write_options(Settings(self.options))
        clients.check_producer(options.config, transactional=options.exactly_once)
        return options
