"""The models of a PREVAL system as programs: each answers, and says how little it knows.

A model's score is made of the same steps as any network: L0, the gates, L1, the differences of
what L1 predicts from what is there. The least score answers.
"""

from collections.abc import Sequence

import numpy as np

from dirad.core.compose import gated_parts
from dirad.estimators import PREVALClassifier
from dirad.export.program import (
    SILENCE,
    Attached,
    Builder,
    Program,
    Signal,
    Term,
    Transfer,
    edges_by_term,
    weighted,
)
from dirad.preval.expert import STABLE, Expert
from dirad.preval.paper_model import PaperExpert
from dirad.preval.posterior import MIN_PROBABILITY
from dirad.preval.predictor import Predictor

Model = Expert | PaperExpert
TINY = MIN_PROBABILITY
SUREST = float(np.log((1.0 - TINY) / TINY))  # the activation of an answer that is surest


def finished_models(classifier: PREVALClassifier) -> list[Model]:
    """Return the models of a system that has nothing to adapt, oldest first."""
    models = classifier.models_
    if not models:
        raise ValueError("the system has no model yet: give it samples, then call finish()")
    for model in models:
        if model.phase != STABLE:
            raise ValueError(
                f"model {model.number} is still adapting ({model.phase}): call finish() first"
            )
        if model.l1 is None:
            raise ValueError(f"model {model.number} has no grown L1, so that none can be exported")
        if not model.classes:
            raise ValueError(
                f"model {model.number} has learned no class, so that it has no answer to export: "
                f"give it labels, or remove({model.number})"
            )
    return models


def answerers(classifier: PREVALClassifier, models: Sequence[Model]) -> list[int]:
    """Return which model answers for each: of rivals, models of one group, the last in use."""
    groups = [model.group if isinstance(model, Expert) else model.number for model in models]
    used = getattr(classifier._state.system, "last_used", {})

    def last_of(group: int) -> int:
        kin = [i for i in range(len(models)) if groups[i] == group]
        return max(kin, key=lambda i: used.get(models[i].number, -1))

    return [last_of(group) for group in groups]


def model_program(model: Model) -> Program:
    """Return what a model of a system answers, and its score."""
    assert model.l1 is not None
    builder = Builder(model.network.n_inputs)
    inputs = _scaled_inputs(builder, model)
    l0 = builder.attach(model.network, inputs)
    states = _states(builder, model.l1, l0, inputs)
    gates = _gates(builder, model.l1, states)
    if isinstance(model, Expert) and model.settings.score == "modes":
        errors = _errors_by_mode(builder, model.l1, states)
        score = errors[0]
        if len(errors) > 1:
            score = builder.mixture(Transfer.POWER_MEAN, errors, model.evaluator.exponent)[0]
        return builder.program(_answers(builder, model, l0, gates, errors), score=score)
    errors = _errors(builder, model.l1, states, gates)
    return builder.program(
        _answers(builder, model, l0, gates), score=_score(builder, model, errors)
    )


def l0_program(model: Model) -> Program:
    """Return what the L0 of a model answers, by itself."""
    builder = Builder(model.network.n_inputs)
    l0 = builder.attach(model.network, _scaled_signals(builder, model))
    return builder.program(l0.outputs[_first_output(model) :])


# ---------------------------------------------------------------- L0


def _scaled_inputs(builder: Builder, model: Model) -> list[Signal]:
    """Return the inputs as the networks see them.

    They are values of their own: folded into thousands of weights, an offset that is large against
    the spread would cost digits where numbers are float.
    """
    if not isinstance(model, Expert):
        return builder.inputs
    return [builder.linear([(signal, 1.0)]) for signal in _scaled_signals(builder, model)]


def _scaled_signals(builder: Builder, model: Model) -> list[Signal]:
    """Return the inputs as the networks see them, for weights that take the scale in."""
    if not isinstance(model, Expert):
        return builder.inputs
    scaling = model.evaluator.scaling
    return [
        signal.less(offset, over=spread)
        for signal, offset, spread in zip(
            builder.inputs, scaling.offset, scaling.spread, strict=True
        )
    ]


def _first_output(model: Model) -> int:
    """Return the first output that is the model's own, and not of one that it stands on."""
    return model.evaluator.first_output if isinstance(model, Expert) else 0


def _answers(
    builder: Builder,
    model: Model,
    l0: Attached,
    gates: Sequence[Signal],
    errors: Sequence[Signal] = (),
) -> list[Signal]:
    """Return the probability of each of the model's classes; `errors` are those of modes."""
    own = l0.activations[_first_output(model) :]
    inside = [builder.node(Transfer.CLIPPED, term, constant=SUREST) for term in own]
    if isinstance(model, PaperExpert):
        warm = [
            builder.node(Transfer.LOGISTIC, weighted(0.0, [(z, 1.0 / model.temperature)]))
            for z in inside
        ]
        return builder.mixture(Transfer.SHARE, warm)
    assert model.l1 is not None
    in_said, in_predicted = model.evaluator.evidence_weights
    parts = [[(z, in_said)] for z in inside]
    if model.l1.clusters is None or not model.l1.clusters.cover(model.classes):
        errors = gates = ()
    _add_shares(builder, model, gates, in_said, parts)
    if errors:
        logs = [
            builder.node(Transfer.LOGARITHM, weighted(0.0, [(e, 1.0)]), constant=TINY)
            for e in errors
        ]
        powers = [builder.linear([(log, -model.evaluator.exponent)]) for log in logs]
        shares = builder.mixture(Transfer.SOFTMAX, powers)
        _add_shares(builder, model, shares, in_predicted, parts)
    return builder.mixture(Transfer.SOFTMAX, [builder.linear(own) for own in parts])


def _add_shares(
    builder: Builder,
    model: Expert,
    shares: Sequence[Signal],
    trust: float,
    parts: Sequence[list[tuple[Signal, float]]],
) -> None:
    """Add to what speaks for each class the logarithm of the shares of its modes."""
    if not shares:
        return
    assert model.l1 is not None
    assert model.l1.clusters is not None
    groups = model.l1.clusters.classes.tolist()
    for code, own in zip(model.classes, parts, strict=True):
        total = weighted(0.0, [(s, 1.0) for s, g in zip(shares, groups, strict=True) if g == code])
        own.append((builder.node(Transfer.LOGARITHM, total, constant=TINY), trust))


# ---------------------------------------------------------------- L1


def _states(
    builder: Builder, l1: Predictor, l0: Attached, inputs: Sequence[Signal]
) -> list[Signal]:
    """Return the states of L0's nodes as L1 sees them, and what earlier ones predict of inputs."""
    before: list[list[Signal]] = []
    for one in l1.states.earlier:
        states = _states_on(one, builder.attach(one.states.network, inputs), before)
        before.append(_predicted_inputs(builder, one, states))
    return _states_on(l1, l0, before)


def _states_on(l1: Predictor, l0: Attached, before: Sequence[Sequence[Signal]]) -> list[Signal]:
    own = [
        l0.states[node].less(low, over=span)
        for node, low, span in zip(l1.states.nodes, l1.states.offset, l1.states.spread, strict=True)
    ]
    span = l1.states.spread[: l1.states.network.n_inputs]
    return own + [s.times(1.0 / span[i]) for part in before for i, s in enumerate(part)]


def _predicted_inputs(builder: Builder, l1: Predictor, states: Sequence[Signal]) -> list[Signal]:
    """Return what is predicted of every input; silence where nothing is."""
    result = [SILENCE] * l1.states.network.n_inputs
    predicted = _predicted(builder, l1, states, _gates(builder, l1, states))
    for target, signal in zip(l1.targets, predicted, strict=True):
        node = l1.states.nodes[target]
        if node < l1.states.network.n_inputs:
            result[node] = signal.times(float(l1.states.spread[target]))
    return result


def _gates(builder: Builder, l1: Predictor, states: Sequence[Signal]) -> list[Signal]:
    """Return how much each mode is there; nothing where L1 has no gates."""
    return [] if l1.clusters is None else builder.attach(l1.clusters.network, states).outputs


def _predicted(
    builder: Builder, l1: Predictor, states: Sequence[Signal], gates: Sequence[Signal]
) -> list[Signal]:
    """Return the predicted state of each target, none where none is predicted confidently."""
    return [] if l1.network is None else builder.attach(l1.network, [*states, *gates]).outputs


def _errors(
    builder: Builder, l1: Predictor, states: Sequence[Signal], gates: Sequence[Signal]
) -> list[tuple[Signal, Signal]]:
    """Return of each target the prediction and the state."""
    predicted = _predicted(builder, l1, states, gates)
    targets = l1.targets.tolist() if predicted else []
    return [(p, states[target]) for p, target in zip(predicted, targets, strict=True)]


def _errors_by_mode(builder: Builder, l1: Predictor, states: Sequence[Signal]) -> list[Signal]:
    """Return the mean squared error over the inputs of each mode by itself."""
    assert l1.network is not None
    network, inputs = l1.network, np.flatnonzero(l1.is_input)
    if l1.clusters is None:
        terms = [
            [weighted(0.0, [(p, 1.0), (state, -1.0)])]
            for p, state in _errors(builder, l1, states, [])
        ]
    else:
        paths, into = gated_parts(network, l1.n_clusters), edges_by_term(network)

        def error(target: int, mode: int) -> Term:
            unit, state = paths.unit[target, mode], states[l1.targets[target]]
            if unit < 0:
                return weighted(paths.constant[target, mode], [(state, -1.0)])
            own = [(states[source], weight) for source, weight in into[2 * unit]]
            return weighted(network.bias[unit, 0], [*own, (state, -1.0)])

        terms = [[error(t, mode) for mode in range(l1.n_clusters)] for t in range(len(l1.targets))]
    return [
        _mean_square(builder, [terms[i][mode] for i in inputs]) for mode in range(l1.n_clusters)
    ]


def _mean_square(builder: Builder, terms: Sequence[Term]) -> Signal:
    squares = [builder.node(Transfer.SQUARE, term) for term in terms]
    return builder.linear([(square, 1.0 / len(squares)) for square in squares], bias=TINY)


def _score(builder: Builder, model: Model, errors: Sequence[tuple[Signal, Signal]]) -> Signal:
    """Return the mean squared error over the inputs, or the share of conflicted nodes (paper)."""
    assert model.l1 is not None
    terms = [weighted(0.0, [(p, 1.0), (state, -1.0)]) for p, state in errors]
    if isinstance(model, Expert) and model.settings.score == "squared":
        nodes = model.l1.nodes
        own = [t for t, node in zip(terms, nodes, strict=True) if node < model.network.n_inputs]
        return _mean_square(builder, own)
    assert model.error_stats is not None
    stats = model.error_stats
    limits = stats.mean + model.settings.T_conf * stats.deviation
    found = [
        builder.node(Transfer.EXCEEDS, term, constant=limit)
        for term, limit in zip(terms, limits, strict=True)
    ]
    return builder.linear([(part, 1.0 / len(found)) for part in found])
