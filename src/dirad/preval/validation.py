"""From prediction errors to verdicts: nodes, samples, batches (paper, 'Validation').

E is always an array (samples, confidently predicted nodes) of |prediction − state|.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Statistics(NamedTuple):
    """What a model knows of its own errors when it becomes stable, all from one batch."""

    mean: NDArray[np.float64]  # (nodes,) μ of each confidently predicted node
    deviation: NDArray[np.float64]  # (nodes,) σ
    invalid_share: float  # R_IS: share of that batch's samples that were not validated


def confident(errors: NDArray, T_CP: float) -> NDArray[np.bool_]:
    """Return which nodes are confidently predicted: mean error over the batch below T_CP."""
    return errors.mean(axis=0) < T_CP


def statistics(errors: NDArray, T_conf: float, T_SV: float) -> Statistics:
    """Return μ, σ and R_IS from the errors of confidently predicted nodes on one batch."""
    known = Statistics(errors.mean(axis=0), errors.std(axis=0), 0.0)
    share = float(np.mean(invalid(errors, known, T_conf, T_SV)))
    return known._replace(invalid_share=share)


def conflicted(errors: NDArray, known: Statistics, T_conf: float) -> NDArray[np.bool_]:
    """Return which nodes are conflicted: E > μ + T_conf·σ; (samples, nodes)."""
    return errors > known.mean + T_conf * known.deviation


def conflict_ratio(errors: NDArray, known: Statistics, T_conf: float) -> NDArray[np.float64]:
    """Return N_conf / N_CP of each sample; 0 where no node is confidently predicted."""
    return conflicted(errors, known, T_conf).sum(axis=1) / max(errors.shape[1], 1)


def squared_sum(errors: NDArray, before: NDArray[np.float64] | float = 0.0) -> NDArray[np.float64]:
    """Return `before` plus the sum of squares over the nodes: (samples,), or (samples, modes).

    Added node by node from the first to the last, whatever the layout of the array: so a sample's
    sum does not depend on its batch, and what one shard of the nodes ends with the next goes on.
    """
    result = np.zeros((errors.shape[0], *errors.shape[2:])) + before
    for node in range(errors.shape[1]):
        result += errors[:, node] ** 2
    return result


def invalid(errors: NDArray, known: Statistics, T_conf: float, T_SV: float) -> NDArray[np.bool_]:
    """Return which samples are not validated: N_conf / N_CP is T_SV or more."""
    return conflict_ratio(errors, known, T_conf) >= T_SV


def batch_limit(known: Statistics, epsilon_IS: float) -> float:
    """Return the share of invalid samples up to which a batch is validated."""
    return (1.0 + epsilon_IS) * known.invalid_share
