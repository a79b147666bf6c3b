"""The page about operations: its examples run, its figures exist, and so do the names in the dashboard."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

import klamm
import klamm.prometheus
from klamm import metrics

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "operations.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    ("number", "printed"),
    [(0, "1 0\nTrue\n"), (1, "True\n"), (2, "b'o-1' b'00-[0-9a-f]{32}-[0-9a-f]{16}-0[0-9]'\n"), (3, "True True\n")],
    ids=["metrics", "prometheus", "otel", "telemetry"],
)
def test_the_examples_run(capsys, number, printed):
    exec(compile(EXAMPLES[number], "docs/operations.md", "exec"), {})  # noqa: S102 - our own page
    assert re.fullmatch(printed, capsys.readouterr().out)
    assert len(EXAMPLES) >= 4


def test_the_figures_of_the_alerts_are_attributes():
    table = PAGE.partition("## What to watch")[2].partition("\n## ")[0]
    figures = set(
        re.findall(r"`([a-z_0-9]+)`", "".join(line.split("|")[2] for line in table.splitlines() if "|" in line))
    )
    settings = {"max_poll_interval_ms"}
    known = {
        name
        for kind in (metrics.ProducerMetrics, metrics.ConsumerMetrics, metrics.ShareConsumerMetrics)
        for name in kind.__dataclass_fields__
    }
    assert figures - settings <= known
    assert len(figures) > 10


def test_the_metrics_of_the_dashboard_are_exported(dev_broker, topic):
    dashboard = json.loads((DOCS / "grafana" / "klamm.json").read_text(encoding="utf-8"))
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    named = {name for query in queries for name in re.findall(r"kafka_\w+", query)}
    registry = CollectorRegistry()
    with (
        klamm.Producer(dev_broker.bootstrap_servers) as producer,
        klamm.Consumer(dev_broker.bootstrap_servers, topic, [topic], auto_offset_reset="earliest") as consumer,
    ):
        producer.send(topic, b"v").result(20)
        assert consumer.poll(20)
        klamm.prometheus.register(producer, consumer, registry=registry)
        text = generate_latest(registry).decode()
    series = re.findall(r"^(kafka_\w+)\{(.*)\}", text, re.MULTILINE)
    assert named - {name for name, _ in series} == set()
    assert len(named) > 15
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            (name,) = re.findall(r"kafka_\w+", target["expr"])
            exported = [set(re.findall(r'(\w+)="', labels)) for found, labels in series if found == name]
            shown = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            grouped = re.search(r"by \((.*?)\)", target["expr"])
            # Without an aggregation, the panel shows one line for each client, and its legend tells the clients apart.
            kept = set(re.split(", *", grouped[1])) if grouped else exported[0]
            assert shown == kept, target
            assert shown <= exported[0]


def test_the_panels_of_the_dashboard_do_not_overlap():
    dashboard = json.loads((DOCS / "grafana" / "klamm.json").read_text(encoding="utf-8"))
    positions = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in dashboard["panels"]]
    assert len(set(positions)) == len(positions)
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(positions)
