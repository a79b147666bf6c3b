"""The package as a whole: the cost of its import, and its exports."""

from __future__ import annotations

import copy
import os
import pickle
import pty
import pydoc
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import tomllib

import klamm
from klamm.errors import ArgumentError, KafkaError

NOWHERE = "127.0.0.1:1"
PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.mark.parametrize(
    "statement", ["import klamm", "import klamm; klamm.Producer, klamm.Consumer, klamm.Admin, klamm.testing.DevBroker"]
)
def test_importing_klamm_imports_neither_pyarrow_nor_asyncio(statement):
    unwanted = {"pyarrow", "asyncio", "pyspark", "rich", "httpx2", "jsonschema_rs", "google.protobuf"}
    program = f"{statement}; import sys; print({unwanted} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


def test_every_name_is_there():
    for name in klamm.__all__:
        assert getattr(klamm, name) is not None
    assert set(klamm.__all__) == set(klamm._HOMES)
    assert set(klamm.__all__) < set(dir(klamm))
    with pytest.raises(AttributeError, match="Produser"):
        klamm.Produser  # noqa: B018
    assert klamm.__version__


def test_every_name_of_admin_is_there():
    for name in klamm.admin.__all__:
        assert getattr(klamm.admin, name) is not None
    assert set(klamm.admin.__all__) == set(klamm.admin._HOMES)
    assert set(klamm.admin.__all__) < set(dir(klamm.admin))
    with pytest.raises(AttributeError, match="NewTopik"):
        klamm.admin.NewTopik  # noqa: B018
    star = {}
    exec("from klamm.admin import *", star)  # noqa: S102
    assert {name: getattr(klamm.admin, name) for name in klamm.admin.__all__}.items() <= star.items()
    text = pydoc.plain(pydoc.render_doc(klamm.admin))
    assert all(f"class {name}(" in text for name in ("Admin", "AsyncAdmin", "NewTopic", "GroupDescription"))
    listed = klamm.admin.ListedOffset(1, 2, 3)
    assert pickle.loads(pickle.dumps(listed)) == listed  # noqa: S301


@pytest.mark.parametrize(
    ("names", "imported"),
    [("", set()), ("AclOperation", {"acls", "calls"}), ("ListedOffset, OffsetSpec", {"offsets", "calls"})],
)
def test_names_of_admin_are_imported_when_they_are_used(names, imported):
    statement = f"from klamm.admin import {names}" if names else "import klamm.admin"
    program = f"{statement}; import sys; print(*(name for name in sys.modules if name.startswith('klamm.admin.')))"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(run.stdout.split()) == {f"klamm.admin.{name}" for name in imported}


@pytest.mark.parametrize(
    ("program", "name"),
    [
        ("klamm.registry.SchemaRegistry('http://127.0.0.1:1', max_retries=0).subjects()", "httpx2"),
        ("klamm.testing.DevBroker(schema_registry=True)", "google"),
    ],
)
def test_a_schema_registry_without_its_extra_says_how_to_install_it(program, name):
    # `None` in `sys.modules` makes an import fail, as a package that is not installed does.
    program = f"import sys; sys.modules[{name!r}] = None; import klamm; {program}"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "ConfigError" in run.stderr
    assert "pip install 'klamm[registry]'" in run.stderr


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [
        ("klamm.spark", "pyspark", "spark"),
        ("klamm.spark", "pyarrow", "spark"),
        ("klamm.otel", "opentelemetry", "otel"),
        ("klamm.prometheus", "prometheus_client", "prometheus"),
    ],
)
def test_a_module_without_its_extra_says_how_to_install_it(module, package, extra):
    pytest.importorskip(package)
    program = f"import sys; sys.modules[{package!r}] = None; import {module}"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert run.stderr.splitlines()[-1].startswith(f"ImportError: {module} needs ")
    assert f"pip install 'klamm[{extra}]'" in run.stderr


def without_rich(program):
    return [sys.executable, "-c", f"import sys; sys.modules['rich'] = None; {program}"]


def on_a_terminal(command):
    """Run a program whose standard output and error are a terminal, and return what it printed."""
    ours, theirs = pty.openpty()
    with open(ours, "rb", buffering=0) as reader:  # noqa: PTH123 - a descriptor, not a path
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
        os.close(theirs)
        printed = b""
        try:
            while chunk := reader.read(4096):
                printed += chunk
        except OSError:  # Linux raises EIO when the other end is closed
            pass
        assert process.wait(timeout=30) == 0
    return printed.decode().replace("\r\n", "\n")


def test_the_command_line_without_rich_is_plain_and_says_how_to_get_it():
    table = "from klamm.cli.output import Output; o = Output(); o.table(['a'], [[1]]); o.table(['b'], [[2]])"
    printed = on_a_terminal(without_rich(table))
    assert printed.count("pip install 'klamm[cli]'") == 1
    assert printed.endswith("a\n1\nb\n2\n")
    bar = "from klamm.cli.output import Output\nwith Output().progress('x', 1) as advance: advance(1, 1)"
    assert "pip install 'klamm[cli]'" in on_a_terminal(without_rich(f"exec({bar!r})"))


@pytest.mark.parametrize("has_rich", [True, False])
def test_text_is_escaped_on_a_terminal_also_above_a_progress_bar(has_rich):
    program = """
from klamm.cli.output import Output, print_error
from klamm.cli.terminal import escaped_terminals
with escaped_terminals(), Output().progress("[b]a\\x1b]0;x\\x07", 1) as advance:
    Output().say("b\\x1b]0;x\\x07")
    print_error(ValueError("c\\x1b]0;x\\x07"))
    advance(1, 1)
Output().say("\\x1b7")
"""
    command = [sys.executable, "-c", program] if has_rich else without_rich(f"exec({program!r})")
    printed = on_a_terminal(command)
    assert "\x1b]" not in printed
    assert "\x07" not in printed
    assert r"b\u001b]0;x\u0007" in printed
    assert "\x1b[1;31mklamm:\x1b[0m " + r"c\u001b]0;x\u0007" in printed
    assert printed.endswith("\x1b7\n")


def test_the_command_top_works_on_a_terminal_without_rich():
    program = """
import signal
from klamm.cli import main
from klamm.cli.output import Output
from klamm.testing import DevBroker
say = Output.say
def say_and_stop(self, line):
    say(self, line)
    if "hot partitions" in line:
        signal.raise_signal(signal.SIGINT)
Output.say = say_and_stop
with DevBroker() as broker:
    assert main(["top", "--interval", "0.1", "-b", broker.bootstrap_servers]) == 130
"""
    printed = on_a_terminal(without_rich(f"exec({program!r})"))
    assert "Traceback" not in printed
    assert printed.count("pip install 'klamm[cli]'") == 1
    assert "records/s in" in printed


def test_the_command_line_in_a_pipe_does_not_need_rich():
    command = without_rich(
        "from klamm.cli import main; sys.exit(main(['decode', '--as', 'request', '0012000000000001000161']))"
    )
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")


def test_a_progress_bar_of_read_table_without_rich_is_an_error_that_says_how_to_get_it():
    pytest.importorskip("pyarrow")
    command = without_rich(f"import klamm; klamm.read_table({NOWHERE!r}, 't', progress=True)")
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "ConfigError" in run.stderr
    assert "pip install 'klamm[cli]'" in run.stderr


def test_extras_are_optional_and_all_of_them_have_a_common_name():
    extras = PROJECT["optional-dependencies"]
    (every,) = extras["all"]
    assert set(re.fullmatch(r"klamm\[(.*)\]", every)[1].split(",")) == set(extras) - {"all"}
    assert PROJECT["dependencies"] == []


@pytest.mark.parametrize("path", ["python", "docs", "README.md"])
def test_every_extra_that_texts_name_exists_and_can_be_pasted_into_a_shell(path):
    root = Path(__file__).parents[2] / path
    files = [root] if root.is_file() else [*root.rglob("*.py"), *root.rglob("*.md")]
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    for names in re.findall(r"klamm\[([a-z, ]+)\]", text):
        assert set(names.replace(" ", "").split(",")) <= set(PROJECT["optional-dependencies"]), names
    # zsh takes brackets without quotes for a pattern.
    assert not re.findall(r"pip install\s+klamm\[", text)


@pytest.mark.parametrize(
    ("create", "name"),
    [
        (klamm.Producer, "a producer"),
        (klamm.AsyncProducer, "a producer"),
        (klamm.Consumer, "a consumer"),
        (partial(klamm.ShareConsumer, group_id="g"), "a share consumer"),
        (klamm.Admin, "an admin client"),
    ],
)
def test_a_client_cannot_be_pickled_and_says_what_to_do(create, name):
    client = create(NOWHERE)
    for attempt in pickle.dumps, copy.copy:
        with pytest.raises(ArgumentError, match=f"^{name} cannot be pickled") as caught:
            attempt(client)
        assert "same configuration" in caught.value.hint


def test_plain_data_can_be_pickled():
    record = klamm.Record("t", 1, 2, 3, b"k", None, [("h", b"v"), ("n", None)])
    metadata = klamm.RecordMetadata("t", 1, 2, 3)
    tp = klamm.TopicPartition("t", 1, offset=2)
    assert pickle.loads(pickle.dumps(metadata)) == metadata  # noqa: S301
    assert pickle.loads(pickle.dumps(tp)).offset == 2  # noqa: S301
    assert repr(pickle.loads(pickle.dumps(record))) == repr(record)  # noqa: S301


def test_errors_are_caught_by_the_name_at_the_top():
    assert klamm.KafkaError is KafkaError


@pytest.mark.parametrize(
    "documented",
    [
        klamm.Producer.send,
        klamm.Producer.send_nowait,
        klamm.Delivery.result,
        klamm.Delivery.within,
        klamm.Records.to_arrow,
        klamm.Record,
    ],
    ids=lambda documented: documented.__qualname__,
)
def test_the_extension_documents_arguments_and_errors(documented):
    assert {"Args:", "Raises:"} <= set(map(str.strip, documented.__doc__.splitlines()))


def test_an_error_about_arguments_names_the_public_class():
    with klamm.Producer(NOWHERE) as producer, pytest.raises(TypeError, match=r"^Producer\.send\(\) missing"):
        producer.send()


SUB_INTERPRETER = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
if sys.argv[1] == "main first":
    import klamm.producer
if sys.version_info >= (3, 13):
    made = interpreters.create("legacy")
else:
    made = interpreters.create(isolated=False)
path = f"import sys; sys.path[:0] = {[path for path in sys.path if path]!r}"
interpreters.run_string(made, path)
interpreters.run_string(made, sys.argv[2])
"""

IMPORT = """
try:
    import klamm
except ImportError as error:
    print(error, flush=True)
"""


@pytest.mark.parametrize("order", ["main first", "alone"])
def test_a_sub_interpreter_cannot_import_klamm_and_says_what_to_do(order):
    command = [sys.executable, "-c", SUB_INTERPRETER, order, IMPORT]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "cannot be imported in a sub-interpreter" in run.stdout
    assert "WSGIApplicationGroup %{GLOBAL}" in run.stdout
