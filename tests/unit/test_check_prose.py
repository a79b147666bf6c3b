"""The prose check finds what it should, and only that."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LONG = "The consumer commits " + "the offset of the record and " * 6 + "the broker answers."


@pytest.fixture(scope="module")
def check():
    spec = importlib.util.spec_from_file_location("check_prose", ROOT / "scripts" / "check_prose.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def counts(check, texts):
    return [hit.count for text in texts for hit in check.findings(text)]


def markdown(check, page):
    return list(check.markdown(enumerate(page.split("\n"), 1), "docs/x.md", "docs"))


def test_a_long_sentence_on_a_page_is_found_with_its_line(check):
    (text,) = markdown(check, f"\n\n{LONG}\n")
    (hit,) = check.findings(text)
    assert hit[:3] == ("docs/x.md", 3, "user-facing long docs")
    assert "42 words" in hit.message


def test_code_and_tables_have_no_sentences(check):
    page = f"# Title\n\n```python\n{LONG}\n```\n\n    {LONG}\n\n| a | {LONG} |\n"
    assert counts(check, markdown(check, page)) == []


def test_words_are_found_in_table_cells_and_across_lines_but_not_in_code(check):
    assert counts(check, markdown(check, "| nobody | x |")) == ["user-facing word docs"]
    assert counts(check, markdown(check, "The program is\ntold.")) == ["user-facing word docs"]
    assert counts(check, markdown(check, "The name is `nobody`.")) == []


def test_list_items_are_paragraphs_of_their_own(check):
    assert [text.text for text in markdown(check, "Intro:\n* one\n  more\n* two")] == ["Intro:", "one more", "two"]


def test_inline_code_is_one_word_and_may_begin_a_sentence(check):
    assert check.sentences("It ends. `a_b` begins. klamm is a name, e.g. This stays.") == [
        "It ends.",
        "`a_b` begins.",
        "klamm is a name, e.g. This stays.",
    ]
    (text,) = markdown(check, "See `a b c d`.")
    assert check.words(text.text) == 2


def test_docstrings_and_messages_of_python_are_read(check):
    source = f'"""{LONG}"""\n\ndef f():\n    """Whoever asks."""\n    raise ValueError("nobody is there")\n'
    assert counts(check, check.python(source, "python/klamm/x.py")) == [
        "user-facing long docstring",
        "user-facing word docstring",
        "user-facing word message",
    ]
    assert counts(check, check.python(source, "tests/x.py")) == ["internal long docstring", "internal word docstring"]


def test_parameters_of_a_docstring_are_paragraphs_of_their_own(check):
    source = 'def f():\n    """Do it.\n\n    Args:\n        one: The first.\n        two: The second.\n    """\n'
    assert [text.text for text in check.python(source, "python/x.py")] == [
        "Do it.",
        "Args:",
        "one: The first.",
        "two: The second.",
    ]


def test_doc_comments_and_messages_of_rust_are_read_but_not_its_unit_tests(check):
    source = f"""//! {LONG}

/// Nobody
/// is told.
fn f() {{
    // nobody reads this
    fail("the group goes on \\
        without it");
}}

#[cfg(test)]
mod tests {{
    const A: &str = "nobody here";
}}
"""
    found = counts(check, check.rust(source, "src/x.rs"))
    assert Counter(found) == {
        "user-facing long doc comment": 1,
        "user-facing word doc comment": 2,
        "user-facing word message": 1,
    }


def test_the_baseline_only_goes_down(check, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(check, "BASELINE", tmp_path / "baseline.txt")
    check.write_baseline({"a": 3, "b": 1})
    assert check.compare(Counter(a=4, b=1), check.read_baseline(), lower=False) == ["a: 4, the baseline is 3"]
    assert check.compare(Counter(a=2, b=1), check.read_baseline(), lower=False) == []
    assert "a 3 → 2" in capsys.readouterr().out
    assert check.compare(Counter(a=2, b=5), check.read_baseline(), lower=True) == ["b: 5, the baseline is 1"]
    assert check.read_baseline() == {"a": 2, "b": 1}


def test_a_sample_is_the_same_for_the_same_seed(check):
    docs = [ROOT / "docs"]
    assert check.sample(docs, 5, 1) == check.sample(docs, 5, 1)
    assert check.sample(docs, 5, 1) != check.sample(docs, 5, 2)
