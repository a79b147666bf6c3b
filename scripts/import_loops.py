#!/usr/bin/env python3
"""Lists import loops: files of src/ or of python/ that import each other, directly or through other files.

For each loop, the script prints the files, the imports between these files, and the imported names. If a `mod.rs` or an
`__init__.py` re-exports a name, the import counts for the file that defines the name. Tests inside Rust files and imports
under `TYPE_CHECKING` do not count. A call of a method does not count as an import, even if the method's `impl` block is
in another file.

With `--wide`, imports under `TYPE_CHECKING` count. Calls through `self` and `Self` also count, if the method is in an
`impl` block of the same type in another file. Calls through other values do not count, because their types are unknown.

    python3 scripts/import_loops.py [--wide] [--max N] [PREFIX ...]

PREFIX (for example src/broker) limits the list to loops with a file below this path. With `--max N`, the script only
prints the loops if more than N files are part of a loop. In this case, the script exits with 1.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent

# The imported names, by importing file and then by imported file.
Arrows = dict[str, dict[str, set[str]]]

LITERALS = re.compile(
    r"""//[^\n]* | /\*.*?\*/ | b?r(\#*)".*?"\1 | b?"(?:\\.|[^"\\])*" | b?'(?:\\[^']+|[^'\\])'""", re.DOTALL | re.VERBOSE
)
USE = re.compile(r"(pub(?:\s*\([^)]*\))?\s+)?\buse\s+([^;]+);")
PATH = re.compile(r"(?<![\w:.$])\$?([A-Za-z_]\w*)((?:\s*::\s*[A-Za-z_]\w*)+)")
DEFINITION = re.compile(
    r"\b(?:fn|struct|enum|union|trait|type|const|static|mod|macro_rules!)\s+(?:mut\s+)?(?:r#)?([A-Za-z_]\w*)"
)
IMPL = re.compile(r"^[ \t]*impl\b", re.MULTILINE)
TYPE_NAME = re.compile(r"&?\s*([A-Za-z_]\w*(?:\s*::\s*[A-Za-z_]\w*)*)")
METHOD = re.compile(r"\bfn\s+(?:r#)?([A-Za-z_]\w*)")
OWN_METHOD = re.compile(r"\bself\s*\.\s*([a-z_]\w*)\s*(?:::\s*<[^>]*>\s*)?\(|\bSelf\s*::\s*([a-z_]\w*)")
INLINE_MODULE = re.compile(r"(#\[cfg\(test\)\]\s*)?(?:pub(?:\([^)]*\))?\s+)?\bmod\s+\w+\s*\{")


class RustFile:
    """One Rust file as a module: its code without literals, its `use` statements and its definitions."""

    def __init__(self, path: Path, source: Path) -> None:
        self.name = str(path.relative_to(ROOT))
        parts = list(path.relative_to(source).with_suffix("").parts)
        self.module = tuple(parts[:-1] if parts[-1] in ("mod", "lib") else parts)
        self.code = LITERALS.sub(lambda m: " " * (len(m[0]) - 1) + " ", path.read_text())
        self.inline: list[tuple[int, int]] = []
        self._find_inline_modules()
        self.defined = set(DEFINITION.findall(self.code))
        # (path, local name or "*", public, position)
        self.uses: list[tuple[list[str], str, bool, int]] = []
        for match in USE.finditer(self.code):
            for target, alias in use_tree(match[2]):
                self.uses.append((target, alias, bool(match[1]), match.start()))
        self.body = USE.sub(lambda m: " " * len(m[0]), self.code)

    def _find_inline_modules(self) -> None:
        at = 0
        while match := INLINE_MODULE.search(self.code, at):
            end = closing_brace(self.code, match.end() - 1)
            if match[1]:
                self.code = self.code[: match.start()] + " " * (end - match.start()) + self.code[end:]
            else:
                self.inline.append((match.end(), end))
            at = match.end()

    def impls(self) -> Iterator[tuple[list[str], int, str]]:
        """Yields the path of the type of each `impl` block, the position of the block, and its body."""
        for match in IMPL.finditer(self.code):
            start = self.code.find("{", match.end())
            header = without_generics(self.code[match.end() : start])
            found = TYPE_NAME.match(re.split(r"\bfor\b", header)[-1].strip())
            if found:
                names = [name.strip() for name in found[1].split("::")]
                yield names, match.start(), self.code[start : closing_brace(self.code, start)]

    def depth(self, at: int) -> int:
        """Returns how many inline modules enclose a position."""
        return sum(start <= at < end for start, end in self.inline)


def without_generics(header: str) -> str:
    """Returns the header of an `impl` block without the generic parameters at its start."""
    header = header.strip()
    depth = 0
    for index, letter in enumerate(header):
        depth += (letter == "<") - (letter == ">" and header[index - 1] != "-")
        if depth == 0:
            return header[index + 1 :] if letter == ">" else header
    return header


def closing_brace(code: str, at: int) -> int:
    """Returns the position after the closing brace that matches the opening brace at `at`."""
    depth = 0
    for index in range(at, len(code)):
        depth += (code[index] == "{") - (code[index] == "}")
        if depth == 0:
            return index + 1
    return len(code)


def use_tree(text: str) -> list[tuple[list[str], str]]:
    """Returns the paths of a `use` statement, each with its local name in the file."""
    text = text.strip()
    if "{" in text:
        head, rest = text.split("{", 1)
        parts, depth, start = [], 0, 0
        inner = rest[: rest.rindex("}")]
        for index, letter in enumerate(inner):
            depth += (letter == "{") - (letter == "}")
            if letter == "," and depth == 0:
                parts.append(inner[start:index])
                start = index + 1
        parts.append(inner[start:])
        return [found for part in parts if part.strip() for found in use_tree(head + part.strip())]
    path, _, alias = (part.strip() for part in re.sub(r"\s+as\s+", "\0", text).partition("\0"))
    names = [name.strip() for name in path.split("::") if name.strip()]
    if names and names[-1] == "self" and len(names) > 1:
        names.pop()
    return [(names, alias or names[-1])] if names else []


class Rust:
    """All files of src/. Resolves the paths in these files to the modules that define an item."""

    def __init__(self, source: Path) -> None:
        files = [RustFile(path, source) for path in sorted(source.rglob("*.rs"))]
        self.files = {file.module: file for file in files}

    def absolute(
        self, file: RustFile, names: list[str], at: int, aliases: dict[str, tuple[str, ...]]
    ) -> list[str] | None:
        """Returns a path from the crate's root, or None if the path leads outside the crate."""
        names = list(names)
        if names[0] == "crate":
            return names[1:]
        if names[0] in ("self", "super"):
            base = [*file.module] + ["?"] * file.depth(at)
            while names and names[0] in ("self", "super"):
                if names.pop(0) == "super" and base:
                    base.pop()
            return [*(name for name in base if name != "?"), *names]
        if (*file.module, names[0]) in self.files:
            return [*file.module, *names]
        if names[0] in aliases:
            return [*aliases[names[0]], *names[1:]]
        return None

    def resolve(
        self, path: list[str], seen: frozenset[tuple[str, ...]] = frozenset()
    ) -> tuple[tuple[str, ...], str | None] | None:
        """Returns the module that defines the item to which a path refers, and the name of the item.

        The name is None if the path is a module.
        """
        if tuple(path) in seen:
            return None
        seen |= {tuple(path)}
        depth = max(n for n in range(len(path) + 1) if tuple(path[:n]) in self.files)
        module, rest = tuple(path[:depth]), path[depth:]
        if not rest or rest == ["*"]:
            return module, rest[0] if rest else None
        file = self.files[module]
        for target, alias, _, at in file.uses:
            if alias == rest[0] and (full := self.absolute(file, target, at, {})) is not None:
                return self.resolve([*full, *rest[1:]], seen) or (module, rest[0])
        if rest[0] not in file.defined:
            for target, alias, public, at in file.uses:
                if alias == "*" and public and (full := self.absolute(file, target, at, {})) is not None:
                    found = self.resolve([*full[:-1], *rest], seen)
                    if found and found[1] in self.files[found[0]].defined:
                        return found
        return module, rest[0]

    def arrows(self) -> Arrows:
        """Returns the names that each file imports from each of the other files."""
        arrows: Arrows = defaultdict(lambda: defaultdict(set))
        for file in self.files.values():
            aliases: dict[str, tuple[str, ...]] = {}
            found: list[list[str]] = []
            for target, alias, public, at in file.uses:
                full = self.absolute(file, target, at, {})
                if full is None:
                    continue
                where = self.resolve(full)
                if where and where[1] is None:
                    aliases[alias] = where[0]
                elif not public or alias == "*" or re.search(rf"\b{alias}\b", file.body):
                    found.append(full)
            for match in PATH.finditer(file.body):
                names = [match[1], *(name.strip() for name in match[2].split("::")[1:])]
                if (full := self.absolute(file, names, match.start(), aliases)) is not None:
                    found.append(full)
            for full in found:
                where = self.resolve(full)
                if where and where[1] is not None and where[0] != file.module:
                    arrows[file.name][self.files[where[0]].name].add(where[1])
        return arrows

    def add_methods(self, arrows: Arrows) -> None:
        """Adds an arrow for each call of an own method whose `impl` block is in another file."""
        methods: dict[tuple[tuple[str, ...], str], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        blocks = []
        for file in self.files.values():
            for names, at, body in file.impls():
                where = self.resolve(self.absolute(file, names, at, {}) or [*file.module, *names])
                if where is None or where[1] is None:
                    continue
                blocks.append((file.name, (where[0], where[1]), body))
                for match in METHOD.finditer(body):
                    methods[where[0], where[1]][match[1]].add(file.name)
        for name, owner, body in blocks:
            for match in OWN_METHOD.finditer(body):
                homes = methods[owner].get(match[1] or match[2], set())
                for home in homes if name not in homes else ():
                    arrows[name][home].add(f"{owner[1]}::{match[1] or match[2]}")


class PythonFile:
    """One Python file as a module, with its imports: module, imported name and local name."""

    def __init__(self, path: Path, source: Path, *, wide: bool) -> None:
        self.wide = wide
        self.name = str(path.relative_to(ROOT))
        parts = path.relative_to(source).with_suffix("").parts
        self.is_package = parts[-1] == "__init__"
        self.module = ".".join(parts[:-1] if self.is_package else parts)
        # (module, name or None, local name)
        self.imports: list[tuple[str, str | None, str]] = []
        self._visit(ast.parse(path.read_text()))

    def _visit(self, node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if not self.wide and isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                for other in child.orelse:
                    self._visit(other)
            elif isinstance(child, ast.Import):
                self.imports += [(alias.name, None, alias.asname or alias.name) for alias in child.names]
            elif isinstance(child, ast.ImportFrom):
                module = child.module or ""
                if child.level:
                    package = self.module.split(".") if self.is_package else self.module.split(".")[:-1]
                    base = package[: len(package) - child.level + 1]
                    module = ".".join([*base, module] if module else base)
                self.imports += [(module, alias.name, alias.asname or alias.name) for alias in child.names]
            else:
                self._visit(child)


def python_arrows(source: Path, *, wide: bool) -> Arrows:
    """Returns the names that each Python file imports from each of the other files."""
    files = [PythonFile(path, source, wide=wide) for path in sorted(source.rglob("*.py"))]
    modules = {file.module: file for file in files}

    def resolve(module: str, name: str | None, seen: frozenset[tuple[str, str]] = frozenset()) -> PythonFile | None:
        if name is not None and f"{module}.{name}" in modules:
            return modules[f"{module}.{name}"]
        file = modules.get(module)
        if file is None or name is None or not file.is_package or (module, name) in seen:
            return file
        for origin, original, local in file.imports:
            if local == name:
                return resolve(origin, original, seen | {(module, name)}) or file
        return file

    arrows: Arrows = defaultdict(lambda: defaultdict(set))
    for file in files:
        for module, name, _ in file.imports:
            target = resolve(module, name)
            if target is not None and target is not file:
                arrows[file.name][target.name].add(name or module)
    return arrows


def loops(arrows: Arrows) -> list[list[str]]:
    """Returns the strongly connected components (Tarjan's algorithm) with more than one file, the largest first."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for following in arrows.get(node, {}):
            if following not in index:
                visit(following)
                low[node] = min(low[node], low[following])
            elif following in stack:
                low[node] = min(low[node], index[following])
        if low[node] == index[node]:
            component = [stack.pop()]
            while component[-1] != node:
                component.append(stack.pop())
            if len(component) > 1:
                found.append(sorted(component))

    for node in sorted(arrows):
        if node not in index:
            visit(node)
    return sorted(found, key=lambda files: (-len(files), files))


def main() -> int:
    """Prints the loops and returns the exit code."""
    parser = argparse.ArgumentParser(description="Lists files that import each other in a loop.")
    parser.add_argument("--max", type=int, metavar="N", help="fail if more than N files are part of a loop")
    parser.add_argument("--wide", action="store_true", help="count own methods and imports for type checkers too")
    parser.add_argument("prefix", nargs="*", help="only loops with a file below this path, such as src/broker")
    options = parser.parse_args()
    sys.setrecursionlimit(10_000)

    total = count = 0
    lines: list[str] = []
    rust = Rust(ROOT / "src")
    rust_arrows = rust.arrows()
    if options.wide:
        rust.add_methods(rust_arrows)
    for arrows in (rust_arrows, python_arrows(ROOT / "python", wide=options.wide)):
        for files in loops(arrows):
            if options.prefix and not any(file.startswith(tuple(options.prefix)) for file in files):
                continue
            count += 1
            total += len(files)
            lines.append(f"loop of {len(files)} files")
            for file in files:
                inside = sorted(set(arrows[file]) & set(files))
                lines += [f"  {file} -> {target}: {', '.join(sorted(arrows[file][target]))}" for target in inside]
    within = options.max is not None and total <= options.max
    print("\n".join([*([] if within else lines), f"{total} files in {count} loops"]))
    if options.max is not None and not within:
        print(f"error: {total} files are part of a loop, and at most {options.max} may be", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
