"""What an engine does, and which one is in use."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

from dirad.engine.local import Local

Item = TypeVar("Item")
Result = TypeVar("Result")


class Engine(Protocol):
    """Does independent pieces of work, each of which depends on its arguments alone."""

    def finished(
        self, function: Callable[..., Result], jobs: Sequence[Sequence[Any]], workers: int
    ) -> Iterator[tuple[int, Result]]:
        """Yield (number, ``function(*job)``) of each job once, as soon as it is done."""
        ...

    def spread(
        self,
        function: Callable[[Any, Sequence[Item]], Sequence[Result]],
        shared: Any,
        items: Sequence[Item],
        threads: int,
    ) -> list[Result]:
        """Return ``function(shared, items)``, a result per item, made of shards of the items."""
        ...

    def on_every_node(self, function: Callable[..., Any], *args: Any) -> None:
        """Call a function once on every other machine that takes part."""
        ...


_in_use: ContextVar[Engine] = ContextVar("engine", default=Local())  # noqa: B039 (it has no state)


def current() -> Engine:
    """Return the engine in use: processes and threads of this machine, unless told otherwise."""
    return _in_use.get()


@contextmanager
def using(engine: Engine) -> Iterator[None]:
    """Let an engine do the work that is asked for in this block."""
    token = _in_use.set(engine)
    try:
        yield
    finally:
        _in_use.reset(token)
