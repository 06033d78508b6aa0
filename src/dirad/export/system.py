"""The finished models of a PREVAL system, and what of them an export needs."""

from collections.abc import Sequence

import numpy as np

from dirad.estimators import PREVALClassifier
from dirad.preval.buffer_model import BufferModel
from dirad.preval.model import STABLE, Model
from dirad.preval.prediction import Prediction, alone
from dirad.preval.program import BY_CONFLICTS, ExpertParts, GatedPaths, PredictorParts
from dirad.preval.stream_model import StreamModel


def finished_models(classifier: PREVALClassifier) -> list[Model]:
    """Return the models of a system in which nothing adapts any more, oldest first."""
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
    """Return, for each model, the index of the one that answers: the last used of its group."""
    groups = [model.group if isinstance(model, BufferModel) else model.number for model in models]
    used = getattr(classifier._state.system, "used", {})

    def last_of(group: int) -> int:
        kin = [i for i in range(len(models)) if groups[i] == group]
        return max(kin, key=lambda i: used.get(models[i].number, -1))

    return [last_of(group) for group in groups]


def expert_parts(model: Model) -> ExpertParts:
    """Return everything that the answers and the score of a finished model depend on."""
    l1, known = model.l1, model.known
    assert l1 is not None
    assert known is not None
    limits = known.mean + model.settings.T_conf * known.deviation
    if isinstance(model, StreamModel):
        return ExpertParts(
            l0=model.network,
            first_output=0,
            l1=_predictor_parts(l1),
            score=BY_CONFLICTS,
            limits=limits,
            temperature=model.temperature,
        )
    assert isinstance(model, BufferModel)
    columns = None
    if l1.gates is not None and l1.gates.know(model.classes):
        places = {code: column for column, code in enumerate(model.classes)}
        columns = np.array([places.get(group, -1) for group in l1.gates.group.tolist()])
    return ExpertParts(
        l0=model.network,
        first_output=model.first_output,
        l1=_predictor_parts(l1),
        score=model.settings.score,
        offset=model.offset,
        spread=model.spread,
        limits=limits,
        weights=model.trust,
        exponent=model.exponent,
        mode_columns=columns,
    )


def _predictor_parts(l1: Prediction) -> PredictorParts:
    paths = None
    if l1.gates is not None and l1.network is not None:
        paths = GatedPaths(*alone(l1.network, l1.n_modes))
    return PredictorParts(
        l0=l1.l0,
        nodes=l1.nodes,
        low=l1.low,
        span=l1.span,
        targets=l1.targets if l1.network is not None else l1.targets[:0],
        network=l1.network,
        gates=None if l1.gates is None else l1.gates.network,
        paths=paths,
        earlier=tuple(_predictor_parts(one) for one in l1.earlier),
    )
