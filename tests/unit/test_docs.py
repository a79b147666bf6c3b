"""Generated pages are up to date, examples on pages run, and links lead somewhere."""

from __future__ import annotations

import ast
import importlib.util
import os
import pkgutil
import re
import shlex
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import tomllib

import klamm
from klamm import other_clients
from klamm.cli import build_parser
from klamm.cli.command_line import parse
from klamm.testing import DevBroker

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "benches" / "README.md"]
FILES = re.compile(r"`((?:src|python|tests|scripts|benches|examples)/[\w/.-]+)`")


@pytest.mark.parametrize("name", ["write_configuration", "write_errors", "write_stub"])
def test_a_page_that_a_script_writes_is_up_to_date(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    writer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writer)
    assert writer.PAGE.read_text(encoding="utf-8") == writer.page(), f"run python scripts/{name}.py"


def test_the_stub_has_docstrings_for_every_name_of_the_extension_that_klamm_exports():
    names = {id(value): name for name, value in vars(klamm._klamm).items()}
    modules = [klamm, *(import_module(f"klamm.{name}") for name in sorted(klamm._MODULES))]
    exported = {id(getattr(module, name)) for module in modules for name in getattr(module, "__all__", ())}
    tree = ast.parse((ROOT / "python" / "klamm" / "_klamm.pyi").read_text(encoding="utf-8"))
    documented = {
        node.name for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node)
    }
    assert {names[each] for each in exported & names.keys()} - documented == {"__version__"}


def test_completion_lists_public_names_only():
    assert {"Producer", "errors"} <= set(dir(klamm)) == {*klamm.__all__, *klamm._MODULES}


def test_the_page_of_the_command_line_is_up_to_date():
    spec = importlib.util.spec_from_file_location("write_cli", ROOT / "scripts" / "write_cli.py")
    writer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writer)
    assert writer.PAGE.read_text(encoding="utf-8") == writer.page(), "run python scripts/write_cli.py"


@pytest.mark.parametrize(
    ("chapter", "before", "source", "function"),
    [
        ("Groups", '"Final codes" are', "group/coordinator_client.rs", "is_fatal"),
        ("Commits", "it also does not raise:\n\n*", "consumer/commit.rs", "is_stale_member"),
    ],
)
def test_a_list_of_error_codes_has_all_codes_of_the_function_that_it_describes(chapter, before, source, function):
    page = (ROOT / "docs" / "reference" / "error-handling.md").read_text(encoding="utf-8")
    listed = page.partition(f"\n## {chapter}\n")[2].partition(before)[2].partition(".")[0]
    code = (
        (ROOT / "src" / "engine" / source)
        .read_text(encoding="utf-8")
        .partition(f"fn {function}(")[2]
        .partition("\n}")[0]
    )
    assert sorted(re.findall(r"`([A-Z_]+)`", listed)) == sorted(re.findall(r"ErrorCode::([A-Z_]+)", code))


def written_by_hand():
    """Return the part of docs/cli.md above its reference."""
    return (ROOT / "docs" / "cli.md").read_text(encoding="utf-8").partition("<!-- The rest is written by")[0]


def command_lines(text):
    """Yield the arguments of each `klamm` command in shell blocks and code spans, without pipes and redirections."""
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    spans = re.findall(r"`(klamm [^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))
    for line in [*"".join(blocks).splitlines(), *(span.replace(r"\|", "|") for span in spans)]:
        words = shlex.shlex(line, punctuation_chars=True)  # keeps quotes, so that a quoted ; is not an operator
        words.whitespace_split = True
        arguments = None
        for word in [*words, ";"]:
            if set(word) <= set("();<>|&"):
                if arguments is not None:
                    yield arguments
                arguments = None
            elif arguments is not None:
                arguments += shlex.split(word)
            elif word == "klamm":
                arguments = []


def test_command_lines_are_found_in_blocks_and_spans():
    text = "```sh\nprintf 'a|b\\n' | klamm produce t -D ';' --key ''  # klamm x\n. <(klamm completion zsh)\n```\n`klamm top \\| head`"
    assert list(command_lines(text)) == [["produce", "t", "-D", ";", "--key", ""], ["completion", "zsh"], ["top"]]


def test_the_parser_accepts_every_command_of_the_page_of_the_command_line(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    # The parser reads these files.
    Path("plan.json").write_text('{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1]}]}')
    Path("offsets.json").write_text('{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "offset": 5}]}')
    lines = list(command_lines(written_by_hand()))
    assert len(lines) > 100
    for line in lines:
        try:
            assert parse(line).run is not None
        except SystemExit:
            pytest.fail(f"klamm {shlex.join(line)}: {capsys.readouterr().err}")


def test_the_page_of_the_command_line_shows_every_command():
    commands = build_parser().parts
    shown = {next(word for word in line if word in commands) for line in command_lines(written_by_hand())}
    assert shown >= set(commands) - {"demo"}


@pytest.mark.skipif(shutil.which("sh") is None, reason="the example is for a POSIX shell")
def test_the_first_example_of_the_command_line_prints_what_its_page_says():
    code, printed = re.search(
        r"```sh\n(.*?)```\n\nThese commands print:\n\n```text\n(.*?)```", written_by_hand(), re.DOTALL
    ).groups()
    function = f'klamm() {{ {shlex.quote(sys.executable)} -m klamm "$@"; }}\n'
    with DevBroker() as broker:
        env = {**os.environ, "KLAMM_BOOTSTRAP_SERVERS": broker.bootstrap_servers, "KLAMM_CONFIG_FILE": os.devnull}
        done = subprocess.run(
            ["sh", "-ec", function + code], env=env, capture_output=True, text=True, timeout=60, check=True
        )
    assert done.stdout == printed


def test_the_example_of_the_legacy_page_runs(capsys):
    page = (ROOT / "docs" / "legacy.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    exec(compile(code, "docs/legacy.md", "exec"), {"klamm": klamm})  # noqa: S102 - our own page
    assert capsys.readouterr().out == "0 13 b'one'\n13 26 b'two'\n"


@pytest.mark.parametrize("name", ["consumer", "assignors", "legacy-clients", "registry"])
def test_an_example_prints_what_its_page_says(capsys, name):
    page = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    # The last block of code before what it prints.
    before, printed = re.split(r"^```\n\nprints\n\n```\n", page, maxsplit=1, flags=re.MULTILINE)
    code, printed = before.rpartition("```python\n")[2], printed.partition("```")[0]
    exec(compile(code, f"docs/{name}.md", "exec"), {})  # noqa: S102 - our own page
    assert capsys.readouterr().out == printed


def test_the_examples_of_the_operations_page_run_and_print_what_it_says(tmp_path):
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8").partition("## Logs")[2]
    example = re.compile(r"^```python\n(.*?)^```\n(?:\nprints\n\n```\n(.*?)^```)?", re.MULTILINE | re.DOTALL)
    examples = example.findall(page)
    assert len(examples) >= 3
    for code, printed in examples:
        program = [sys.executable, "-c", code]
        done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=True, cwd=tmp_path)
        assert not printed or done.stdout == printed


def anchors(page: Path) -> set[str]:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_a_file_and_a_heading(page):
    for link in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        if link.startswith("http"):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name) if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_files_that_pages_name_exist():
    named = {path for page in PAGES for path in FILES.findall(page.read_text(encoding="utf-8"))}
    assert len(named) > 50
    assert not [path for path in sorted(named) if not (ROOT / path).exists()]


def test_the_page_of_administration_names_every_call():
    page = (ROOT / "docs" / "admin.md").read_text(encoding="utf-8").partition("## kadm of franz-go")[0]
    rows = re.findall(r"^\|.*\| (`[a-z_`, ]+`) \|$", page, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([a-z_]+)`", row)}
    calls = {name for name in dir(klamm.AsyncAdmin) if not name.startswith("_")}
    assert named == calls - {"close", "dump_flight"}


def test_items_of_a_docstring_are_below_the_name_of_their_section():
    heading = re.compile(r"^ *(?:Args|Attributes|Raises|Returns|Yields|Example): \S.*", re.MULTILINE)
    files = [*(ROOT / "python").rglob("*.py"), *(ROOT / "python").rglob("*.pyi")]
    found = [f"{file.name}: {line}" for file in files for line in heading.findall(file.read_text(encoding="utf-8"))]
    assert found == []


def test_the_site_has_every_page_once():
    site = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))
    named = re.findall(r"'([\w/-]+\.md)'", repr(site["project"]["nav"]))
    assert sorted(named) == sorted(str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md"))


def reference():
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "reference").glob("*.md"))
    return set(re.findall(r"^::: ([\w.]+)", pages, re.MULTILINE)), set(re.findall(r"heading: klamm\.(\w+)", pages))


def test_the_reference_has_every_public_name():
    shown, headings = reference()
    for name in klamm.__all__:
        value = getattr(klamm, name)
        modules = {f"klamm.{klamm._HOMES[name]}", getattr(value, "__module__", "")}
        assert (
            name == "__version__" or name in headings or modules & shown or {f"{m}.{name}" for m in modules} & shown
        ), name


def test_the_reference_has_names_that_modules_import_late():
    shown, _ = reference()
    late = set(klamm.registry.__all__) - set(vars(klamm.registry))
    assert {name for name in late if f"klamm.registry.protobuf.{name}" not in shown} == set()


def test_the_reference_has_every_public_module():
    shown, _ = reference()
    names = {name for _, name, _ in pkgutil.iter_modules(klamm.__path__)} & klamm._MODULES
    covered = {name.split(".")[1] for name in shown}
    assert names - covered <= {"config", "otel", "prometheus"}  # pages of their own
    for name in shown:
        module, _, attribute = name.rpartition(".")
        if module == "klamm":
            import_module(name)
        else:
            assert hasattr(import_module(module), attribute), name


def test_pages_for_users_of_other_clients_have_every_name_that_errors_explain():
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "coming-from").glob("*.md"))
    known = {**other_clients.PRODUCER, **other_clients.CONSUMER}
    missing = [name for name in known if name not in pages]
    assert set(missing) <= {"poll", "set_sasl_credentials", "committed_offsets", "offsets_for_time"}


def test_the_page_of_administration_counts_the_methods_of_kadm():
    page = (ROOT / "docs" / "admin.md").read_text(encoding="utf-8").partition("## kadm of franz-go")[2]
    rows = re.findall(r"^\| (`[A-Z].*?) \| (.*) \|$", page, re.MULTILINE)
    counted = [len(re.findall(r"`[A-Za-z]+`", methods)) for methods, _ in rows]
    assert f"kadm had {sum(counted)} methods" in page
    assert f"a counterpart for {sum(counted[:-1])} of them" in page
    for _, ours in rows:
        for name in re.findall(r"`([a-z_]+)(?:\(.*?\))?`", ours):
            assert name == "timeout" or hasattr(klamm.Admin, name), name
