"""The data source `klamm`: where Spark's calls arrive, and nothing more.

Options are parsed in every method, since Spark makes and pickles this object on its own terms and
must find it as plain as it left it.
"""

# typing.override is there from Python 3.12 on.
# mypy: disable-error-code="explicit-override"

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from klamm.errors import ConfigError
from klamm.spark import clients, legacy
from klamm.spark.options import read_options, write_options
from klamm.spark.read import KlammFilteringReader, KlammReader
from klamm.spark.schema import source_schema
from klamm.spark.settings import Settings
from klamm.spark.stream import ADMISSION_CONTROL, KlammStreamReader
from klamm.spark.write import KlammStreamWriter, KlammWriter

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader
    from pyspark.sql.types import StructType

    from klamm.spark.options import WriteOptions

log = logging.getLogger("klamm.spark")


class KlammDataSource(DataSource):
    """`spark.read.format("klamm")`, and the same for readStream, write and writeStream."""

    @classmethod
    def name(cls) -> str:
        """Return what stands in `format(...)`."""
        return "klamm"

    def schema(self) -> StructType:
        """Describe the rows, which also checks the options before anything runs."""
        options = read_options(Settings(self.options))
        if options.protocol is None:
            clients.check_consumer(options.config)
        else:
            legacy.check(options)
        return source_schema(options.include_headers, options.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Make the reader of a batch query."""
        options = read_options(Settings(self.options), streaming=False)
        for name in (
            "maxOffsetsPerTrigger",
            "minOffsetsPerTrigger",
            "maxTriggerDelay",
            "maxBytesPerTrigger",
            "commitGroup",
        ):
            if name.lower() in self.options:
                log.warning("option '%s' does nothing in a batch read", name)
        if options.protocol is not None:
            return legacy.KlammLegacyReader(options, schema)
        return (KlammFilteringReader if options.filter_pushdown else KlammReader)(options, schema)

    def streamReader(self, schema: StructType) -> KlammStreamReader:
        """Make the reader of a streaming query."""
        options = read_options(Settings(self.options), streaming=True)
        if options.protocol is not None:
            raise ConfigError(
                f"option 'kafka.protocol' is {options.protocol}, and a stream needs Kafka 0.8 or newer",
                hint="`klamm mirror --follow` copies an old topic to where it can be streamed from",
            )
        if options.limits.are_set and not ADMISSION_CONTROL:
            raise ConfigError("options that limit a batch, such as 'maxOffsetsPerTrigger', need Spark 4.2 or newer")
        if "groupidprefix" in self.options:
            log.warning("option 'groupIdPrefix' does nothing: klamm's reads join no group; 'commitGroup' names one")
        return KlammStreamReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> KlammWriter:
        """Make the writer of a batch query."""
        return KlammWriter(self._write_options(), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> KlammStreamWriter:  # noqa: ARG002
        """Make the writer of a streaming query."""
        # In output mode complete Spark asks to overwrite; the newest row of a key stands for it.
        return KlammStreamWriter(self._write_options(), schema)

    def _write_options(self) -> WriteOptions:
        options = write_options(Settings(self.options))
        transactional = {"transactional.id": "klamm"} if options.exactly_once else {}
        clients.check_producer(options.config | transactional)
        return options
