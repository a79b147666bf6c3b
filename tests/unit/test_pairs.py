"""The blocking and the asyncio classes have the same methods, with the same arguments and the same documentation."""

from __future__ import annotations

import inspect

import pytest

import klamm
from klamm.registry import AsyncSchemaRegistry, SchemaRegistry
from klamm.waiting import run

PAIRS = [
    (klamm.Producer, klamm.AsyncProducer),
    (klamm.Consumer, klamm.AsyncConsumer),
    (klamm.Admin, klamm.AsyncAdmin),
    (klamm.ShareConsumer, klamm.AsyncShareConsumer),
    (klamm.Transaction, klamm.AsyncTransaction),
    (SchemaRegistry, AsyncSchemaRegistry),
]
DOCUMENTED_APART = {
    ("AsyncProducer", "send"),
    ("AsyncProducer", "send_nowait"),
    ("AsyncProducer", "transaction"),
    ("AsyncConsumer", "commit_nowait"),
}
"""Methods whose asyncio version behaves differently."""

METHODS = [
    pytest.param(blocking, asynchronous, name, id=f"{blocking.__name__}.{name}")
    for blocking, asynchronous in PAIRS
    for name in sorted({name for kind in (blocking, asynchronous) for name in dir(kind) if not name.startswith("_")})
]


@pytest.mark.parametrize(("blocking", "asynchronous", "name"), METHODS)
def test_both_styles_have_the_same_method_with_the_same_arguments(blocking, asynchronous, name):
    methods = [getattr(kind, name) for kind in (blocking, asynchronous)]
    if isinstance(methods[0], property):
        assert methods[0] is methods[1]
        return
    one, other = (
        [(p.name, p.kind, p.default) for p in list(inspect.signature(m).parameters.values())[1:]] for m in methods
    )
    assert one == other


@pytest.mark.parametrize(("blocking", "asynchronous", "name"), METHODS)
def test_both_styles_have_the_same_documentation(blocking, asynchronous, name):
    one, other = (inspect.getdoc(getattr(kind, name)) for kind in (blocking, asynchronous))
    assert one
    assert other
    assert (one != other) == ((asynchronous.__name__, name) in DOCUMENTED_APART)


@pytest.mark.parametrize("kind", [kind for pair in PAIRS for kind in pair])
def test_the_documentation_of_a_class_has_an_example(kind):
    assert "Example:\n" in inspect.getdoc(kind)


def test_a_coroutine_that_suspends_is_no_blocking_call():
    class Suspends:
        def __await__(self):
            yield

    async def suspends():
        await Suspends()

    with pytest.raises(AssertionError, match="suspended"):
        run(suspends())
