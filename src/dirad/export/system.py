"""The finished models of a PREVAL system, and which of them answers."""

from collections.abc import Sequence

from dirad.estimators import PREVALClassifier
from dirad.preval.expert import PHASE_STABLE, Expert
from dirad.preval.paper_model import PaperExpert

Model = Expert | PaperExpert


def finished_models(classifier: PREVALClassifier) -> list[Model]:
    """Return the models of a system in which nothing adapts any more, oldest first."""
    models = classifier.models_
    if not models:
        raise ValueError("the system has no model yet: give it samples, then call finish()")
    for model in models:
        if model.phase != PHASE_STABLE:
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
    if getattr(classifier._state.system, "discriminants", None) is not None:
        raise ValueError(
            "the models share a covariance that takes part in their answers, and it cannot be "
            "exported: learn with pooled=False"
        )
    if getattr(classifier._state.system, "refinement", None) is not None:
        raise ValueError(
            "answers of the model in use are refined by recent samples, and this refinement cannot "
            "be exported: call finish() first"
        )
    return models


def answerers(classifier: PREVALClassifier, models: Sequence[Model]) -> list[int]:
    """Return, for each model, the index of the one that answers: the last used of its group."""
    groups = [model.group if isinstance(model, Expert) else model.number for model in models]
    used = getattr(classifier._state.system, "last_used", {})

    def last_of(group: int) -> int:
        kin = [i for i in range(len(models)) if groups[i] == group]
        return max(kin, key=lambda i: used.get(models[i].number, -1))

    return [last_of(group) for group in groups]
