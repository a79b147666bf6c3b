"""Rows from Spark's progress reports. No Spark runs here; `test_pipeline` has real reports."""

from __future__ import annotations

import json
import uuid

from pyspark.sql import Row

from klamm.spark.progress import ProgressLog, measured, source_metrics

KLAMM = {
    "startOffset": '{"t": {"0": 5, "1": 0}}',
    "endOffset": '{"t": {"0": 25, "1": 0}}',
    "latestOffset": '{"t": {"0": 30, "1": 3, "2": 4}}',
    "numInputRows": 20,
}
RATE = {"startOffset": "4", "endOffset": "9", "latestOffset": "11", "numInputRows": 5}
FILES = {"startOffset": None, "endOffset": '{"logOffset": 1}', "latestOffset": '{"logOffset": 2}', "numInputRows": 1}


def report(**fields):
    return {
        "timestamp": "2026-03-01T12:00:00.000Z",
        "id": uuid.UUID(int=1),
        "runId": uuid.UUID(int=2),
        "name": None,
        "batchId": 7,
        "batchDuration": 1500,
        "observedMetrics": {"klamm": {"records": 20, "bytes": 2000}},
        "sources": [KLAMM],
        "stateOperators": [{"numRowsDroppedByWatermark": 2}, {"numRowsDroppedByWatermark": 1}],
    } | fields


def test_a_report_becomes_a_row():
    assert measured(report()) == {
        "time": "2026-03-01T12:00:00.000Z",
        "query": str(uuid.UUID(int=1)),
        "run": str(uuid.UUID(int=2)),
        "batch": 7,
        "seconds": 1.5,
        "records": 20,
        "bytes": 2000,
        "lag": 5 + 3 + 4,  # a new partition counts from its beginning
        "late": 3,
    }


def test_a_report_of_spark_connect_has_the_same_numbers():
    fields = [{"name": name, "type": "long", "nullable": False, "metadata": {}} for name in ("records", "bytes")]
    seen = Row(values=[20, 2000], schema={"type": "struct", "fields": fields})
    assert measured(report(numInputRows=None, observedMetrics={"klamm": seen})) == measured(report())
    assert measured(report(sources=[KLAMM, RATE, FILES]))["records"] == 26


def test_lag_comes_from_the_sources_that_report_it():
    assert measured(report(sources=[RATE, KLAMM, FILES]))["lag"] == 12
    assert measured(report(sources=[KLAMM, KLAMM]))["lag"] == 24
    assert measured(report(sources=[RATE, FILES]))["lag"] is None
    assert measured(report(sources=[KLAMM | {"latestOffset": None}]))["lag"] is None
    assert (
        measured(report(sources=[KLAMM | {"startOffset": "None"}]))["lag"] == 12
    )  # as PySpark has it in a first batch
    # A query at rest: no batch, so no end of one.
    assert measured(report(sources=[KLAMM | {"endOffset": None}]))["lag"] == 25 + 3 + 4


def test_metrics_have_the_names_of_the_connector():
    assert source_metrics(KLAMM) == {
        "minOffsetsBehindLatest": "3",
        "maxOffsetsBehindLatest": "5",
        "avgOffsetsBehindLatest": "4.0",
    }
    assert source_metrics(KLAMM | {"latestOffset": None}) == source_metrics(FILES) == source_metrics(RATE) == {}


def test_before_spark_4_2_lag_is_unknown():
    # The latest offset of the report is the end of the batch.
    old = KLAMM | {"description": "org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatchStream@1"}
    new = KLAMM | {"description": "org…v2.python.PythonMicroBatchStreamWithTriggerAvailableNow@1"}
    assert (measured(report(sources=[old]))["lag"], source_metrics(old)) == (None, {})
    assert (measured(report(sources=[new]))["lag"], source_metrics(new)) == (12, source_metrics(KLAMM))


def test_without_an_observation_bytes_are_unknown():
    assert measured(report(observedMetrics={}))["bytes"] is None


def test_a_report_is_logged_once(tmp_path):
    log = ProgressLog(tmp_path / "progress.jsonl")
    for one in (report(), report(batchId=8), report()):
        log.note(one)
    assert [json.loads(line)["batch"] for line in (tmp_path / "progress.jsonl").read_text().splitlines()] == [7, 8]
