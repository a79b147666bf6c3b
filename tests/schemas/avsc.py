"""Parses real .avsc files, and compares with fastavro what is refused. `make test-schemas` runs this program.

KLAMM_AVSC has directories of copies of other projects, separated as in PATH. The program prints the number of files, how many are
read, and the reasons of the refusals. It fails if klamm refuses a file that fastavro reads. Many files refer to types
of other files, which both refuse.
"""

from __future__ import annotations

import collections
import json
import os
import re
import sys
from pathlib import Path

import fastavro

from klamm._klamm import AvroSchema
from klamm.registry.errors import SchemaError

ROOTS = [Path(each) for each in os.environ.get("KLAMM_AVSC", "").split(os.pathsep) if each]


def is_read_by_fastavro(text: str) -> bool:
    """Return whether fastavro parses a schema."""
    try:
        fastavro.parse_schema(json.loads(text))
    except Exception:  # noqa: BLE001 - fastavro raises many types
        return False
    return True


def main() -> int:
    """Parse all files, and print the result."""
    reasons: collections.Counter[str] = collections.Counter()
    read, wrong = 0, []
    for path in (path for root in ROOTS for path in sorted(root.rglob("*.avsc"))):
        text = path.read_text("utf-8", "replace")
        try:
            AvroSchema(text, [])
            read += 1
        except SchemaError as error:
            reasons[re.sub(r'"[^"]*"| \(field .*|line .*', "…", str(error))] += 1
            if is_read_by_fastavro(text):
                wrong.append(f"{path}: {error}")
    print(f"{read + sum(reasons.values())} .avsc files, {read} read")
    for reason, count in reasons.most_common():
        print(f"  {count:5} {reason}")
    print(*(f"fastavro reads {each}" for each in wrong), sep="\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
