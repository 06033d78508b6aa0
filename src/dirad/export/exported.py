"""A fitted estimator as the exports see it: programs, and the names of what goes in and out."""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dirad.core.network import Network
from dirad.estimators import DIRADClassifier, DIRADRegressor, PREVALClassifier
from dirad.export.program import Builder, Node, Program, Term, Transfer, check_finite, pruned
from dirad.export.system import Model, answerers, finished_models, model_program

Estimator: TypeAlias = Any  # a fitted DIRADClassifier, DIRADRegressor or PREVALClassifier


class Member(NamedTuple):
    """One model: the only one of a DIRAD estimator, one of several of a PREVAL system."""

    number: int
    program: Program
    columns: tuple[int, ...]  # of the answer, for each output of the program; all, if it is alone
    answered_by: int  # place of the member that answers what this one knows best


class Exported(NamedTuple):
    """What leaves Python."""

    title: str  # the estimator, and its size
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    classes: tuple[Any, ...] | None  # None: a regressor
    members: tuple[Member, ...]
    single: bool  # is an answer one number? (regressors)

    @property
    def routed(self) -> bool:
        """Is there a choice of who answers?"""
        return len(self.members) > 1


def exported(model: Estimator) -> Exported:
    """Return the programs and names of a fitted estimator."""
    if isinstance(model, PREVALClassifier):
        check_is_fitted(model)
        result = _of_system(model)
    elif isinstance(model, (DIRADClassifier, DIRADRegressor)):
        check_is_fitted(model)
        result = _of_network(model)
    else:
        raise TypeError(
            "model must be a DIRADClassifier, a DIRADRegressor or a PREVALClassifier, got "
            f"{type(model).__name__}"
        )
    for member in result.members:
        check_finite(member.program)
    return result


def input_names(model: Estimator) -> tuple[str, ...]:
    """Return the names of the features, or x0, x1, …"""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return tuple(f"x{i}" for i in range(model.n_features_in_))
    return tuple(str(name) for name in names)


def output_names(model: Estimator) -> tuple[str, ...]:
    """Return the names of the classes, or y (y0, y1, … where there are several)."""
    if not isinstance(model, DIRADRegressor):
        return tuple(str(label) for label in model.classes_.tolist())
    n = model.network_.n_outputs
    return ("y",) if n == 1 else tuple(f"y{i}" for i in range(n))


def network_of(model: Estimator, number: int | None = None) -> Network:
    """Return the network of an estimator; of a PREVAL system the L0 of a model, by its number."""
    check_is_fitted(model)
    if not isinstance(model, PREVALClassifier):
        if number is not None:
            raise ValueError(f"{type(model).__name__} has one network: give no number")
        return model.network_
    return system_model(model, number).network


def system_model(model: PREVALClassifier, number: int | None) -> Model:
    """Return a model of a system by its number; none is needed where it has only one."""
    models = finished_models(model)
    numbers = [one.number for one in models]
    if number is None and len(models) == 1:
        return models[0]
    if number not in numbers:
        raise ValueError(f"say which model of the system: one of {numbers}, got {number}")
    return models[numbers.index(number)]


def _of_system(model: PREVALClassifier) -> Exported:
    models = finished_models(model)
    view = model._state
    columns = {code: column for column, code in enumerate(view.codes(view.classes).tolist())}
    members = tuple(
        Member(one.number, model_program(one), tuple(columns[c] for c in one.classes), answerer)
        for one, answerer in zip(models, answerers(model, models), strict=True)
    )
    if len(members) == 1:
        members = (_alone(members[0], len(columns)),)
    edges = sum(one.network.n_edges for one in models)
    return Exported(
        f"PREVALClassifier: models: {len(models)}, edges of their L0: {edges}",
        input_names(model),
        output_names(model),
        tuple(model.classes_.tolist()),
        members,
        False,
    )


def _alone(member: Member, n_classes: int) -> Member:
    """Return the only model of a system: nothing to choose by, an answer for every class."""
    program = pruned(member.program._replace(score=None))
    never = program.n_values  # the probability of a class that the model does not know
    places = dict(zip(member.columns, program.outputs, strict=True))
    program = program._replace(
        steps=(*program.steps, Node(Transfer.LINEAR, Term(0.0))),
        outputs=tuple(places.get(column, never) for column in range(n_classes)),
    )
    return member._replace(program=pruned(program), columns=tuple(range(n_classes)))


def _of_network(model: Estimator) -> Exported:
    regressor = isinstance(model, DIRADRegressor)
    program = _regression(model) if regressor else _classification(model)
    network = model.network_
    member = Member(0, program, tuple(range(len(program.outputs))), 0)
    return Exported(
        f"{type(model).__name__}: hidden nodes: {network.n_hidden}, edges: {network.n_edges}",
        input_names(model),
        output_names(model),
        None if regressor else tuple(model.classes_.tolist()),
        (member,),
        regressor and model._single_column,
    )


def _regression(model: Estimator) -> Program:
    builder = Builder(model.network_.n_inputs)
    outputs = builder.attach(model.network_, builder.inputs).outputs
    scale, offset = np.ravel(model.target_scale_), np.ravel(model.target_offset_)
    return builder.program(
        [s.times(k)._replace(offset=c) for s, k, c in zip(outputs, scale, offset, strict=True)]
    )


def _classification(model: Estimator) -> Program:
    builder = Builder(model.network_.n_inputs)
    outputs = builder.attach(model.network_, builder.inputs).outputs
    if len(outputs) == 1:
        other = builder.linear([(outputs[0], -1.0)], bias=1.0)
        return builder.program([other, outputs[0]])
    if model.preset == "paper":
        outputs = builder.mixture(Transfer.SHARE, outputs)
    return builder.program(outputs)
