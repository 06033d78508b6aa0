"""One model's L1: what it costs as the nodes that it predicts grow in number."""

import numpy as np

from dirad.preval.buffer_model import BufferModel
from dirad.preval.settings import PRESETS
from dirad.preval.sketch import Sketch
from dirad.preval.systems import new_system
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
    _, l0 = timed(lambda: system.learn(X, y))
    model = system.models[0]
    assert isinstance(model, BufferModel)
    _, rest = timed(model.finish)  # ends L0, finds the modes, opens pathways
    _, seconds = timed(model.finish)
    held, l1 = peak_memory() - before, model.l1
    assert l1 is not None
    sketch = timed(lambda: Sketch(X, model.settings.ridge))[1]
    return {
        "size": len(l1.targets),
        "modes": l1.gates.n_modes if l1.gates else 1,
        "L0": l0 + rest,
        "sketch": sketch,
        "L1": seconds,
        "per_target": seconds / len(l1.targets),
        "look": shortest(lambda: model.look(X), TURNS) / len(X),
        "numbers": model.n_parameters,
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
    assert model.l1 is not None
    found = describe(model)
    return {
        "size": side * side,
        "targets": found["L1_targets"],
        "edges": found["L1_edges_grown"],
        "pathway_steps": float(sum(model.l1.steps_taken)),
        "seconds": seconds,
        "megabytes": (peak_memory() - before) / MEGABYTE,
    }
