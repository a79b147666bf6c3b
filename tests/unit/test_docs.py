"""Generated pages are up to date, examples on pages run, and links lead somewhere."""

from __future__ import annotations

import importlib.util
import pkgutil
import re
from importlib import import_module
from pathlib import Path

import pytest
import tomllib

import klamm
from klamm import foreign

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "benches" / "README.md"]
FILES = re.compile(r"`((?:src|python|tests|scripts|benches|examples)/[\w/.-]+)`")


@pytest.mark.parametrize("name", ["write_configuration", "write_errors"])
def test_a_page_that_a_script_writes_is_up_to_date(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    writer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writer)
    assert writer.PAGE.read_text(encoding="utf-8") == writer.page(), f"run python scripts/{name}.py"


def test_the_page_of_the_command_line_is_up_to_date():
    spec = importlib.util.spec_from_file_location("write_cli", ROOT / "scripts" / "write_cli.py")
    writer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writer)
    assert writer.PAGE.read_text(encoding="utf-8") == writer.page(), "run python scripts/write_cli.py"


def test_the_page_of_the_command_line_names_commands_and_options_that_exist():
    from klamm.cli import build_parser

    parser = build_parser()
    table = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8").partition("## Options of clients")[0]
    named = re.findall(r"`klamm ([a-z-]+)(?: ([a-z-]+))?", table)
    assert len(named) > 30
    for command, action in named:
        assert command in parser.parts, command
        actions = parser.parts[command].parts
        assert not action or not actions or action in actions, (command, action)
    assert {command for command, _ in named} >= set(parser.parts) - {"report", "demo", "completion"}


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
    assert named == calls - {"close"}


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
    known = {**foreign.PRODUCER, **foreign.CONSUMER}
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
