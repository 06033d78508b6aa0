"""The detector of new tasks alone, for use with any other learner."""

from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dirad.core.magnitudes import check_range
from dirad.encoding import with_medians
from dirad.engine import threads_for
from dirad.estimators.checks import checked_labels, refuse_masked, without_label
from dirad.estimators.columns import FROM_DTYPE, coded_columns, split_columns
from dirad.estimators.stream_columns import AUTO, StreamColumns, new_columns, units_of_mixed
from dirad.preval.buffer import UNLABELLED
from dirad.preval.events import Report
from dirad.preval.settings import PRESETS
from dirad.preval.system import System


def watch(
    batches: Iterable[Any],
    *,
    random_state: int = 0,
    n_jobs: int | None = None,
    categorical_features: Any = FROM_DTYPE,
    missing_features: Any = AUTO,
    **settings: Any,
) -> Iterator[Report]:
    """Report for each batch of a stream whether its task is new or known, and which one it is.

    A batch is an array or data frame (samples, features), or a pair of one and labels, which help
    (None and NaN: unknown). It may have missing values and categories, as in `PREVALClassifier`.
    The test has more power for larger batches: a single sample is never unusual enough at the
    default rate of false alarms. Samples that depend on those before them are recognized, and count
    for less.

    A learner on the same stream can act on the reports: consolidate its weights, start another
    memory, or select the parameters of task k.

    Parameters
    ----------
    batches : iterable of arrays, or of pairs (X, y)
    random_state, n_jobs, categorical_features, missing_features
        As in `PREVALClassifier`.
    **settings
        Constants of `dirad.preval.settings.Settings`, such as ``false_alarms=0.001``.

    Yields
    ------
    Report
        One per batch, before the next is read: `kind` ("learning" until a model is calibrated,
        then "known", "new" or "mixed"), `model`, which is the number of the task, and `p`, the
        p-value of the batch under the known task that fits it best. `verdict` is the kind of
        change, such as "back", "shifted inputs" or "new rule"; `inputs` are those that contradict.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> tasks = [0] * 5 + [9] * 5 + [0] * 2  # unannounced
    >>> stream = [rng.normal(task, 1, (200, 5)) for task in tasks]
    >>> [report.kind for report in watch(stream)][4:6]
    ['known', 'new']
    >>> [report.model for report in watch(stream)]
    [0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0]
    """
    threads = threads_for(n_jobs)
    system: System | None = None
    codes: dict[Any, int] = {}
    options = SimpleNamespace(
        preset="default",
        categorical_features=categorical_features,
        missing_features=missing_features,
    )
    known: StreamColumns | None = None
    for number, batch in enumerate(batches):
        what = f"batch {number}"
        X, y = batch if isinstance(batch, tuple) else (batch, None)
        X, known = _checked_columns(X, known, options, what)
        if system is None:
            chosen = PRESETS["default"].replace(**settings)
            n_inputs = known.inputs(X[:1]).shape[1]
            system = System(n_inputs, 0, chosen, seed=random_state, threads=threads)
            if known.is_mixed:
                system.units.set_once(units_of_mixed(known.inputs(X)))
        unit = known.units(system.units.unit) if system.units.is_known else None
        before = [X[:0], *(known.numbers(one.buffer.X) for one in system.learners)]
        earlier = np.concatenate(before) if unit is None else None
        check_range(with_medians(X), unit, before=earlier, what=what)
        yield system.learn_batch(known.inputs(X), _label_codes(y, len(X), codes, what))


def _checked_columns(
    X: Any, known: StreamColumns | None, options: Any, what: str
) -> tuple[NDArray[np.float64], StreamColumns]:
    """Return a batch as numbers, and what is known of the columns: all by the first batch.

    What is not a table (samples, features) of finite numbers, categories and gaps is refused.
    """
    refuse_masked(what, X)
    columns = split_columns(X)
    if columns is None:
        X = np.asarray(X, np.float64)
    shape = np.shape(X)
    if len(shape) != 2 or not shape[0]:
        raise ValueError(
            f"{what} must be (samples, features) with at least one sample, got {shape}"
        )
    if known is not None and shape[1] != known.n:
        raise ValueError(f"{what} has {shape[1]} features, those before had {known.n}")
    numbers = X if columns is None else None
    columns = X.T if columns is None else columns
    is_first = known is None
    if known is None:
        known = new_columns(options, X, columns).seeing_rows(X, columns, np.arange(shape[0]))
    coded = coded_columns(X, columns, known.categories, numbers)
    if np.isinf(coded).any():
        raise ValueError(f"{what} holds infinity")
    return coded, known.fixed(coded) if is_first else known


def _label_codes(y: Any, n: int, codes: dict[Any, int], what: str) -> NDArray[np.int64]:
    """Return the code of each label; `codes` takes new labels in."""
    result = np.full(n, UNLABELLED)
    y = checked_labels(y)
    if y is None:
        return result
    if len(y) != n:
        raise ValueError(f"{what} has {n} samples and {len(y)} labels")
    missing = without_label(y)
    for i, name in enumerate(np.asarray(y).tolist()):
        if not missing[i]:
            result[i] = codes.setdefault(name, len(codes))
    return result
