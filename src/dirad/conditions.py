"""Gates that read as an if on a column: "colour is red or blue", "income above 3.4 or missing".

`core.thresholds` reads gates of single inputs. Here the inputs of one column are read together: a
column of categories has one input per category, and a number that may be missing has two.
"""

import math
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dirad.core.network import MODULATORY, Network
from dirad.core.thresholds import single_threshold
from dirad.encoding import Encoding
from dirad.names import quoted
from dirad.program import Transfer

LEAST = 4.0  # |K·z| from which on the factor is within 2 % of −1 or 3


def gate_conditions(
    network: Network,
    encoding: Encoding | None,
    columns: Sequence[str],
    spread: NDArray[np.float64] | None,
) -> dict[int, str]:
    """Return the condition under which the factor of a unit is 3, and else −1, by unit.

    `columns` names the columns of X. Gates that depend on several columns, on hidden nodes or on
    numbers without gaps are left out, and those that change too gradually.
    """
    if encoding is None or encoding.is_identity or spread is None:
        return {}
    found: dict[int, str] = {}
    for unit in np.flatnonzero(network.units["kind"] == MODULATORY).tolist():
        term = network.edges["term"] == 2 * unit + 1
        edges = network.edges[term & (network.edges["source"] >= 0)]
        if not len(edges) or edges["source"].max() >= network.n_inputs:
            continue
        own = np.unique(encoding.column[edges["source"]])
        weights = np.bincount(edges["source"], edges["weight"], minlength=network.n_inputs)
        if len(own) == 1:
            K, bias = float(network.units["gain"][unit]), float(network.bias[unit, 1])
            name = _word(columns[int(own[0])])
            text = _condition(encoding, int(own[0]), name, weights * K, K * bias, spread)
            if text:
                found[unit] = text
    return found


def _condition(
    encoding: Encoding, column: int, name: str, slopes: NDArray, bias: float, spread: NDArray
) -> str:
    """Return the condition on one column, given K times the parameters of term 1; '' if none."""
    inputs = np.flatnonzero(encoding.column == column)
    if column in encoding.categories:
        words = [_word(one) for one in encoding.categories[column].names]
        words += ["missing"] * (len(inputs) - len(words))
        return _subset(name, words, slopes[inputs], bias)
    number = inputs[0]
    missing = slopes[number] * encoding.fill[column] + bias
    if encoding.transfer[number] == Transfer.LINEAR:
        return ""
    missing += slopes[inputs[1]]
    if slopes[number] == 0.0:  # of the gap alone
        return _subset(name, ["missing"], slopes[inputs[1:]], bias)
    threshold = single_threshold(int(number), float(slopes[number]), bias, float(spread[number]))
    if slopes[inputs[1]] == 0.0 or threshold is None or abs(missing) < LEAST:
        return ""
    return threshold.condition(name) + (" or missing" if missing > 0 else " and not missing")


def _subset(name: str, words: Sequence[str], slopes: NDArray, bias: float) -> str:
    """Return the condition that a value is among some, or not; '' if the gate is too gradual."""
    listed = np.flatnonzero(slopes)
    opens = slopes + bias > 0
    if min(abs(bias), float(np.abs(slopes + bias)[listed].min(initial=np.inf))) < LEAST:
        return ""
    others = bias > 0  # is the gate open for all that are not listed?
    own = [words[i] for i in listed.tolist() if opens[i] != others]
    if not own:
        return ""
    if not others:
        return f"{name} is {' or '.join(own)}"
    return f"{name} is {'not' if len(own) == 1 else 'neither'} {' nor '.join(own)}"


def _word(text: str) -> str:
    """Return a name or a category, in quotes where it is neither plain nor a number.

    >>> _word("dark blue"), _word("3.5"), _word("a or b?")
    ('dark blue', '3.5', '"a or b?"')
    """
    if re.fullmatch(r"-?\d+(\.\d+)?", text) and math.isfinite(float(text)):
        return text
    return (quoted([text]) or [text])[0]
