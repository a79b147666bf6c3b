"""Defines the workload of every client: the same records with the same settings.

This module defines each setting once, and each adapter translates the settings for its client. If a client needs other
settings, the docstring of its adapter lists and explains these settings.
"""

import random
from dataclasses import dataclass, field

PARTITIONS = 4
KEY_BYTES, VALUE_BYTES = 16, 100
POOL = 10_000  # distinct records: enough to distribute keys evenly, but so few that the client uses most of the memory

# Producers: librdkafka's defaults for batch size and linger. No client was faster with batches of 16 or 128 KiB. The
# Java client 4 also has a linger of 5 ms.
BATCH_BYTES = 1_000_000
LINGER_MS = 5
IN_FLIGHT = 5
UNSENT_BYTES = 64 << 20  # limit of unsent records, for producers that have such a limit

# Consumers: the common defaults for a fetch. Other clients were not faster with larger fetches. Java polls 500 records by default.
# confluent-kafka was slower with thousands of records per poll, because more message objects exist at once.
FETCH_MIN_BYTES = 1
FETCH_WAIT_MS = 500
FETCH_BYTES = 50 << 20
PARTITION_FETCH_BYTES = 1 << 20
PREFETCH_BYTES = 64 << 20
POLL_RECORDS = 500
ARROW_ROWS = 65_536

WAIT_S = 120  # timeout for anything that normally takes much less
TURNS = ("latency", "end-to-end")  # cases of one record at a time
TLS = ("produce-tls", "consume-tls")


@dataclass
class Load:
    """The pool of records, as columns and as pairs of key and value. The values come from a fixed seed."""

    keys: list[bytes] = field(init=False)
    values: list[bytes] = field(init=False)
    pairs: list[tuple[bytes, bytes]] = field(init=False)

    def __post_init__(self) -> None:
        rng = random.Random(20)
        self.keys = [b"key-%012d" % number for number in range(POOL)]
        self.values = [rng.randbytes(VALUE_BYTES) for _ in range(POOL)]
        self.pairs = list(zip(self.keys, self.values, strict=True))


@dataclass(frozen=True)
class Job:
    """One measurement: client, case, topic and size."""

    client: str
    case: str
    variant: str
    bootstrap: str
    topic: str
    records: int
    idempotence: bool
    authority: str  # file with the CA certificate if the broker uses TLS, otherwise empty

    @property
    def passes(self) -> int:
        """Return how many times a producer sends the whole pool of records."""
        return self.records // POOL


def summary(*, idempotence: bool) -> str:
    """Return the settings as one line of text, for the report."""
    return (
        f"{KEY_BYTES}-byte keys, {VALUE_BYTES}-byte values, {PARTITIONS} partitions, acks=all, no compression, "
        f"idempotence {'on' if idempotence else 'off'}, batches of {BATCH_BYTES:,} bytes, linger {LINGER_MS} ms (0 for latency), "
        f"{PARTITION_FETCH_BYTES >> 20} MiB a partition and fetch, CRCs checked"
    )
