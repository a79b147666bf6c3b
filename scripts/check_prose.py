"""Check the English of klamm's docs, docstrings, doc comments and messages against the rules of CONTRIBUTING.md.

The check finds sentences of more than 35 words, and words that make a reader guess who acts. It compares the number of
findings with scripts/prose_baseline.txt. The check fails if a number is above the baseline. A lower number can become
the new baseline.

    python3 scripts/check_prose.py                        # compare the counts with the baseline, as `make check` does
    python3 scripts/check_prose.py src/net docs/spark.md  # list the findings in these paths; fail if there are any
    python3 scripts/check_prose.py --lower                # write lower counts into the baseline
    python3 scripts/check_prose.py --sample 150 --seed 1  # print random sentences, for a count by hand

The script only needs Python's standard library. It does not judge style: a short sentence can still be hard to read.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).resolve().parents[1]
BASELINE = ROOT / "scripts" / "prose_baseline.txt"
ROOTS = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "ARCHITECTURE.md",
    "docs",
    "src",
    "python",
    "examples",
    "benches",
    "tests",
)
USER_FACING = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "docs", "src", "python", "examples")
EXCLUDED = re.compile(r"(^|/)(target|\.venv|\.git|__pycache__|corpus|check_prose\.py|test_check_prose\.py)(/|$)")

MAX_WORDS = 35
MIN_SAMPLED = 4
WORDS = re.compile(
    r"\b(whoever|nobody|somebody|hears? of|(?:is|are) told|go(?:es)? on|gives? out|given out|comes? about|(?:is|are) said)\b",
    re.IGNORECASE,
)

Kind = str  # "docs" (Markdown), "docstring" (Python), "doc comment" (Rust) or "message" (string literal)


class Text(NamedTuple):
    """One paragraph, list item or table cell, as plain words on one line."""

    path: str
    line: int
    kind: Kind
    text: str
    is_prose: bool = True  # False: a table cell or a message, in which long sentences are allowed


class Hit(NamedTuple):
    """One finding, and the name of the count in the baseline that includes the finding."""

    path: str
    line: int
    count: str
    message: str


# Markdown: paragraphs and table cells, without code.

_FENCE = re.compile(r"^\s*(```|~~~)")
_PROMPT = re.compile(r"^\s*(>>>|\.\.\.  |\$ )")
_ITEM = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+")
_PARAMETER = re.compile(r"^\s+`{0,2}\*{0,2}\w[\w.*/, ]{0,40}`{0,2}(?: \([^)]*\))?:(?:\s|$)")
_SECTION = re.compile(r"^\s*(?:Args|Arguments|Parameters|Raises|Returns|Yields|Example|Examples|Note|Notes):\s*$")


def _plain(text: str) -> str:
    text = re.sub(r"<!--.*?-->", " ", text)
    text = re.sub(r"``?([^`]+)``?", lambda code: "`" + re.sub(r"\s+", "_", code[1]) + "`", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"\s+", " ", text.replace("**", "")).strip()


def _without_code(lines: Iterable[tuple[int, str]], *, is_docstring: bool) -> Iterator[tuple[int, str]]:
    """Yield the lines of Markdown, with code and comments replaced by empty lines."""
    fence = ""
    is_comment = is_code = False
    is_after_blank = True
    for number, line in lines:
        match = _FENCE.match(line)
        if match and fence in {"", match[1]}:
            fence = "" if fence else match[1]
            yield number, ""
        elif fence:
            continue
        elif is_comment or line.lstrip().startswith("<!--"):
            is_comment = "-->" not in line
            yield number, ""
        else:
            is_indented = line.startswith("    ") and not _ITEM.match(line) and not is_docstring
            is_code = bool(_PROMPT.match(line)) or ((is_after_blank or is_code) and is_indented)
            is_after_blank = not line.strip()
            yield number, "" if is_code else line


def markdown(lines: Iterable[tuple[int, str]], path: str, kind: Kind, *, is_docstring: bool = False) -> Iterator[Text]:
    """Yield the paragraphs, list items and table cells of Markdown, but not its code."""
    block: list[str] = []
    start = 0
    for number, line in (*_without_code(lines, is_docstring=is_docstring), (0, "")):
        stripped = line.strip()
        is_row, is_heading = stripped.startswith("|"), stripped.startswith("#")
        is_parameter = is_docstring and (_PARAMETER.match(line) or _SECTION.match(line))
        is_start = is_row or is_heading or is_parameter or stripped.startswith(">") or _ITEM.match(line)
        if block and (is_start or not stripped):
            yield Text(path, start, kind, _plain(" ".join(block)))
            block.clear()
        if is_row:
            cells = (_plain(cell) for cell in re.split(r"(?<!\\)\|", stripped))
            yield from (Text(path, number, kind, cell, is_prose=False) for cell in cells if cell)
        elif is_heading:
            yield Text(path, number, kind, _plain(stripped.lstrip("# ")))
        elif stripped:
            start = start if block else number
            block.append(_ITEM.sub("", line).strip().lstrip("> "))


# Python: docstrings and string literals.


def python(source: str, path: str) -> Iterator[Text]:
    """Yield the docstrings of Python source, including docstrings of attributes, and then all other string literals."""
    tree = ast.parse(source)
    docstrings: set[int] = set()
    for node in ast.walk(tree):
        for statement in getattr(node, "body", []) if not isinstance(node, (ast.Lambda, ast.IfExp)) else []:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                value = statement.value
                if isinstance(value.value, str):
                    docstrings.add(id(value))
                    lines = value.value.expandtabs().split("\n")
                    margin = min((len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()), default=0)
                    lines = [lines[0], *(line[margin:] for line in lines[1:])]
                    yield from markdown(enumerate(lines, value.lineno), path, "docstring", is_docstring=True)
    if path.startswith(("tests/", "benches/")):
        return
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in docstrings
            and " " in node.value
        ):
            yield Text(path, node.lineno, "message", _plain(node.value), is_prose=False)


# Rust: doc comments and string literals.

_DOC = re.compile(r"^\s*(//!|///)(?!/) ?(.*)$")
_LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)


def rust(source: str, path: str) -> Iterator[Text]:
    """Yield the doc comments and the string literals of Rust source, without string literals of unit tests."""
    block: list[tuple[int, str]] = []
    marker = ""
    code: list[str] = []
    for number, line in enumerate(source.split("\n"), 1):
        match = _DOC.match(line)
        if block and (not match or match[1] != marker):
            yield from markdown(block, path, "doc comment")
            block = []
        if match:
            marker = match[1]
            block.append((number, match[2]))
        code.append("" if re.match(r"^\s*//", line) else line)
    yield from markdown(block, path, "doc comment")
    if path.startswith(("tests/", "benches/")):
        return
    text = re.split(r"^#\[cfg\((?:all\()?test\b", "\n".join(code), maxsplit=1, flags=re.MULTILINE)[0]
    text = re.sub(r"'(?:\\?\")'", "' '", text)
    for match in _LITERAL.finditer(text):
        literal = re.sub(r"\\\n\s*", "", match[1])
        if " " in literal:
            yield Text(path, text.count("\n", 0, match.start()) + 1, "message", _plain(literal), is_prose=False)


# Sentences and findings.

_END = re.compile(r"(?<=[.!?])[)\"'”]?\s+(?=[A-Z`\"'(“]|klamm\b)")
_ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|etc|vs|cf|approx|no)\.$", re.IGNORECASE)


def sentences(text: str) -> list[str]:
    """Split plain text into its sentences."""
    found: list[str] = []
    for part in _END.split(text):
        if found and _ABBREVIATION.search(found[-1]):
            found[-1] += " " + part
        else:
            found.append(part)
    return found


def words(sentence: str) -> int:
    """Return the number of words of a sentence. Inline code counts as one word."""
    return sum(any(letter.isalnum() for letter in word) for word in sentence.split())


def findings(text: Text) -> Iterator[Hit]:
    """Yield a finding for each long sentence and for each word to avoid in one text."""
    owner = "user-facing" if text.path.startswith(USER_FACING) else "internal"
    if text.is_prose:
        for sentence in sentences(text.text):
            if (length := words(sentence)) > MAX_WORDS:
                yield Hit(text.path, text.line, f"{owner} long {text.kind}", f"{length} words: {sentence}")
    without_code = re.sub(r"`[^`]*`", "`…`", text.text)
    for match in WORDS.finditer(without_code):
        around = without_code[max(0, match.start() - 40) : match.end() + 40]
        yield Hit(text.path, text.line, f"{owner} word {text.kind}", f"“{match[0].lower()}”: …{around}…")


def files(roots: Iterable[Path]) -> Iterator[Path]:
    """Yield the files to check: the given files, and all files below the given directories."""
    for root in roots:
        for path in sorted(root.rglob("*")) if root.is_dir() else [root]:
            name = path.relative_to(ROOT).as_posix()
            if path.suffix in {".md", ".py", ".pyi", ".rs"} and path.is_file() and not EXCLUDED.search(name):
                yield path


def texts(roots: Iterable[Path]) -> Iterator[Text]:
    """Yield the texts of the given files, and of all files below the given directories."""
    for path in files(roots):
        source, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix()
        if path.suffix == ".md":
            yield from markdown(enumerate(source.split("\n"), 1), name, "docs")
        elif path.suffix == ".rs":
            yield from rust(source, name)
        else:
            yield from python(source, name)


def sample(roots: Iterable[Path], number: int, seed: int) -> list[tuple[Text, str]]:
    """Return random sentences of at least four words. The same seed and source give the same sentences."""
    all_of_them = [
        (text, sentence)
        for text in texts(roots)
        if text.is_prose
        for sentence in sentences(text.text)
        if words(sentence) >= MIN_SAMPLED
    ]
    return random.Random(seed).sample(all_of_them, min(number, len(all_of_them)))


def read_baseline() -> dict[str, int]:
    """Return the numbers of the baseline file by name. Each line of the file has the form `name: number`."""
    lines = BASELINE.read_text(encoding="utf-8").splitlines() if BASELINE.exists() else []
    pairs = (line.rsplit(":", 1) for line in lines if line and not line.startswith("#"))
    return {count: int(number) for count, number in pairs}


def write_baseline(counts: dict[str, int]) -> None:
    """Write the counts into the baseline file."""
    head = "# The number of findings of scripts/check_prose.py. It may only go down: `python3 scripts/check_prose.py --lower`.\n"
    BASELINE.write_text(
        head + "".join(f"{count}: {counts[count]}\n" for count in sorted(counts) if counts[count]), encoding="utf-8"
    )


def compare(counts: Counter[str], baseline: dict[str, int], *, lower: bool) -> list[str]:
    """Compare the counts with the baseline, and return a line for each count above the baseline.

    With `lower`, write lower counts into the baseline file.
    """
    names = sorted({*counts, *baseline})
    risen = [
        f"{name}: {counts[name]}, the baseline is {baseline.get(name, 0)}"
        for name in names
        if counts[name] > baseline.get(name, 0)
    ]
    fallen = [name for name in names if counts[name] < baseline.get(name, 0)]
    if fallen and lower:
        write_baseline({name: min(counts[name], baseline.get(name, 0)) for name in names})
        print(f"lowered the baseline of {', '.join(fallen)}")
    elif fallen:
        print(
            "the baseline can be lowered with --lower: " + ", ".join(f"{n} {baseline[n]} → {counts[n]}" for n in fallen)
        )
    return risen


def main(arguments: list[str] | None = None) -> int:
    """Run the check and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, help="list the findings below these files and directories")
    parser.add_argument("--lower", action="store_true", help="write lower counts into the baseline")
    parser.add_argument("--sample", type=int, metavar="N", help="print N random sentences instead")
    parser.add_argument("--seed", type=int, default=1, help="seed of --sample (default 1)")
    options = parser.parse_args(arguments)
    roots = [path.resolve() for path in options.paths] or [ROOT / root for root in ROOTS if (ROOT / root).exists()]
    if options.sample:
        for number, (text, sentence) in enumerate(sample(roots, options.sample, options.seed), 1):
            print(f"{number:4} {text.path}:{text.line}: {sentence}")
        return 0
    hits = [hit for text in texts(roots) for hit in findings(text)]
    if options.paths:
        for hit in hits:
            print(f"{hit.path}:{hit.line}: {hit.message}")
        print(f"{len(hits)} findings")
        return 1 if hits else 0
    counts = Counter(hit.count for hit in hits)
    risen = compare(counts, read_baseline(), lower=options.lower)
    for line in risen:
        print(line)
    if risen:
        print("new findings: run python3 scripts/check_prose.py with the paths that you changed")
    return 1 if risen else 0


if __name__ == "__main__":
    sys.exit(main())
