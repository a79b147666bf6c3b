"""Parses column types in Spark's DDL, such as `id BIGINT, lines ARRAY<STRUCT<sku: STRING>>`, to Arrow types.

A type may also have the name that it has in Arrow, such as `int64` or `timestamp[ms]`.
"""

from __future__ import annotations

import re

import pyarrow as pa

from klamm.errors import ConfigError

_TOKEN = re.compile(r"\s*(`(?:[^`]|``)+`|'(?:[^'\\]|\\.)*'|\w+(?:\[\w+\])?|[<>(),:])")
_TYPES = {
    "boolean": pa.bool_(),
    ("byte", "tinyint"): pa.int8(),
    ("short", "smallint"): pa.int16(),
    ("int", "integer"): pa.int32(),
    ("long", "bigint"): pa.int64(),
    ("float", "real"): pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    ("timestamp", "timestamp_ltz"): pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_BY_NAME = {name: kind for names, kind in _TYPES.items() for name in ([names] if isinstance(names, str) else names)}
_MAX_DEPTH = 60


def arrow_type(text: str) -> pa.DataType:
    """Return the Arrow type for a type in DDL, or the struct for a list of columns.

    Raises:
        ConfigError: The text is not DDL.
    """
    parser = _Parser(text)
    try:
        # A list of columns starts with a name and a type, and a single type does not.
        is_type = len(parser.tokens) == 1 or parser.tokens[1] in ("<", "(")
        kind = parser.type(0) if is_type else parser.columns(0)
        if parser.tokens:
            raise ValueError(f"unexpected {parser.tokens[0]}")  # noqa: TRY301
    except (IndexError, ValueError, KeyError, OverflowError) as error:
        why = "the text ends too early" if isinstance(error, IndexError) else error
        raise ConfigError(
            f"the schema {text[:100]!r} is neither a JSON Schema nor DDL: {why}",
            hint="pass a JSON Schema, or columns such as 'id BIGINT, note STRING'",
        ) from None
    return kind


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens: list[str] = []
        at, text = 0, text.rstrip()
        while match := _TOKEN.match(text, at):
            self.tokens.append(match[1])
            at = match.end()
        if at < len(text) or not text:
            self.tokens += ["", text[at : at + 20] or "empty text"]

    def columns(self, depth: int) -> pa.DataType:
        fields = []
        while True:
            name = self.tokens.pop(0)
            if not re.match(r"[\w`]", name):
                raise ValueError(f"unexpected {name or self.tokens[0]}")
            self._accept(":")
            fields.append(pa.field(name[1:-1].replace("``", "`") if name[0] == "`" else name, self.type(depth)))
            if self._accept("not"):
                self._expect("null")
            if self._accept("comment"):
                self.tokens.pop(0)
            if not self._accept(","):
                return pa.struct(fields)

    def type(self, depth: int) -> pa.DataType:
        if depth > _MAX_DEPTH:
            raise ValueError("the types are nested too deep")
        name = self.tokens.pop(0).lower()
        if name in ("array", "map", "struct"):
            self._expect("<")
            if name == "struct":
                kind = self.columns(depth + 1)
            elif name == "array":
                kind = pa.list_(self.type(depth + 1))
            else:
                key = self.type(depth + 1)
                self._expect(",")
                kind = pa.map_(key, self.type(depth + 1))
            self._expect(">")
            return kind
        if name in ("decimal", "dec", "numeric"):
            digits = [10, 0]
            if self._accept("("):
                digits[0] = int(self.tokens.pop(0))
                digits[1] = int(self.tokens.pop(0)) if self._accept(",") else 0
                self._expect(")")
            return pa.decimal128(*digits)
        try:
            return _BY_NAME.get(name) or pa.type_for_alias(name)
        except ValueError:
            raise ValueError(f"unknown type {name or self.tokens[0]}") from None

    def _accept(self, token: str) -> bool:
        is_next = bool(self.tokens) and self.tokens[0].lower() == token
        if is_next:
            del self.tokens[0]
        return is_next

    def _expect(self, token: str) -> None:
        if not self._accept(token):
            raise ValueError(f"expected {token}, not {self.tokens[0]}")
