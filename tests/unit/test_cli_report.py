"""`klamm report`: the totals and the page, from a progress file of a stream."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest

from klamm.cli import main
from klamm.cli.report import nice_step


def row(**fields):
    values = {
        "time": "2026-03-01T12:00:00.000Z",
        "query": "counts",
        "run": "r",
        "batch": 0,
        "seconds": 2.0,
        "records": 1000,
        "bytes": 4_000_000,
        "lag": 500,
        "late": 0,
    }
    return json.dumps(values | fields) + "\n"


@pytest.fixture
def report(tmp_path, capsys):
    """Write a report of these lines, and return what was printed and the page."""

    def write(text, *arguments):
        (tmp_path / "progress.jsonl").write_text(text)
        html = tmp_path / "report.html"
        code = main(["report", str(tmp_path / "progress.jsonl"), "-o", str(html), *arguments])
        captured = capsys.readouterr()
        return code, captured.out or captured.err, html.read_text() if html.exists() else None

    return write


def test_sums_are_those_of_the_batches_each_counted_once(report):
    code, captured, _ = report(
        row(records=7)  # begun, killed, and repeated below
        + row()
        + row(batch=1, time="2026-03-01T12:00:03.500Z", records=2000, seconds=1.0, lag=0, late=3)
        + row(query="dead letters", bytes=None, lag=None),
        "--json",
    )
    assert code == 0
    counts, dead = json.loads(captured)["queries"]
    assert counts == {
        "query": "counts",
        "batches": 2,
        "records": 3000,
        "MB": 8.0,
        "seconds": 3.0,
        "records/s (median)": 1250.0,
        "largest lag": 500,
        "last lag": 0,
        "too late": 3,
    }
    assert (dead["records"], dead["MB"], dead["largest lag"]) == (1000, None, None)


def test_the_page_shows_a_dot_for_each_batch_and_value(report):
    _, captured, html = report(
        row(query="<b>") + row(query="<b>", batch=1, time="2026-03-01T12:00:03Z", bytes=None, lag=0)
    )
    page = ET.fromstring(html.removeprefix("<!doctype html>\n").replace('<meta charset="utf-8">', ""))  # noqa: S314
    assert [title.text for title in page.iter("h2")] == ["records per second", "MB per second", "lag in records"]
    dots = [[dot[0].text for dot in chart.iter("circle")] for chart in page.iter("svg")]
    assert dots == [
        ["<b>: 500.00 at 2.0 s", "<b>: 500.00 at 5.0 s"],
        ["<b>: 2.00 at 2.0 s"],
        ["<b>: 500 at 2.0 s", "<b>: 0 at 5.0 s"],
    ]
    assert "wrote " in captured


def test_half_a_last_line_is_left_out_and_any_other_is_an_error(report):
    assert report(row() + row(batch=1)[:30], "--json")[0] == 0
    code, captured, _ = report(row() + "{}\n" + row(batch=1))
    assert code == 1
    assert "line 2 of " in captured
    code, captured, _ = report("")
    assert code == 1
    assert "contains no batch" in captured


def test_a_png_is_drawn_where_matplotlib_is(report, tmp_path):
    pytest.importorskip("matplotlib", reason="a PNG: pip install 'klamm[report]'")
    png = tmp_path / "report.png"
    assert report(row() + row(batch=1, time="2026-03-01T12:00:03Z"), "--png", str(png))[0] == 0
    assert png.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(("largest", "step"), [(0, 1), (1, 0.2), (5, 1), (6, 2), (99, 20), (101, 50), (1e6, 2e5)])
def test_ticks_are_round(largest, step):
    assert nice_step(largest) == pytest.approx(step)


def test_all_panels_have_one_time_axis_rates_are_steps_and_zero_is_drawn(report):
    text = row() + row(batch=1, time="2026-03-01T12:00:10.000Z", records=10, bytes=None, lag=None)
    _, _, html = report(text)
    page = ET.fromstring(html.removeprefix("<!doctype html>\n").replace('<meta charset="utf-8">', ""))  # noqa: S314
    charts = list(page.iter("svg"))
    times = [[label.text for label in chart.iter("text") if label.text.endswith(" s")] for chart in charts]
    assert times[0] == times[1] == times[2]
    tracks = [chart.find("polyline").get("points").split() for chart in charts]
    assert [len(track) for track in tracks] == [4, 2, 2], "a rate holds for a whole batch"
    (first, second, *_), lag = [point.split(",") for point in tracks[0]], tracks[2]
    assert first[1] == second[1], "a step is level"
    assert first[0] != second[0]
    assert lag[0] == lag[1], "the lag is known at the end of a batch"
    assert all(len([line for line in chart.iter("line") if line.get("class") == "zero"]) == 1 for chart in charts)


def test_the_title_names_the_queries_and_the_time(report):
    _, _, html = report(row(query="a & b") + row(query="c", time="2026-03-01T11:00:00.000Z"))
    page = ET.fromstring(html.removeprefix("<!doctype html>\n").replace('<meta charset="utf-8">', ""))  # noqa: S314
    title, (headline,) = page.find("head/title"), page.iter("h1")
    assert title.text == headline.text
    assert headline.text.startswith("a & b, c from 2026-03-01 ")
