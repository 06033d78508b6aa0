"""How a batch flows: the models judge it, `decide` says whose it is, and the decision is applied.

Functions of a system, which holds the models. A batch that is undecided is taken when the next one
has come; where samples depend on those before, several batches are tested together.
"""

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.preval import decide, events, model_in_use
from dirad.preval.cause import explained_change, numbers_of
from dirad.preval.dependence import MAX_BATCHES
from dirad.preval.events import Report
from dirad.preval.judgement import Judgement, answering, judge_all
from dirad.preval.switch import Switched, decide_numbers
from dirad.preval.targets import NUMBERS

if TYPE_CHECKING:
    from dirad.preval.system import System

BATCHES_PER_LONG_TEST = 4  # of which one is tested with all recent ones

Batches = list[tuple[NDArray, NDArray[np.int64]]]  # inputs and targets of each


class Batch(NamedTuple):
    """Samples that are decided on together."""

    X: NDArray[np.float64]
    y: NDArray[np.int64]
    first: int  # number of its first sample in the stream
    weight: NDArray[np.float64] | None = None  # of each sample for what is learned; None: all 1


def learn_batch(system: "System", batch: Batch) -> Report:
    """Score a batch, decide whose it is, and apply the decision."""
    before = system.latest
    judgements, decision = judge_and_decide(system, batch)
    outputs = {answering(one.model): one.outputs for one in judgements}
    model_in_use.compare_refinement(system, batch, outputs)
    if isinstance(decision, decide.Known) and decision.model == before:
        model_in_use.join_rival(system, batch, judgements)
    if settle(system, decision):
        judgements, decision = judge_and_decide(system, batch)
    report = apply(system, decision, judgements, batch)
    system.journal.add(report)
    if isinstance(decision, decide.Known):
        system.merge_duplicates(judgements)
    keep_recent(system, batch, before)
    system.count_samples_and_classes(batch.y)
    system.complete_and_evict()
    model_in_use.refine(system, batch, outputs)
    return report


# ------------------------------------------------------------------ judging


def judge_and_decide(
    system: "System", batch: Batch, *, may_wait: bool = True
) -> tuple[list[Judgement], decide.Decision | Switched]:
    """Let the models judge a batch, with recent ones where these are needed; decide on it."""
    recent = recent_batches(system, len(batch.X))
    rate, windows = rates(system, len(recent) + 1)
    found = decide_with(system, recent, batch, rate, may_wait=may_wait)
    for n, rate in windows:
        if not isinstance(found[1], decide.Known) or found[1].model != system.latest:
            break
        before = batches_before(system)[-(n - 1) :]
        again = decide_with(system, before, batch, rate, may_wait=False, is_long=True)
        found = found if isinstance(again[1], decide.Known) else again
    return found


def rates(system: "System", tested: int) -> tuple[float, list[tuple[int, float]]]:
    """Return the rate of false alarms of the test of the next batch, and windows with theirs.

    A window is a number of batches that are tested together, more than the `tested` ones of that
    test: where samples depend on those before, a change that lasts may show only in many batches. A
    model in training learns its samples, so that only a finished one is tested so. The longest
    window is tested with one batch in a few. The rates add up to those promised.
    """
    rate, model = system.false_alarms, system.in_use()[0]
    learns = any(one.number == system.latest for one in system.learners)
    if model is None or learns or model.calibration.memory.independent:
        return rate, []
    between = math.isqrt(tested * MAX_BATCHES)
    there = len(batches_before(system)) + 1
    windows = [(between, rate / 4.0)] if between <= there else []
    if between < there and system.journal.batches % BATCHES_PER_LONG_TEST == 0:
        windows.append((MAX_BATCHES, rate / 4.0 * BATCHES_PER_LONG_TEST))
    return rate / 2.0, windows


def decide_with(
    system: "System",
    recent: Batches,
    batch: Batch,
    rate: float,
    *,
    may_wait: bool,
    is_long: bool = False,
) -> tuple[list[Judgement], decide.Decision | Switched]:
    """Let the models judge a batch together with some before it, and decide on it."""
    X = np.concatenate([*(X for X, _ in recent), batch.X])
    y = np.concatenate([*(y for _, y in recent), batch.y])
    judgements = judge_all(
        system.models_for_batch(batch.X), X, y, system.latest, rate,
        refinement=None if recent else system.refinement,  # it has learned recent batches
        n_learned=len(X) - len(batch.X),
        undecided=None if system.undecided is None else system.undecided[:2],
        may_doubt=may_wait, is_long=is_long,
    )  # fmt: skip
    may_wait = may_wait and system.undecided is None
    numbers = system.settings.targets == NUMBERS
    decide_batch = decide_numbers if numbers else decide.decide
    return judgements, decide_batch(
        judgements, batch.y, system.settings, system.latest, false_alarms=rate, may_wait=may_wait
    )


def settle(system: "System", decision: decide.Decision | Switched | None) -> bool:
    """Take the batch that was undecided, given the decision on the next; is something new?

    A burst is over by then, and belongs to the known task; what is new goes on.
    """
    batch, system.undecided = system.undecided, None
    if batch is None:
        return False
    judgements, earlier = judge_and_decide(system, batch, may_wait=False)
    new = decision is None or isinstance(decision, decide.SomeNew)
    if not new and system.latest is not None:
        earlier = decide.Known(system.latest, events.NO_P_VALUE)
    elif isinstance(decision, decide.SomeNew) and isinstance(earlier, decide.Known):
        one = next(one for one in judgements if one.model.number == earlier.model)
        earlier = decide.new_tail(one, batch.y, decision.p, system.false_alarms) or earlier
    before = system.latest
    apply(system, earlier, judgements, batch)
    keep_recent(system, batch, before)
    return new


def batches_before(system: "System") -> Batches:
    """Return the last batches of the model in use, with the one that is undecided."""
    return system.recent if system.undecided is None else [*system.recent, system.undecided[:2]]


def recent_batches(system: "System", batch_size: int) -> Batches:
    """Return the last batches of the model in use that are tested with the next one."""
    in_use = next((m for m in system.calibrated if m.number == system.latest), None)
    n = 0
    if in_use is not None:
        n = in_use.calibration.memory.batches_to_test(batch_size) - 1
    known = batches_before(system)
    return known[len(known) - n :] if n else []


def keep_recent(system: "System", batch: Batch, before: int | None) -> None:
    """Keep a batch that tests of later ones may need: many if they are dependent.

    `before` was the model in use. A batch that is undecided is kept when it is settled.
    """
    if system.latest != before:
        system.recent = []
    elif system.undecided is None:
        model, _ = system.in_use()
        dependent = model is not None and not model.calibration.memory.independent
        system.recent = [*system.recent, batch[:2]][-(MAX_BATCHES - 1 if dependent else 1) :]


# ------------------------------------------------------------------ applying


def apply(
    system: "System",
    decision: decide.Decision | Switched,
    judgements: list[Judgement],
    batch: Batch,
) -> Report:
    """Give a batch to its models; return what is to be reported."""
    verdicts = [one.verdict for one in judgements]
    everything, now = np.arange(len(batch.X)), system.journal.batches
    match decision:
        case decide.NoneCalibrated():
            model = system.adapting or system.open_model()
            system.give(model.number, batch, everything)
            return Report(now, events.LEARNING, model.number)
        case decide.Known(number, p):
            version = next((one.version for one in judgements if one.model.number == number), None)
            changed = number != system.latest or version is not None
            system.mark_used(number, verdicts)
            if version is not None:
                model_in_use.return_to(system, number, version, batch)
            system.give(number, batch, everything)
            cause = events.BACK if changed else ""
            return Report(
                now, events.KNOWN, number, p, cause, version=model_in_use.version(system, number)
            )
        case decide.Undecided(number, p):
            system.undecided = batch
            return Report(now, events.UNDECIDED, number, p)
        case decide.Mixed(models, p):
            system.mark_used(decision.largest, verdicts)
            share_out(system, models, everything, batch)
            known = numbers_of(models)
            return Report(now, events.MIXED, decision.largest, p, models=known)
        case Switched(before, after, at, p):
            system.mark_used(after, verdicts)
            system.give(before, batch, everything[:at])
            system.give(after, batch, everything[at:])
            system.last_used[before] = now - 1  # it did not take the last sample
            return Report(now, events.MIXED, after, p, models=(before, after))
        case decide.SomeNew():
            return apply_new(system, decision, judgements, batch)


def apply_new(
    system: "System", decision: decide.SomeNew, judgements: list[Judgement], batch: Batch
) -> Report:
    """Give the novel samples of a batch to a new model, or to one that is not calibrated."""
    models, novel, p = decision
    verdicts = [one.verdict for one in judgements]
    # A model of the same inputs that was not asked to split the batch knows that it is new as well.
    judges = [one.model for one in judgements]
    young = next((m for m in system.learners if m not in judges), None)
    why = explained_change(judgements, batch.X, batch.y, models, novel, system.latest)
    evidence = events.closest_verdicts(verdicts) | why.as_evidence()
    number = (young or system.open_model(evidence)).number
    system.mark_used(number, verdicts)
    share_out(system, models, np.flatnonzero(~novel), batch)
    system.give(number, batch, np.flatnonzero(novel))
    kind = events.NEW if novel.all() else events.MIXED
    known = numbers_of(models[~novel])
    now = system.journal.batches
    return Report(now, kind, number, p, why.kind, tuple(why.inputs), known)


def share_out(
    system: "System", models: NDArray[np.int64], chosen: NDArray[np.int64], batch: Batch
) -> None:
    """Give each of the chosen samples to its model."""
    for number in np.unique(models).tolist():
        if any(model.number == number for model in system.models):
            system.give(number, batch, chosen[models[chosen] == number])
