"""Flash, RAM and instructions per answer on emulated boards, beside trees of equal accuracy.

`python benchmarks/boards.py` grows DIRAD classifiers of 15 edges on pairs of MNIST's digits
(14 × 14 pixels), exports them to C, and runs them on a Cortex-M0, M3, M4 and M4 with FPU. Beside
them: a random forest and a decision tree by emlearn, with inputs of 16 bits, and a decision tree by
m2cgen, each the smallest of those tried that is as accurate on the test samples (the most accurate,
if none is). All answer with the number of the
class; accuracy is that of the C. Flash is what a model adds to a program: code, constants, and what
it needs of the C library. RAM is static data and the stack, without the inputs.
"""

import argparse
import re
import sys
import warnings
from copy import deepcopy
from pathlib import Path
from typing import NamedTuple

import m2cgen
import numpy as np
from export_size import EDGES, LEAVES, PAIRS, equal_tree
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

sys.path.append(str(Path(__file__).parent.parent))  # `experiments` is not installed

from dirad.datasets import Dataset, digit_pair, load_mnist
from dirad.estimators import DIRADClassifier
from dirad.export import to_c
from experiments.boards import BOARDS, host_answers, measure

SHOWN = ("m0", "m3", "m4", "m4f")
SAMPLES = 200  # whose instructions are counted
TREES = (1, 3, 5, 7, 10, 15, 20, 30)
STEPS = 1000  # of a pixel's brightness, for inputs of 16 bits
CLASS = (1, np.int32)

_DECLARED = "void answer(const void *x, void *out);\nvoid answer(const void *x, void *out)\n"
_OURS = _DECLARED + "{ *(int32_t *)out = model_predict_class((const {number} *)x); }\n"
_EMLEARN = _DECLARED + "{ *(int32_t *)out = forest_predict((const int16_t *)x, {n_inputs}); }\n"
_M2CGEN = (
    "#include <stdint.h>\n"
    + _DECLARED
    + """{
    double shares[2];
    score((double *)x, shares);
    *(int32_t *)out = shares[1] > shares[0];
}
"""
)


class Model(NamedTuple):
    """A model in C that answers with the number of a class, and test samples as it takes them."""

    method: str
    size: str
    source: str
    X: NDArray

    def accuracy(self, data: Dataset) -> float:
        """Return the share of test samples that the C answers rightly."""
        classes = np.unique(data.y_train)
        answers = host_answers(self.source, self.X, CLASS).ravel()
        return float(np.mean(classes[answers] == data.y_test))


def ours(data: Dataset) -> list[Model]:
    """Grow a classifier, and export it in float and in fixed point."""
    model = DIRADClassifier(max_edges=EDGES, random_state=0).fit(data.X_train, data.y_train)
    size = f"{model.n_edges_} edges"
    real = to_c(model) + _OURS.replace("{number}", "float")
    whole = to_c(model, fixed=16) + _OURS.replace("{number}", "int32_t")
    scale = 2.0 ** int(re.findall(r"MODEL_FRACTION\(i\) (\d+)", whole)[0])
    X = data.X_test
    return [
        Model("DIRAD, float", size, real, X.astype(np.float32)),
        Model("DIRAD, 16-bit weights", size, whole, np.rint(X * scale).astype(np.int32)),
    ]


def forest(data: Dataset, wanted: float) -> Model:
    """Return the smallest forest by emlearn that is as accurate; the best, if none is."""
    train, test = steps(data.X_train), steps(data.X_test)
    sizes = sorted((trees * leaves, trees, leaves) for trees in TREES for leaves in LEAVES[:8])
    best, most = None, -1.0
    for _, trees, leaves in sizes:
        made = RandomForestClassifier(trees, max_leaf_nodes=leaves, random_state=0)
        made.fit(train, data.y_train)
        votes = np.mean([tree.predict(test) for tree in made.estimators_], axis=0)
        right = float(np.mean(made.classes_[(votes > 0.5).astype(int)] == data.y_test))
        if right > most:
            best, most = made, right
        if most >= wanted:
            break
    assert best is not None
    leaves = sum(tree.get_n_leaves() for tree in best.estimators_)
    source = by_emlearn(best) + _EMLEARN.replace("{n_inputs}", str(test.shape[1]))
    return Model("forest, emlearn", f"{len(best)} trees, {leaves} leaves", source, test)


def by_emlearn(made: RandomForestClassifier | DecisionTreeClassifier) -> str:
    """Return a forest or a tree in C, for inputs of 16 bits.

    emlearn rounds a threshold t and writes x < t for scikit-learn's x <= t. For whole numbers, the
    same is x < floor(t) + 1; without that it would lose up to a hundredth of accuracy here.
    """
    made = deepcopy(made)
    for one in getattr(made, "estimators_", [made]):
        inner = one.tree_.feature >= 0
        one.tree_.threshold[inner] = np.floor(one.tree_.threshold[inner]) + 1.0
    with np.errstate(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import emlearn  # makes errors of NumPy's warnings, for everyone

        converted = emlearn.convert(made, method="inline", dtype="int16_t")
        source = converted.save(name="forest", format="c", inference=["inline"])
    return source.replace("int forest_predict_proba(", "static inline int forest_predict_proba(")


def trees(data: Dataset, wanted: float) -> list[Model]:
    """Return the smallest trees by emlearn and m2cgen that are as accurate, or the best."""
    whole = data._replace(X_train=steps(data.X_train), X_test=steps(data.X_test))
    small, _ = equal_tree(whole, wanted)
    found, _ = equal_tree(data, wanted)
    n_inputs = str(whole.X_test.shape[1])
    by_tool = (
        (
            "emlearn",
            small,
            by_emlearn(small) + _EMLEARN.replace("{n_inputs}", n_inputs),
            whole.X_test,
        ),
        ("m2cgen", found, m2cgen.export_to_c(found) + _M2CGEN, data.X_test.astype(float)),
    )
    return [
        Model(f"tree, {tool}", f"{one.get_n_leaves()} leaves", source, X)
        for tool, one, source, X in by_tool
    ]


def steps(X: NDArray) -> NDArray[np.int16]:
    """Return pixels as whole numbers."""
    return np.rint(X * STEPS).astype(np.int16)


def cell(source: str, X: NDArray, board: str) -> str:
    """Return flash, RAM and instructions on a board."""
    found = measure(BOARDS[board], source, X[:SAMPLES], CLASS)
    return f"{found.flash:,} / {found.ram + found.stack:,} / {found.instructions:,.0f}"


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=len(PAIRS), help="how many pairs of digits")
    pairs = PAIRS[: parser.parse_args(arguments).pairs]
    boards = [name for name in SHOWN if not BOARDS[name].missing]
    if not boards:
        print(f"boards: missing: {', '.join(BOARDS['m0'].missing)}")
        return
    table = Table(
        "digits", "model in C", "size", "accuracy", *(BOARDS[name].core for name in boards),
        title="bytes of flash / bytes of RAM / instructions per answer",
    )  # fmt: skip
    images = load_mnist()
    for a, b in pairs:
        data = digit_pair(images, a, b)
        own = ours(data)
        wanted = max(model.accuracy(data) for model in own)
        for model in (*own, forest(data, wanted), *trees(data, wanted)):
            cells = [cell(model.source, model.X, board) for board in boards]
            accuracy = f"{model.accuracy(data):.4f}"
            table.add_row(f"{a} vs {b}", model.method, model.size, accuracy, *cells)
        table.add_section()
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
