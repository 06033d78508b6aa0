"""The detector of new tasks alone, for use with any other learner."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dirad.core.magnitudes import check_range
from dirad.engine import threads_for
from dirad.estimators.checks import checked_labels, refuse_masked, without_label
from dirad.preval.buffer import UNLABELLED
from dirad.preval.events import Report
from dirad.preval.settings import PRESETS
from dirad.preval.system import System


def watch(
    batches: Iterable[Any],
    *,
    random_state: int = 0,
    n_jobs: int | None = None,
    **settings: Any,
) -> Iterator[Report]:
    """Report for each batch of a stream whether its task is new or known, and which one it is.

    A batch is an array (samples, features), or a pair of an array and labels, which help (None and
    NaN: unknown). The test has more power for larger batches: a single sample is never unusual
    enough at the default rate of false alarms. Samples that depend on those before them are
    recognized, and count for less.

    A learner on the same stream can act on the reports: consolidate its weights, start another
    memory, or select the parameters of task k.

    Parameters
    ----------
    batches : iterable of arrays, or of pairs (X, y)
    random_state, n_jobs
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
    for number, batch in enumerate(batches):
        what = f"batch {number}"
        X, y = batch if isinstance(batch, tuple) else (batch, None)
        X = _checked_inputs(X, what)
        if system is None:
            chosen = PRESETS["default"].replace(**settings)
            system = System(X.shape[1], 0, chosen, seed=random_state, threads=threads)
        if X.shape[1] != system.n_inputs:
            raise ValueError(
                f"{what} has {X.shape[1]} features, those before had {system.n_inputs}"
            )
        unit = system.units.unit if system.units.is_known else None
        before = np.concatenate([X[:0], *(one.buffer.X for one in system.learners)])
        check_range(X, unit, before=before if unit is None else None, what=what)
        yield system.learn_batch(X, _label_codes(y, len(X), codes, what))


def _checked_inputs(X: Any, what: str) -> NDArray[np.float64]:
    """Return the inputs of a batch; refuse what is not a finite array (samples, features)."""
    refuse_masked(what, X)
    X = np.asarray(X, np.float64)
    if X.ndim != 2 or not len(X):
        raise ValueError(
            f"{what} must be (samples, features) with at least one sample, got {X.shape}"
        )
    if not np.isfinite(X).all():
        raise ValueError(f"{what} holds NaN or infinity")
    return X


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
