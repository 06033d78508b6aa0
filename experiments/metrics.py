"""What continual learners are judged by, as plain functions.

R is the accuracy matrix: R[i, j] is the accuracy on the classes of task j after task i was learned
(Lopez-Paz & Ranzato, 2017, "Gradient Episodic Memory"). Entries above the diagonal, tasks not seen
yet, are not read.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import beta
from sklearn.metrics import normalized_mutual_info_score, roc_auc_score, roc_curve


def final_accuracy(R: ArrayLike) -> float:
    """Mean over tasks of the accuracy after the last one.

    >>> final_accuracy([[1.0, 0.0], [0.5, 1.0]])
    0.75
    """
    return float(np.mean(np.asarray(R)[-1]))


def average_incremental_accuracy(R: ArrayLike) -> float:
    """Mean over i of the accuracy on tasks up to i after task i (Rebuffi et al., 2017, "iCaRL").

    >>> average_incremental_accuracy([[1.0, 0.0], [0.5, 1.0]])
    0.875
    """
    R = np.asarray(R)
    return float(np.mean([R[i, : i + 1].mean() for i in range(len(R))]))


def backward_transfer(R: ArrayLike) -> float:
    """Mean over earlier tasks of accuracy at the end less accuracy when just learned.

    Lopez-Paz & Ranzato (2017). Negative where something was forgotten; NaN of a single task.

    >>> backward_transfer([[1.0, 0.0], [0.5, 1.0]])
    -0.5
    """
    R = np.asarray(R)
    if len(R) < 2:
        return float("nan")
    return float(np.mean(R[-1, :-1] - np.diag(R)[:-1]))


def forgetting(R: ArrayLike) -> float:
    """Mean over earlier tasks of the best accuracy before the end less that at the end.

    Chaudhry et al. (2018), "Riemannian Walk for Incremental Learning". NaN of a single task.

    >>> forgetting([[0.8, 0.0, 0.0], [0.9, 1.0, 0.0], [0.5, 1.0, 1.0]])
    0.2
    """
    R = np.asarray(R)
    if len(R) < 2:
        return float("nan")
    lost = [max(R[j:-1, j]) - R[-1, j] for j in range(len(R) - 1)]
    return float(np.mean(lost))


def purity(tasks: ArrayLike, models: ArrayLike) -> float:
    """Share of samples whose model was mostly given samples of their own task.

    Manning, Raghavan & Schütze (2008), "Introduction to Information Retrieval", 16.3.

    >>> purity([0, 0, 1, 1], [5, 5, 5, 7])
    0.75
    """
    tasks, models = np.asarray(tasks), np.asarray(models)
    right = sum(np.unique(tasks[models == m], return_counts=True)[1].max() for m in set(models))
    return float(right / len(tasks))


def mutual_information(tasks: ArrayLike, models: ArrayLike) -> float:
    """Normalized mutual information of tasks and models (arithmetic mean of the entropies).

    >>> mutual_information([0, 0, 1, 1], [3, 3, 8, 8])
    1.0
    """
    return float(normalized_mutual_info_score(np.asarray(tasks), np.asarray(models)))


def novelty_auroc(known: ArrayLike, new: ArrayLike) -> float:
    """Chance that a new sample scores higher than a known one (area under the ROC curve).

    >>> novelty_auroc([0.1, 0.2], [0.3, 0.9])
    1.0
    """
    is_new, scores = _pooled(known, new)
    return float(roc_auc_score(is_new, scores))


def novelty_fpr95(known: ArrayLike, new: ArrayLike) -> float:
    """Share of known samples called new at the threshold that finds 95 % of the new ones.

    Hendrycks & Gimpel (2017), with new samples as the positives.

    >>> novelty_fpr95([0.1, 0.2, 0.3, 0.4], [0.35, 0.9])
    0.25
    """
    false_rate, true_rate, _ = roc_curve(*_pooled(known, new), drop_intermediate=False)
    return float(false_rate[np.argmax(true_rate >= 0.95)])


def kappa_temporal(accuracy: float, no_change: float) -> float:
    """How far an accuracy is above that of predicting the previous label, 1 being the best.

    Žliobaitė et al. (2015), "Evaluation methods and decision theory for classification of streaming
    data with temporal dependence". NaN where the label never changes.

    >>> kappa_temporal(0.75, 0.5)
    0.5
    """
    return (accuracy - no_change) / (1 - no_change) if no_change < 1 else float("nan")


def _pooled(known: ArrayLike, new: ArrayLike) -> tuple[NDArray, NDArray]:
    known, new = np.asarray(known, float), np.asarray(new, float)
    return np.r_[np.zeros(len(known)), np.ones(len(new))], np.r_[known, new]


def interval(count: int, of: int) -> tuple[float, float]:
    """Return the 95 % interval of a share, by Clopper and Pearson.

    >>> tuple(round(end, 4) for end in interval(0, 472))
    (0.0, 0.0078)
    """
    low = float(beta.ppf(0.025, count, of - count + 1)) if count else 0.0
    high = float(beta.ppf(0.975, count + 1, of - count)) if count < of else 1.0
    return low, high
