"""The raw socket: a client that moves the same records to and from the broker with the fewest bytes and steps.

The client uses Produce v3 and Fetch v4, the oldest versions that a Kafka 4 broker supports. The client builds its
requests before the measurement. The client reads only two parts of a response: error codes, and the next offset in the
header of each batch. The client has no metadata, retries or groups, so the broker must lead every partition.
"""

import socket
import struct
import time
from collections.abc import Iterable, Iterator

PRODUCE, FETCH = (0, 3), (1, 4)
CORRELATION = 7

BATCH = struct.Struct(">qiibIhiqqqhii")  # a magic-2 batch up to its records
BEFORE_CRC = struct.Struct(">qiibI").size
LAST_OFFSET_DELTA = struct.Struct(">i")


def crc32c_of_byte(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


CRC32C = [crc32c_of_byte(byte) for byte in range(256)]


def crc32c(data: bytes) -> int:
    table, crc = CRC32C, 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def varint(number: int) -> bytes:
    """Encode a number as a zigzag varint, with seven bits per byte. The number must not be negative."""
    number, out = number << 1, bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def record(delta: int, key: bytes, value: bytes) -> bytes:
    body = b"\0\0" + varint(delta) + varint(len(key)) + key + varint(len(value)) + value + b"\0"
    return varint(len(body)) + body


def batch(records: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Encode one uncompressed, non-idempotent batch of (key, value) pairs, with the current time."""
    encoded = [record(delta, key, value) for delta, (key, value) in enumerate(records)]
    body, now, last = b"".join(encoded), int(time.time() * 1000), len(encoded) - 1
    fields = (0, last, now, now, -1, -1, -1, len(encoded))
    length = BATCH.size - 12 + len(body)
    unsigned = BATCH.pack(0, length, -1, 2, 0, *fields)[BEFORE_CRC:] + body
    return struct.pack(">qiibI", 0, length, -1, 2, crc32c(unsigned)) + unsigned


def string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def request(api: tuple[int, int], body: bytes) -> bytes:
    frame = struct.pack(">hhi", *api, CORRELATION) + string("raw-socket") + body
    return struct.pack(">i", len(frame)) + frame


def produce_request(topic: str, batches: dict[int, bytes]) -> bytes:
    parts = b"".join(struct.pack(">ii", index, len(data)) + data for index, data in batches.items())
    return request(
        PRODUCE, struct.pack(">hhii", -1, -1, 30_000, 1) + string(topic) + struct.pack(">i", len(batches)) + parts
    )


def fetch_request(topic: str, offsets: dict[int, int], wait_ms: int, max_bytes: int, partition_bytes: int) -> bytes:
    parts = b"".join(struct.pack(">iqi", index, offset, partition_bytes) for index, offset in offsets.items())
    return request(
        FETCH,
        struct.pack(">iiiibi", -1, wait_ms, 1, max_bytes, 0, 1)
        + string(topic)
        + struct.pack(">i", len(offsets))
        + parts,
    )


class Broker:
    """One connection to the broker, with one buffer for all responses."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.partition(",")[0].rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # With Python's own timeout, MSG_WAITALL would return early. So use a blocking socket with a timeout of the kernel.
        self.socket.settimeout(None)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 60, 0))
        self.buffer = memoryview(bytearray(1 << 16))

    def send(self, frame: bytes) -> None:
        self.socket.sendall(frame)

    def response(self) -> memoryview:
        """Read the body of the next response. The view is valid until the next call."""
        size = struct.unpack(">i", self.fill(4))[0]
        if size > len(self.buffer):
            self.buffer = memoryview(bytearray(size))
        return self.fill(size)[4:]

    def fill(self, size: int) -> memoryview:
        if self.socket.recv_into(self.buffer, size, socket.MSG_WAITALL) != size:
            raise ConnectionError("the broker closed the connection")
        return self.buffer[:size]

    def acknowledged(self) -> None:
        """Read one Produce response, and raise an error if the response contains one."""
        body = self.response()
        for _, error, *_ in partitions(body, struct.Struct(">ihqq")):
            check("Produce", error)

    def close(self) -> None:
        self.socket.close()


class Sender:
    """Sends the same record repeatedly, to measure when a consumer receives it."""

    def __init__(self, bootstrap: str, topic: str, record: tuple[bytes, bytes]) -> None:
        self.broker = Broker(bootstrap)
        self.frame = produce_request(topic, {0: batch([record])})

    def send(self) -> int:
        """Send the record. Return the time just before sending, in nanoseconds."""
        began = time.perf_counter_ns()
        self.broker.send(self.frame)
        return began

    def wait_acknowledged(self) -> None:
        """Wait until the broker acknowledges the record, so that the broker is idle before the next record."""
        self.broker.acknowledged()


def partitions(body: memoryview, fields: struct.Struct, start: int = 0) -> Iterator[tuple[int, ...]]:
    """Yield the fields of each partition in a response with one topic. The fields must have a fixed size."""
    name = struct.unpack_from(">h", body, start + 4)[0]
    at = start + 6 + name
    count = struct.unpack_from(">i", body, at)[0]
    return fields.iter_unpack(body[at + 4 : at + 4 + count * fields.size])


def fetched(body: memoryview, offsets: dict[int, int]) -> int:
    """Advance `offsets` past the complete batches of a Fetch response. Return the number of records in these batches."""
    at = 10 + struct.unpack_from(">h", body, 8)[0]
    count, records = struct.unpack_from(">i", body, at)[0], 0
    at += 4
    for _ in range(count):
        index, error, _, _, aborted = struct.unpack_from(">ihqqi", body, at)
        check("Fetch", error)
        at += 26 + 16 * max(aborted, 0)
        size = struct.unpack_from(">i", body, at)[0]
        at += 4
        end, step = at + size, at
        while step + BATCH.size <= end:
            base, length = struct.unpack_from(">qi", body, step)
            if step + 12 + length > end:
                break  # the broker cuts the last batch at the size limit
            past = base + LAST_OFFSET_DELTA.unpack_from(body, step + 23)[0] + 1
            records += past - offsets[index]
            offsets[index] = past
            step += 12 + length
        at = end
    return records


def check(what: str, error: int) -> None:
    if error:
        raise RuntimeError(
            f"{what} failed with error code {error}"
            + (" (not the leader: the raw socket needs a cluster of one broker)" if error == 6 else "")
        )
