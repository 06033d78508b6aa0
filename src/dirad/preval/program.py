"""A finished PREVAL model as a program: its answers, its score, and what both are made of.

L0 answers, and L1 predicts the states of L0's nodes; the prediction errors tell how unfamiliar a
sample is. `ExpertParts` lists everything of a model that its answers depend on.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.core.compose import GatedPartIndex, index_gated_parts
from dirad.core.network import Network, output_units
from dirad.inference import Attached, Builder, InEdges, Signals, joined, plain, silent, weighted
from dirad.preval.input_units import MAX_SPREADS, InputScaling
from dirad.preval.predictor import Predictor
from dirad.preval.targets import TargetScaling
from dirad.program import OUTPUTS, SCORE, Program, Sums, Transfer

TINY = 1e-12  # no probability of L0 is closer to 0 or 1; no mean squared error is smaller
LARGEST_LOGIT = float(np.log((1.0 - TINY) / TINY))

# Names of results besides the outputs (class probabilities) and the score.
L0, GATES = "l0", "gates"  # L0's own outputs; gate values, one per cluster
RESIDUALS = "residuals"  # prediction − state, one per target
CLUSTER_ERRORS = "cluster_errors"  # mean squared error of the predicted inputs, one per cluster

BY_CLUSTER, BY_SQUARES, BY_CONFLICTS = "modes", "squared", "conflicts"  # kinds of score


class ExpertParts(NamedTuple):
    """Everything that the answers and the score of a finished model depend on."""

    l0: Network
    first_output: int  # L0's outputs before it belong to an earlier model
    l1: Predictor
    score: str  # BY_CLUSTER, BY_SQUARES or BY_CONFLICTS
    scaling: InputScaling | None = None  # inputs are standardized
    limits: NDArray[np.float64] | None = None  # (targets,) larger |errors| are conflicts
    temperature: float | None = None  # the paper's models: L0's logits are divided by it
    weights: tuple[float, float] = (1.0, 1.0)  # of L0's answers, and of the clusters' errors
    cluster_columns: NDArray[np.int64] | None = None  # (clusters,) output of each one's class, or
    # -1; None: the clusters do not tell the classes apart
    target_scaling: TargetScaling | None = None  # L0 predicts a number, standardized by it


def l0_program(parts: ExpertParts) -> Program:
    """Return the program of L0's own outputs. The scaling of inputs is part of the weights."""
    builder = Builder(parts.l0.n_inputs)
    l0 = builder.attach(parts.l0, _standardized(builder, parts))
    return builder.program({OUTPUTS: _from(l0.outputs, parts.first_output)})


def expert_program(
    parts: ExpertParts, *, details: bool = False, precise: bool = False, errors_too: bool = False
) -> Program:
    """Return the program of a model: class probabilities and score.

    With `errors_too` it also has the result `CLUSTER_ERRORS`.

    If it is `precise`, it also has the results `GATES` and `CLUSTER_ERRORS`, and inputs whose
    offset is very large relative to their spread lose no digits. With `details`, which are precise,
    it has the results `L0` and `RESIDUALS` too.
    """
    precise |= details
    builder = Builder(parts.l0.n_inputs)
    inputs = _standardized_input_values(builder, parts, subtract_first=precise)
    bounded = inputs
    if precise and parts.scaling is not None:  # products of very large inputs would overflow
        bounded = builder.block(Transfer.CLIPPED, inputs.sums, constant=MAX_SPREADS)
    l0 = builder.attach(parts.l0, bounded)
    l1 = parts.l1
    states = _states(builder, l1, l0, inputs, bounded)
    target_states = states.take(l1.targets)
    results = {L0: _from(l0.outputs, parts.first_output)}
    by_cluster = parts.score == BY_CLUSTER and l1.clusters is not None
    if by_cluster and not details and l1.network is not None:
        index = index_gated_parts(l1.network, l1.n_clusters)
        predicted = _cluster_predictions(l1.network, index, states)
        rows = _minus(predicted, _repeated(target_states, l1.n_clusters))
        errors = _mean_squared_input_errors(builder, l1, rows)
        gates = _gates(builder, l1, states, errors)
    else:
        gates, errors, predicted = _predicted(builder, l1, states)
        rows = _minus(predicted, target_states)
        if details:
            results[RESIDUALS] = builder.linear(rows)
            rows = results[RESIDUALS].sums
        if not by_cluster:
            errors = _mean_squared_input_errors(builder, l1, rows)
    results |= {GATES: gates, CLUSTER_ERRORS: errors}
    answers = {
        OUTPUTS: _answers(builder, parts, l0, gates, errors),
        SCORE: _novelty_score(builder, parts, rows, errors),
    }
    if not details:
        results = {GATES: gates} if precise else {}
        results |= {CLUSTER_ERRORS: errors} if precise or errors_too else {}
    return builder.program(answers | results)


def _from(signals: Signals, first: int) -> Signals:
    return signals.take(np.arange(first, len(signals.value)))


def _standardized(builder: Builder, parts: ExpertParts) -> Signals:
    """Return the inputs as the networks see them."""
    if parts.scaling is None:
        return builder.inputs
    return builder.inputs.less(parts.scaling.offset, over=parts.scaling.spread)


def _standardized_input_values(
    builder: Builder, parts: ExpertParts, *, subtract_first: bool
) -> Signals:
    """Return the same as values: multiplied into thousands of weights, offsets cost digits.

    With `subtract_first`, x − offset is computed first; x / spread − offset / spread would lose the
    digits that x and the offset have in common.
    """
    if parts.scaling is None:
        return builder.inputs
    if not subtract_first:
        return builder.linear(_standardized(builder, parts).sums)
    scaling, ones = parts.scaling, np.ones(builder.n_inputs)
    centered = builder.linear(builder.inputs.less(scaling.offset, over=ones).sums)
    return builder.linear(centered.less(0.0 * ones, over=scaling.spread).sums)


# ---------------------------------------------------------------- L1


def _states(
    builder: Builder, l1: Predictor, l0: Attached, inputs: Signals, bounded: Signals
) -> Signals:
    """Return the states that L1 sees: those of L0's nodes, and earlier predictions of inputs."""
    before: list[Signals] = []
    for one in l1.states.earlier:
        earlier = builder.attach(one.states.network, bounded)
        states = _states_with_earlier_predictions(one, earlier, inputs, before)
        before.append(_input_predictions(builder, one, states))
    return _states_with_earlier_predictions(l1, l0, inputs, before)


def _states_with_earlier_predictions(
    l1: Predictor, l0: Attached, inputs: Signals, before: list[Signals]
) -> Signals:
    seen = l1.states
    units = l0.states.take(np.arange(seen.network.n_inputs, len(l0.states.value)))
    own = joined(inputs, units).take(seen.nodes).less(seen.offset, over=seen.spread)
    spread = seen.spread[: seen.network.n_inputs]
    return joined(own, *(part.times(1.0 / spread) for part in before))


def _input_predictions(builder: Builder, l1: Predictor, states: Signals) -> Signals:
    """Return the prediction of every input; 0 where there is none."""
    result = silent(l1.states.network.n_inputs)
    predicted = builder.linear(_predicted(builder, l1, states)[2])
    inputs = predicted.times(l1.states.spread[l1.targets])
    for column, own in zip(result, inputs.take(l1.is_input), strict=True):
        column[l1.nodes[l1.is_input]] = own
    return result


def _predicted(builder: Builder, l1: Predictor, states: Signals) -> tuple[Signals, Signals, Sums]:
    """Return mixture weights and errors of the clusters, and the prediction of each target."""
    if l1.network is None or l1.clusters is None:
        outputs = silent(0)
        if l1.network is not None:
            outputs = builder.attach(l1.network, states).outputs
        return silent(0), silent(0), outputs.sums
    parts = index_gated_parts(l1.network, l1.n_clusters)
    own = builder.linear(_cluster_predictions(l1.network, parts, states))
    actual = _repeated(states.take(l1.targets), l1.clusters.n)
    errors = _mean_squared_input_errors(builder, l1, _minus(own.sums, actual))
    gates = _gates(builder, l1, states, errors)
    mixed = _mixture_predictions(builder, l1.network, parts, joined(states, gates), own)
    return gates, errors, mixed


def _gates(builder: Builder, l1: Predictor, states: Signals, errors: Signals) -> Signals:
    """Return the mixture weight of each cluster: the better it predicts, the higher."""
    assert l1.clusters is not None
    if l1.clusters.network is not None:
        return builder.attach(l1.clusters.network, states).outputs
    return _likelihoods(builder, l1, errors)


def _likelihoods(builder: Builder, l1: Predictor, errors: Signals) -> Signals:
    """Return how likely each cluster is by its error: shares that add up to 1."""
    logs = builder.block(Transfer.LOGARITHM, errors.sums, constant=TINY)
    return builder.pooling(Transfer.SOFTMAX, builder.linear(logs.times(-l1.error_exponent).sums))


def _repeated(signals: Signals, times: int) -> Signals:
    return signals.take(np.tile(np.arange(len(signals.value)), times))


def _minus(sums: Sums, signals: Signals) -> Sums:
    """Return each row of the sums minus a signal."""
    row = np.concatenate([sums.row, np.arange(len(sums))])
    order = np.argsort(row, kind="stable")
    sources = joined(plain(sums.source), signals)
    weight = np.concatenate([sums.weight, -np.ones(len(sums))])
    return weighted(sums.bias, row[order], sources.take(order), weight[order])


def _cluster_predictions(network: Network, parts: GatedPartIndex, states: Signals) -> Sums:
    """Return the prediction of each cluster by itself, as if only its gate were open.

    One row per cluster and target: all targets of the first cluster, of the second, and so on.
    """
    unit, bias = parts.unit.T.ravel(), parts.constant.T.ravel().copy()
    grown = np.flatnonzero(unit >= 0)
    own = InEdges(network).sums(states, unit[grown], 0)
    bias[grown] = own.bias
    return weighted(bias, grown[own.row], plain(own.source), own.weight)


def _mixture_predictions(
    builder: Builder, network: Network, parts: GatedPartIndex, sources: Signals, own: Signals
) -> Sums:
    """Return the gated prediction of each target; `own` are the clusters' predictions."""
    edges = InEdges(network)
    unit = parts.unit.T.ravel()
    grown = unit >= 0
    gain = network.units["gain"][unit[grown]]
    second = edges.sums(sources, unit[grown], 1)
    let_through = builder.block(Transfer.MODULATED, own.take(grown).sums, second, gain)
    all_states = joined(sources, silent(len(network.units)))
    for column, values in zip(all_states, let_through, strict=True):
        column[network.n_inputs + unit[grown]] = values
    return edges.sums(all_states, output_units(network), 0)


# ---------------------------------------------------------------- answers and score


def _mean_squared_input_errors(builder: Builder, l1: Predictor, rows: Sums) -> Signals:
    """Return the mean squared error of the inputs: one value, or one per cluster."""
    inputs = np.flatnonzero(l1.is_input)
    n, n_clusters = len(inputs), len(rows) // max(len(l1.targets), 1)
    some = (len(l1.targets) * np.arange(n_clusters)[:, None] + inputs).ravel()
    squares = builder.block(Transfer.SQUARE, rows.take(some))
    cluster = np.repeat(np.arange(n_clusters), n)
    return builder.linear(
        weighted(np.full(n_clusters, TINY), cluster, squares, np.full(len(some), 1.0 / max(n, 1)))
    )


def _novelty_score(builder: Builder, parts: ExpertParts, rows: Sums, errors: Signals) -> Signals:
    """Return a mean over the clusters, the mean squared error, or the share of conflicted nodes."""
    if parts.score == BY_CONFLICTS:
        assert parts.limits is not None
        found = builder.block(Transfer.EXCEEDS, rows, constant=parts.limits)
        n = len(rows)
        return builder.linear(
            weighted(np.zeros(1), np.zeros(n, np.int64), found, np.full(n, 1.0 / max(n, 1)))
        )
    if len(errors.value) == 1:
        return errors
    return builder.pooling(Transfer.POWER_MEAN, errors, parts.l1.error_exponent)


def _answers(
    builder: Builder, parts: ExpertParts, l0: Attached, gates: Signals, errors: Signals
) -> Signals:
    """Return the probability of each of the model's classes, or the number that it predicts."""
    scaling = parts.target_scaling
    if scaling is None:
        return _probabilities(builder, parts, l0, gates, errors)
    own = _from(l0.outputs, parts.first_output)
    restored = own.times(scaling.spread).less(np.full(1, -scaling.offset), over=np.ones(1))
    return builder.linear(restored.sums)


def _probabilities(
    builder: Builder, parts: ExpertParts, l0: Attached, gates: Signals, errors: Signals
) -> Signals:
    """Return the probability of each of the model's classes."""
    own = l0.activations.take(np.arange(parts.first_output, len(l0.activations)))
    logits = builder.block(Transfer.CLIPPED, own, constant=LARGEST_LOGIT)
    if not len(own):  # a model that saw no labels has no classes
        return logits
    if parts.temperature is not None:
        warm = builder.block(Transfer.LOGISTIC, logits.times(1.0 / parts.temperature).sums)
        return builder.pooling(Transfer.SHARE, warm)
    of_l0, of_errors = parts.weights
    evidence = [logits.times(of_l0)]
    columns, clusters = parts.cluster_columns, parts.l1.clusters
    if columns is not None and clusters is not None:
        if clusters.network is not None:
            evidence.append(_class_logs(builder, columns, gates, len(own)).times(of_l0))
            gates = _likelihoods(builder, parts.l1, errors)
        if clusters.network is None or parts.score == BY_CLUSTER:
            evidence.append(_class_logs(builder, columns, gates, len(own)).times(of_errors))
    row = np.tile(np.arange(len(own)), len(evidence))
    order = np.argsort(row, kind="stable")
    parts_of = joined(*evidence).take(order)
    total = weighted(np.zeros(len(own)), row[order], parts_of, np.ones(len(row)))
    return builder.pooling(Transfer.SOFTMAX, builder.linear(total))


def _class_logs(
    builder: Builder, columns: NDArray[np.int64], shares: Signals, n_classes: int
) -> Signals:
    """Return, for each class, the logarithm of the sum of its clusters' shares."""
    own = np.flatnonzero(columns >= 0)
    own = own[np.argsort(columns[own], kind="stable")]
    total = weighted(np.zeros(n_classes), columns[own], shares.take(own), np.ones(len(own)))
    return builder.block(Transfer.LOGARITHM, total, constant=TINY)
