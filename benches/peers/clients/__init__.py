"""One adapter for each client. All adapters have the same structure, so that readers can compare them.

An adapter has `NAME`, `IMPORT`, `versions()`, `SHARE` and `CASES`. `SHARE` is the fraction of the records that the
client gets. A slow client gets only a part, because it would otherwise take most of the run. `CASES` maps a case and a
variant to a function. The function takes the job, the load and a meter (or turns). The function does its set-up outside
the timed section, and returns the number of records that it moved. A producer first sends one acknowledged record to
each partition, which opens the connections.
"""

CLIENTS = (
    "raw",
    "confluent",
    "aiokafka",
    "kafka_python",
    "klamm",
)  # names of the modules; ratios compare with raw and confluent
