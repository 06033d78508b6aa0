"""From prediction errors to verdicts: nodes, samples, batches (paper, 'Validation').

E is an array (samples, confidently predicted nodes) of (prediction − state)², or of its absolute
value (`Settings.error`).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class ErrorStats(NamedTuple):
    """The distribution of a model's own prediction errors, from one batch."""

    mean: NDArray[np.float64]  # (nodes,) μ of each confidently predicted node
    deviation: NDArray[np.float64]  # (nodes,) σ
    invalid_share: float  # R_IS: share of that batch's samples that were not validated

    def limits(self, T_conf: float) -> NDArray[np.float64]:
        """Return the error above which each node is conflicted: μ + T_conf·σ."""
        return self.mean + T_conf * self.deviation


def prediction_error(difference: NDArray, error: str) -> NDArray[np.float64]:
    """Return E for prediction − state: its square or its absolute value."""
    return difference**2 if error == "squared" else np.abs(difference)


def largest_difference(limits: NDArray, error: str) -> NDArray[np.float64]:
    """Return the |prediction − state| at which E reaches these limits."""
    return np.sqrt(limits) if error == "squared" else limits


def confident(errors: NDArray, T_CP: float) -> NDArray[np.bool_]:
    """Return which nodes are confidently predicted: mean error over the batch below T_CP."""
    return errors.mean(axis=0) < T_CP


def error_stats(errors: NDArray, T_conf: float, T_SV: float) -> ErrorStats:
    """Return μ, σ and R_IS from the errors of confidently predicted nodes on one batch."""
    stats = ErrorStats(errors.mean(axis=0), errors.std(axis=0), 0.0)
    share = float(np.mean(invalid(errors, stats, T_conf, T_SV)))
    return stats._replace(invalid_share=share)


def conflicted(errors: NDArray, stats: ErrorStats, T_conf: float) -> NDArray[np.bool_]:
    """Return which nodes are conflicted: E > μ + T_conf·σ; (samples, nodes)."""
    return errors > stats.limits(T_conf)


def conflict_ratio(errors: NDArray, stats: ErrorStats, T_conf: float) -> NDArray[np.float64]:
    """Return N_conf / N_CP of each sample; 0 where no node is confidently predicted."""
    return conflicted(errors, stats, T_conf).sum(axis=1) / max(errors.shape[1], 1)


def invalid(errors: NDArray, stats: ErrorStats, T_conf: float, T_SV: float) -> NDArray[np.bool_]:
    """Return which samples are not validated: N_conf / N_CP is T_SV or more."""
    return conflict_ratio(errors, stats, T_conf) >= T_SV


def max_invalid_share(stats: ErrorStats, epsilon_IS: float) -> float:
    """Return the share of invalid samples up to which a batch is validated.

    A batch without any valid sample is never validated, however large R_IS is: with the paper's
    limit alone, (1 + ε_IS)·R_IS, new tasks would never be detected where R_IS exceeds 1/(1 + ε_IS).
    """
    return min((1.0 + epsilon_IS) * stats.invalid_share, float(np.nextafter(1.0, 0.0)))
