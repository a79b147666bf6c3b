"""Lets Spark find `format("klamm")`: it looks into every top-level module named `pyspark_*`.

One such module that fails to import switches this off for all of them, so where something is missing (pyarrow, or PySpark is
older than 4.1) it says so, and names no source.
"""

import logging

try:
    from klamm.spark.source import KlammDataSource as DefaultSource

    __all__ = ["DefaultSource"]
except ImportError as error:
    logging.getLogger("klamm.spark").warning('format("klamm") is not available: %s', error)
