"""Sum up a topic of source lines by package, with Spark and without a jar.

The pipeline is `klamm.examples.source_lines`, in the package, so that `klamm demo` runs the same code: read it there.

    python examples/spark_pipeline.py --bootstrap localhost:9092 --source lines --result packages --checkpoint /tmp/packages
"""

from klamm.examples.source_lines import main

if __name__ == "__main__":
    main()
