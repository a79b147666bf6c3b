"""The parts of the demo that need no broker and no Spark: counting, comparing, and ending processes."""

from __future__ import annotations

import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from klamm.cli import main
from klamm.cli.demo.corpus import Count, Source, find_corpus, package_of
from klamm.cli.demo.result import Package, Stage, differences, parse_package, show_verdict
from klamm.cli.demo.spark_job import check_prerequisites, end_session, session_members, signals_deferred, spark_home
from klamm.cli.output import CommandError, Output


@pytest.fixture
def folder(tmp_path):
    """Two packages, an empty file and a link back to the top."""
    (tmp_path / "pkg" / "deep").mkdir(parents=True)
    (tmp_path / "one.py").write_bytes(b"import os\n\nlast")
    (tmp_path / "pkg" / "deep" / "b.bin").write_bytes(b"\xff\r\n\0\n")
    (tmp_path / "pkg" / "empty.txt").write_bytes(b"")
    (tmp_path / "pkg" / "again").symlink_to(tmp_path)
    return tmp_path


def test_a_folder_is_all_its_files_in_order(folder):
    corpus = find_corpus(str(folder))
    assert [source.key for source in corpus.sources] == [b"one.py", b"pkg/deep/b.bin", b"pkg/empty.txt"]
    assert corpus.size == 20


def test_batches_are_the_lines_and_counts_are_the_files(folder):
    corpus = find_corpus(str(folder))
    lines = [(key, line) for key, batch in corpus.batches() for line in batch]
    assert lines == [
        (b"one.py", b"import os"),
        (b"one.py", b""),
        (b"one.py", b"last"),
        (b"pkg/deep/b.bin", b"\xff\r"),
        (b"pkg/deep/b.bin", b"\0"),
    ]
    assert corpus.counts == {"one": Count(3, 13), "pkg": Count(2, 3)}
    assert corpus.total == Count(5, 16)


def test_a_file_is_its_own_package(folder):
    assert find_corpus(str(folder / "one.py")).sources == [Source(b"one.py", str(folder / "one.py"))]


def test_nothing_to_produce_is_an_error(tmp_path):
    with pytest.raises(CommandError, match="no files"):
        find_corpus(str(tmp_path))
    with pytest.raises(FileNotFoundError):
        find_corpus(str(tmp_path / "none"))


def test_the_standard_library_is_modules_alone():
    sources = find_corpus(None).sources
    keys = {source.key for source in sources}
    assert {b"argparse.py", b"json/decoder.py", b"xml/dom/minidom.py"} <= keys
    assert not any(b"site-packages" in key or b"__pycache__" in key or not key.endswith(b".py") for key in keys)
    assert all(source.path.startswith(sysconfig.get_paths()["stdlib"]) for source in sources)
    assert [source.path for source in sources] == sorted(
        (source.path for source in sources), key=lambda path: path.split("/")
    )


@pytest.mark.parametrize(
    ("key", "package"), [(b"argparse.py", "argparse"), (b"xml/dom/minidom.py", "xml"), (b"log.txt", "log.txt")]
)
def test_a_package_is_the_first_part_of_a_key(key, package):
    assert package_of(key) == package


def test_equal_counts_are_exact():
    assert differences({"a": Count(1, 2)}, {"a": Package(Count(1, 2), ["x"])}) == []


def test_every_difference_names_its_package_and_both_counts():
    expected = {"more": Count(2, 20), "lost": Count(1, 5), "same": Count(1, 1)}
    found = {"more": Package(Count(3, 20)), "new": Package(Count(1, 0)), "same": Package(Count(1, 1))}
    assert differences(expected, found) == [
        "lost: 1 line and 5 bytes on disk, 0 lines and 0 bytes from the pipeline",
        "more: 2 lines and 20 bytes on disk, 3 lines and 20 bytes from the pipeline",
        "new: 0 lines and 0 bytes on disk, 1 line and 0 bytes from the pipeline",
    ]


def test_a_long_list_of_differences_is_cut(capsys):
    show_verdict(Output(), Count(1, 1), Count(2, 2), [f"package {number}" for number in range(13)])
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("NOT exact: 1 record and 1 byte on disk, 2 records")
    assert printed[-1] == "  and 3 more packages"


def test_a_result_is_json_with_counts_and_identifiers():
    assert parse_package(b'{"lines": 3, "bytes": 40, "identifiers": ["self", "x"]}') == Package(
        Count(3, 40), ["self", "x"]
    )


def test_a_stage_that_took_no_time_has_no_rate():
    assert Stage("s", Count(10, 100), 0.0).fields()["records_per_second"] == 0
    assert Stage("s", Count(10, 100), 0.5).fields()["records_per_second"] == 20


def test_topics_of_the_embedded_broker_cannot_be_kept(capsys):
    assert main(["demo", "--keep"]) == 1
    assert "--keep needs --bootstrap" in capsys.readouterr().err


def test_a_missing_java_is_named(monkeypatch, tmp_path):
    pytest.importorskip("pyspark")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CommandError, match="needs Java 17, but there is no java"):
        check_prerequisites()


def test_an_old_java_is_named(monkeypatch, tmp_path):
    pytest.importorskip("pyspark")
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_392\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(CommandError, match="is Java 8"):
        check_prerequisites()


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs Linux's /proc to list a session")
def test_ending_a_session_ends_its_process_groups_too():
    child = "import os, sys; os.setpgid(0, 0); print(os.getpid(), flush=True); sys.stdin.read()"
    leader = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    process = subprocess.Popen(
        [sys.executable, "-c", leader], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    with process:
        grandchild = int(process.stdout.readline())
        assert {process.pid, grandchild} == set(session_members(process.pid))
        end_session(process.pid)
        assert session_members(process.pid) == []
        assert process.stdout.read() == b""


def test_a_deferred_signal_arrives_when_it_is_released():
    with signals_deferred() as release:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            release()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_sparks_processes_import_the_installed_pyspark(tmp_path):
    pytest.importorskip("pyspark")
    home = Path(spark_home(tmp_path)["SPARK_HOME"])
    assert (home / "bin" / "spark-submit").exists()
    assert not (home / "python").exists()  # has the zip file


def test_a_pyspark_without_a_jvm_part_keeps_its_home(tmp_path, monkeypatch):
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "__init__.py").touch()
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert spark_home(tmp_path) == {}
