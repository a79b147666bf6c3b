"""Write the docstrings of python/klamm/_klamm.pyi from the extension: `python scripts/write_stub.py`.

Editors show the docstrings of the stub, because they cannot read those of the extension. All public names get
docstrings that users reach through `klamm`: the classes and functions below, and their members without an underscore.
"""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from textwrap import indent

from klamm import _klamm

PAGE = Path(__file__).parents[1] / "python" / "klamm" / "_klamm.pyi"
PUBLIC = {
    *("CertificateAuthority", "Message07", "Pending", "Record", "RecordMetadata", "Records", "ScramClient"),
    *("AdminCore", "ConsumerCore", "ProducerCore", "ShareConsumerCore"),  # the bases of public classes
    *("crc32c", "decode", "decode_header", "encode", "murmur2", "schema"),
    *("decode_messages", "decode_request", "decode_response", "encode_messages", "encode_request", "encode_response"),
}


def page() -> str:
    """Return the stub with the current docstrings."""
    text = PAGE.read_text(encoding="utf-8")
    lines = text.splitlines()
    for node, doc in reversed(list(documented(ast.parse(text)))):
        first = node.body[0]
        quote, end = ('r"""' if "\\" in doc else '"""'), ("\n" if "\n" in doc else "")
        quoted = indent(f'{quote}{doc}{end}"""', " " * (node.col_offset + 4)).splitlines()
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and first.value.value is not ...:
            lines[first.lineno - 1 : first.end_lineno] = quoted
        elif isinstance(node, ast.FunctionDef):
            lines[first.lineno - 1 : first.lineno] = [lines[first.lineno - 1].removesuffix(" ..."), *quoted]
        else:
            at = min(child.lineno for child in [first, *getattr(first, "decorator_list", ())]) - 1
            lines[at:at] = quoted
    return "\n".join(lines) + "\n"


def documented(tree: ast.Module) -> list[tuple[ast.ClassDef | ast.FunctionDef, str]]:
    """Return the declarations that get docstrings, in their order. Of an overloaded function, only the first one does."""
    found = {}
    for node in tree.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name in PUBLIC:
            owner = getattr(_klamm, node.name)
            found.setdefault(node.name, (node, inspect.getdoc(owner)))
            for member in node.body if isinstance(node, ast.ClassDef) else ():
                if isinstance(member, ast.FunctionDef) and not member.name.startswith("_"):
                    found.setdefault(
                        f"{node.name}.{member.name}", (member, inspect.getdoc(getattr(owner, member.name)))
                    )
    return [(node, doc) for node, doc in found.values() if doc]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
