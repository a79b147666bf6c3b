"""Passes statistics to `stats_cb`, as JSON in librdkafka's format, so that existing dashboards work.

A separate thread calls `stats_cb` every `statistics.interval.ms`, so a function that blocks or raises does not delay
the client. Values that klamm does not have are 0, as in librdkafka when a feature is off. The page docs/operations.md
lists these values.
"""

from __future__ import annotations

import itertools
import json
import logging
import threading
import time
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from klamm.arguments import check_function
from klamm.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from klamm._klamm import ClientCore
    from klamm.metrics import Family

__all__ = ["statistics"]

_log = logging.getLogger("klamm.statistics")
_numbers = itertools.count(1)

WINDOW = (
    "min",
    "max",
    "avg",
    "sum",
    "cnt",
    "stddev",
    "hdrsize",
    "p50",
    "p75",
    "p90",
    "p95",
    "p99",
    "p99_99",
    "outofrange",
)
"""Fields of a window (a rolling histogram) in librdkafka's format."""


def pop_statistics_options(
    bootstrap: Any, function: Callable[[str], object] | None, config: Mapping[str, Any]
) -> tuple[Any, Settings | None]:
    """Remove `stats_cb` from a client's configuration.

    Return `bootstrap` without `stats_cb`, and the settings of the statistics. If the program passed no `stats_cb`,
    return None in place of the settings.
    """
    configs = dict(bootstrap) if isinstance(bootstrap, Mapping) else {}
    callbacks = [configs.pop(key) for key in ("stats_cb", "stats.cb") if key in configs]
    function = function or next(iter(callbacks), None)
    check_function("stats_cb", function)
    interval = config.get("statistics_interval_ms", configs.get("statistics.interval.ms", 0))
    name = config.get("client_id", configs.get("client.id", "klamm"))
    settings = None if function is None else Settings(function, interval, str(name))
    return (configs if callbacks else bootstrap), settings


class Settings:
    """Settings of the statistics: the function, the interval in milliseconds as passed, and the client ID."""

    def __init__(self, function: Callable[[str], object], interval: Any, client_id: str) -> None:
        self.function = function
        self.interval = interval
        self.client_id = client_id

    def start(self, client: ClientCore, kind: str) -> None:
        """Start the reporting thread, unless the interval is 0. The core has checked that the interval is a number."""
        interval = float(self.interval or 0) / 1000
        if interval <= 0:
            return
        name = f"{self.client_id}#{kind}-{next(_numbers)}"
        # The thread must not keep the client alive.
        arguments = (weakref.ref(client), self, interval, name, kind)
        threading.Thread(target=_report, args=arguments, name="klamm-statistics", daemon=True).start()


def _report(client: weakref.ref[ClientCore], settings: Settings, interval: float, name: str, kind: str) -> None:
    due = time.monotonic() + interval
    failed = False
    while True:
        time.sleep(max(due - time.monotonic(), 0))
        # If the function took longer than the interval, the thread skips the reports that are overdue.
        due = max(due + interval, time.monotonic())
        alive = client()
        if alive is None or alive._is_closed():
            return
        try:
            families = alive._families(detail=True)
        except KafkaError:  # the client belongs to the parent process
            return
        del alive
        try:
            settings.function(json.dumps(statistics(families, name, settings.client_id, kind)))
        except Exception:  # noqa: BLE001 - the error is logged, and the next call may succeed
            if not failed:
                _log.exception("stats_cb of %s raised an exception; later exceptions are not logged", name)
            failed = True


def statistics(families: list[Family], name: str, client_id: str, kind: str) -> dict[str, Any]:
    """Return the statistics of a client in librdkafka's format."""
    found = _Found(families)
    total = found.whole
    producing = kind == "producer"
    sent, sent_bytes = total.get("record-send-total", 0), total.get("byte-total", 0)
    received, received_bytes = total.get("records-consumed-total", 0), total.get("bytes-consumed-total", 0)
    report: dict[str, Any] = {
        "name": name,
        "client_id": client_id,
        "type": kind,
        "ts": time.monotonic_ns() // 1000,
        "time": int(time.time()),
        "age": total.get("age-us", 0),
        "replyq": 0,
        "msg_cnt": total.get("outstanding", 0),
        "msg_size": total.get("buffered-bytes", 0),
        "msg_max": 0,
        "msg_size_max": total.get("buffer-total-bytes", 0),
        "simple_cnt": 0,
        "metadata_cache_cnt": len({topic for topic, _ in found.partitions}),
        "brokers": {broker["name"]: broker for broker in map(found.broker, found.links)},
        "topics": {topic: found.topic(topic) for topic in found.topics},
        "tx": total.get("request-total", 0),
        "tx_bytes": total.get("outgoing-byte-total", 0),
        "rx": total.get("response-total", 0),
        "rx_bytes": total.get("incoming-byte-total", 0),
        "txmsgs": sent,
        "txmsg_bytes": sent_bytes,
        "rxmsgs": received,
        "rxmsg_bytes": received_bytes,
    }
    if "assigned-partitions" in total:
        report["cgrp"] = _group(total)
    if producing:
        report["eos"] = {
            "idemp_state": "",
            "idemp_stateage": 0,
            "txn_state": "",
            "txn_stateage": 0,
            "txn_may_enq": False,
            "producer_id": -1,
            "producer_epoch": -1,
            "epoch_cnt": 0,
        }
    return report


def _group(total: dict[str, float]) -> dict[str, Any]:
    ago = total.get("last-rebalance-seconds-ago", -1)
    joined = ago >= 0
    return {
        "state": "up" if total.get("heartbeat-total", 0) or joined else "init",
        "stateage": max(int(ago * 1000), 0),
        "join_state": "steady" if joined else "init",
        "rebalance_age": max(int(ago * 1000), 0),
        "rebalance_cnt": total.get("rebalance-total", 0),
        "rebalance_reason": "",
        "assignment_size": total["assigned-partitions"],
    }


def _window(values: dict[str, float]) -> dict[str, int]:
    return {name: int(values.get(name, 0)) for name in WINDOW}


class _Found:
    """The metrics of a client, grouped by the object that they describe."""

    def __init__(self, families: list[Family]) -> None:
        self.whole: dict[str, float] = {}
        self.links: list[tuple[dict[str, str], dict[str, float]]] = []
        self.partitions: dict[tuple[str, int], dict[str, float]] = {}
        self.topics: dict[str, dict[str, float]] = {}
        self._nodes: dict[str, dict[str, float]] = {}
        self._windows: dict[tuple[str, str], dict[str, float]] = {}
        for _, tags, values in families:
            match tags:
                case {"window": window}:
                    self._windows[tags.get("node-id", tags.get("topic", "")), window] = values
                case {"state": _}:
                    self.links.append((tags, values))
                case {"topic": topic, "partition": partition}:
                    self.partitions.setdefault((topic, int(partition)), {}).update(values)
                case {"topic": topic}:
                    self.topics.setdefault(topic, {}).update(values)
                case {"node-id": node}:
                    self._nodes.setdefault(node, {}).update(values)
                case {}:
                    self.whole.update({} if "request" in tags else values)
        for topic, _ in self.partitions:
            self.topics.setdefault(topic, {})

    def broker(self, link: tuple[dict[str, str], dict[str, float]]) -> dict[str, Any]:
        tags, now = link
        node = int(tags["node-id"].removeprefix("node-"))
        values = self._nodes.get(tags["node-id"], {})
        name = f"{tags['address']}/{node if node >= 0 else 'bootstrap'}"
        led = [tp for tp, values in self.partitions.items() if values.get("leader") == node]
        return {
            "name": name,
            "nodeid": node,
            "nodename": tags["address"],
            "source": "learned" if node >= 0 else "configured",
            "state": tags["state"],
            "stateage": 0,
            "outbuf_cnt": now["waiting"],
            "outbuf_msg_cnt": 0,
            "waitresp_cnt": now["in-flight"],
            "waitresp_msg_cnt": 0,
            "tx": values.get("request-total", 0),
            "txbytes": values.get("outgoing-byte-total", 0),
            "txerrs": values.get("errors", 0),
            "txretries": 0,
            "txidle": -1,
            "req_timeouts": 0,
            "rx": values.get("response-total", 0),
            "rxbytes": values.get("incoming-byte-total", 0),
            "rxerrs": 0,
            "rxcorriderrs": 0,
            "rxpartial": 0,
            "rxidle": -1,
            "zbuf_grow": 0,
            "buf_grow": 0,
            "wakeups": 0,
            "connects": now["connects"],
            "disconnects": now["disconnects"],
            "int_latency": _window(self._windows.get(("", "int_latency"), {})),
            "outbuf_latency": _window({}),
            "rtt": _window(self._windows.get((tags["node-id"], "rtt"), {})),
            "throttle": _window(self._windows.get(("", "throttle"), {})),
            "req": {},
            "toppars": {f"{topic}-{partition}": {"topic": topic, "partition": partition} for topic, partition in led},
        }

    def topic(self, topic: str) -> dict[str, Any]:
        return {
            "topic": topic,
            "age": int(self.whole.get("age-us", 0) / 1000),
            "metadata_age": int(self.whole.get("metadata-age", 0) * 1000),
            "batchsize": _window(self._windows.get((topic, "batchsize"), {})),
            "batchcnt": _window(self._windows.get((topic, "batchcnt"), {})),
            "partitions": {
                str(partition): self._partition(partition, values)
                for (name, partition), values in sorted(self.partitions.items())
                if name == topic
            },
        }

    def _partition(self, partition: int, values: dict[str, float]) -> dict[str, Any]:
        def offset(name: str) -> int:
            return int(values.get(name, -1001))

        is_read = "position" in values
        committed, end = offset("committed"), offset("end")
        leader = int(values.get("leader", -1))
        lag = int(values["records-lag"]) if "records-lag" in values else -1
        stored_lag = max(end - max(offset("finished"), committed), 0) if is_read and end >= 0 else -1
        return {
            "partition": partition,
            "broker": leader,
            "leader": leader,
            "desired": is_read,
            "unknown": False,
            "msgq_cnt": 0,
            "msgq_bytes": 0,
            "xmit_msgq_cnt": 0,
            "xmit_msgq_bytes": 0,
            "fetchq_cnt": 0,
            "fetchq_size": int(values.get("buffered-bytes", 0)),
            "fetch_state": "active" if is_read else "none",
            "query_offset": -1001,
            "next_offset": offset("position"),
            "app_offset": offset("position"),
            "stored_offset": offset("finished"),
            "stored_leader_epoch": -1,
            "commited_offset": committed,
            "committed_offset": committed,
            "committed_leader_epoch": -1,
            "eof_offset": end if is_read and offset("position") == end else -1001,
            "lo_offset": offset("log-start"),
            "hi_offset": end,
            "ls_offset": end,
            "consumer_lag": lag,
            "consumer_lag_stored": stored_lag,
            "leader_epoch": -1,
            "txmsgs": 0,
            "txbytes": 0,
            "rxmsgs": int(values.get("records", 0)),
            "rxbytes": int(values.get("bytes", 0)),
            "msgs": int(values.get("records", 0)),
            "rx_ver_drops": 0,
            "msgs_inflight": 0,
            "next_ack_seq": 0,
            "next_err_seq": 0,
            "acked_msgid": 0,
        }
