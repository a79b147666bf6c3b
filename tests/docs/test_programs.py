"""The programs of the documentation run as printed, except for the address of the broker, and type checkers accept them."""

from __future__ import annotations

import builtins
import importlib.util
import json
import os
import re
import signal
import subprocess
import symtable
import sys
import time
import urllib.request
from pathlib import Path

import pytest

import klamm
from klamm.testing import DevBroker

ROOT = Path(__file__).parents[2]
FOLDERS = ("start", "how-to", "coming-from", "explanation")
PAGES = [ROOT / "README.md"] + [page for folder in FOLDERS for page in sorted((ROOT / "docs" / folder).glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\nprints\n\n```\n(.*?)^```)?", re.MULTILINE | re.DOTALL)
IMPORT = re.compile(r"^(?:import|from) (\w+)", re.MULTILINE)
OTHERS = {"confluent_kafka", "aiokafka", "kafka", "pyspark"}
"""Programs of other clients stand beside klamm's. They are checked for syntax only."""

PROGRAMS = [
    pytest.param(program, printed, id=f"{page.relative_to(ROOT).with_suffix('')}-{number}")
    for page in PAGES
    for number, (program, printed) in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")), 1)
]
OF_KLAMM = [param for param in PROGRAMS if not OTHERS & set(IMPORT.findall(param.values[0]))]
# These run until they are stopped, or are started by another program. Their tests are below.
APART = ("FastAPI", "def test_", "gunicorn.conf.py", "signal.SIGTERM", "import celery", "from celery")


def skip_unless_installed(program):
    needed = re.findall(r"^# needs: pip install (\w+)", program, re.MULTILINE)
    for name in sorted({*IMPORT.findall(program), *needed}):
        if not importlib.util.find_spec(name):
            pytest.skip(f"{name} is not installed")


def here(program, servers):
    return program.replace("localhost:9092", servers)


def run(tmp_path, program, **options):
    path = tmp_path / "program.py"
    path.write_text(program, encoding="utf-8")
    return subprocess.run(
        [sys.executable, path], capture_output=True, text=True, timeout=90, check=False, cwd=tmp_path, **options
    )


@pytest.fixture
def servers():
    with DevBroker() as broker:
        yield broker.bootstrap_servers


@pytest.mark.parametrize(("program", "printed"), PROGRAMS)
def test_a_program_is_python(program, printed):
    compile(program, "page", "exec")
    assert "```" not in printed


@pytest.mark.parametrize(
    ("program", "printed"), [p for p in OF_KLAMM if not any(word in p.values[0] for word in APART)]
)
def test_a_program_prints_what_its_page_says(tmp_path, servers, program, printed):
    skip_unless_installed(program)
    done = run(tmp_path, here(program, servers))
    assert done.returncode == 0, done.stderr
    assert not printed or done.stdout == printed
    assert done.stderr == ""


GUIDES = ["fetching", "guarantees", "producer", "security", "tables", "transactions", "reference/security"]


@pytest.mark.parametrize("page", GUIDES)
def test_the_first_program_of_a_guide_runs(tmp_path, servers, page):
    (program, _), *_ = BLOCK.findall((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8"))
    if "klamm.aws" in program and not importlib.util.find_spec("botocore"):
        pytest.skip("botocore is not installed")
    with klamm.Producer(servers) as producer:
        producer.send("orders", b"tea", key=b"7").result(timeout=10)
    done = run(tmp_path, here(program, servers), env={**os.environ, "KAFKA_PASSWORD": "secret"})
    assert done.returncode == 0, done.stderr


def program_of(page, word):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    (program,) = [program for program, _ in BLOCK.findall(text) if word in program]
    return program


def test_the_tests_of_the_page_about_tests_pass(tmp_path):
    (tmp_path / "test_page.py").write_text(program_of("how-to/testing.md", "def test_"), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False, cwd=tmp_path)
    assert "3 passed" in done.stdout, done.stdout + done.stderr


def test_the_consumer_for_kubernetes_ends_cleanly_on_sigterm(tmp_path, servers):
    with klamm.Producer(servers) as producer:
        producer.send("orders-k8s", b"tea").result(timeout=10)
    path = tmp_path / "billing.py"
    path.write_text(here(program_of("how-to/kubernetes.md", "signal.SIGTERM"), servers), encoding="utf-8")
    with subprocess.Popen([sys.executable, path], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            assert process.stdout.readline() == "billed b'tea'\n"
            process.send_signal(signal.SIGTERM)
            assert process.communicate(timeout=60)[0] == "closed\n"
            assert process.returncode == 0
        finally:
            process.kill()
    with klamm.Admin(servers) as admin:
        assert sum(admin.group_lag("billing").values()) == 0


def test_the_cells_for_notebooks_run_in_a_kernel(tmp_path, servers):
    pytest.importorskip("ipykernel")
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    text = (ROOT / "docs" / "how-to" / "jupyter.md").read_text(encoding="utf-8")
    programs = re.findall(r"^```(?:python|text)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert "await producer.send" in programs[-1]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(here(each, servers)) for each in programs])
    nbclient.NotebookClient(notebook, timeout=60, resources={"metadata": {"path": tmp_path}}).execute()
    assert values_of(servers, "notes", 4) == [b"one", b"two", b"three", b"four"]


APP = """
def app(environ, start_response):
    start_response("200 OK", [("Content-Length", "0")])
    return [b""]
"""


def values_of(servers, topic, number):
    with klamm.Consumer(servers, topics=[topic], auto_offset_reset="earliest", metadata_max_age_ms=200) as consumer:
        values = []
        deadline = time.monotonic() + 60
        while len(values) < number and time.monotonic() < deadline:
            values += [record.value for record in consumer.poll(timeout=1)]
    return values


def url_in(process, pattern):
    """Return the address in the first line of a server's output that has one."""
    printed = ""
    for line in process.stdout:
        printed += line
        if found := re.search(pattern, line):
            return found[1]
    raise AssertionError(printed)


def ask(url, method="GET"):
    request = urllib.request.Request(url, method=method)  # noqa: S310 - our own server
    with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310 - our own server
        return json.load(response)


def end(process):
    """Stop a server as an operating system does, and return what it printed."""
    process.send_signal(signal.SIGTERM)
    try:
        return process.communicate(timeout=60)[0]
    finally:
        process.kill()


def test_the_service_with_fastapi_stores_orders_and_closes_on_sigterm(tmp_path, servers):
    pytest.importorskip("fastapi")
    pytest.importorskip("uvicorn")
    text = here(program_of("how-to/fastapi.md", "FastAPI"), servers)
    (tmp_path / "service.py").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "uvicorn", "service:app", "--port", "0"]
    with subprocess.Popen(
        command, stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True, cwd=tmp_path
    ) as process:
        try:
            url = url_in(process, r"running on (http://127.0.0.1:\d+)")
            assert ask(f"{url}/orders/tea", method="POST") == {"partition": 0, "offset": 0}
            while not (orders := ask(f"{url}/orders")):
                pass
            assert orders == ["tea"]
        finally:
            printed = end(process)
    assert "Application shutdown complete" in printed
    assert "Error" not in printed
    assert process.returncode == -signal.SIGTERM  # uvicorn raises the signal again once the service has closed
    assert values_of(servers, "orders-api", 1) == [b"tea"]
    with klamm.Admin(servers) as admin:
        assert sum(admin.group_lag("service").values()) == 0
        assert admin.describe_groups(["service"])["service"].members == []


def test_the_workers_of_gunicorn_send_a_record_for_each_request(tmp_path, servers):
    pytest.importorskip("gunicorn")
    text = here(program_of("how-to/processes.md", "gunicorn.conf.py"), servers)
    (tmp_path / "gunicorn.conf.py").write_text(text, encoding="utf-8")
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    command = [sys.executable, "-m", "gunicorn", "app:app", "--workers", "2", "--bind", "127.0.0.1:0"]
    with subprocess.Popen(
        command, stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True, cwd=tmp_path
    ) as process:
        try:
            url = url_in(process, r"Listening at: (http://127.0.0.1:\d+)")
            for number in range(6):
                with urllib.request.urlopen(f"{url}/{number}", timeout=30) as response:  # noqa: S310 - our own server
                    assert response.status == 200
        finally:
            printed = end(process)
    assert process.returncode == 0, printed
    assert "Error" not in printed
    assert sorted(values_of(servers, "requests", 6)) == [b"/%d" % number for number in range(6)]


def test_the_worker_of_celery_sends_what_its_task_says(tmp_path, servers):
    pytest.importorskip("celery")
    text = here(program_of("how-to/processes.md", "from celery"), servers)
    assert "redis://localhost:6379" in text  # a folder takes its place, which needs no server
    folders = {f"data_folder_{way}": str(tmp_path) for way in ("in", "out")}
    text = text.replace("redis://localhost:6379", "filesystem://")
    text = text.replace("\nproducer:", f"\napp.conf.broker_transport_options = {folders}\nproducer:")
    (tmp_path / "tasks.py").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "celery", "-A", "tasks", "worker", "--concurrency", "2", "--pool", "prefork"]
    with subprocess.Popen(
        command, stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True, cwd=tmp_path
    ) as process:
        try:
            call = "import tasks; [tasks.ship.delay(item) for item in ('tea', 'cup')]"
            subprocess.run([sys.executable, "-c", call], check=True, timeout=60, cwd=tmp_path)
            values = values_of(servers, "shipments", 2)
        finally:
            printed = end(process)
    assert sorted(values) == [b"cup", b"tea"], printed


def is_complete(program):
    """Return whether the program defines all names that it uses."""
    top = symtable.symtable(program, "page", "exec")
    known = {symbol.get_name() for symbol in top.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    known |= {*dir(builtins), "__name__"}
    tables = [top]
    for table in tables:
        tables += table.get_children()
    used = {s.get_name() for t in tables for s in t.get_symbols() if s.is_global() or (t is top and s.is_referenced())}
    return used <= known


WRONG = "linger=5"
"""Part of a program that shows the error for a wrong argument."""
CHECKED = [
    pytest.param(program, id=f"{page.relative_to(ROOT).with_suffix('')}-{number}")
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for number, (program, _) in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")), 1)
    if not (OTHERS - {"pyspark"}) & set(IMPORT.findall(program)) and WRONG not in program and is_complete(program)
]


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """All programs whose packages are installed, as files."""
    folder = tmp_path_factory.mktemp("programs")
    for param in CHECKED:
        if not all(importlib.util.find_spec(name) for name in IMPORT.findall(param.values[0])):
            continue
        path = folder / f"{re.sub(r'[^a-z0-9]', '_', param.id)}.py"
        path.write_text(param.values[0], encoding="utf-8")
    return folder


def test_mypy_strict_accepts_the_programs(programs):
    api = pytest.importorskip("mypy.api")
    out, error, code = api.run(
        ["--strict", "--ignore-missing-imports", "--no-incremental", "--follow-imports=silent", str(programs)]
    )
    assert code == 0, out + error


def test_pyright_accepts_the_programs(programs):
    pytest.importorskip("pyright")
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, programs]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if "npm" in done.stderr and not done.stdout:
        pytest.skip("pyright cannot fetch its program")
    assert done.returncode == 0, done.stdout
