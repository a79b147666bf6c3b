"""One file per client, all with the same shape, so that they can be read side by side.

Each says what it is (`NAME`, `IMPORT`, `SHARE`: the part of the records it is given, because the slow ones would
take most of the run; `versions()`) and lists in `CASES` what it can do: case -> variant -> function. A function
takes the job, the load and a meter (or turns), keeps its set-up outside the timed section, and returns how many
records it moved. A producer first writes one acknowledged record to each partition, which opens its connections.
"""

CLIENTS = ("raw", "confluent", "aiokafka", "kafka_python", "klamm")  # file names; raw and confluent are the bases
