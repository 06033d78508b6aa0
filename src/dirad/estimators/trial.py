"""Compact or wide? Which samples a trial holds out, and when one network is clearly better."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dirad.core.network import LINEAR, LOGISTIC, SOFTMAX

if TYPE_CHECKING:
    from dirad.growth.wide import Samples

TRIAL_SHARE = 6  # one sample in so many is held out to compare a compact and a wide network
# Standard errors by which the costs and the wrong classes of a wide network must be lower. With
# several classes, compact networks have to grow edges for each, and are rarely as good.
CLEARLY = {LINEAR: (2.0,), LOGISTIC: (2.0, 2.0), SOFTMAX: (1.0, 0.0)}
MATERIAL = 0.01  # and its costs by this share of those of a constant answer


def held_out_rows(n: int, groups: NDArray | None, seed: int, fold: int = 0) -> NDArray[np.bool_]:
    """Return which of n samples are held out of a trial: at random one in six of each class.

    No sample is in two of the six folds.
    """
    order = np.random.default_rng(seed).permutation(n)
    groups = np.zeros(n, int) if groups is None else groups
    order = order[np.argsort(groups[order], kind="stable")]
    first = np.searchsorted(groups[order], groups[order])  # of the class of each sample
    held_out = np.zeros(n, bool)
    held_out[order] = (np.arange(n) - first) % TRIAL_SHARE == TRIAL_SHARE - 1 - fold
    return held_out


def is_better(
    answers: NDArray,
    others: NDArray,
    test: "Samples",
    transfer: int,
    margins: tuple[float, ...],
    share: float,
) -> bool:
    """Do answers have lower costs than others, and are fewer classes wrong, by enough?

    That is by `margins` standard errors, and the costs by a share of those of a constant answer.
    """
    from dirad.growth.wide import costs_of_answers, zero_one_losses  # slow to import

    weight = test.weight / max(float(test.weight.sum()), 1e-300)
    constant = np.repeat(weight[None] @ test.targets, len(weight), axis=0)
    least = share * float(weight @ costs_of_answers(constant, test.targets, transfer))
    measures = ((costs_of_answers, least), (zero_one_losses, 0.0))
    if transfer == LINEAR:
        measures = measures[:1]
    for (measure, material), margin in zip(measures, margins, strict=False):
        drop = measure(others, test.targets, transfer) - measure(answers, test.targets, transfer)
        mean = float(weight @ drop)
        error = float(np.sqrt(weight**2 @ (drop - mean) ** 2))
        if mean <= max(margin * error, material):
            return False
    return True
