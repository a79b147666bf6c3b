"""Lets Spark find `format("klamm")`: it looks into every top-level module named `pyspark_*`.

One such module that fails to import switches this off for all of them, so there is nothing else here.
"""

from klamm.spark.source import KlammDataSource as DefaultSource

__all__ = ["DefaultSource"]
