"""The conversion of plain values to the application's types. The annotations in this file are strings."""

# ruff: noqa: UP006, UP007, UP037, UP045 - programs use the older forms of type hints too
from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import typing
import uuid
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, Optional, TypedDict, TypeVar, Union

import pytest
from typing_extensions import NotRequired

from klamm.errors import ArgumentError
from klamm.registry.convert import converter
from klamm.registry.errors import SchemaError

T = TypeVar("T")
UTC = dt.timezone.utc
NOON = dt.datetime(2026, 1, 2, 12, 0, 0, 5, UTC)


@dataclass
class Item:
    name: str
    pieces: int = 1


@dataclass
class Priced(Item):
    price: float = 0.5
    tags: list[str] = field(default_factory=list)
    total: float = field(init=False, default=9.0)


@dataclass(frozen=True)
class Slots:
    __slots__ = ("x",)
    x: int


@dataclass(kw_only=True)
class Named:
    y: int = 0
    x: int


@dataclass
class Page(Generic[T]):
    items: list[T]
    next: Page[T] | None = None


@dataclass
class Items(Page[Item]):
    count: int = 0


@dataclass
class Tree:
    children: dict[str, Tree]


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Point(NamedTuple):
    x: int
    y: int = 7


class Keys(TypedDict):
    id: int
    note: NotRequired[str]


Number = NewType("Number", int)


@pytest.mark.parametrize(
    ("target", "plain", "value"),
    [
        (Item, {"name": "a", "pieces": 2, "newer": 1}, Item("a", 2)),
        (Item, {"name": "a"}, Item("a")),
        (Item, ("shop.Item", {"name": "a"}), Item("a")),
        (Slots, {"x": 1}, Slots(1)),
        (Named, {"x": 1}, Named(x=1)),
        (list[Item], [{"name": "a"}], [Item("a")]),
        (Page[Item], {"items": [{"name": "a"}], "next": {"items": []}}, Page([Item("a")], Page([]))),
        (Page[int], {"items": [1]}, Page([1])),
        (Items, {"items": [{"name": "a"}], "count": 1}, Items([Item("a")], None, 1)),
        (Tree, {"children": {"a": {"children": {}}}}, Tree({"a": Tree({})})),
        (Keys, {"id": 1, "newer": 2}, {"id": 1}),
        (Keys, {"id": 1, "note": "x"}, {"id": 1, "note": "x"}),
        (Point, {"x": 1}, Point(1)),
        (Point, [1, 2], Point(1, 2)),
        (Color, 1, Color.RED),
        (Color, "BLUE", Color.BLUE),
        (Optional[Item], None, None),
        (Item | None, {"name": "a"}, Item("a")),
        (int | str, "1", "1"),
        (dt.datetime | int, 5, 5),
        (tuple[int, str], [1, "x"], (1, "x")),
        (tuple[int, ...], [1, 2, 3], (1, 2, 3)),
        (tuple[()], [], ()),
        (tuple, [1, "x"], (1, "x")),
        (set[int], [1, 1], {1}),
        (frozenset[int], [1], frozenset({1})),
        (deque[int], [1], deque([1])),
        (Sequence[int], [1], [1]),
        (AbstractSet[int], [1], {1}),
        (typing.List[Color], [1, 2], [Color.RED, Color.BLUE]),
        (dict[str, Item], {"a": {"name": "b"}}, {"a": Item("b")}),
        (dict[int, str], {"1": "x"}, {1: "x"}),
        (dict[Color, int], {"RED": 1}, {Color.RED: 1}),
        (Mapping[str, int], {"a": 1}, {"a": 1}),
        (defaultdict[str, int], {"a": 1}, defaultdict(None, {"a": 1})),
        (Literal["a", 1], 1, 1),
        (Annotated[Item, "text"], {"name": "a"}, Item("a")),
        (list[Number], [1], [1]),
        (list[Any], [1, "x"], [1, "x"]),
        (list[int], [1.0], [1]),
        (list[float], [1, Decimal("0.5")], [1.0, 0.5]),
        (Decimal, "0.1", Decimal("0.1")),
        (Decimal, 10**30, Decimal(10**30)),
        (uuid.UUID, "12345678-1234-5678-1234-567812345678", uuid.UUID("12345678-1234-5678-1234-567812345678")),
        (uuid.UUID, uuid.UUID(int=1), uuid.UUID(int=1)),
        (dt.datetime, NOON, NOON),
        (dt.datetime, "2026-01-02T12:00:00.000005Z", NOON),
        (dt.datetime, "2026-01-02T12:00:00.000005999z", NOON),
        (dt.datetime, "2026-01-02T13:00:00.000005+01:00", NOON),
        (dt.datetime, "2026-01-02T12:00:00", dt.datetime(2026, 1, 2, 12)),  # noqa: DTZ001
        (dt.date, "2026-01-02", dt.date(2026, 1, 2)),
        (dt.time, "12:00:00.5", dt.time(12, 0, 0, 500_000)),
    ],
)
def test_a_plain_value_becomes_a_value_of_the_type(target, plain, value):
    found = converter(target)(plain)
    assert found == value
    assert type(found) is type(value)


def test_fields_that_the_constructor_does_not_take_keep_their_default():
    assert converter(Priced)({"name": "a", "price": 2, "total": 1.0}) == Priced("a", price=2.0)
    first, second = converter(Priced)({"name": "a"}), converter(Priced)({"name": "a"})
    assert first.tags is not second.tags


@pytest.mark.parametrize(
    ("target", "plain", "path"),
    [
        (Item, {"name": 1}, "name"),
        (Item, {}, ""),
        (Item, [], ""),
        (Page[Item], {"items": [{"name": "a"}, {"name": 2}]}, "items[1].name"),
        (Page[Item], {"items": [], "next": {"items": [{}]}}, "next.items[0]"),
        (Tree, {"children": {"a": {"children": {"b": 1}}}}, "children['a'].children['b']"),
        (tuple[int, str], [1], ""),
        (tuple[int, str], [1, 2], "[1]"),
        (list[set[int]], [[1, "x"]], "[0][1]"),
        (Point, [1, "x"], "[1]"),
        (Keys, {"id": 1, "note": 2}, "note"),
        (Keys, {}, ""),
        (dict[int, str], {"x": "y"}, "['x']"),
        (list[Color], [3], "[0]"),
        (list[Literal[1]], [True], "[0]"),
        (list[int], [1.5], "[0]"),
        (list[int], [float(1 << 60)], "[0]"),
        (list[Decimal], [0.1], "[0]"),
        (list[float], ["1"], "[0]"),
        (list[uuid.UUID], ["x"], "[0]"),
        (list[dt.datetime], ["noon"], "[0]"),
        (list[dt.datetime], [1767323045000], "[0]"),
        (list[dt.date], [NOON], "[0]"),
        (int | Item, "x", ""),
    ],
)
def test_a_value_that_does_not_fit_is_named_by_its_path(target, plain, path):
    with pytest.raises(SchemaError) as caught:
        converter(target)(plain)
    assert caught.value.path == path


@dataclass
class Started:
    job: int


@dataclass
class Stopped:
    job: int


@dataclass
class Failed:
    job: int
    code: int


@pytest.mark.parametrize(
    ("plain", "value"),
    [
        (("shop.Stopped", {"job": 1}), Stopped(1)),
        (("Failed", {"job": 1, "code": 2}), Failed(1, 2)),
        ({"job": 1, "code": 2}, Failed(1, 2)),
        ({"job": 1}, Started(1)),
        ({"job": 1, "newer": 2}, Started(1)),
        (("Unknown", {"job": 1, "code": 2}), Failed(1, 2)),
    ],
)
def test_the_name_or_the_fields_of_a_record_choose_the_class_of_a_union(plain, value):
    assert converter(Union[Started, Stopped, Failed])(plain) == value
    assert converter(list[Union[Started, Stopped, Failed, None]])([plain, None]) == [value, None]


def test_the_branch_that_a_name_chooses_has_to_fit():
    with pytest.raises(SchemaError) as caught:
        converter(Union[Started, Failed])(("Failed", {"job": 1}))
    assert "code" in caught.value.message


def test_classes_of_a_function():
    @dataclass
    class Line:
        order: Order | None
        pieces: int

    @dataclass
    class Order:
        lines: list[Line]
        before: Optional["Order"] = None

    plain = {"lines": [{"order": None, "pieces": 1}], "before": {"lines": []}}
    assert converter(Order)(plain) == Order([Line(None, 1)], Order([]))


def test_a_class_that_is_defined_later():
    namespace: dict[str, Any] = {"__name__": "later", "dataclass": dataclass}
    import sys
    import types

    module = sys.modules["later"] = types.ModuleType("later")
    vars(module).update(namespace)
    try:
        exec("@dataclass\nclass First:\n    second: 'Second'\n", vars(module))  # noqa: S102
        convert = converter(module.First)
        with pytest.raises(NameError):
            convert({"second": {"x": 1}})
        exec("@dataclass\nclass Second:\n    x: int\n", vars(module))  # noqa: S102
        assert convert({"second": {"x": 1}}) == module.First(module.Second(1))
    finally:
        del sys.modules["later"]


def test_models_of_pydantic():
    pydantic = pytest.importorskip("pydantic")

    class Model(pydantic.BaseModel):
        at: dt.datetime

    checked = pydantic.dataclasses.dataclass(type("Checked", (), {"__annotations__": {"x": int}}))

    @dataclass
    class Holder:
        models: list[Model]
        either: Item | Model

    plain = {"models": [{"at": "2026-01-02T12:00:00.000005Z"}], "either": {"at": NOON}}
    assert converter(Holder)(plain) == Holder([Model(at=NOON)], Model(at=NOON))
    assert converter(checked)({"x": "5"}).x == 5


def test_a_search_in_unions_of_unions_ends():
    @dataclass
    class Left:
        child: Left | Right | None

    @dataclass
    class Right:
        child: Right | Left | None

    value: Any = {"child": 1}
    for _ in range(60):
        value = {"child": value}
    with pytest.raises(SchemaError):
        converter(Left)(value)


def test_names_of_fields_are_not_code():
    odd = dataclasses.make_dataclass("Odd", [("value", int), ("found", int), ("at", int), ("made", int), ("v", int)])
    plain = {"value": 1, "found": 2, "at": 3, "made": 4, "v": 5}
    assert dataclasses.asdict(converter(odd)(plain)) == plain
    keys = TypedDict("keys", {"a'b": int, "x\\": int, "{y}": NotRequired[int]})
    assert converter(keys)({"a'b": 1, "x\\": 2, "{y}": 3}) == {"a'b": 1, "x\\": 2, "{y}": 3}


def test_functions_and_other_arguments():
    assert converter(str)(5) == "5"
    assert converter(dict)([("a", 1)]) == {"a": 1}
    with pytest.raises(ArgumentError):
        converter(7)
