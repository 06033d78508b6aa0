"""A fitted estimator as the exports need it: programs, and the names of inputs and outputs."""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dirad.core.describe import MAX_EDGES_FOR_EQUATIONS, equations, notation
from dirad.core.network import Network
from dirad.encoding import OTHER, UNKNOWN
from dirad.estimators import DIRADClassifier, DIRADRegressor, PREVALClassifier
from dirad.estimators.columns import column_names, encoding_of, network_input_names
from dirad.estimators.reading import conditions_of
from dirad.export.novelty import FALSE_ALARMS, NoveltyScale, Promise, novelty_scale
from dirad.export.system import Model, answerers, finished_models
from dirad.inference import Attached, Builder, joined, silent, weighted
from dirad.names import quoted
from dirad.preval.expert import Expert
from dirad.preval.program import BY_CLUSTER, CLUSTER_ERRORS, expert_program
from dirad.program import ERROR, OUTPUTS, OWN, SCORE, Block, Program, Transfer, renumbered

NOT_LISTED = f"A category that is not listed is {OTHER}, or {UNKNOWN:g} where there is none such."

Estimator: TypeAlias = Any  # a fitted DIRADClassifier, DIRADRegressor or PREVALClassifier


class Member(NamedTuple):
    """One model: the only one of a DIRAD estimator, one of several of a PREVAL system."""

    number: int
    program: Program
    columns: tuple[int, ...]  # of the answer, one for each output of the program
    answered_by: int  # index of the member that answers where this one's score is the least
    scale: NoveltyScale | None = None  # of novelty; None: single networks, the paper's models


class Exported(NamedTuple):
    """A model ready for export."""

    title: str  # the estimator, and its size
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    classes: tuple[Any, ...] | None  # None for a regressor
    members: tuple[Member, ...]
    single: bool  # whether an answer is one number (regressors)
    codes: tuple[tuple[str, tuple[str, ...]], ...] = ()  # inputs that are categories, and these
    gaps: tuple[str, ...] = ()  # inputs that may be missing
    equations: tuple[str, ...] = ()  # of a single small network, to be read
    promise: Promise | None = None  # of a PREVAL system; the paper's: None
    largest_share: float | None = None  # the paper's systems: T_SV, from which a sample is new

    @property
    def remarks(self) -> tuple[str, ...]:
        """How categories are given, for the comments of an exported file."""
        found = [
            f"{name} is a category, given by its number: "
            + ", ".join(f"{code} {label}" for code, label in enumerate(labels))
            for name, labels in self.codes
        ]
        return (*found, NOT_LISTED) if found else ()

    @property
    def routed(self) -> bool:
        """Whether one of several models is chosen to answer."""
        return len(self.members) > 1

    @property
    def scored(self) -> bool:
        """Whether it tells how unusual a sample is, as PREVAL systems do."""
        return SCORE in self.members[0].program.results

    @property
    def scales(self) -> list[NoveltyScale]:
        """The scales of novelty, one per model of a PREVAL system; the paper's: none."""
        return [member.scale for member in self.members if member.scale is not None]


def exported(model: Estimator, false_alarms: float = FALSE_ALARMS) -> Exported:
    """Return the programs and names of a fitted estimator.

    `false_alarms` is the share of known samples that a PREVAL system calls unknown.
    """
    if isinstance(model, PREVALClassifier):
        check_is_fitted(model)
        if not 0 < false_alarms < 1:
            raise ValueError(f"false_alarms must be between 0 and 1, got {false_alarms!r}")
        result = _of_system(model, false_alarms)
    elif isinstance(model, (DIRADClassifier, DIRADRegressor)):
        check_is_fitted(model)
        result = _of_network(model)
    else:
        raise _wrong_type(model)
    for member in result.members:
        _check_finite(member.program)
    return result


def output_names(model: Estimator) -> tuple[str, ...]:
    """Return the names of the classes, or y (y0, y1, … where there are several)."""
    if not isinstance(model, DIRADRegressor):
        return tuple(str(label) for label in model.classes_.tolist())
    n = model.network_.n_outputs
    return ("y",) if n == 1 else tuple(f"y{i}" for i in range(n))


def network_of(model: Estimator, number: int | None = None) -> Network:
    """Return the network of an estimator; for a PREVAL system, the L0 of one model."""
    check_is_fitted(model)
    if not isinstance(model, PREVALClassifier):
        if number is not None:
            raise ValueError(f"{type(model).__name__} has one network: give no number")
        if not isinstance(model, (DIRADClassifier, DIRADRegressor)):
            raise _wrong_type(model)
        return model.network_
    return system_model(model, number).network


def _wrong_type(model: object) -> TypeError:
    return TypeError(
        "model must be a DIRADClassifier, a DIRADRegressor or a PREVALClassifier, got "
        f"{type(model).__name__}"
    )


def system_model(model: PREVALClassifier, number: int | None) -> Model:
    """Return the model of a system with a number; a single model needs none."""
    models = finished_models(model)
    numbers = [one.number for one in models]
    if number is None and len(models) == 1:
        return models[0]
    if number not in numbers:
        raise ValueError(f"say which model of the system: one of {numbers}, got {number}")
    return models[numbers.index(number)]


def _of_system(model: PREVALClassifier, false_alarms: float) -> Exported:
    models = finished_models(model)
    view = model._state
    columns = {code: column for column, code in enumerate(view.codes(view.classes).tolist())}
    members = tuple(
        Member(
            one.number,
            of_columns(model, scored_program(one)),
            tuple(columns[c] for c in one.classes),
            answerer,
            _scale(one, false_alarms),
        )
        for one, answerer in zip(models, answerers(model, models), strict=True)
    )
    if len(members) == 1:
        members = (_alone(members[0], len(columns)),)
    edges = sum(one.network.n_edges for one in models)
    settings, batches = view.system.settings, view.system.journal.batches
    per_stream = settings.false_alarms_per == "stream"
    paper = members[0].scale is None
    return Exported(
        f"PREVALClassifier: models: {len(models)}, edges of their L0: {edges}",
        column_names(model),
        output_names(model),
        tuple(model.classes_.tolist()),
        members,
        False,
        category_names(model),
        _gaps(model),
        promise=None
        if paper
        else Promise(false_alarms, settings.false_alarms, per_stream, batches),
        largest_share=settings.T_SV if paper else None,
    )


def of_columns(model: Estimator, program: Program) -> Program:
    """Return a program that takes the columns of X, given one that takes the inputs of a system."""
    encoding = encoding_of(model)
    if encoding is None or encoding.is_identity:
        return program
    builder = Builder(encoding.n_columns)
    before = builder.whole({OUTPUTS: encoding.attach(builder)})
    computed = before.n_values + np.arange(program.n_values - program.n_inputs)
    place = np.concatenate([before.results[OUTPUTS], computed])
    steps = (*before.steps, *(renumbered(step, place) for step in program.steps))
    results = {name: place[numbers] for name, numbers in program.results.items()}
    return Program(encoding.n_columns, steps, results).only(list(results))


def scored_program(model: Model) -> Program:
    """Return the program of answers, score and prediction error of a model of a system."""
    program = expert_program(model.parts, errors_too=True)
    results = program.results
    by_error = isinstance(model, Expert) and model.settings.score != BY_CLUSTER
    wanted = {OUTPUTS: results[OUTPUTS], SCORE: results[SCORE], OWN: results[OUTPUTS]}
    wanted[ERROR] = results[CLUSTER_ERRORS if by_error else SCORE][:1]
    return Program(program.n_inputs, program.steps, wanted).only(list(wanted))


def _scale(model: Model, false_alarms: float) -> NoveltyScale | None:
    if not isinstance(model, Expert):
        return None
    by_class = model.evaluator.by_class
    n_outputs = len(model.classes)
    return novelty_scale(model.calibration, n_outputs, false_alarms, by_class=by_class)


def _alone(member: Member, n_classes: int) -> Member:
    """Return the only model of a system, with an answer for every class."""
    program = member.program
    zero = Block(Transfer.LINEAR, silent(1).sums, None, np.zeros(1))
    outputs = np.full(n_classes, program.n_values)  # unknown classes have probability 0
    outputs[list(member.columns)] = program.outputs
    results = program.results | {OUTPUTS: outputs}
    program = Program(program.n_inputs, (*program.steps, zero), results)
    return member._replace(program=program.only(list(results)), columns=tuple(range(n_classes)))


def _check_finite(program: Program) -> None:
    """Refuse a program with a number that is not finite."""
    for value, step in program.numbered:
        for sums in step.sums if isinstance(step, Block) else ():
            finite = np.isfinite(sums.bias) & np.isfinite(step.constant)
            finite[sums.row[~np.isfinite(sums.weight)]] = False
            if not finite.all():
                raise ValueError(
                    "the network has a number that is not finite "
                    f"(value {value + int(finite.argmin())}, {step.transfer}), which cannot be "
                    "exported"
                )


def _of_network(model: Estimator) -> Exported:
    regressor = isinstance(model, DIRADRegressor)
    program = _regression(model) if regressor else _classification(model)
    network = model.network_
    member = Member(0, program, tuple(range(len(program.outputs))), 0)
    return Exported(
        f"{type(model).__name__}: hidden nodes: {network.n_hidden}, edges: {network.n_edges}",
        column_names(model),
        output_names(model),
        None if regressor else tuple(model.classes_.tolist()),
        (member,),
        regressor and model._single_column,
        category_names(model),
        _gaps(model),
        _equations(model),
    )


def _gaps(model: Estimator) -> tuple[str, ...]:
    """Return the names of the inputs that may be missing: those that were in `fit`."""
    names, encoding = column_names(model), encoding_of(model)
    found = () if encoding is None else np.flatnonzero(encoding.indicated).tolist()
    return tuple(names[column] for column in found)


def category_names(model: Estimator) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the names of inputs that are categories, and the names of these."""
    names, encoding = column_names(model), encoding_of(model)
    found = {} if encoding is None else encoding.categories
    return tuple((names[column], own.names) for column, own in sorted(found.items()))


def _attached(model: Estimator) -> tuple[Builder, Attached]:
    """Return the beginning of a program: the encoding of the columns, and the network."""
    network, encoding = model.network_, encoding_of(model)
    builder = Builder(model.n_features_in_)
    inputs = builder.inputs if encoding is None else encoding.attach(builder)
    return builder, builder.attach(network, inputs)


def _equations(model: Estimator) -> tuple[str, ...]:
    """Return the equations of a small network, and what their notation means."""
    network, spread = model.network_, model.input_spread_
    if network.n_edges > MAX_EDGES_FOR_EQUATIONS:
        return ()
    conditions = conditions_of(model)
    lines = equations(network, quoted(network_input_names(model)), spread, conditions)
    return (*lines, *notation(network, spread, conditions))


def _regression(model: Estimator) -> Program:
    builder, attached = _attached(model)
    outputs = attached.outputs
    outputs = outputs.times(np.ravel(model.target_scale_))
    return builder.program({OUTPUTS: outputs._replace(offset=np.ravel(model.target_offset_))})


def _classification(model: Estimator) -> Program:
    builder, attached = _attached(model)
    outputs = attached.outputs
    if len(outputs.value) == 1:
        rest = weighted(np.ones(1), np.zeros(1, np.int64), outputs, -np.ones(1))
        outputs = joined(builder.linear(rest), outputs)
    elif model.preset == "paper":
        outputs = builder.pooling(Transfer.SHARE, outputs)
    return builder.program({OUTPUTS: outputs})
