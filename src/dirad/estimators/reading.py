"""A fitted network in the names of its inputs."""

from typing import Any

from sklearn.utils.validation import check_is_fitted

from dirad.names import quoted


def written_equations(estimator: Any) -> list[str]:
    """Return the equations of a fitted estimator's network, with steep gates as thresholds."""
    check_is_fitted(estimator)
    names = quoted(getattr(estimator, "feature_names_in_", None))
    return estimator.network_.equations(names, estimator.input_spread_)
