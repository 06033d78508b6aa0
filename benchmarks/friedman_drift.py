"""Numbers in a stream: Friedman's first function, whose inputs change their roles four times.

Each batch of 200 is predicted first and learned afterwards; the second and the fourth change lead
back to a rule seen before. Run `python benchmarks/friedman_drift.py`; it needs `river`, and takes
about four minutes.
"""

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from river import forest, tree

from dirad import PREVALRegressor

ROLES = ((0, 1, 2, 3, 4), (3, 4, 0, 1, 2), (2, 0, 4, 1, 3))  # inputs of each rule; five of ten
RULES = (0, 1, 0, 2, 1)  # one after the other
PER_RULE, BATCH, SEEDS = 4000, 200, 3
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


def test_then_train(model: PREVALRegressor | River, X: NDArray, y: NDArray) -> NDArray:
    """Return the squared errors of all samples after the first batch."""
    errors = []
    for start in range(0, len(X), BATCH):
        batch = slice(start, start + BATCH)
        if start:
            errors.append((model.predict(X[batch]) - y[batch]) ** 2)
        model.partial_fit(X[batch], y[batch])
    return np.concatenate(errors)


def main() -> None:
    """Print the error and the time of each method, and the models that were opened."""
    METHODS["PREVALRegressor"](0).partial_fit(*(part[:400] for part in samples(0)))  # compiles
    for seed in range(SEEDS):
        X, y = samples(seed)
        for name, new in METHODS.items():
            model, start = new(seed), time.process_time()
            rmse = float(np.sqrt(test_then_train(model, X, y).mean()))
            seconds = time.process_time() - start
            count = f", {len(model.models_)} models" if isinstance(model, PREVALRegressor) else ""
            print(f"seed {seed}: {name}: RMSE {rmse:.3f}, {seconds:.1f} s{count}", flush=True)


if __name__ == "__main__":
    main()
