"""Why a network gives its answer: contributions of paths that add up to an output's activation.

An output's activation is a weighted sum of states, and the state of a modulatory node is a weighted
sum times a factor. Multiplied out, the activation of a sample is a sum over paths, which lead from
an input (or from the constant of a node) through term 0 of some nodes to the output:

    z = b + Σ_paths (xᵢ − rᵢ) · ∏ weights · ∏ factors.

The factors σ₁ are those of the sample, so nothing is approximated. Inputs are measured from a
reference r, their means, since the contribution of an input of which 0 is far from all samples
would otherwise be large and cancel with that of a constant.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dirad.core.describe import if_conditions, node_name
from dirad.core.network import MODULATORY, OUTPUT, Network, output_units
from dirad.inference import Builder, evaluate, levels, node_states
from dirad.program import OUTPUTS

MAX_PATHS = 5000  # of one explanation
CONSTANT = -1  # the source of a path that begins with the constant of a node
WAYS = ("path", "input")


class TooManyPaths(ValueError):
    """The network is too large to be explained."""


@dataclass(frozen=True)
class Explanation:
    """Contributions to the activations of the outputs: bias + Σ contributions = activation.

    The activation is the prediction of a `DIRADRegressor`, the log-odds of the second class of a
    `DIRADClassifier` with two classes, and the score that enters the softmax with more. (Outputs of
    the preset ``paper`` are logistic: the activation is what enters the logistic function.)
    """

    names: tuple[str, ...]  # of the paths, or of the inputs with those that modulate them
    contributions: NDArray[np.float64]  # (samples, outputs, paths)
    bias: NDArray[np.float64]  # (outputs,) the activation without any path
    activation: NDArray[np.float64]  # (samples, outputs)
    outputs: tuple[str, ...]  # names: classes, or y0, y1, …
    sources: tuple[int, ...]  # the input from which each path begins; −1: a constant
    modulators: tuple[tuple[int, ...], ...]  # the inputs that modulate each path

    def __len__(self) -> int:
        return len(self.activation)

    @property
    def importances(self) -> NDArray[np.float64]:
        """Mean |contribution − mean contribution| over the samples: (outputs, paths)."""
        centred = self.contributions - self.contributions.mean(axis=0)
        return np.abs(centred).mean(axis=0)

    def relative(self) -> "Explanation":
        """Return the scores of a softmax relative to their mean over the classes.

        Only differences between scores matter to a softmax, and one class may have a constant score
        to which nothing contributes. The probabilities are the same.
        """
        return replace(
            self,
            contributions=self.contributions - self.contributions.mean(axis=1, keepdims=True),
            bias=self.bias - self.bias.mean(),
            activation=self.activation - self.activation.mean(axis=1, keepdims=True),
        )


def explain(
    estimator: Any, X: Any, *, by: str = "path", reference: ArrayLike | None = None
) -> Explanation:
    """Return what contributes to each prediction, exactly: contributions add up to the activation.

    Parameters
    ----------
    estimator : DIRADClassifier or DIRADRegressor, fitted
    X : as `predict` takes it, missing values and categories included
    by : {"path", "input"}
        One contribution per path, such as "age → h3 [income above 3.4]"; or one per input of the
        network (such as "age", "age is missing" or "colour = red") at the beginning of a path and
        set of inputs that modulate it, such as "age [income]". A constant that one input modulates
        counts as that input; one that several inputs modulate is named by all of them, such as
        "age × income".
    reference : array-like (inputs of the network,), optional
        The values from which inputs are measured; by default their means in `fit`. Where X has
        missing values or categories, ``encoding_.names`` names the inputs of the network.

    Examples
    --------
    >>> from dirad import DIRADRegressor
    >>> X = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]]
    >>> model = DIRADRegressor(random_state=0).fit(X, [1, 3, 5, 7, 9, 11])
    >>> found = explain(model, [[4.0]])
    >>> found.names, found.bias.round(1), found.contributions.round(1).ravel()
    (('x0',), array([6.]), array([3.]))
    """
    from dirad.estimators.columns import network_inputs

    _subject(estimator)  # refuses what cannot be explained
    return explain_inputs(estimator, network_inputs(estimator, X), by=by, reference=reference)


def explain_inputs(
    estimator: Any,
    inputs: NDArray[np.float64],
    *,
    by: str = "path",
    reference: ArrayLike | None = None,
) -> Explanation:
    """Return what `explain` does, given inputs of the network instead of X."""
    if by not in WAYS:
        raise ValueError(f"by must be one of {', '.join(map(repr, WAYS))}, not {by!r}")
    one = _subject(estimator)
    if reference is None:
        mean = getattr(estimator, "input_mean_", None)  # unknown in files of dirad 0.1
        reference = np.zeros(inputs.shape[1]) if mean is None else mean
    origin = np.asarray(reference, float)
    if origin.shape != inputs.shape[1:]:
        n = inputs.shape[1]
        raise ValueError(f"reference has shape {origin.shape}, but the network has {n} inputs")
    return _explained(one, inputs, origin, by)


class _Subject(NamedTuple):
    """A network with the names of its inputs and outputs, and the conditions of its gates."""

    network: Network
    inputs: Sequence[str] | None
    outputs: tuple[str, ...]
    conditions: dict[int, str]  # of gates that are an if, by unit


def _subject(estimator: Any) -> _Subject:
    from sklearn.utils.validation import check_is_fitted

    from dirad.estimators.columns import network_input_names
    from dirad.estimators.reading import conditions_of

    if hasattr(estimator, "models_") or not hasattr(type(estimator), "equations"):
        kind = type(estimator).__name__
        raise TypeError(f"explain takes a DIRADClassifier or a DIRADRegressor, got {kind}")
    check_is_fitted(estimator)
    network = estimator.network_
    outputs = [f"y{i}" for i in range(network.n_outputs)]
    if hasattr(estimator, "classes_"):
        outputs = [str(label) for label in estimator.classes_.tolist()][-network.n_outputs :]
    inputs = network_input_names(estimator)
    conditions = conditions_of(estimator)
    conditions = if_conditions(network, inputs, estimator.input_spread_, conditions)
    return _Subject(network, inputs, tuple(outputs), conditions)


class _Key(NamedTuple):
    """What distinguishes one path, or one group of paths, from the others."""

    source: int  # an input, or CONSTANT
    nodes: tuple[int, ...]  # the units that a path passes; none for groups of paths
    modulators: frozenset[int]  # the inputs that modulate it


NO_PATH = _Key(CONSTANT, (), frozenset())  # the constant of an output
Parts = dict[_Key, NDArray[np.float64]]  # contributions (samples,) that add up to a state


def _explained(one: _Subject, X: NDArray, reference: NDArray, by: str) -> Explanation:
    network = one.network
    if by == "path":
        _check_number(network)
    modulators = _modulating_inputs(network)

    def extended(key: _Key, unit: int) -> _Key:
        if by == "path":
            return _Key(key.source, (*key.nodes, unit), key.modulators | modulators[unit])
        return _group(key.source, key.modulators | modulators[unit])

    parts = _expanded(network, X, reference, extended)
    outputs = output_units(network).tolist()
    bias = np.array([parts[unit].pop(NO_PATH)[0] for unit in outputs])
    keys = list(dict.fromkeys(key for unit in outputs for key in parts[unit]))
    contributions = np.zeros((len(X), len(outputs), len(keys)))
    for column, unit in enumerate(outputs):
        for place, key in enumerate(keys):
            contributions[:, column, place] = parts[unit].get(key, 0.0)
    return Explanation(
        names=tuple(_names(one, keys)),
        contributions=contributions,
        bias=bias,
        activation=activations(network, X),
        outputs=one.outputs,
        sources=tuple(key.source for key in keys),
        modulators=tuple(tuple(sorted(key.modulators)) for key in keys),
    )


def _group(source: int, modulators: frozenset[int]) -> _Key:
    """Return the group of a path: its input and the other inputs that modulate it.

    A constant that one input modulates is a function of this input.
    """
    if source == CONSTANT and len(modulators) == 1:
        (source,) = modulators
    return _Key(source, (), modulators - {source})


def _expanded(
    network: Network, X: NDArray, reference: NDArray, extended: Callable[[_Key, int], _Key]
) -> dict[int, Parts]:
    """Return the state of each hidden node and the activation of each output as contributions.

    `extended` gives the key of a path that passes through one more modulatory node.
    """
    n_inputs, kinds = network.n_inputs, network.units["kind"]
    states = _all_states(network, X)
    parts: dict[int, Parts] = {}
    for unit in np.concatenate(levels(network)).tolist():
        own: Parts = {NO_PATH: np.full(len(X), network.bias[unit, 0])}
        for edge in _edges_into(network, 2 * unit):
            source, weight = int(edge["source"]), float(edge["weight"])
            if source < n_inputs:
                key = _Key(source, (), frozenset())
                _add(own, key, weight * (X[:, source] - reference[source]))
                own[NO_PATH] += weight * reference[source]
            elif kinds[source - n_inputs] == OUTPUT:  # its state is no sum: it is not expanded
                _add(own, _Key(source, (), frozenset()), weight * states[:, source])
            else:
                for key, part in parts[source - n_inputs].items():
                    _add(own, key, weight * part)
        if kinds[unit] == MODULATORY:
            factor = _factor(network, unit, states)
            passed: Parts = {}
            for key, part in own.items():
                _add(passed, extended(key, unit), factor * part)
            own = passed
        if len(own) > MAX_PATHS:
            raise TooManyPaths(f"the network has more than {MAX_PATHS:,} different contributions")
        parts[unit] = own
    return parts


def _add(parts: Parts, key: _Key, part: NDArray[np.float64]) -> None:
    parts[key] = parts[key] + part if key in parts else part


def _edges_into(network: Network, term: int) -> NDArray:
    return network.edges[(network.edges["source"] >= 0) & (network.edges["term"] == term)]


def _all_states(network: Network, X: NDArray) -> NDArray[np.float64]:
    """Return the states of all nodes by number: (samples, nodes); 0 where a place is free."""
    used = np.concatenate([np.ones(network.n_inputs, bool), network.units["kind"] >= 0])
    states = np.zeros((len(X), len(used)))
    states[:, used] = node_states(network, X, np.flatnonzero(used))
    return states


def _factor(network: Network, unit: int, states: NDArray) -> NDArray[np.float64]:
    """Return σ₁ of a modulatory node for each sample."""
    edges = _edges_into(network, 2 * unit + 1)
    z = network.bias[unit, 1] + states[:, edges["source"]] @ edges["weight"]
    return 2.0 * np.tanh(0.5 * network.units["gain"][unit] * z) + 1.0


def activations(network: Network, X: NDArray) -> NDArray[np.float64]:
    """Return the activations of the outputs, before their transfer: (samples, outputs)."""
    builder = Builder(network.n_inputs)
    sums = builder.attach(network, builder.inputs).activations
    return evaluate(builder.program({OUTPUTS: builder.linear(sums)}), X)[OUTPUTS]


def _modulating_inputs(network: Network) -> dict[int, frozenset[int]]:
    """Return the inputs on which the factor of each modulatory node depends, by unit."""
    depends: dict[int, frozenset[int]] = {}  # the inputs on which each unit depends

    def of_term(term: int) -> frozenset[int]:
        sources = _edges_into(network, term)["source"].tolist()
        direct = {source for source in sources if source < network.n_inputs}
        units = (source - network.n_inputs for source in sources if source >= network.n_inputs)
        return frozenset(direct).union(*(depends[unit] for unit in units))

    factors: dict[int, frozenset[int]] = {}
    for unit in np.concatenate(levels(network)).tolist():
        factors[unit] = of_term(2 * unit + 1)
        depends[unit] = of_term(2 * unit) | factors[unit]
    return factors


def _check_number(network: Network) -> None:
    """Refuse a network of too many paths."""
    number: dict[int, int] = {}  # of paths that end at each unit
    for unit in np.concatenate(levels(network)).tolist():
        sources = (_edges_into(network, 2 * unit)["source"] - network.n_inputs).tolist()
        number[unit] = 1 + sum(number[s] if s >= 0 else 1 for s in sources)
    total = sum(number[unit] for unit in output_units(network).tolist())
    if total > MAX_PATHS:
        raise TooManyPaths(
            f"the network has {total:,} paths, more than {MAX_PATHS:,}: explain(..., by='input') "
            "adds them up by input"
        )


def _names(one: _Subject, keys: Sequence[_Key]) -> list[str]:
    """Return the name of each path: its source, and the nodes passed with what modulates them."""
    network = one.network

    def node(number: int) -> str:
        return node_name(network, number, one.inputs)

    def passed(unit: int) -> str:
        if unit in one.conditions:
            inside = one.conditions[unit]
        else:
            inside = ", ".join(map(node, _edges_into(network, 2 * unit + 1)["source"].tolist()))
        return f"{node(network.n_inputs + unit)} [{inside}]" if inside else f"h{unit}"

    def name(key: _Key) -> str:
        source = "constant" if key.source == CONSTANT else node(key.source)
        if key.nodes or not key.modulators:
            return " → ".join([source, *map(passed, key.nodes)])
        others = [node(i) for i in sorted(key.modulators)]
        return " × ".join(others) if key.source == CONSTANT else f"{source} [{', '.join(others)}]"

    return [name(key) for key in keys]
