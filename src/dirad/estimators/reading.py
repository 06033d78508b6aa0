"""A fitted network in the names of its inputs."""

from typing import Any

from sklearn.utils.validation import check_is_fitted

from dirad.estimators.columns import network_input_names
from dirad.names import quoted


def written_equations(estimator: Any) -> list[str]:
    """Return the equations of a fitted estimator's network, with steep gates as thresholds."""
    check_is_fitted(estimator)
    names = quoted(network_input_names(estimator))
    return estimator.network_.equations(names, estimator.input_spread_)
