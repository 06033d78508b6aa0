"""Results to the last bit, to show that a change of the code changes nothing else.

```
python tests/golden.py record before.npz     # at the commit before the change, on this machine
python tests/golden.py compare before.npz    # after it: names every result that differs
python tests/golden.py compare before.npz --tolerance 1e-9    # in real numbers, relative to 1 + |x|
```

Last bits depend on the processor, so that results are recorded where they are compared. The cases
use the public interface alone and cover both presets: parity, pairs of digits, ten digits with 500
edges, tables, a stream of three tasks, a recurring stream, and all exports.
"""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine

import dirad
from dirad import DIRADClassifier, DIRADRegressor, PREVALClassifier, export
from dirad.core.network import FREE

Results = Iterator[tuple[str, Any]]  # the name of a result, and an array or a text


def network_parts(name: str, network: Any) -> Results:
    """Yield the arrays of a network, without spare capacity."""
    used = network.edges[network.edges["source"] >= 0]
    for column in ("source", "term", "weight"):
        yield f"{name}/edges/{column}", used[column]
    units = network.units["kind"] != FREE
    yield f"{name}/bias", network.bias[units]
    yield f"{name}/gain", network.units["gain"][units]


def of_network(name: str, model: Any, X: np.ndarray) -> Results:
    """Yield all that a single network is and says."""
    yield from network_parts(name, model.network_)
    answers = model.predict_proba if hasattr(model, "predict_proba") else model.predict
    yield f"{name}/answers", answers(X)
    yield f"{name}/importances", model.feature_importances_
    yield f"{name}/error", model.history_.error
    yield f"{name}/edges over time", model.history_.edges
    yield f"{name}/equations", "\n".join(model.network_.equations())


def of_stream(name: str, model: PREVALClassifier, X: np.ndarray) -> Results:
    """Yield all that a continual classifier is and says."""
    yield f"{name}/answers", model.predict_proba(X)
    yield f"{name}/route", model.route(X)
    yield f"{name}/novelty", model.novelty(X)
    yield f"{name}/known", model.is_known(X)
    yield f"{name}/conflicts", model.conflicts(X)
    yield f"{name}/reports", "\n".join(f"{r.batch} {r} {r.p!r}" for r in model.reports_)
    yield f"{name}/events", "\n".join(map(str, model.events_))
    yield f"{name}/parameters", np.array(model.n_parameters_)
    for one in model.models_:
        yield from network_parts(f"{name}/model {one.number}", one.network)


def of_exports(name: str, model: Any, *, fixed: bool = True) -> Results:
    """Yield every export."""
    yield f"{name}/C", export.to_c(model)
    if fixed:
        yield f"{name}/fixed point", export.to_c(model, fixed=16)
    yield f"{name}/Python", export.to_python(model)
    yield f"{name}/ONNX", np.frombuffer(export.to_onnx(model), np.uint8)
    numbers = [one.number for one in getattr(model, "models_", ())] or [None]
    for number in numbers:
        yield f"{name}/dot {number}", export.to_dot(model, number=number)
        yield f"{name}/formula {number}", str(export.to_formula(model, number=number).expressions)


# ------------------------------------------------------------------ cases


def parity() -> Results:
    for bits in range(2, 7):
        X = np.array(list(np.ndindex(*[2] * bits)), float)
        y = X.sum(axis=1).astype(int) % 2
        model = DIRADClassifier(random_state=0, max_edges=4 * bits).fit(X, y)
        yield from of_network(f"parity/{bits} bits", model, X)
    X = np.array(list(np.ndindex(2, 2)), float)
    model = DIRADClassifier(preset="paper", random_state=0).fit(X, [0, 1, 1, 0])
    yield from of_network("parity/paper", model, X)


def small_digits() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    return X / 16.0, y


def pairs() -> Results:
    X, y = small_digits()
    for a, b in ((3, 8), (4, 9)):
        chosen = np.isin(y, (a, b))
        for preset in ("default", "paper"):
            model = DIRADClassifier(preset=preset, random_state=0, max_edges=15, max_steps=3000)
            model.fit(X[chosen], y[chosen])
            yield from of_network(f"pairs/{a}, {b}/{preset}", model, X)


def digits() -> Results:
    X, y = small_digits()
    model = DIRADClassifier(random_state=0, max_edges=500).fit(X, y)
    yield from of_network("digits/500 edges", model, X)


def tabular() -> Results:
    for load in (load_breast_cancer, load_wine):
        X, y = load(return_X_y=True)
        model = DIRADClassifier(random_state=0).fit(X, y)
        yield from of_network(f"tabular/{load.__name__}", model, X)
        yield from of_exports(f"tabular/{load.__name__}", model, fixed=False)
    X, y = load_diabetes(return_X_y=True)
    for preset in ("default", "paper"):
        model = DIRADRegressor(preset=preset, random_state=0, max_edges=20).fit(X, y)
        yield from of_network(f"tabular/diabetes/{preset}", model, X)
    yield from of_exports("tabular/diabetes", model)


def streams() -> Results:
    X, y = small_digits()
    tasks = [np.isin(y, (2 * k, 2 * k + 1)) for k in range(3)]
    default = {"batch_size": 50, "begin": 100, "buffer_size": 300, "random_state": 0, "n_jobs": 1}
    paper = {
        "preset": "paper",
        "batch_size": 40,
        "l0": {"max_steps": 300},
        "l1": {"max_steps": 100},
        "random_state": 0,
        "n_jobs": 1,
    }
    for name, order in (("three tasks", (0, 1, 2)), ("recurring", (0, 1, 0, 1))):
        for preset, options in (("default", default), ("paper", paper)):
            model = PREVALClassifier(**options)
            for k in order:  # the paper's models need many batches of a task
                for _ in range(40 if preset == "paper" else 1):
                    model.partial_fit(X[tasks[k]], y[tasks[k]], classes=np.arange(10))
            yield from of_stream(f"streams/{name}/{preset}/adapting", model, X[:300])
            model.finish()
            yield from of_stream(f"streams/{name}/{preset}", model, X)
        yield from of_exports(f"streams/{name}/paper", model, fixed=False)
    model = PREVALClassifier(**default)
    for k in range(2):
        model.partial_fit(X[tasks[k]], np.where(np.arange(tasks[k].sum()) % 3, None, y[tasks[k]]))
    yield from of_stream("streams/few labels", model.finish(), X)
    yield from of_exports("streams/few labels", model, fixed=False)
    shared = PREVALClassifier(**default, models="shared")
    for k in range(2):
        shared.partial_fit(X[tasks[k]], y[tasks[k]])
    yield from of_stream("streams/shared", shared.finish(), X)


CASES: tuple[Callable[[], Results], ...] = (parity, pairs, digits, tabular, streams)


def recorded() -> dict[str, np.ndarray]:
    """Return all results, by name."""
    found = {}
    for case in CASES:
        before = len(found)
        found.update((name, np.asarray(value)) for name, value in case())
        print(f"{case.__name__}: {len(found) - before} results", flush=True)
    return found


def compare(
    before: dict[str, np.ndarray], now: dict[str, np.ndarray], tolerance: float = 0.0
) -> list[str]:
    """Return the names of results that differ, in either direction."""
    missing = sorted(before.keys() ^ now.keys())
    both = before.keys() & now.keys()
    return missing + sorted(n for n in both if not same(before[n], now[n], tolerance))


def same(one: np.ndarray, other: np.ndarray, tolerance: float = 0.0) -> bool:
    """Are two results the same: to the last bit, or, of real numbers, up to a tolerance?

    Of texts the numbers are compared in the same way; all other characters must be equal.
    """
    if one.shape != other.shape or one.dtype.kind != other.dtype.kind:
        return False
    if tolerance and one.dtype.kind == "U":
        (words, numbers), (other_words, other_numbers) = parsed(str(one)), parsed(str(other))
        return words == other_words and same(numbers, other_numbers, tolerance)
    if tolerance and one.dtype.kind == "f":
        return np.allclose(one, other, rtol=tolerance, atol=tolerance, equal_nan=True)
    return one.tobytes() == other.tobytes()


def parsed(text: str) -> tuple[list[str], np.ndarray]:
    """Return what stands between the real numbers of a text, and these numbers."""
    parts = re.split(r"(-?\d+\.\d*(?:e[+-]?\d+)?|-?\d+e[+-]?\d+)", text)
    return parts[::2], np.array(parts[1::2], float)


def main(command: str, path: str, option: str = "--tolerance", tolerance: str = "0") -> int:
    """Record, or compare with what was recorded; return the exit code."""
    now = recorded()
    if command == "record":
        np.savez_compressed(Path(path), **{name.replace("/", "|"): now[name] for name in now})
        print(f"{len(now)} results of dirad {dirad.__version__} in {path}")
        return 0
    with np.load(path) as file:
        before = {name.replace("|", "/"): file[name] for name in file.files}
    different = compare(before, now, float(tolerance))
    print("\n".join([*different, f"{len(different)} of {len(before)} results differ"]))
    return 1 if different else 0


if __name__ == "__main__":
    if sys.argv[1:2] not in (["record"], ["compare"]) or sys.argv[3:4] not in ([], ["--tolerance"]):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
