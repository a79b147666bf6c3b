"""Checks the settings of a Spark session. Spark does not show these settings to Python data sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_session(spark: SparkSession) -> None:
    """Raise `ConfigError` if the session has settings for delegation tokens, which klamm would ignore."""
    names = sorted(name for name in spark.conf.getAll if name.startswith(CLUSTERS))
    if names:
        raise ConfigError(
            f"the Spark session sets '{names[0]}', but klamm does not use Spark's delegation tokens",
            hint=f"leave '{CLUSTERS}*' out, and set the login of each query, such as option 'kafka.sasl.mechanism'",
        )


CLUSTERS = "spark.kafka.clusters."
