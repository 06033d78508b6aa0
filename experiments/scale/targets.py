"""One model's L1: what it costs as the nodes that it predicts grow in number."""

from typing import cast

import numpy as np

from dirad.preval.choice import new_system
from dirad.preval.learner import Learner
from dirad.preval.predictor import Predictor
from dirad.preval.settings import PRESETS
from experiments.reproduction.protocol import CLASSES, Setting, describe, images, learn_task
from experiments.scale.clock import MEGABYTE, forget_peak, peak_memory, shortest, timed
from experiments.scale.growth import TURNS, Row
from experiments.scale.planted import planted

STRICT_DIGITS = (6, 7)
STRICT = 0.05  # T_CP at which the paper's rule notices new tasks


def measure_targets(n_inputs: int, n_samples: int, seed: int = 0) -> Row:
    """Return the costs of one default model on planted data with this many inputs."""
    X, y = planted(n_inputs, n_samples, seed)
    before = forget_peak()
    system = new_system(n_inputs, 2, PRESETS["default"], seed=seed, threads=1)
    _, learning = timed(lambda: system.learn(X, y))
    model = system.models[0]
    assert isinstance(model, Learner)
    expert, l0 = timed(model.finish)
    _, seconds = timed(model.finish)  # L0 is done: what is left is L1 and its calibration
    held, l1 = peak_memory() - before, expert.l1
    assert l1 is not None
    return {
        "size": len(l1.targets),
        "modes": l1.n_clusters,
        "L0": learning + l0 - seconds,
        "L1": seconds,
        "per_target": seconds / len(l1.targets),
        "look": shortest(lambda: expert.evaluate(X), TURNS) / len(X),
        "numbers": expert.n_parameters,
        "megabytes": held / MEGABYTE,
    }


def measure_strict(side: int, seed: int = 0) -> Row:
    """Return the costs of one model of the paper, rule `strict`, on images of this side."""
    data = images(side)
    before = forget_peak()
    setting = Setting("paper", STRICT, connectivity="strict", side=side)
    system = new_system(side * side, CLASSES, setting.settings(), seed=seed, threads=1)
    pools = [np.flatnonzero(data.y_train == digit) for digit in STRICT_DIGITS]
    _, seconds = timed(lambda: learn_task(system, data, pools, np.random.default_rng(seed)))
    model = system.models[0]
    found, found_l1 = describe(model), cast("Predictor", model.l1)
    return {
        "size": side * side,
        "targets": found["L1_targets"],
        "edges": found["L1_edges_grown"],
        "pathway_steps": float(sum(found_l1.steps_taken)),
        "seconds": seconds,
        "megabytes": (peak_memory() - before) / MEGABYTE,
    }
