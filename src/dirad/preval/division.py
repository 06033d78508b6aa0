"""A batch that no model knows as a whole, taken apart: who knows which of its samples?"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from dirad.preval.buffer import UNLABELLED
from dirad.preval.buffer_model import BufferModel, Look
from dirad.preval.calibration import least_of
from dirad.preval.model import STABLE

MOSTLY_NEW = 0.2  # share of known samples below which a batch is new altogether


class Division(NamedTuple):
    """How a batch is divided among models that have an opinion."""

    place: NDArray[np.int64]  # (n,) the model of each sample, by its place among the judges
    novel: NDArray[np.bool_]  # (n,) is it of a task that none of them knows?
    p: float  # chance of such samples, each known to its model


def divide(
    judges: Sequence[BufferModel],
    looks: Sequence[Look],
    y: NDArray[np.int64],
    false_alarms: float,
) -> Division:
    """Give each sample to the model that knows it best, and say which none of them knows."""
    mistaken = np.array(
        [model.mistaken(seen, y) for model, seen in zip(judges, looks, strict=True)]
    )
    wrong: NDArray[np.bool_] = np.logical_and.reduce(mistaken, axis=0)
    scores = np.array([seen.score for seen in looks])
    # A label that a model gives speaks for that model.
    place = np.argmin(np.where(mistaken & ~wrong, np.inf, scores), axis=0)
    deviate, variance = np.zeros(len(y)), 0.0
    for i, (model, seen) in enumerate(zip(judges, looks, strict=True)):
        own = place == i
        if own.any():
            part = seen.part(own)
            deviate[own] = model.deviates(part)
            assert model.usual is not None
            variance += (own.mean() * model.usual.spread(model.tally(part).rows)) ** 2
    z = float(deviate.mean()) / float(np.sqrt(variance))
    labelled = y != UNLABELLED
    p_errors = 1.0
    if labelled.any():
        p_errors = max(model.p_mistakes(y[labelled], wrong[labelled]) for model in judges)
    # Of several models the best is taken, so that low errors are no news here.
    p = least_of(min(float(norm.sf(z)), p_errors)) if labelled.any() else float(norm.sf(z))
    if is_another_rule(judges, looks, y, wrong, false_alarms):
        return Division(place, np.ones(len(y), bool), p)
    if p >= false_alarms and z < 0 and len(np.unique(place)) == 1:
        return Division(place, np.ones(len(y), bool), p)  # all too usual: of some other kind
    # Where classes that nobody learned show that something is new, labels also show what. A label
    # of a known class may be right by chance.
    classes = np.unique(np.concatenate([model.own_classes for model in judges]))
    strange = wrong.any() and np.mean(np.isin(y[wrong], classes)) < 0.5
    told = labelled & (p_errors < false_alarms) & strange
    right = told & ~wrong
    if right.any():  # a class of old that now looks otherwise is not of the old task
        unusual = float(deviate[right].mean() * np.sqrt(np.count_nonzero(right)))
        if norm.sf(unusual) < false_alarms:
            told &= wrong
    novel = novel_ones(deviate, wrong, told)
    # A model that is done and learned no class cannot learn one: what it knows is learned anew.
    untaught = np.array([model.phase == STABLE and not model.classes for model in judges])[place]
    if (labelled & untaught).any():
        return Division(place, novel | untaught, 0.0)
    return Division(place, novel, p)


def is_another_rule(
    judges: Sequence[BufferModel],
    looks: Sequence[Look],
    y: NDArray[np.int64],
    wrong: NDArray[np.bool_],
    false_alarms: float,
) -> bool:
    """Does a model know these inputs, and these classes, but not with these labels?

    Then it is not a mixture, in which some samples are new: all of them follow another rule. A
    label that another model gives is no sign of it: `wrong` are those that none gives.
    """
    for model, seen in zip(judges, looks, strict=True):
        verdict = model.verdict(seen, y)
        mistaken = model.mistaken(seen, y)
        known_classes = np.isin(y[mistaken & wrong], model.own_classes)
        if (
            verdict.p_inputs >= false_alarms > verdict.p_labels
            and len(known_classes) > 0.5 * np.count_nonzero(mistaken)
            and known_classes.mean() > 0.5
        ):
            return True
    return False


def novel_ones(
    deviate: NDArray, wrong: NDArray[np.bool_], told: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return which samples are of a task that no model knows.

    Of those that labels tell of, the wrong ones. Of the others: half of all known samples lie below
    the middle of what is usual, so that twice as many as lie there are known, and the most unusual
    are not.
    """
    new = wrong & told
    others = np.flatnonzero(~told)
    if len(others):
        known = min(1.0, 2.0 * float(np.mean(deviate[others] < 0)))
        count = max(round((1.0 - known) * len(others)), 0 if told.any() else 1)
        new[others[np.argsort(-deviate[others], kind="stable")[:count]]] = True
    return np.ones(len(new), bool) if np.mean(~new) < MOSTLY_NEW else new
