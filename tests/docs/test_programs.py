"""The programs of the documentation run as printed, except for the address of the broker, and type checkers accept them."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import klamm
from klamm.testing import DevBroker

ROOT = Path(__file__).parents[2]
FOLDERS = ("start", "how-to", "coming-from", "explanation")
PAGES = [page for folder in FOLDERS for page in sorted((ROOT / "docs" / folder).glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\nprints\n\n```\n(.*?)^```)?", re.MULTILINE | re.DOTALL)
IMPORT = re.compile(r"^(?:import|from) (\w+)", re.MULTILINE)
OTHERS = {"confluent_kafka", "aiokafka", "kafka", "pyspark"}
"""Programs of other clients stand beside klamm's. They are checked for syntax only."""

PROGRAMS = [
    pytest.param(program, printed, id=f"{page.relative_to(ROOT / 'docs').with_suffix('')}-{number}")
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


def test_the_service_with_fastapi_stores_orders_and_closes(servers):
    pytest.importorskip("fastapi")
    client = pytest.importorskip("fastapi.testclient")
    space: dict[str, object] = {"__name__": "service"}
    exec(compile(here(program_of("how-to/fastapi.md", "FastAPI"), servers), "service.py", "exec"), space)  # noqa: S102 - our own page
    with client.TestClient(space["app"]) as http:
        assert http.post("/orders/tea").json() == {"partition": 0, "offset": 0}
        while not (orders := http.get("/orders").json()):
            pass
        assert orders == ["tea"]
    with klamm.Admin(servers) as admin:
        assert sum(admin.group_lag("service").values()) == 0


def test_the_hooks_for_gunicorn_open_and_close_a_producer(servers):
    space: dict[str, object] = {}
    text = here(program_of("how-to/processes.md", "gunicorn.conf.py"), servers)
    exec(compile(text, "gunicorn.conf.py", "exec"), space)  # noqa: S102 - our own page

    class Worker:
        pid = 7

    space["post_worker_init"](Worker)
    producer = space["producers"][7]
    producer.send_nowait("t", b"v")
    space["worker_exit"](None, Worker)
    with pytest.raises(klamm.ClosedError):
        producer.send("t", b"v")


CHECKED = [p for p in OF_KLAMM if "# needs: " not in p.values[0] and "fastapi" not in p.values[0]]


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """All programs that need no further package, as files."""
    folder = tmp_path_factory.mktemp("programs")
    for param in CHECKED:
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
