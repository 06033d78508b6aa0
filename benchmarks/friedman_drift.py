"""Numbers in a stream: Friedman's first function, whose inputs change their roles four times.

Each batch of 200 is predicted first and learned afterwards; the second and the fourth change lead
back to a rule seen before. Run `python benchmarks/run.py drift`; it needs `river`, and takes about
four minutes.
"""

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from river import forest, tree

from dirad import PREVALRegressor

ROLES = ((0, 1, 2, 3, 4), (3, 4, 0, 1, 2), (2, 0, 4, 1, 3))  # inputs of each rule; five of ten
RULES = (0, 1, 0, 2, 1)  # one after the other
PER_RULE, BATCH, SEEDS = 4000, 200, 3
COVERAGE = 0.9  # of intervals
NAMES = [f"x{i}" for i in range(10)]


class River:
    """A regressor of river, with the interface of scikit-learn."""

    def __init__(self, model: forest.ARFRegressor | tree.HoeffdingAdaptiveTreeRegressor) -> None:
        self.model = model

    def partial_fit(self, X: NDArray, y: NDArray) -> None:
        """Learn samples one by one."""
        for row, target in zip(X.tolist(), y.tolist(), strict=True):
            self.model.learn_one(dict(zip(NAMES, row, strict=True)), target)

    def predict(self, X: NDArray) -> NDArray:
        """Predict samples one by one."""
        rows = (dict(zip(NAMES, row, strict=True)) for row in X.tolist())
        return np.array([self.model.predict_one(row) for row in rows])


METHODS: dict[str, Callable[[int], PREVALRegressor | River]] = {
    "PREVALRegressor": lambda seed: PREVALRegressor(random_state=seed),
    "ARFRegressor": lambda seed: River(forest.ARFRegressor(seed=seed)),
    "HoeffdingAdaptiveTreeRegressor": lambda seed: River(
        tree.HoeffdingAdaptiveTreeRegressor(seed=seed)
    ),
}


def samples(seed: int) -> tuple[NDArray, NDArray]:
    """Return the whole stream; the noise has a standard deviation of 1."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(PER_RULE * len(RULES), len(NAMES)))
    roles = np.repeat(np.array(ROLES)[list(RULES)], PER_RULE, axis=0)
    a, b, c, d, e = np.take_along_axis(X, roles, axis=1).T
    y = 10 * np.sin(np.pi * a * b) + 20 * (c - 0.5) ** 2 + 10 * d + 5 * e
    return X, y + rng.normal(size=len(y))


def test_then_train(
    model: PREVALRegressor | River, X: NDArray, y: NDArray
) -> tuple[NDArray, NDArray]:
    """Return squared errors of all samples after the first batch, and which intervals held them."""
    errors, held = [], []
    for start in range(0, len(X), BATCH):
        batch = slice(start, start + BATCH)
        if start:
            errors.append((model.predict(X[batch]) - y[batch]) ** 2)
        if start and isinstance(model, PREVALRegressor):
            low, high = model.predict_interval(X[batch], coverage=COVERAGE).T
            held.append((low <= y[batch]) & (y[batch] <= high))
        model.partial_fit(X[batch], y[batch])
    return np.concatenate(errors), np.concatenate([np.zeros(0, bool), *held])


def batches_until_recognized(model: PREVALRegressor) -> list[int]:
    """Return for each rule that came back how many batches of it were learned until its model."""
    per_rule = PER_RULE // BATCH
    found = []
    for place, rule in enumerate(RULES):
        first = RULES.index(rule)
        if first < place:
            used = [report.model for report in model.reports_]
            own = max(set(used[first * per_rule : (first + 1) * per_rule]), key=used.count)
            later = used[place * per_rule : (place + 1) * per_rule]
            found.append(later.index(own) + 1 if own in later else -1)
    return found


def drift_table(console: Console) -> bool:
    """Print error, recognition, coverage and time; False where a forest is better."""
    METHODS["PREVALRegressor"](0).partial_fit(*(part[:400] for part in samples(0)))  # compiles
    table = Table(title="Friedman's function, whose rule changes four times", title_justify="left")
    for name in ("seed", "method", "RMSE", "models", "batches until a known rule is recognized",
                 f"intervals at {COVERAGE} that hold", "seconds"):  # fmt: skip
        table.add_column(name)
    kept = True
    for seed in range(SEEDS):
        X, y = samples(seed)
        scores = {}
        for name, new in METHODS.items():
            model, start = new(seed), time.process_time()
            errors, held = test_then_train(model, X, y)
            seconds = time.process_time() - start
            scores[name] = float(np.sqrt(errors.mean()))
            ours = ("", "", "")
            if isinstance(model, PREVALRegressor):
                recognized = ", ".join(map(str, batches_until_recognized(model)))
                ours = (str(len(model.models_)), recognized, f"{held.mean():.3f}")
            table.add_row(str(seed), name, f"{scores[name]:.3f}", *ours, f"{seconds:.1f}")
        kept &= scores["PREVALRegressor"] == min(scores.values())
    console.print(table)
    return kept


if __name__ == "__main__":
    drift_table(Console())
