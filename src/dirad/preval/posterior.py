"""From L0's outputs, mixture weights and prediction errors to class probabilities."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

MIN_PROBABILITY = 1e-12
# Prior of the weights: ln(w₀/w₁) and ln(w₁) are normal. Networks are overconfident: w₀ is lower.
PRIOR_WEIGHT_RATIO = 0.3
LOG_RATIO_STD, LOG_LEVEL_STD = 2.0, 2.0


class ClassNLL(NamedTuple):
    """−ln of what each class is given: (samples, classes)."""

    answers: NDArray[np.float64]  # by L0
    errors: NDArray[np.float64]  # by the prediction errors of its clusters; 0 where unknown

    def combined(self, weights: tuple[float, float]) -> NDArray[np.float64]:
        """Return −ln of the posterior, up to a constant per sample."""
        return weights[0] * self.answers + weights[1] * self.errors


def l0_class_nll(outputs: NDArray) -> ClassNLL:
    """Return the evidence of L0's logistic outputs alone."""
    if not outputs.shape[1]:
        return ClassNLL(outputs, outputs)
    inside = np.clip(outputs, MIN_PROBABILITY, 1.0 - MIN_PROBABILITY)
    odds = np.log(inside / (1.0 - inside))
    answers = np.logaddexp.reduce(odds, axis=1, keepdims=True) - odds
    return ClassNLL(answers, np.zeros(answers.shape))


def fit_evidence_weights(evidence: ClassNLL, columns: NDArray[np.int64]) -> tuple[float, float]:
    """Return the weights that maximize the posterior of the right columns, on held-out samples."""
    from scipy.optimize import minimize  # imported late: only training needs it

    rows = np.arange(len(columns))

    def cost(logs: NDArray) -> float:
        posterior = evidence.combined((np.exp(logs[0]), np.exp(logs[1])))
        missed = np.asarray(logsumexp(-posterior, axis=1)) + posterior[rows, columns]
        ratio = (logs[0] - logs[1] - np.log(PRIOR_WEIGHT_RATIO)) / LOG_RATIO_STD
        return float(np.sum(missed) + 0.5 * ratio**2 + 0.5 * (logs[1] / LOG_LEVEL_STD) ** 2)

    first = np.array([np.log(PRIOR_WEIGHT_RATIO), 0.0])
    found = minimize(cost, first, method="L-BFGS-B", bounds=[(-6.0, 3.0)] * 2)
    return float(np.exp(found.x[0])), float(np.exp(found.x[1]))
