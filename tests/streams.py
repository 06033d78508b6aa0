"""Small streams of tasks for the tests of PREVAL: noisy patterns in [0, 1]."""

import hashlib

import numpy as np

from dirad.params import preset
from dirad.preval.choice import new_system
from dirad.preval.predictor import Predictor
from dirad.preval.settings import PRESETS

WIDTH = 16
# Quick settings: what counts here is the flow, not the accuracy.
SETTINGS = {
    "paper": PRESETS["paper"].replace(
        l0=preset("paper", batch_size=40, max_steps=120, patience=20),
        l1=preset("paper", batch_size=40, max_steps=60, patience=10),
        T_CP=0.2,
        T_SV=0.2,  # few nodes: some conflicted ones make a sample invalid
    ),
    "default": PRESETS["default"].replace(
        l0=PRESETS["default"].l0.replace(batch_size=50, max_steps=400, settle_steps=50),
        modes=2,
        buffer_size=600,
        begin=100,
        steps_per_batch=50,
    ),
}


def patterns(task):
    """Return the two patterns of a task."""
    rng = np.random.default_rng(1000 + task)
    return rng.permutation(np.repeat([0.15, 0.85], WIDTH // 2)), rng.permutation(
        np.repeat([0.15, 0.85], WIDTH // 2)
    )


def samples(task, n, seed=0):
    """Return X and class codes: 2·task and 2·task + 1."""
    rng = np.random.default_rng([seed, task])
    y = rng.integers(0, 2, n)
    X = np.array(patterns(task))[y] + 0.08 * rng.normal(size=(n, WIDTH))
    return np.clip(X, 0, 1), y + 2 * task


def system_of(name, n_classes=10, **options):
    settings = SETTINGS[name]
    return new_system(WIDTH, n_classes if name == "paper" else 0, settings, **options)


def learned(name, tasks, n=12_000, **options):
    """Return a system that learned these tasks one after the other, each until it was stable."""
    system = system_of(name, **options)
    for i, task in enumerate(tasks):
        system.learn(*samples(task, n, seed=i), stop_when_stable=True)
        assert system.adapting is None
    return system


def networks_of(l1):
    """Return the networks of an L1, in training or finished."""
    if isinstance(l1, Predictor):
        return [] if l1.network is None else [l1.network]
    return [path.network for path in l1.pathways]


def digest(system):
    """Return a hash of every number that a system's models hold."""
    result = hashlib.sha256()
    for model in system.models:
        arrays = [*model.network, model.history.error, model.history.events]
        if model.l1 is not None:
            arrays += [array for network in networks_of(model.l1) for array in network]
            arrays += [model.l1.states.offset, model.l1.states.spread, model.l1.targets]
        if model.error_stats is not None:
            arrays += [model.error_stats.mean, model.error_stats.deviation]
        for array in arrays:
            result.update(np.ascontiguousarray(array).tobytes())
        learned = getattr(model, "evaluator", model)
        weights = getattr(learned, "evidence_weights", None)
        temperature = getattr(model, "temperature", None)
        result.update(repr((model.phase, list(model.classes), weights, temperature)).encode())
    result.update(
        repr([(e.batch, e.kind, e.model, e.evidence) for e in system.journal.events]).encode()
    )
    return result.hexdigest()
