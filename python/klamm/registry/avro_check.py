"""Checks the bytes of an Avro value against its schema, before fastavro decodes and after fastavro encodes the value.

fastavro 1.13 has three faults with damaged or hostile bytes. A value that is nested 100,000 times crashes the process.
Decoding an array of empty items can allocate memory without limit. fastavro accepts values that the specification does
not allow: negative branches of unions, numbers that are too large, and decimals with too many digits. The check takes
less time than the decoding, and the errors of the check contain the path of the field.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from klamm.registry.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Check: TypeAlias = "Callable[[bytes, int], int]"
"""Function that checks the value at a position, and returns the position after the value."""

MAX_EMPTY_ITEMS = 65_536
"""Maximum number of items in an array whose items can be encoded in zero bytes."""
_MAX_VARINT = 10


class Damaged(Exception):  # noqa: N818 - `checked` turns this exception into a SchemaError
    """The bytes do not fit the schema.

    Each record, array or map around the damaged value adds its field name or index to the path.
    """

    def __init__(self, reason: str, path: str = "") -> None:
        super().__init__(reason)
        self.path = path


def compiled(schema: Any, names: Mapping[str, Any]) -> Check:
    """Return a function that checks values of a schema. The schema must be the result of fastavro's parser.

    Args:
        schema: The schema.
        names: Named types by their full names.
    """
    return _Compiler(names).compile(schema)


def checked(check: Check, data: bytes, start: int) -> None:
    """Check that a value fits its schema, and that no bytes follow the value.

    Raises:
        SchemaError: The value is damaged. The error contains the path of the damaged field.
    """
    try:
        end = check(data, start)
    except Damaged as damaged:
        raise SchemaError(
            f"the value does not fit its schema: {damaged}", path=damaged.path.removeprefix(".")
        ) from None
    except IndexError:
        raise SchemaError("the value is shorter than its schema says", hint="the record is truncated") from None
    except RecursionError:
        raise SchemaError("the value is nested too deep") from None
    if end > len(data):
        raise SchemaError("the value is shorter than its schema says", hint="the record is truncated")
    if end < len(data):
        raise SchemaError(f"the value ends {len(data) - end} bytes before the end of the record")


def _long(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    if byte < 0x80:  # noqa: PLR2004 - seven bits a byte
        return byte >> 1 ^ -(byte & 1), at + 1
    value, shift, start = byte & 0x7F, 7, at
    while byte >= 0x80:  # noqa: PLR2004
        at += 1
        if at - start >= _MAX_VARINT:
            raise Damaged("a number has more than ten bytes")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift += 7
    if value >> 64:
        raise Damaged("a number does not fit into 64 bits")
    return value >> 1 ^ -(value & 1), at + 1


def _check_null(_: bytes, at: int) -> int:
    return at


def _check_boolean(data: bytes, at: int) -> int:
    if data[at] > 1:
        raise Damaged(f"a boolean is {data[at]}")
    return at + 1


def _check_int(data: bytes, at: int) -> int:
    value, at = _long(data, at)
    if not -(1 << 31) <= value < 1 << 31:
        raise Damaged(f"an int is {value}")
    return at


def _check_long(data: bytes, at: int) -> int:
    if data[at] < 0x80:  # noqa: PLR2004
        return at + 1
    return _long(data, at)[1]


def _check_bytes(data: bytes, at: int) -> int:
    length, at = _long(data, at)
    if length < 0 or length > len(data) - at:
        raise Damaged(f"a length is {length}, and {len(data) - at} bytes are left")
    return at + length


def _check_string(data: bytes, at: int) -> int:
    length = data[at]
    if length < 0x80:  # noqa: PLR2004
        length, at = length >> 1 ^ -(length & 1), at + 1
    else:
        length, at = _long(data, at)
    end = at + length
    if length < 0 or end > len(data):
        raise Damaged(f"a length is {length}, and {len(data) - at} bytes are left")
    try:
        data[at:end].decode()
    except UnicodeDecodeError:
        raise Damaged("a string is not UTF-8") from None
    return end


_PRIMITIVES: dict[str, tuple[Check, int]] = {
    "null": (_check_null, 0),
    "boolean": (_check_boolean, 1),
    "int": (_check_int, 1),
    "long": (_check_long, 1),
    "float": (lambda _, at: at + 4, 4),
    "double": (lambda _, at: at + 8, 8),
    "bytes": (_check_bytes, 1),
    "string": (_check_string, 1),
}
"""For each primitive type, the function that checks a value, and the minimum number of bytes of a value."""


class _Compiler:
    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = names
        self._checks: dict[str, Check] = {}

    def compile(self, schema: Any) -> Check:
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            return _PRIMITIVES[schema][0] if schema in _PRIMITIVES else self._named(schema)
        kind = schema["type"]
        if kind in ("bytes", "fixed") and schema.get("logicalType") == "decimal":
            return self._decimal(schema)
        if kind in ("array", "map"):
            return self._blocks(schema)
        if isinstance(kind, (list, dict)) or kind in _PRIMITIVES:
            return self.compile(kind)
        return self._named(schema.get("name", kind), schema)

    def _named(self, name: str, schema: Any = None) -> Check:
        if name in self._checks:
            return self._checks[name]
        schema = self._names.get(name, schema)
        if schema["type"] == "enum":
            self._checks[name] = self._enum(len(schema["symbols"]))
        elif schema["type"] == "fixed":
            size = schema["size"]
            self._checks[name] = lambda _, at: at + size
        else:
            # A recursive type contains itself. While klamm compiles the type, the inner uses find this function.
            self._checks[name] = lambda data, at: self._checks[name](data, at)  # noqa: PLW0108 - replaced below
            self._checks[name] = self._record(schema)
        return self._checks[name]

    def _enum(self, count: int) -> Check:
        def check(data: bytes, at: int) -> int:
            index, at = _long(data, at)
            if not 0 <= index < count:
                raise Damaged(f"the enum has no symbol {index}")
            return at

        return check

    def _record(self, schema: Any) -> Check:
        fields = [(field["name"], self.compile(field["type"])) for field in schema["fields"]]

        def check(data: bytes, at: int) -> int:
            name = ""
            try:
                for name, each in fields:  # noqa: B007 - the error needs the last name
                    at = each(data, at)
            except Damaged as damaged:
                damaged.path = f".{name}{damaged.path}"
                raise
            except IndexError:
                raise Damaged("the value is shorter than its schema says", f".{name}") from None
            return at

        return check

    def _union(self, branches: list[Any]) -> Check:
        checks = [self.compile(branch) for branch in branches]
        count = len(checks)

        def check(data: bytes, at: int) -> int:
            index, at = _long(data, at)
            if not 0 <= index < count:
                raise Damaged(f"the union has no branch {index}")
            return checks[index](data, at)

        return check

    def _blocks(self, schema: Any) -> Check:
        """Return the function that checks an array or a map. Avro encodes arrays and maps as blocks of items."""
        is_map = schema["type"] == "map"
        inner = schema["values" if is_map else "items"]
        item = self.compile(inner)
        most = MAX_EMPTY_ITEMS if not is_map and self._least(inner, ()) == 0 else None

        def check(data: bytes, at: int) -> int:
            number = 0
            while True:
                count, at = _long(data, at)
                if count == 0:
                    return at
                if count < 0:
                    count, (_, at) = -count, _long(data, at)
                # If each item has at least one byte, there cannot be more items than bytes.
                if count > (len(data) - at if most is None else most - number):
                    raise Damaged(f"a block has {count} items")
                for index in range(number, number + count):
                    try:
                        at = item(data, _check_string(data, at) if is_map else at)
                    except Damaged as damaged:
                        damaged.path = f"[{index}]{damaged.path}"
                        raise
                number += count

        return check

    def _least(self, schema: Any, path: tuple[str, ...]) -> int:  # noqa: PLR0911 - one for each kind of schema
        """Return the minimum number of bytes that a value of a schema can have."""
        if isinstance(schema, list):
            return 1
        if isinstance(schema, str):
            if schema in _PRIMITIVES:
                return _PRIMITIVES[schema][1]
            return 0 if schema in path else self._least(self._names[schema], path)
        kind = schema["type"]
        if kind == "fixed":
            return int(schema["size"])
        if kind in ("array", "map", "enum"):
            return 1
        if kind not in ("record", "error"):
            return self._least(kind, path)
        path = (*path, schema["name"])
        return sum(self._least(field["type"], path) for field in schema["fields"])

    def _decimal(self, schema: Any) -> Check:
        limit = 10 ** schema.get("precision", 0)
        size = schema["size"] if schema["type"] == "fixed" else None

        def check(data: bytes, at: int) -> int:
            end = _check_bytes(data, at) if size is None else at + size
            start = at if size is not None else _long(data, at)[1]
            if abs(int.from_bytes(data[start:end], "big", signed=True)) >= limit:
                raise Damaged(f"a decimal has more than {schema.get('precision')} digits")
            return end

        return check
