"""Registers the data source `klamm` with Spark, which loads every top-level module named `pyspark_*`.

If one such module fails to import, Spark disables this for all of them. So if pyarrow is missing, or PySpark is older than 4.0, this
module logs a warning and registers nothing.
"""

import logging

try:
    from klamm.spark.source import KlammDataSource as DefaultSource

    __all__ = ["DefaultSource"]
except ImportError as error:
    logging.getLogger("klamm.spark").warning('format("klamm") is not available: %s', error)
