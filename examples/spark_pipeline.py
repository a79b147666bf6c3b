"""Summarize a topic of source lines by package, with Spark and without a jar.

The code is in `klamm.examples.source_lines`, because `klamm demo` runs it too.

    python examples/spark_pipeline.py --bootstrap localhost:9092 --source lines --result packages --checkpoint /tmp/packages
"""

from klamm.examples.source_lines import main

if __name__ == "__main__":
    main()
