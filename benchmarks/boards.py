"""Flash, RAM and instructions per answer on emulated boards, beside trees of equal accuracy.

`python benchmarks/boards.py` grows DIRAD classifiers of 15 edges on pairs of MNIST's digits
(14 × 14 pixels), exports them to C, and runs them on a Cortex-M0, M3, M4 and M4 with FPU. Beside
them: a random forest and a decision tree by emlearn, with inputs of 16 bits, and a decision tree by
m2cgen, each the smallest of those tried that is as accurate on the test samples (the most accurate,
if none is). All answer with the number of the
class; accuracy is that of the C. Flash is what a model adds to a program: code, constants, and what
it needs of the C library. RAM is static data and the stack, without the inputs.

`python benchmarks/boards.py --part digits` does so for all ten digits on a Cortex-M0: networks
grown for 1, 2 and 4 kB (the bytes of the table form), as a table and as straight-line code, beside
the smallest random forest and the smallest extra trees that are as accurate on the test samples.
Their trees have full depth and vote; they are added one by one, up to 150. Such a forest takes
megabytes: ten of its trees are run one by one, and their mean is multiplied by their number. The
votes are counted once.
"""

import argparse
import re
import sys
import warnings
from copy import copy
from pathlib import Path
from typing import Any, NamedTuple

import m2cgen
import numpy as np
from export_size import EDGES, LEAVES, PAIRS, equal_tree
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

sys.path.append(str(Path(__file__).parent.parent))  # `experiments` is not installed

from dirad.datasets import Dataset, digit_pair, load_mnist
from dirad.estimators import DIRADClassifier
from dirad.export import to_c
from dirad.export.compact import CompactNetwork, compact_source, to_compact
from dirad.export.compact.budget import STORAGES
from dirad.export.compact.growing import fit_compact
from experiments.boards import BOARDS, host_answers, measure
from experiments.device.digits import OUR_STORAGE
from experiments.device.trees import with_whole_thresholds
from experiments.pairs import mnist

SHOWN = ("m0", "m3", "m4", "m4f")
SAMPLES = 200  # whose instructions are counted
TREES = (1, 3, 5, 7, 10, 15, 20, 30)
STEPS = 1000  # of a pixel's brightness, for inputs of 16 bits
CLASS = (1, np.int32)
BYTES = 1024  # of compact networks of two digits: no edge has to go
DIGIT_BYTES = (1024, 2048, 4096)
MOST_TREES, MEASURED_TREES = 150, 10

_DECLARED = "void answer(const void *x, void *out);\nvoid answer(const void *x, void *out)\n"
_OURS = _DECLARED + "{ *(int32_t *)out = model_predict_class((const {number} *)x); }\n"
_EMLEARN = _DECLARED + "{ *(int32_t *)out = forest_predict((const int16_t *)x, {n_inputs}); }\n"
_COMPACT = _DECLARED + "{ *(int32_t *)out = model_predict_class((const uint8_t *)x); }\n"
_TREE = _DECLARED + "{ *(int32_t *)out = forest_tree_0((const int16_t *)x, {n_inputs}); }\n"
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
        *compact(data, model),
    ]


def compact(data: Dataset, model: DIRADClassifier) -> list[Model]:
    """Return the compact form of a classifier, whose inputs are bytes, in both kinds of C."""
    X, y = np.asarray(data.X_train), np.asarray(data.y_train)
    return forms(data, to_compact(model, BYTES, X, y, low=0, high=1).net)


def forms(data: Dataset, net: CompactNetwork) -> list[Model]:
    """Return a compact network as a table and as straight-line code."""
    x = net.to_bytes(np.asarray(data.X_test))
    return [
        Model(method, f"{net.n_edges} edges", compact_source(net, fast=fast) + _COMPACT, x)
        for method, fast in (("DIRAD, compact", False), ("DIRAD, straight-line", True))
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


def by_emlearn(made: Any) -> str:
    """Return a forest or a tree in C, for inputs of 16 bits."""
    made = with_whole_thresholds(made)
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


class Forest(NamedTuple):
    """A forest of trees of full depth, and how accurate its votes are with each further tree."""

    method: str
    model: RandomForestClassifier | ExtraTreesClassifier
    accuracy: list[float]  # with 1, 2, … trees

    def trees_for(self, wanted: float) -> int | None:
        """Return the least number of trees that is as accurate."""
        return next((n for n, own in enumerate(self.accuracy, 1) if own >= wanted), None)


def forests(data: Dataset) -> list[Forest]:
    """Return forests, whose inputs are the bytes of the pixels."""
    train, test = whole_pixels(data.X_train), whole_pixels(data.X_test)
    found = []
    kinds = (("random forest", RandomForestClassifier), ("extra trees", ExtraTreesClassifier))
    for method, kind in kinds:
        model = kind(MOST_TREES, random_state=0, n_jobs=1).fit(train, data.y_train)
        votes = np.zeros((len(test), len(model.classes_)), np.int64)
        accuracy = []
        for tree in model.estimators_:
            votes[np.arange(len(test)), tree.predict(test).astype(np.int64)] += 1
            right = model.classes_[votes.argmax(axis=1)] == data.y_test
            accuracy.append(float(np.mean(right)))
        found.append(Forest(method, model, accuracy))
    return found


def whole_pixels(X: NDArray) -> NDArray[np.int16]:
    """Return pixels as their bytes."""
    return np.rint(np.asarray(X) * 255).astype(np.int16)


def tree_costs(forest: Forest, X: NDArray, trees: int) -> tuple[float, float]:
    """Return flash and instructions of a forest on a Cortex-M0, from some trees run one by one."""
    n_inputs, board = str(X.shape[1]), BOARDS["m0"]
    flash, instructions = [], []
    alone = copy(forest.model)
    alone.n_estimators = 1
    for tree in forest.model.estimators_[: min(trees, MEASURED_TREES)]:
        alone.estimators_ = [tree]
        source = by_emlearn(alone) + _TREE.replace("{n_inputs}", n_inputs)
        found = measure(board, source, X[:SAMPLES], CLASS)
        flash.append(found.flash)
        instructions.append(found.instructions)
    votes = measure(
        board, by_emlearn(alone) + _EMLEARN.replace("{n_inputs}", n_inputs), X[:SAMPLES], CLASS
    )
    of_votes = votes.instructions - instructions[-1], votes.flash - flash[-1]
    return trees * np.mean(flash) + of_votes[1], trees * np.mean(instructions) + of_votes[0]


def digits_table(sizes: tuple[int, ...] = DIGIT_BYTES) -> Table:
    """Return the table of all ten digits on a Cortex-M0."""
    data = mnist()
    X, y = np.asarray(data.X_train), np.asarray(data.y_train)
    table = Table(
        "model in C", "size", "accuracy", "flash", "RAM", "instructions",
        title="ten digits on a Cortex-M0",
    )  # fmt: skip
    peers = forests(data)
    for size in sizes:
        net = network_for(X, y, size)
        wanted = 0.0
        for model in forms(data, net):
            found = measure(BOARDS["m0"], model.source, model.X[:SAMPLES], CLASS)
            wanted = model.accuracy(data)
            bytes_of = f"{found.flash:,}", f"{found.ram + found.stack:,}"
            what = f"{net.n_edges} edges, {net.n_hidden} nodes"
            cells = [f"{wanted:.4f}", *bytes_of, f"{found.instructions:,.0f}"]
            table.add_row(model.method, what, *cells)
        for peer in peers:
            trees = peer.trees_for(wanted)
            if trees is None:
                best = int(np.argmax(peer.accuracy))
                what = f"best of up to {MOST_TREES}: {best + 1} trees"
                table.add_row(f"{peer.method}, emlearn", what, f"{peer.accuracy[best]:.4f}")
                continue
            flash, instructions = tree_costs(peer, whole_pixels(data.X_test), trees)
            cells = [f"{peer.accuracy[trees - 1]:.4f}", f"{flash:,.0f}", "", f"{instructions:,.0f}"]
            table.add_row(f"{peer.method}, emlearn", f"{trees} trees", *cells)
        table.add_section()
    return table


def network_for(X: NDArray, y: NDArray, size: int) -> CompactNetwork:
    """Return a network grown for so many bytes, as `python -m experiments device` does, seed 0."""
    storage = STORAGES[OUR_STORAGE[size]]
    model = DIRADClassifier(random_state=0)
    return fit_compact(model, X, y, size, low=0, high=1, storages=[storage], seed=0)[1].net


def main(arguments: list[str] | None = None) -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=["pairs", "digits"], default="pairs")
    parser.add_argument("--pairs", type=int, default=len(PAIRS), help="how many pairs of digits")
    chosen = parser.parse_args(arguments)
    pairs = PAIRS[: chosen.pairs]
    boards = [name for name in SHOWN if not BOARDS[name].missing]
    if not boards:
        print(f"boards: missing: {', '.join(BOARDS['m0'].missing)}")
        return
    if chosen.part == "digits":
        Console(width=120).print(digits_table())
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
