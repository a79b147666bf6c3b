"""What every client is asked to do: the same records under the same settings.

A setting stands here once and each adapter spells it in its client's words. What differs between clients, and
why, is said in the adapter's first lines.
"""

import random
from dataclasses import dataclass, field

PARTITIONS = 4
KEY_BYTES, VALUE_BYTES = 16, 100
POOL = 10_000  # distinct records: enough to spread the keys evenly, few enough that memory shows the client's own

# Producers. librdkafka's defaults for size and linger; no peer was faster with 16 or 128 KiB. Java 4 lingers 5 ms as well.
BATCH_BYTES = 1_000_000
LINGER_MS = 5
IN_FLIGHT = 5
UNSENT_BYTES = 64 << 20  # how much may wait in the producer, for those that can be told

# Consumers. Everybody's defaults for a fetch; the peers were not faster with more. Polls of 500 are Java's default;
# confluent-kafka was slower with thousands, since more messages are alive at once.
FETCH_MIN_BYTES = 1
FETCH_WAIT_MS = 500
FETCH_BYTES = 50 << 20
PARTITION_FETCH_BYTES = 1 << 20
PREFETCH_BYTES = 64 << 20
POLL_RECORDS = 500
ARROW_ROWS = 65_536

WAIT_S = 120  # for anything that should have come long before
TURNS = ("latency", "end-to-end")  # cases of one record at a time
TLS = ("produce-tls", "consume-tls")


@dataclass
class Load:
    """The pool as columns and as pairs, from a fixed seed."""

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
    """One measurement: who does what, where, how often."""

    client: str
    case: str
    variant: str
    bootstrap: str
    topic: str
    records: int
    idempotence: bool
    authority: str  # the file with who vouches for the broker, where it speaks TLS; else empty

    @property
    def passes(self) -> int:
        """How often a producer goes through the pool."""
        return self.records // POOL


def summary(*, idempotence: bool) -> str:
    """Say the settings in a sentence, for the report."""
    return (
        f"{KEY_BYTES}-byte keys, {VALUE_BYTES}-byte values, {PARTITIONS} partitions, acks=all, no compression, "
        f"idempotence {'on' if idempotence else 'off'}, batches of {BATCH_BYTES:,} bytes, linger {LINGER_MS} ms (0 for latency), "
        f"{PARTITION_FETCH_BYTES >> 20} MiB a partition and fetch, CRCs checked"
    )
