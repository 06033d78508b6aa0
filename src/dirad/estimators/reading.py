"""A fitted network in the names of its inputs."""

from collections.abc import Sequence
from typing import Any

from sklearn.utils.validation import check_is_fitted

from dirad.conditions import gate_conditions
from dirad.core.describe import equations
from dirad.estimators.columns import column_names, encoding_of, network_input_names
from dirad.names import quoted


def written_equations(estimator: Any) -> list[str]:
    """Return the equations of a fitted estimator's network, with steep gates as thresholds."""
    check_is_fitted(estimator)
    names = quoted(network_input_names(estimator))
    return equations(estimator.network_, names, estimator.input_spread_, conditions_of(estimator))


def conditions_of(estimator: Any, columns: Sequence[str] | None = None) -> dict[int, str]:
    """Return the conditions of gates on categories and on numbers with gaps, by unit.

    `columns` names the columns of X, if not by their own names.
    """
    names = column_names(estimator) if columns is None else columns
    spread = getattr(estimator, "input_spread_", None)
    return gate_conditions(estimator.network_, encoding_of(estimator), names, spread)
