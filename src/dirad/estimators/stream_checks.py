"""Checks of a stream's samples against those before, and the settings that options ask for."""

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _num_samples

from dirad.core.magnitudes import check_range
from dirad.encoding import with_medians
from dirad.estimators.checks import checked_labels, checked_weights, without_label
from dirad.estimators.constants import given_options
from dirad.estimators.number_stream import NumberStream
from dirad.estimators.stream_columns import StreamColumns, stream_columns
from dirad.estimators.stream_state import StreamState
from dirad.preval.settings import PRESETS, Settings
from dirad.preval.system import System

MAX_WEIGHT = 1e6  # of a sample; the least is its inverse, so that float32 holds the sums
OPTIONS = (  # of the estimators that are settings of the same name
    "connectivity",
    "T_CP",
    "T_conf",
    "T_SV",
    "epsilon_IS",
    "false_alarms",
    "false_alarms_per",
    "buffer_size",
    "begin",
    "steps_per_batch",
    "held_out",
    "modes",
    "order_matters",
    "pooled",
    "models",
    "max_models",
    "max_versions",
)


class Given(NamedTuple):
    """Samples that were given, checked; those of weight 0 are left out."""

    X: NDArray[np.float64]  # numbers, NaN where one is missing, and codes of categories
    y: NDArray  # labels that are there, or numbers: NaN where one is missing
    missing: NDArray[np.bool_]  # which samples have no label
    columns: StreamColumns | None
    weight: NDArray[np.float64] | None  # None: all 1


def checked_samples(
    estimator: Any,
    X: Any,
    y: Any,
    before: StreamState | None,
    *,
    sample_weight: Any = None,
    size: int | None = 0,
) -> Given:
    """Return the samples of a classifier. `size` is that of the first batch, None: all samples."""
    weight = checked_stream_weights(estimator, sample_weight, X)
    columns = {"before": before, "weight": weight, "size": size}
    y = checked_labels(y)
    missing = without_label(y)
    if estimator.preset == "paper" and (y is None or missing.any()):
        raise ValueError("preset='paper' learns from labels alone, and some are missing")
    if y is None or missing.any():
        X, known = _checked_inputs(estimator, X, "no_validation", **columns)
        if y is None:
            y, missing = np.zeros(0, np.int64), np.ones(len(X), bool)
        else:
            check_consistent_length(X, missing)
            y = present_labels(y, missing)
    else:
        (X, y), known = _checked_inputs(estimator, X, y, **columns)
    if len(y):
        check_classification_targets(y)
    if before is not None:
        check_label_type(y, before.labels)
    check_input_range(X, estimator.preset, before)
    if weight is not None:
        here = weight > 0
        X, y, missing, weight = X[here], y[here[~missing]], missing[here], weight[here]
    return Given(X, y, missing, known, weight)


def checked_number_samples(
    estimator: Any,
    X: Any,
    y: Any,
    before: NumberStream | None,
    *,
    sample_weight: Any = None,
    size: int | None = 0,
) -> Given:
    """Return the samples of a regressor. `size` is that of the first batch, None: all samples."""
    weight = checked_stream_weights(estimator, sample_weight, X)
    columns = {"before": before, "weight": weight, "size": size}
    X, known = _checked_inputs(estimator, X, "no_validation", **columns)
    y = np.full(len(X), np.nan) if y is None else checked_numbers(estimator, y)
    check_consistent_length(X, y)
    check_input_range(X, estimator.preset, before)
    earlier = np.zeros(0) if before is None else before.targets
    present, earlier = y[~np.isnan(y), None], earlier[~np.isnan(earlier), None]
    check_range(present, before=earlier, what="y")
    if weight is not None:
        here = weight > 0
        X, y, weight = X[here], y[here], weight[here]
    return Given(X, y, np.isnan(y), known, weight)


def _checked_inputs(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    before: StreamState | NumberStream | None,
    weight: NDArray | None,
    size: int | None,
) -> tuple[Any, StreamColumns | None]:
    """Return X (or X and y), and what is known of the columns after the first batch of `size`."""
    rows = np.arange(_num_samples(X) if weight is None else len(weight))
    rows = rows if weight is None else rows[weight > 0]
    if size is not None:
        rows = rows[: max(size - (0 if before is None else len(before.waiting[0])), 0)]
    known, resumed = None if before is None else before.columns, before is not None
    found = stream_columns(estimator, X, y, known, rows, resumed=resumed, order="C")
    if known is not None and known.encoding is not None and not known.encoding.is_identity:
        return found
    warn_of_first_gaps(estimator, found[0][0] if isinstance(found[0], tuple) else found[0], known)
    return found


def warn_of_first_gaps(estimator: Any, X: NDArray, known: StreamColumns | None) -> None:
    """Say which columns have their first missing values, where no input tells of them."""
    gaps = np.flatnonzero(np.isnan(X).any(axis=0))
    if known is None or known.encoding is None or not len(gaps):
        return
    names = getattr(estimator, "feature_names_in_", None)
    named = [str(j) if names is None else repr(str(names[j])) for j in gaps[:5].tolist()]
    warnings.warn(
        f"X, column {', '.join(named)}: values are missing for the first time, and no input tells "
        "of them: they are replaced by the mean of the first batch. missing_features='all' lets "
        "models learn, and detect, missing values",
        stacklevel=5,
    )


def checked_stream_weights(
    estimator: Any, sample_weight: Any, X: Any
) -> NDArray[np.float64] | None:
    """Return a weight per sample: 0, or of ordinary size; None if none was given."""
    if sample_weight is None:
        return None
    if estimator.preset == "paper":
        raise ValueError("preset='paper' counts all samples alike: it takes no sample_weight")
    n = _num_samples(X)
    if np.asarray(sample_weight).shape == (n,) and not np.any(np.asarray(sample_weight)):
        return np.zeros(n)  # which scikit-learn refuses: of a stream, these are some samples
    weight = checked_weights(sample_weight, np.zeros((n, 1)), rescaled=False)
    wrong = (weight > MAX_WEIGHT) | ((weight > 0) & (weight < 1.0 / MAX_WEIGHT))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"sample_weight, row {row}: {weight[row]:g} is neither 0 nor between "
            f"{1.0 / MAX_WEIGHT:g} and {MAX_WEIGHT:g}: weights of a stream are absolute"
        )
    return weight


def checked_numbers(estimator: Any, y: Any) -> NDArray[np.float64]:
    """Return targets as numbers, one per sample; masked ones and None become NaN."""
    if np.ma.isMaskedArray(y):
        y = np.ma.filled(y.astype(np.float64), np.nan)
    name = type(estimator).__name__
    if np.asarray(y).dtype.kind in "US":
        raise ValueError(f"y holds texts: {name} predicts numbers")
    try:
        y = np.asarray(y, np.float64)
    except TypeError as error:
        raise ValueError(f"y must hold numbers: {error}") from error
    if y.ndim == 2 and y.shape[1] > 1:
        raise ValueError(
            f"y has {y.shape[1]} columns, and {name} predicts one number per sample: "
            "use a regressor for each column"
        )
    y = column_or_1d(y, warn=True)
    if np.isinf(y).any():
        raise ValueError("Input y contains infinity or a value too large for dtype('float64').")
    return y


def present_labels(y: Any, missing: NDArray[np.bool_]) -> NDArray:
    """Return the labels that are not missing."""
    there = [label for label, none in zip(y, missing, strict=True) if not none]
    labels = np.asarray(checked_labels(there))
    whole = labels.dtype.kind == "f" and np.array_equal(labels, np.round(labels))
    if whole and np.abs(labels).max(initial=0.0) < 2**53:
        return labels.astype(np.int64)  # NaN among whole numbers had made them all floats
    return labels


def check_input_range(X: NDArray, preset: str, before: StreamState | NumberStream | None) -> None:
    """Refuse inputs that are too large to be learned together with those before."""
    system = None if before is None else before.system
    if preset == "paper":
        check_range(X, 1.0)
    elif before is None or not isinstance(system, System):
        check_range(with_medians(X), before=X[:0])
    else:
        columns, (waiting, _) = before.columns, before.waiting
        known = [learner.buffer.X for learner in system.learners]
        if system.units.is_known:
            unit = system.units.unit
            check_range(with_medians(X), unit if columns is None else columns.units(unit))
        else:  # too few samples so far to know the units of the inputs
            known = known if columns is None else [columns.numbers(one) for one in known]
            earlier = np.concatenate([*known, with_medians(waiting)])
            check_range(with_medians(X), before=earlier)


def checked_sample_numbers(numbers: Any, n_labels: int, n_seen: int) -> NDArray[np.int64]:
    """Return the numbers of the samples that late labels belong to."""
    numbers = np.asarray(numbers).ravel()
    if len(numbers) and numbers.dtype.kind not in "iu":
        raise ValueError(
            f"numbers must be whole numbers of samples, got {numbers.dtype} such as {numbers[0]}"
        )
    numbers = numbers.astype(np.int64)
    if len(numbers) != n_labels:
        raise ValueError(f"{len(numbers)} samples and {n_labels} labels")
    wrong = numbers[(numbers < 0) | (numbers >= n_seen)]
    if len(wrong):
        raise ValueError(f"no sample has the number {wrong[0]}: {n_seen} were seen")
    return numbers


def warn_of_late_labels(late: int, total: int) -> None:
    """Say how many labels came too late."""
    if late:
        warnings.warn(
            f"{late} of {total} labels came too late: their samples are gone, since "
            "the model that had them is stable, or had no room for them",
            stacklevel=3,
        )


def check_label_type(y: NDArray, labels: tuple[Any, ...]) -> None:
    """Refuse texts where numbers were learned, and the reverse."""
    if labels and len(y) and isinstance(labels[0], str) != (y.dtype.kind in "US"):
        raise ValueError(
            f"y holds labels such as {y.tolist()[0]!r}, those learned are of another type, "
            f"such as {labels[0]!r}"
        )


def check_named(y: NDArray, named: NDArray) -> None:
    """Refuse labels of classes that were not named at the start."""
    unknown = np.setdiff1d(y, named)
    if len(unknown):
        name = unknown.tolist()[0]
        raise ValueError(f"y holds the class {name!r}, which `classes` did not name")


def chosen_settings(estimator: Any) -> Settings:
    """Return the preset's settings with the options that were given."""
    if estimator.preset not in PRESETS:
        raise ValueError(f"preset must be one of {sorted(PRESETS)}, got {estimator.preset!r}")
    return with_options(estimator, PRESETS[estimator.preset])


def with_options(estimator: Any, settings: Settings) -> Settings:
    """Return settings with the options that an estimator was given."""
    options = given_options(estimator, [name for name in OPTIONS if hasattr(estimator, name)])
    if estimator.preset == "default" and estimator.buffer_size == 0:
        raise ValueError("buffer_size=0 keeps no samples, which only preset='paper' can do")
    if "buffer_size" in options and "begin" not in options:
        options["begin"] = min(settings.begin, options["buffer_size"])
    if "order_matters" in options:
        options["order_matters"] = checked_order(options["order_matters"])
    for name in ("l0", "l1"):
        given = getattr(estimator, name)
        if not isinstance(given, dict | None):
            raise TypeError(f"{name} must be a dict of constants, got {given!r}")
    size = {} if estimator.batch_size is None else {"batch_size": estimator.batch_size}
    return settings.replace(
        l0=settings.l0.replace(**{**(estimator.l0 or {}), **size}),
        l1=settings.l1.replace(**{**(estimator.l1 or {}), **size}),
        **options,
    )


def checked_order(order_matters: Any) -> str:
    """Return the setting for what an estimator was told of the order of its samples."""
    for given, setting in (("auto", "auto"), (True, "yes"), (False, "no")):
        if isinstance(order_matters, type(given)) and order_matters == given:
            return setting
    raise ValueError(f'order_matters must be "auto", True or False, got {order_matters!r}')
