"""Registers the data source `klamm` with Spark.

Spark imports every top-level module whose name begins with `pyspark_`. If one of these imports fails, Spark ignores all
of these modules. So if pyarrow is missing, or PySpark is older than 4.0, this module logs a warning and registers
nothing.
"""

import logging

try:
    from klamm.spark.source import KlammDataSource as DefaultSource

    __all__ = ["DefaultSource"]
except ImportError as error:
    logging.getLogger("klamm.spark").warning('format("klamm") is not available: %s', error)
