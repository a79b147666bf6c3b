"""Damaged batches: klamm rejects those that the Java client rejects, after the same records.

In compressed batches the payload is damaged, and length and checksum are corrected, because klamm's decompressors
differ from Java's. Other batches are damaged anywhere. `Verdicts.java` runs the Java client on them.
"""

from __future__ import annotations

import os
import random
import subprocess
import zlib
from pathlib import Path

import pytest

import golden
from java_tools import TIMEOUT, java
from klamm import protocol
from klamm.errors import DecodeError

SEED = 20_261_126
EACH = int(os.environ.get("KLAMM_DAMAGED", "4000"))  # one in a thousand decompresses to something else than what it was


def whole(codec):
    """Return the single batches of the vectors."""
    for vector in golden.lines("records.jsonl.gz"):
        batches, data = vector["expect"]["batches"], bytes.fromhex(vector["hex"])
        if [(batch["compression"], batch["size"]) for batch in batches] == [(codec, len(data))] and len(data) < 2000:
            yield data


def damaged(data, chance):
    """Change, remove or insert some bytes."""
    data = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        at = chance.randrange(len(data))
        kind = chance.randrange(6)
        if kind < 2:
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 2:
            data[at] = chance.choice((0, 1, 0x0F, 0x10, 0x7F, 0x80, 0xF0, 0xFF))
        elif kind == 3:
            del data[at : at + chance.choice((1, 1, 2, 8))]
        elif kind == 4:
            data[at:at] = chance.randbytes(chance.choice((1, 1, 2, 8)))
        else:
            del data[at:]
        data = data or bytearray(b"\0")
    return bytes(data)


def stamped(data):
    """Return a batch with correct length and checksum."""
    data = bytearray(data)
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    if data[16] == 2:
        data[17:21] = protocol.crc32c(data[21:]).to_bytes(4, "big")
    else:
        data[12:16] = zlib.crc32(data[16:]).to_bytes(4, "big")
    return bytes(data)


def with_damaged_payload(data, chance):
    """Damage the compressed part of a batch or wrapper."""
    start = {0: 26, 1: 34, 2: 61}[data[16]]
    payload = damaged(data[start:], chance)
    head = data[:start] if data[16] == 2 else data[: start - 4] + len(payload).to_bytes(4, "big")
    return stamped(head + payload)


def damaged_anywhere(data, chance):
    """Damage a batch anywhere, half of the time with a correct checksum."""
    data = damaged(data, chance)
    return stamped(data) if len(data) > 61 and chance.randrange(2) else data


def verdict(data):
    """Return klamm's result in the form of `Verdicts.java`."""
    word, batches, more = "ok", [], []
    try:
        batches = protocol.decode_records(data)
    except DecodeError as error:
        word, batches, more = "refused", error.batches, error.records
    crc = count = 0
    for records in [*(batch.records for batch in batches), more]:
        for record in records:
            for part in (record.key, record.value):
                crc = zlib.crc32(b"\0" if part is None else b"\1" + part, crc)
            count += 1
    return f"{word} {count} {crc}"


def javas(inputs):
    """Return the results of the Java client."""
    command = [*java(), str(Path(__file__).parent.parent / "support" / "Verdicts.java")]
    lines = "\n".join(data.hex() for data in inputs)
    return subprocess.run(
        command, input=lines, capture_output=True, text=True, timeout=10 * TIMEOUT, check=True
    ).stdout.splitlines()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_damaged_batch_is_refused_where_java_refuses_it(codec):
    chance = random.Random(f"{SEED} {codec}")
    batches = list(whole(codec))
    assert len(batches) > 5
    damage = damaged_anywhere if codec == "none" else with_damaged_payload
    inputs = [damage(chance.choice(batches), chance) for _ in range(EACH)]
    differ = []
    for data, theirs in zip(inputs, javas(inputs), strict=True):
        ours = verdict(data)
        # A length that is not there may be more than the JVM has.
        if theirs.split()[:3] != ours.split() and "OutOfMemoryError" not in theirs:
            differ.append(f"{data.hex()}: {ours}, Java {theirs}")
    assert not differ, "\n".join([f"{len(differ)} of {EACH}", *differ[:20]])
