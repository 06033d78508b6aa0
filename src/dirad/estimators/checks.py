"""Checks of what estimators are given: inputs, labels, sample weights."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dirad.core.magnitudes import check_range, mean_and_std
from dirad.encoding import with_medians

INT64, UINT64 = np.iinfo(np.int64), np.iinfo(np.uint64)
# Weights count relative to each other; beyond this range float32 could not hold their sums.
WEIGHT_EXPONENT = 20
LEAST_SPREAD = 1e-300  # of an input: the weights are its inverse


def checked_inputs(
    estimator: Any,
    X: Any,
    y: Any = "no_validation",
    *,
    coded: NDArray[np.float64] | None = None,
    **options: Any,
) -> Any:
    """Return X, or X and y, as scikit-learn validates them; masked values are refused.

    Where X holds text, it is validated as far as names and number of its columns are concerned;
    `coded`, its columns as numbers, is validated and returned in its place.
    """
    from sklearn.utils import check_array, check_X_y
    from sklearn.utils.validation import validate_data  # answers of a saved model do not need it

    refuse_masked("X", X)
    refuse_masked("y", y)
    with np.errstate(over="ignore", invalid="ignore"):  # to be finite is tested by a sum
        validate: Any = validate_data  # its declared types are narrower than what it takes
        if coded is None:
            return validate(estimator, X, y, dtype=np.float64, **options)
        validate(estimator, X, y, skip_check_array=True, reset=options.pop("reset", True))
        options |= {"dtype": np.float64, "estimator": estimator}
        if isinstance(y, str):
            return check_array(coded, input_name="X", **options)
        return check_X_y(coded, y, **options)


def refuse_masked(name: str, values: Any) -> None:
    """Refuse an array of which some values are masked: the numbers behind a mask mean nothing."""
    mask = np.ma.getmask(values)
    if np.any(mask):
        place = np.argwhere(mask)[0].tolist()
        words = zip(("row", "column"), place, strict=False)
        where = ", ".join(f"{word} {number}" for word, number in words)
        raise ValueError(f"{name} has masked values, the first at {where}: fill or leave them out")


def checked_labels(y: Any) -> Any:
    """Return labels as they are; masked ones become None, and no whole number is rounded.

    NumPy makes floats of whole numbers that neither int64 nor uint64 holds together, so that
    different ones become equal.

    >>> checked_labels([2**63, 5]).dtype
    dtype('uint64')
    >>> checked_labels([2**63, -1])
    Traceback (most recent call last):
    ...
    ValueError: y holds whole numbers from -1 to 9223372036854775808: labels must fit into 64 bits
    """
    if np.ma.isMaskedArray(y):
        values = np.ma.getdata(y).tolist()
        gone = np.ma.getmaskarray(y)
        return [None if masked else label for label, masked in zip(values, gone, strict=True)]
    if isinstance(y, list | tuple) or (isinstance(y, np.ndarray) and y.dtype.kind == "O"):
        whole = [label for label in y if isinstance(label, int | np.integer)]
        low, high = min(whole, default=0), max(whole, default=0)
        if low < INT64.min or high > UINT64.max or (low < 0 and high > INT64.max):
            raise ValueError(
                f"y holds whole numbers from {low} to {high}: labels must fit into 64 bits"
            )
        if high > INT64.max and len(whole) == len(y):
            return np.array(y, np.uint64)
    return y


def checked_weights(
    sample_weight: Any, X: NDArray, what: str = "sample_weight", *, rescaled: bool = True
) -> NDArray[np.float64]:
    """Return one finite weight per sample, none below 0.

    Very large and very small weights are rescaled by a power of two, where only their ratios count.
    """
    from sklearn.utils.validation import _check_sample_weight

    refuse_masked(what, sample_weight)
    weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if (weight < 0).any():
        row = int(np.argmax(weight < 0))
        raise ValueError(f"{what}, row {row}: {weight[row]:g} is negative")
    if not rescaled:
        return weight
    exponent = int(np.frexp(weight.max(initial=0.0))[1])
    return np.ldexp(weight, -exponent) if abs(exponent) > WEIGHT_EXPONENT else weight


def without_label(y: Any) -> NDArray[np.bool_]:
    """Return which labels are missing: None or NaN.

    >>> without_label([1, None, 0]).tolist()
    [False, True, False]
    >>> without_label(["a", float("nan")]).tolist()
    [False, True]
    """
    if y is None:
        return np.zeros(0, bool)
    if isinstance(y, list | tuple):  # an array would make words of None and NaN
        y = np.array([*y, None], dtype=object)[:-1]
    y = np.asarray(y)
    if y.dtype.kind == "f":
        return np.isnan(y) if y.ndim == 1 else np.zeros(len(np.atleast_1d(y)), bool)
    if y.dtype.kind == "O" and y.ndim == 1:
        return np.array([label is None or label != label for label in y.tolist()], bool)
    return np.zeros(len(np.atleast_1d(y)), bool)


def check_spread(X: NDArray, estimator: Any) -> None:
    """Refuse inputs that vary too little for their weights; name those that only seem to vary."""
    if estimator.preset == "paper":
        return
    spread = mean_and_std(X)[1]
    tiny = estimator.encoding_.columns_of((spread > 0) & (spread < LEAST_SPREAD))
    if len(tiny):
        raise ValueError(f"X, column {tiny[0]}: varies by less than {LEAST_SPREAD:g}; rescale it")
    rounded = estimator.encoding_.columns_of((spread == 0) & (X.max(axis=0) > X.min(axis=0)))
    if len(rounded):
        names = ", ".join(map(str, rounded[:5])) + (" and others" if len(rounded) > 5 else "")
        warnings.warn(
            f"X, column {names}: the values differ by rounding errors alone and are taken for "
            "constant; if they are not, shift them towards 0 before they are rounded",
            stacklevel=5,
        )


def check_finite(estimator: Any) -> None:
    """Refuse a network whose numbers grew beyond all bounds, or that raw inputs would need."""
    network = estimator.network_
    if not (np.isfinite(network.edges["weight"]).all() and np.isfinite(network.bias).all()):
        hint = "scale the inputs to [0, 1]" if estimator.preset == "paper" else "rescale the data"
        raise ValueError(f"the fit diverged: a weight is infinite or not a number; {hint}")


def check_inputs_range(estimator: Any, X: NDArray) -> None:
    """Refuse inputs too large to be learned; the paper's networks take them as they are."""
    if estimator.preset == "paper":
        check_range(X, 1.0)
    else:
        check_range(with_medians(X))
