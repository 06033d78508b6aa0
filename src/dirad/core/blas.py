"""Linear algebra by one thread: the order in which BLAS adds may depend on their number."""

from contextlib import AbstractContextManager
from functools import cache
from typing import Any


def one_blas_thread() -> AbstractContextManager[Any]:
    """Return a context in which BLAS computes by a single thread."""
    return _libraries().limit(limits=1, user_api="blas")


@cache
def _libraries() -> Any:
    """Return the libraries of this process, which takes milliseconds to find."""
    # Imported late: only training needs them. SciPy may load a BLAS of its own.
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
