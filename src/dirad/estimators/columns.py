"""The columns of X as numbers: which are categories, their code numbers, and all names."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dirad.core.input_groups import NO_GROUPS, InputGroups
from dirad.encoding import (
    Categories,
    Encoding,
    Label,
    fit_categories,
    fit_encoding,
    one_hot_groups,
)
from dirad.estimators.answering import encoded
from dirad.estimators.checks import checked_inputs, refuse_masked

FROM_DTYPE = "from_dtype"


def fit_columns(estimator: Any, X: Any, y: Any, **options: Any) -> tuple[NDArray, NDArray]:
    """Return X as numbers, with NaN where values are missing, and y; learn the encoding of X."""
    columns = split_columns(X)
    chosen = chosen_categories(estimator, X, columns)
    options["no_gaps"] = why_no_gaps(estimator, is_old=False)
    if columns is None:
        found, y = checked(estimator, X, y, **options)
        columns = found.T
    else:
        found = None
    categories = {j: fit_categories(labels_of(columns[j], place_of(X, j))) for j in chosen}
    coded = coded_columns(X, columns, categories, found)
    if found is None:
        coded, y = checked(estimator, X, y, coded=coded, **options)
    estimator.encoding_ = fit_encoding(coded, categories)
    return coded, y


def checked_columns(estimator: Any, X: Any, y: Any = "no_validation", **options: Any) -> Any:
    """Return X, or X and y, as `fit_columns` does, for an estimator that is fitted."""
    encoding = encoding_of(estimator)
    options |= {"reset": False, "no_gaps": why_no_gaps(estimator, is_old=encoding is None)}
    return checked_with(estimator, X, y, getattr(encoding, "categories", {}), **options)


def checked_with(
    estimator: Any, X: Any, y: Any, categories: Mapping[int, Categories], **options: Any
) -> Any:
    """Return X, or X and y, with the codes of categories that are known."""
    columns = split_columns(X)
    if columns is None:
        found = checked(estimator, X, y, **options)
        X_only, *rest = found if isinstance(found, tuple) else (found,)
        coded = coded_columns(X, X_only.T, categories, X_only)
        return (coded, *rest) if rest else coded
    coded = coded_columns(X, columns, categories, None)
    return checked(estimator, X, y, coded=coded, **options)


def input_tags(estimator: Any, tags: Any) -> Any:
    """Tell scikit-learn what X may hold."""
    tags.input_tags.allow_nan = estimator.preset != "paper"
    tags.input_tags.categorical = True
    return tags


def network_inputs(estimator: Any, X: Any) -> NDArray[np.float64]:
    """Return X, as `predict` takes it, as inputs of `network_`: (samples, inputs)."""
    return encoded(encoding_of(estimator), checked_columns(estimator, X))


def column_names(estimator: Any) -> tuple[str, ...]:
    """Return the names of the columns of X, or x0, x1, …"""
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        return tuple(f"x{i}" for i in range(estimator.n_features_in_))
    return tuple(str(name) for name in names)


def network_input_names(estimator: Any) -> tuple[str, ...]:
    """Return the names of the inputs of `network_`: 'age', 'age is missing', 'colour = red', …"""
    names, encoding = column_names(estimator), encoding_of(estimator)
    return names if encoding is None else encoding.names(names)


def encoding_of(estimator: Any) -> Encoding | None:
    """Return the encoding of an estimator; None if it has none: of an earlier dirad."""
    return getattr(estimator, "encoding_", None)


def input_groups(estimator: Any, inputs: NDArray) -> InputGroups:
    """Return which inputs of `network_` are of the same column, also of one that was one-hot."""
    encoding = encoding_of(estimator)
    groups = NO_GROUPS if encoding is None else encoding.groups
    known = {j for one in groups.categories for j in one} | {j for _, j in groups.gaps}
    found = [one for one in one_hot_groups(inputs) if known.isdisjoint(one)]
    return groups._replace(categories=(*groups.categories, *found))


def checked(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    coded: NDArray | None = None,
    no_gaps: str | None = None,
    **options: Any,
) -> Any:
    """Return X, or X and y, as scikit-learn validates them; NaN is a missing value.

    Where X holds text, names and number of its columns are validated, and then `coded`. `no_gaps`
    says why no value may be missing, if none may.
    """
    options["ensure_all_finite"] = "allow-nan"
    found = checked_inputs(estimator, X, y, coded=coded, **options)
    X = found[0] if isinstance(found, tuple) else found
    if no_gaps is not None and np.isnan(X).any():
        raise ValueError(f"Input X contains NaN: {no_gaps}")
    return found


def why_no_gaps(estimator: Any, *, is_old: bool) -> str | None:
    """Say why an estimator takes no missing values, None if it takes them."""
    if estimator.preset == "paper":
        return "the preset 'paper' takes no missing values, preset='default' does"
    return "this model is of an earlier dirad, which took no missing values" if is_old else None


def split_columns(X: Any) -> Sequence[Any] | None:
    """Return the columns of a pandas table or an array that may hold text, else None."""
    refuse_masked("X", X)
    if _is_pandas(X):
        kinds = [_dtype_name(dtype) for dtype in X.dtypes]
        if any(kind in ("category", "text") for kind in kinds):
            return [X.iloc[:, j] for j in range(X.shape[1])]
        return None
    if isinstance(X, list | tuple) and any(isinstance(v, str) for row in X for v in _entries(row)):
        X = np.array(X, object)
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "OUT":
        return list(X.T)
    return None


def _entries(row: Any) -> Any:
    return row if isinstance(row, list | tuple) else ()


def _is_pandas(X: Any) -> bool:
    return hasattr(X, "iloc") and hasattr(X, "dtypes") and getattr(X, "ndim", 0) == 2


def _dtype_name(dtype: Any) -> str:
    """Return "category", "text" (or other objects) or "number"."""
    if str(dtype) == "category":
        return "category"
    return "text" if getattr(dtype, "kind", "O") in "OUT" else "number"


def chosen_categories(estimator: Any, X: Any, columns: Sequence[Any] | None) -> list[int]:
    """Return the columns that are categories, by the parameter `categorical_features`."""
    chosen = estimator.categorical_features
    if chosen is None:
        return []
    if isinstance(chosen, str):
        if chosen != FROM_DTYPE:
            raise ValueError(
                f"categorical_features must be {FROM_DTYPE!r}, None, or a list of columns, got "
                f"{chosen!r}"
            )
        if not _is_pandas(X) or columns is None:
            return []
        return [j for j, column in enumerate(columns) if _is_category(column)]
    return chosen_columns("categorical_features", chosen, X)


def chosen_columns(parameter: str, chosen: Any, X: Any) -> list[int]:
    """Return the columns that a parameter names by a mask, indices or names."""
    chosen = np.asarray(chosen)
    n = np.shape(X)[1] if np.ndim(X) == 2 else 0
    if chosen.size == 0:
        return []
    if chosen.ndim == 1 and chosen.dtype.kind == "b":
        if len(chosen) != n:
            raise ValueError(f"{parameter} has {len(chosen)} entries for {n} columns of X")
        return np.flatnonzero(chosen).tolist()
    if chosen.ndim == 1 and chosen.dtype.kind in "iu":
        wrong = chosen[(chosen < 0) | (chosen >= n)]
        if len(wrong):
            raise ValueError(f"{parameter}: X has no column {wrong[0]}, it has {n}")
        return sorted(set(chosen.tolist()))
    if chosen.ndim == 1 and all(isinstance(name, str) for name in chosen.tolist()):
        names = list(X.columns) if hasattr(X, "columns") else []
        for name in chosen.tolist():
            if name not in names:
                raise ValueError(f"{parameter}: X has no column {name!r}")
        return sorted({names.index(name) for name in chosen.tolist()})
    raise ValueError(f"{parameter} must be a mask, indices or names of columns")


def _is_category(column: Any) -> bool:
    """Whether a pandas column is of type category, or holds anything but numbers."""
    kind = _dtype_name(column.dtype)
    return kind == "category" or (
        kind == "text" and any(isinstance(value, str) for value in column.tolist())
    )


def coded_columns(
    X: Any, columns: Any, categories: Mapping[int, Categories], numbers: NDArray | None
) -> NDArray[np.float64]:
    """Return all columns as numbers: `numbers`, or each column converted; categories as codes."""
    if numbers is not None and not categories:
        return numbers
    n_rows = len(columns[0]) if len(columns) else 0
    result = np.empty((n_rows, len(columns))) if numbers is None else numbers.copy()
    for j, column in enumerate(columns):
        if j in categories:
            result[:, j] = categories[j].codes(labels_of(column, place_of(X, j)))
        elif numbers is None:
            result[:, j] = _numbers(column, place_of(X, j))
    return result


def place_of(X: Any, j: int) -> str:
    """Return how messages call a column."""
    name = X.columns[j] if hasattr(X, "columns") else j
    return f"X, column {name!r}"


def declared_labels(column: Any, place: str) -> list[Label]:
    """Return the categories that a pandas column of type category declares."""
    if _dtype_name(getattr(column, "dtype", None)) != "category":
        return []
    return [label for label in labels_of(column.cat.categories, place) if label is not None]


def labels_of(column: Any, place: str) -> list[Label | None]:
    """Return the categories of a column, None where one is missing."""
    values = column.tolist()
    if isinstance(column, np.ndarray) and column.dtype == np.float64 and not np.isinf(column).any():
        return [None if value != value else value for value in values]
    found: list[Label | None] = []
    for value in values:
        if _is_missing(value):
            found.append(None)
        elif isinstance(value, str):
            found.append(value)
        elif isinstance(value, int | float | np.number | np.bool_) and abs(value) < np.inf:
            found.append(float(value))
        else:
            raise ValueError(f"{place}: {value!r:.40} is not a category: neither number nor text")
    return found


def _numbers(column: Any, place: str) -> NDArray[np.float64]:
    """Return a column as numbers, NaN where a value is missing."""
    values = column.tolist()
    try:
        return np.array([np.nan if _is_missing(value) else value for value in values], np.float64)
    except TypeError as error:
        raise TypeError(f"{place}: {error}") from None
    except (ValueError, OverflowError) as error:
        raise ValueError(
            f"{place}: {error}; if the column holds categories, name it in categorical_features"
        ) from None


def _is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, or pandas' NA or NaT."""
    return (
        value is None
        or type(value).__name__ in ("NAType", "NaTType")
        or (isinstance(value, float | np.floating) and value != value)
    )
