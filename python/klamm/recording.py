"""Reads topics, records and the results of requests from a flight recorder's dump, for `DevBroker.replay`.

The core's `logging/flight.rs` and `engine/connection/traces.rs` describe the format of the dump. The dev broker replays
the recording.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from klamm import protocol
from klamm.errors import ConfigError, DecodeError

if TYPE_CHECKING:
    from os import PathLike

Result = tuple[str, float | None, str | None]
"""Result of a request, as the arguments `action`, `seconds` and `error` of `DevBroker.fault`."""

SUPPORTED = 1
"""Version of the dump format that this file reads."""
MOST_BROKERS = 100

MISSING = "UNKNOWN_TOPIC_OR_PARTITION"
NO_ERROR = 0
DROPPED: Result = ("drop", None, None)
SILENT: Result = ("delay", 3600.0, None)
BY_ITSELF = {("JoinGroup", "MEMBER_ID_REQUIRED"), ("ApiVersions", "UNSUPPORTED_VERSION")}
"""Errors that the dev broker returns without an injected fault."""


@dataclass
class Recording:
    """The recording of a client's traffic with its brokers.

    Attributes:
        brokers: Number of brokers, or 1 if it is not known.
        topics: Number of partitions of each topic.
        has_missing_topics: Whether the client asked for a topic that did not exist.
        records: Batches by topic and partition.
        versions: For each API, the newest version that the client used.
        results: Results of the requests of each API, in order. None means a response without an error.
    """

    brokers: int = 1
    topics: dict[str, int] = field(default_factory=dict)
    has_missing_topics: bool = False
    records: dict[tuple[str, int], list[bytes]] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    results: list[tuple[str, Result | None]] = field(default_factory=list)


class Slot:
    """A request in the dump, and its result if the dump has the result."""

    def __init__(self, api: str) -> None:
        self.api = api
        self.is_over = False
        self.result: Result | None = None


def read(path: str | PathLike[str]) -> Recording:
    """Read a recording from the file of a dump.

    Raises:
        ConfigError: The file is not the dump of a flight recorder.
    """
    with Path(path).open(encoding="utf-8") as dump:
        lines = enumerate(dump, 1)
        head = next(lines, (1, ""))[1]
        number = 1
        try:
            reader = Reader(json.loads(head))
            slots: list[Slot] = []
            for number, line in lines:  # noqa: B007 - the error message has the number
                reader.take(json.loads(line), slots)
            return reader.finished(slots)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, DecodeError) as error:
            raise ConfigError(
                f"line {number} of {path} is not part of a flight recorder's dump: {error!r}",
                hint="pass a file that dump_flight() wrote",
            ) from None


class Reader:
    """Collects a recording from the entries of a dump."""

    def __init__(self, head: dict[str, Any]) -> None:
        if head["flight"] != SUPPORTED:
            raise ValueError(f"format {head['flight']}")
        self.found = Recording()
        self.names: dict[str, str] = {}
        """Name of each topic, by topic ID."""
        self.missing: set[str] = set()
        """Topics that did not exist according to the last metadata response."""
        self.codes = {error.code: error.name for error in protocol.errors()}
        self.sent: dict[tuple[str, int, str], Slot] = {}

    def take(self, entry: dict[str, Any], slots: list[Slot]) -> None:
        """Process one entry of the dump."""
        kind = entry["kind"]
        if kind == "event":
            return
        api, version = str(entry["api"]), int(entry["version"])
        key = str(entry["broker"]), int(entry["correlation_id"]), api
        if kind == "request":
            self.found.versions[api] = max(version, self.found.versions.get(api, 0))
            self.sent[key] = Slot(api)
            slots.append(self.sent[key])
            return
        slot = self.sent.pop(key, None)
        if slot is None:  # the recorder dropped the request
            slot = Slot(api)
            slots.append(slot)
        slot.is_over = True
        if kind == "response":
            body = protocol.decode(api, "response", version, bytes.fromhex(entry["body"])) if "body" in entry else None
            slot.result = self.error_of(api, entry, body)
        else:
            slot.result = SILENT if kind == "timed_out" else DROPPED

    def error_of(self, api: str, entry: dict[str, Any], body: dict[str, Any] | None) -> Result | None:
        """Return the error of a response, or None. Add the topics and records of the response to the recording."""
        codes = [str(error["code"]) for error in entry.get("errors", [])]
        if api == "Metadata" and body is not None:
            self.take_metadata(body)
            # Without a fault, the dev broker returns the same error for a missing topic. A fault would also affect the
            # request's other topics.
            has_good = any(topic["errorCode"] == NO_ERROR for topic in body["topics"])
            codes = [] if has_good else [code for code in codes if code != MISSING]
        elif api in ("Fetch", "ShareFetch") and body is not None:
            for topic in body["responses"]:
                self.take_records(topic)
        codes = [code for code in codes if (api, code) not in BY_ITSELF]
        if not codes:
            return None
        return "error", None, codes[0] if codes[0] in self.codes.values() else "UNKNOWN_SERVER_ERROR"

    def take_metadata(self, body: dict[str, Any]) -> None:
        """Add the cluster and its topics to the recording."""
        self.found.brokers = max(self.found.brokers, min(len(body["brokers"]), MOST_BROKERS))
        for topic in body["topics"]:
            name = topic["name"]
            if name is None or topic.get("isInternal"):
                continue
            if topic["errorCode"] != NO_ERROR:
                if self.codes.get(topic["errorCode"]) == MISSING:
                    self.missing.add(name)
                continue
            self.missing.discard(name)
            self.found.topics[name] = max(len(topic["partitions"]), self.found.topics.get(name, 1))
            if "topicId" in topic:
                self.names[str(topic["topicId"])] = name

    def take_records(self, topic: dict[str, Any]) -> None:
        """Add the batches of a topic in a fetch response to the recording."""
        name = topic.get("topic") or self.names.get(str(topic.get("topicId")))
        for partition in topic["partitions"]:
            if name is not None and partition["records"]:
                index = int(partition["partitionIndex"])
                self.found.records.setdefault((name, index), []).append(bytes(partition["records"]))
                self.found.topics[name] = max(index + 1, self.found.topics.get(name, 1))

    def finished(self, slots: list[Slot]) -> Recording:
        """Return the recording, without the topics that did not exist at the end of the dump."""
        found = self.found
        found.results = [(slot.api, slot.result) for slot in slots if slot.is_over]
        found.has_missing_topics = bool(self.missing)
        found.topics = {name: count for name, count in found.topics.items() if name not in self.missing}
        found.records = {key: data for key, data in found.records.items() if key[0] not in self.missing}
        return found
