"""Flash and RAM of a two-digit classifier in C, beside a decision tree of equal accuracy.

`python benchmarks/export_size.py` grows DIRAD classifiers of 15 edges on pairs of MNIST's digits
(14 × 14 pixels), exports them to C, and compiles them with `gcc -Os`. The tree is scikit-learn's,
of the fewest leaves with which it is as accurate on the test samples, exported by m2cgen and, where
it is installed, by emlearn. Flash is code and constants, RAM the stack and static data, both as gcc
reports them for this machine; `expf` of the C library, which only the float model calls, is apart.
"""

import argparse
import subprocess
import tempfile
import warnings
from pathlib import Path
from typing import NamedTuple

import m2cgen
import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.tree import DecisionTreeClassifier

from dirad.datasets import Dataset, digit_pair, load_mnist
from dirad.estimators import DIRADClassifier
from dirad.export import c_size, fixed_bound, to_c

EDGES = 15
PAIRS = ((3, 8), (4, 9), (1, 7))
LEAVES = (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
OPTIONS = ("-Os", "-std=c99", "-fno-asynchronous-unwind-tables", "-fstack-usage")

_OURS = """
void answer(const {number} *x, {number} *out);
void answer(const {number} *x, {number} *out) {{ model_predict(x, out); }}
"""


class Row(NamedTuple):
    """One model in C."""

    pair: str
    method: str
    size: str
    accuracy: float
    flash: int
    ram: int


def compiled_size(source: str) -> tuple[int, int]:
    """Return the bytes of code and constants, and those of stack and static data."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "model.c").write_text(source)
        subprocess.run(["gcc", *OPTIONS, "-c", "model.c"], cwd=folder, check=True)
        said = subprocess.run(
            ["size", "model.o"], cwd=folder, check=True, capture_output=True, text=True
        ).stdout
        code, data, zeros = map(int, said.splitlines()[1].split()[:3])
        frames = Path(folder, "model.su").read_text().splitlines()
        stack = sum(int(line.split("\t")[1]) for line in frames)
    return code, data + zeros + stack


def accuracy(answers: np.ndarray, data: Dataset) -> float:
    """Return the share of test samples that are answered rightly."""
    return float(np.mean(answers == data.y_test))


def ours(name: str, data: Dataset, seed: int) -> list[Row]:
    """Grow a classifier; measure it in float and in whole numbers."""
    model = DIRADClassifier(max_edges=EDGES, random_state=seed).fit(data.X_train, data.y_train)
    right = accuracy(model.predict(data.X_test), data)
    rows = []
    for fixed, number, what in ((None, "float", "float"), (16, "int32_t", "16-bit weights")):
        source = to_c(model, fixed=fixed) + _OURS.format(number=number)
        constants = c_size(model, fixed=fixed).flash
        bound = "" if fixed is None else f", off by {fixed_bound(model, fixed):.0e} at most"
        size = f"{model.n_edges_} edges, {constants} bytes of constants{bound}"
        rows.append(Row(name, f"DIRAD, {what}", size, right, *compiled_size(source)))
    return rows


def equal_tree(data: Dataset, wanted: float) -> tuple[DecisionTreeClassifier, float]:
    """Return the tree of fewest leaves that is as accurate; the best one, if none is."""
    best, most = None, -1.0
    for leaves in LEAVES:
        tree = DecisionTreeClassifier(max_leaf_nodes=leaves, random_state=0)
        found = accuracy(tree.fit(data.X_train, data.y_train).predict(data.X_test), data)
        if found > most:
            best, most = tree, found
        if most >= wanted:
            break
    assert best is not None
    return best, most


def by_emlearn(tree: DecisionTreeClassifier) -> str | None:
    """Return the tree in C by emlearn, its class alone; None where it is not installed."""
    with np.errstate():  # its import makes errors of NumPy's warnings, for everyone
        try:
            import emlearn
        except ImportError:
            return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        made = emlearn.convert(tree, method="inline", dtype="float")
        source = made.save(name="tree", format="c", inference=["inline"])
    return source.replace("int tree_predict_proba(", "static inline int tree_predict_proba(")


def trees(name: str, data: Dataset, wanted: float) -> list[Row]:
    """Measure the tree that is as accurate."""
    tree, right = equal_tree(data, wanted)
    size = f"{tree.get_n_leaves()} leaves"
    sources = {"m2cgen": m2cgen.export_to_c(tree), "emlearn": by_emlearn(tree)}
    return [
        Row(name, f"tree, {tool}", size, right, *compiled_size(source))
        for tool, source in sources.items()
        if source is not None
    ]


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1, help="of DIRAD, for each pair")
    seeds = parser.parse_args(arguments).seeds
    table = Table("digits", "model in C", "size", "accuracy", "flash", "RAM")
    images = load_mnist()
    for a, b in PAIRS:
        name, data = f"{a} vs {b}", digit_pair(images, a, b)
        rows = [row for seed in range(seeds) for row in ours(name, data, seed)]
        rows += trees(name, data, max(row.accuracy for row in rows))
        for row in rows:
            table.add_row(
                row.pair, row.method, row.size, f"{row.accuracy:.4f}", f"{row.flash}", f"{row.ram}"
            )
        table.add_section()
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
