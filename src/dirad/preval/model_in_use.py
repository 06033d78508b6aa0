"""The model in use: its refinement follows slow changes, and good corrections become versions.

Functions of a system, each a step of the flow of a batch; `refinement` has the arithmetic.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dirad.preval import events, refinement
from dirad.preval.duplicates import rival_of
from dirad.preval.expert import Expert
from dirad.preval.judgement import Judgement, answering
from dirad.preval.learner import Learner
from dirad.preval.refinement import Answered
from dirad.preval.targets import class_codes

if TYPE_CHECKING:
    from dirad.preval.flow import Batch
    from dirad.preval.system import System

BATCHES_PER_RIVAL = 5  # of which one is also shown to the other models

Outputs = dict[Expert, NDArray[np.float64]]  # by the model that computed them


def version(system: "System", number: int) -> int:
    """Return the version of a model that answers; 0: the model as it was learned."""
    model, known = system.in_use()[0], system.refinement
    if known is None or model is None or number != known.model or number != model.number:
        return 0
    return known.best_version(model)


def return_to(system: "System", number: int, version: int, batch: "Batch") -> None:
    """Let an earlier version of a model answer, which knows a batch better than the last."""
    model = answering(system.model(number))
    fresh = refinement.from_version(model, system.n_inputs, version)
    answered = Answered(batch.X, batch.y, model.evaluate(batch.X).outputs)
    system.refinement = refinement.compared(fresh, model, answered)
    system.journal.record("returned", number, {"reason": f"to version {version}"})


def keep_version(system: "System", model: Expert) -> None:
    """Keep the slow correction of a finished model as a version, if it was better for long."""
    known = system.refinement
    if known is None or model not in system.models or not system.settings.max_versions:
        return
    if not refinement.is_worth_keeping(known):
        return
    system.refinement, kept = refinement.with_version(known, model)
    system.models[system.models.index(model)] = kept
    reason = f"version {kept.versions[-1].number}"
    system.journal.record("refined", model.number, {"reason": reason})


def compare_refinement(system: "System", batch: "Batch", outputs: Outputs) -> None:
    """Compare the refinement with its model on a batch that neither has seen."""
    model, _ = system.in_use()
    if system.refinement is None or model is None or model not in outputs:
        system.refinement = None
    else:
        answered = Answered(batch.X, batch.y, outputs[model][-len(batch.X) :])
        system.refinement = refinement.compared(system.refinement, model, answered)


def join_rival(system: "System", batch: "Batch", judgements: list[Judgement]) -> None:
    """Put the model in use into the group of one that claims its samples wrongly.

    Of a group, the model that was last used answers. Without this, the model that knows a
    stream, and is refined by it, would be asked about none of its samples.
    """
    one = next(one for one in judgements if one.model.number == system.latest)
    model = one.model
    others = [m for m in system.calibrated if m.group != model.group]
    if not others or system.refinement is None or system.journal.batches % BATCHES_PER_RIVAL:
        return
    own = one.scores.of(slice(-len(batch.X), None))
    own = system.refinement.scores(answering(model), batch.X, own)
    rival = rival_of(batch.X, class_codes(batch.y), own, others)
    if rival is None:
        return
    if isinstance(model, Learner):
        model.group = rival.group
    else:
        system.models[system.models.index(model)] = replace(model, group=rival.group)


def refine(system: "System", batch: "Batch", outputs: Outputs) -> None:
    """Fit the refinement again, with a batch that the model in use knows."""
    model, fit = system.in_use()
    report = system.journal.reports[-1]
    if model is None or report.model != model.number:
        system.refinement = None
    elif report.kind in (events.KNOWN, events.NEW, events.LEARNING):
        own = outputs.get(model)
        own = model.evaluate(batch.X).outputs if own is None else own[-len(batch.X) :]
        answered = Answered(batch.X, batch.y, own)
        before = system.journal.batches - 1
        system.refinement = refinement.refined(system.refinement, model, answered, fit, before)
        keep_version(system, model)
