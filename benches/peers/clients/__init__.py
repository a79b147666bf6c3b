"""One adapter per client, all with the same shape, so that they can be read side by side.

An adapter has `NAME`, `IMPORT`, `versions()`, and `SHARE`: the part of the records that it gets, because slow clients would take most
of the run. `CASES` maps case and variant to a function. The function takes the job, the load and a meter (or turns), does its set-up
outside the timed section, and returns the number of records it moved. A producer first sends one acknowledged record to each partition,
which opens its connections.
"""

CLIENTS = ("raw", "confluent", "aiokafka", "kafka_python", "klamm")  # file names; raw and confluent are the bases
