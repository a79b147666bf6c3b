"""Summarize a topic of source lines by package, with Spark and without a jar.

The module `klamm.examples.source_lines` has the code, because `klamm demo` runs the same code.

    python examples/spark_pipeline.py --bootstrap localhost:9092 --source lines --result packages --checkpoint /tmp/packages
"""

from klamm.examples.source_lines import main

if __name__ == "__main__":
    main()
