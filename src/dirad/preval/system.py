"""Our PREVAL: models of many tasks in one stream, without task labels.

A batch is scored by the calibrated models, `decide` says whose it is, and the decision is applied:
learners take samples and training steps, and become experts.
"""

from copy import copy, deepcopy
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dirad.core.random import bits
from dirad.preval import answers, decide, events, refinement
from dirad.preval.answers import Answers, Evaluated
from dirad.preval.cause import explained, explained_change, numbers_of
from dirad.preval.dependence import MAX_BATCHES
from dirad.preval.duplicates import (
    Agreement,
    is_duplicate,
    is_same_inputs_other_labels,
    rival_of,
)
from dirad.preval.events import Explanation, Journal, Report, Verdict
from dirad.preval.expert import Expert, find_model, with_bases
from dirad.preval.input_units import CommonInputUnits
from dirad.preval.joint_evaluation import JointEvaluation
from dirad.preval.judgement import Judgement, Model, answering, judge, judge_all
from dirad.preval.learner import Learner, new_learner
from dirad.preval.pooled import (
    MOST_TESTED,
    Discriminants,
    linear_discriminants,
    new_pooled,
    test_on_held_out,
)
from dirad.preval.preselection import (
    EXPERTS_PER_BATCH,
    EXPERTS_PER_SAMPLE,
    MIN_EXPERTS,
    Preselection,
)
from dirad.preval.refinement import Answered, Refinement
from dirad.preval.settings import Settings
from dirad.preval.switch import Switched, decide_numbers
from dirad.preval.targets import NUMBERS, class_codes, is_labelled

MODEL_KEY = 100  # purpose of the random key of a model
BATCHES_PER_LONG_TEST = 4  # of which one is tested with all recent ones
BATCHES_PER_RIVAL = 5  # of which one is also shown to the other models
MAX_IDLE_UNCALIBRATED = 20  # after which a learner of a few stray samples is removed


Outputs = dict[Expert, NDArray[np.float64]]  # by the model that computed them


class Batch(NamedTuple):
    """Samples that are decided on together."""

    X: NDArray[np.float64]
    y: NDArray[np.int64]
    first: int  # number of its first sample in the stream
    weight: NDArray[np.float64] | None = None  # of each sample for what is learned; None: all 1


class System:
    """The models, and the flow of batches and samples among them."""

    _preselected: Preselection | None = None  # computed when it is needed
    _joint: JointEvaluation | None = None  # also
    _discriminants: Discriminants | None = None  # also

    def __init__(
        self, n_inputs: int, n_classes: int, settings: Settings, *, seed: int = 0, threads: int = 1
    ) -> None:
        self.n_inputs = n_inputs
        self.n_classes = n_classes  # seen so far
        self.settings = settings
        self.seed = seed
        self.threads = threads
        self.models: list[Model] = []  # oldest first
        self.journal = Journal()
        self.opened = 0  # models, removed ones included
        self.latest: int | None = None  # the model that took the last batch
        self.units = CommonInputUnits()
        self.agreement = Agreement()
        self.undecided: Batch | None = None  # what follows tells whether it is new
        # Batches of the model in use: where samples depend on those before, several are tested.
        self.recent: list[tuple[NDArray, NDArray[np.int64]]] = []
        self.refinement: Refinement | None = None  # of the model in use
        # What all models know of how classes vary; None: given up, or not wanted.
        self.pooled = new_pooled(n_inputs, settings)
        self.last_used: dict[int, int] = {}  # by model: the last batch of which it took samples

    # ---------------------------------------------------------------- models

    @property
    def learners(self) -> list[Learner]:
        """The models that are still trained."""
        return [model for model in self.models if isinstance(model, Learner)]

    @property
    def experts(self) -> list[Expert]:
        """The models that are finished."""
        return [model for model in self.models if isinstance(model, Expert)]

    @property
    def adapting(self) -> Learner | None:
        """The newest model that is still trained, if there is one."""
        return next(reversed(self.learners), None)

    @property
    def calibrated(self) -> list[Model]:
        """The models that can tell whether samples are of their task."""
        return [model for model in self.models if model.is_calibrated]

    def model(self, number: int) -> Model:
        """Return a model by its number, which never changes."""
        return find_model(self.models, number)

    @property
    def false_alarms(self) -> float:
        """The probability of a false alarm that is allowed for the next batch."""
        return self.settings.batch_rate(self.journal.batches)

    @property
    def n_parameters(self) -> int:
        """Every number kept, also by removed models that others are built on."""
        kept = with_bases(self.models).values()
        refined = 0 if self.refinement is None else self.refinement.weights.size
        pooled = 0 if self.pooled is None else self.pooled.n_stored
        return refined + pooled + self.units.n_stored + sum(m.n_parameters for m in kept)

    def __getstate__(self) -> dict[str, Any]:
        computed = ("_preselected", "_joint", "_discriminants")  # again when they are needed
        return {name: value for name, value in vars(self).items() if name not in computed}

    def working_copy(self) -> Self:
        """Return a copy to learn on, so that nothing in this one changes; experts are shared."""
        result = copy(self)
        result._preselected, result._joint = self._preselected, self._joint
        result._discriminants = self._discriminants
        result.models, result.units, result.agreement = deepcopy(
            (self.models, self.units, self.agreement)
        )
        result.journal = self.journal.copy()
        result.last_used = dict(self.last_used)
        result.recent = list(self.recent)
        return result

    def open_model(self, evidence: dict[str, Any] | None = None) -> Learner:
        """Open a model for the task of the next batch, whatever the others say of it."""
        number = self.opened
        self.opened += 1
        base = None
        if self.settings.models == "shared":
            for learner in self.learners:  # only a finished model can be built on
                self._complete(learner)
            base = next(reversed(self.experts), None)
        seed = int(bits(self.seed, MODEL_KEY, 0, number)) % 2**62
        model = new_learner(number, self.n_inputs, self.settings, seed, self.units, base)
        self.last_used[number] = self.journal.batches
        self.models.append(model)
        self.journal.record("opened", number, evidence)
        self.latest = number
        return model

    def remove(self, number: int, evidence: dict[str, Any] | None = None) -> None:
        """Remove a model; all others stay as they are, also if they are built on it."""
        self.model(number)  # an unknown number is an error and changes nothing
        self.journal.record("removed", number, evidence)
        self._drop(number)

    # ---------------------------------------------------------------- learning

    def learn(
        self,
        X: NDArray,
        y: NDArray[np.int64],
        weight: NDArray | None = None,
        *,
        stop_when_stable: bool = False,
    ) -> int:
        """Learn whole batches in order; return how many samples were taken.

        X is (n, inputs), y are class codes or numbers (see `targets`). Samples that do not fill a
        batch are left. L0 learns samples by their weights; tests count them all alike. With
        `stop_when_stable`, learning stops when no model is trained any more.
        """
        size = self.settings.l0.batch_size
        start = 0
        while start + size <= len(X):
            rows = slice(start, start + size)
            self.learn_batch(X[rows], y[rows], None if weight is None else weight[rows])
            start += size
            if stop_when_stable and self.adapting is None:
                break
        return start

    def learn_batch(
        self, X: NDArray, y: NDArray[np.int64], weight: NDArray | None = None
    ) -> Report:
        """Learn one batch of any size: score it, decide whose it is, apply the decision."""
        batch, before = Batch(X, y, self.journal.samples, weight), self.latest
        judgements, decision = self._judge_and_decide(batch)
        outputs = {answering(one.model): one.outputs for one in judgements}
        self._compare_refinement(batch, outputs)
        if isinstance(decision, decide.Known) and decision.model == before:
            self._join_rival(batch, judgements)
        if self._settle(decision):
            judgements, decision = self._judge_and_decide(batch)
        self.journal.add(self._apply(decision, judgements, batch))
        if isinstance(decision, decide.Known):
            self._merge_duplicates(judgements)
        self._keep_recent(batch, before)
        self._count_samples_and_classes(y)
        self._complete_and_evict()
        self._refine(batch, outputs)
        return self.journal.reports[-1]

    def _in_use(self) -> tuple[Expert | None, int]:
        """Return the model in use as it answers, if it can, and which fit of it that is."""
        model = next((m for m in self.calibrated if m.number == self.latest), None)
        if isinstance(model, Learner):
            return model.interim, 2 * model.n_fitted + model.has_stable_l0
        return model, -1

    def _version(self, number: int) -> int:
        """Return the version of a model that answers; 0: the model as it was learned."""
        model, known = self._in_use()[0], self.refinement
        if known is None or model is None or number != known.model or number != model.number:
            return 0
        return known.best_version(model)

    def _return_to(self, number: int, version: int, batch: Batch) -> None:
        """Let an earlier version of a model answer, which knows a batch better than the last."""
        model = answering(self.model(number))
        fresh = refinement.from_version(model, self.n_inputs, version)
        answered = Answered(batch.X, batch.y, model.evaluate(batch.X).outputs)
        self.refinement = refinement.compared(fresh, model, answered)
        self.journal.record("returned", number, {"reason": f"to version {version}"})

    def _keep_version(self, model: Expert) -> None:
        """Keep the slow correction of a finished model as a version, if it was better for long."""
        known = self.refinement
        if known is None or model not in self.models or not self.settings.max_versions:
            return
        if not refinement.is_worth_keeping(known):
            return
        self.refinement, kept = refinement.with_version(known, model)
        self.models[self.models.index(model)] = kept
        reason = f"version {kept.versions[-1].number}"
        self.journal.record("refined", model.number, {"reason": reason})

    def _compare_refinement(self, batch: Batch, outputs: Outputs) -> None:
        """Compare the refinement with its model on a batch that neither has seen."""
        model, _ = self._in_use()
        if self.refinement is None or model is None or model not in outputs:
            self.refinement = None
        else:
            answered = Answered(batch.X, batch.y, outputs[model][-len(batch.X) :])
            self.refinement = refinement.compared(self.refinement, model, answered)

    def _join_rival(self, batch: Batch, judgements: list[Judgement]) -> None:
        """Put the model in use into the group of one that claims its samples wrongly.

        Of a group, the model that was last used answers. Without this, the model that knows a
        stream, and is refined by it, would be asked about none of its samples.
        """
        one = next(one for one in judgements if one.model.number == self.latest)
        model = one.model
        others = [m for m in self.calibrated if m.group != model.group]
        if not others or self.refinement is None or self.journal.batches % BATCHES_PER_RIVAL:
            return
        own = one.scores.of(slice(-len(batch.X), None))
        own = self.refinement.scores(answering(model), batch.X, own)
        rival = rival_of(batch.X, class_codes(batch.y), own, others)
        if rival is None:
            return
        if isinstance(model, Learner):
            model.group = rival.group
        else:
            self.models[self.models.index(model)] = replace(model, group=rival.group)

    def _refine(self, batch: Batch, outputs: Outputs) -> None:
        """Fit the refinement again, with a batch that the model in use knows."""
        model, fit = self._in_use()
        report = self.journal.reports[-1]
        if model is None or report.model != model.number:
            self.refinement = None
        elif report.kind in (events.KNOWN, events.NEW, events.LEARNING):
            own = outputs.get(model)
            own = model.evaluate(batch.X).outputs if own is None else own[-len(batch.X) :]
            answered = Answered(batch.X, batch.y, own)
            before = self.journal.batches - 1
            self.refinement = refinement.refined(self.refinement, model, answered, fit, before)
            self._keep_version(model)

    def _judge_and_decide(
        self, batch: Batch, *, may_wait: bool = True
    ) -> tuple[list[Judgement], decide.Decision | Switched]:
        """Let the models judge a batch, with recent ones where these are needed; decide on it."""
        short, long = self._rates()
        recent = self._recent_batches(len(batch.X))
        found = self._decide_with(recent, batch, short, may_wait=may_wait)
        if long and isinstance(found[1], decide.Known) and found[1].model == self.latest:
            again = self._decide_with(self._before(), batch, long, may_wait=False, is_long=True)
            found = found if isinstance(again[1], decide.Known) else again
        return found

    def _rates(self) -> tuple[float, float]:
        """Return the rates of false alarms of the test of the next batch, and of a long window.

        The second is 0 where none is tested now: one batch in a few is. Where samples depend on
        those before, a change that lasts may show only in many batches. A model in training learns
        its samples, so that only a finished one is tested so. The rates add up to those promised.
        """
        rate, model = self.false_alarms, self._in_use()[0]
        learns = any(one.number == self.latest for one in self.learners)
        if model is None or learns or model.calibration.memory.independent:
            return rate, 0.0
        due = self.journal.batches % BATCHES_PER_LONG_TEST == 0
        many = len(self.recent) > BATCHES_PER_LONG_TEST
        return rate / 2.0, rate / 2.0 * BATCHES_PER_LONG_TEST if due and many else 0.0

    def _decide_with(
        self,
        recent: list[tuple[NDArray, NDArray[np.int64]]],
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
            self._models_for_batch(batch.X), X, y, self.latest, rate,
            refinement=None if recent else self.refinement,  # it has learned recent batches
            n_learned=len(X) - len(batch.X),
            undecided=None if self.undecided is None else self.undecided[:2],
            may_doubt=may_wait, is_long=is_long,
        )  # fmt: skip
        may_wait = may_wait and self.undecided is None
        numbers = self.settings.targets == NUMBERS
        decide_batch = decide_numbers if numbers else decide.decide
        return judgements, decide_batch(
            judgements, batch.y, self.settings, self.latest, false_alarms=rate, may_wait=may_wait
        )

    def _settle(self, decision: decide.Decision | Switched | None) -> bool:
        """Take the batch that was undecided, given the decision on the next; is something new?

        A burst is over by then, and belongs to the known task; what is new goes on.
        """
        batch, self.undecided = self.undecided, None
        if batch is None:
            return False
        judgements, earlier = self._judge_and_decide(batch, may_wait=False)
        new = decision is None or isinstance(decision, decide.SomeNew)
        if not new and self.latest is not None:
            earlier = decide.Known(self.latest, events.NO_P_VALUE)
        elif isinstance(decision, decide.SomeNew) and isinstance(earlier, decide.Known):
            one = next(one for one in judgements if one.model.number == earlier.model)
            earlier = decide.new_tail(one, batch.y, decision.p, self.false_alarms) or earlier
        before = self.latest
        self._apply(earlier, judgements, batch)
        self._keep_recent(batch, before)
        return new

    def _before(self) -> list[tuple[NDArray, NDArray[np.int64]]]:
        """Return the last batches of the model in use, with the one that is undecided."""
        return self.recent if self.undecided is None else [*self.recent, self.undecided[:2]]

    def _recent_batches(self, batch_size: int) -> list[tuple[NDArray, NDArray[np.int64]]]:
        """Return the last batches of the model in use that are tested with the next one."""
        in_use = next((m for m in self.calibrated if m.number == self.latest), None)
        n = 0
        if in_use is not None:
            n = in_use.calibration.memory.batches_to_test(batch_size) - 1
        before = self._before()
        return before[len(before) - n :] if n else []

    def _keep_recent(self, batch: Batch, before: int | None) -> None:
        """Keep a batch that tests of later ones may need: many if they are dependent.

        `before` was the model in use. A batch that is undecided is kept when it is settled.
        """
        if self.latest != before:
            self.recent = []
        elif self.undecided is None:
            model, _ = self._in_use()
            dependent = model is not None and not model.calibration.memory.independent
            self.recent = [*self.recent, batch[:2]][-(MAX_BATCHES - 1 if dependent else 1) :]

    def judge(self, X: NDArray, y: NDArray[np.int64] | None = None) -> list[Verdict]:
        """Return what each calibrated model says of a batch."""
        return [judge(model, X, y, self.false_alarms).verdict for model in self.calibrated]

    def _models_for_batch(self, X: NDArray) -> list[Model]:
        """Return the models that judge a batch: all, or of many experts the likely ones."""
        preselection = self._preselection()
        if preselection is None:
            return self.calibrated
        likely = preselection.likeliest_of_batch(X, EXPERTS_PER_BATCH) | {self.latest}
        return [m for m in self.calibrated if isinstance(m, Learner) or m.number in likely]

    def _preselection(self) -> Preselection | None:
        """Return the preselection of experts, if there are many that differ in their inputs."""
        experts = self.experts
        if len(experts) <= MIN_EXPERTS or self.settings.models == "shared":
            return None
        known = self._preselected
        if known is None or known.numbers != tuple(expert.number for expert in experts):
            known = self._preselected = Preselection.of(experts)
        return known

    def _apply(
        self, decision: decide.Decision | Switched, judgements: list[Judgement], batch: Batch
    ) -> Report:
        """Give a batch to its models; return what is to be reported."""
        verdicts = [one.verdict for one in judgements]
        everything, now = np.arange(len(batch.X)), self.journal.batches
        match decision:
            case decide.NoneCalibrated():
                model = self.adapting or self.open_model()
                self._give(model.number, batch, everything)
                return Report(now, events.LEARNING, model.number)
            case decide.Known(number, p):
                version = next(
                    (one.version for one in judgements if one.model.number == number), None
                )
                changed = number != self.latest or version is not None
                self._mark_used(number, verdicts)
                if version is not None:
                    self._return_to(number, version, batch)
                self._give(number, batch, everything)
                cause = events.BACK if changed else ""
                return Report(now, events.KNOWN, number, p, cause, version=self._version(number))
            case decide.Undecided(number, p):
                self.undecided = batch
                return Report(now, events.UNDECIDED, number, p)
            case decide.Mixed(models, p):
                self._mark_used(decision.largest, verdicts)
                self._share_out(models, everything, batch)
                known = numbers_of(models)
                return Report(now, events.MIXED, decision.largest, p, models=known)
            case Switched(before, after, at, p):
                self._mark_used(after, verdicts)
                self._give(before, batch, everything[:at])
                self._give(after, batch, everything[at:])
                self.last_used[before] = now - 1  # it did not take the last sample
                return Report(now, events.MIXED, after, p, models=(before, after))
            case decide.SomeNew():
                return self._apply_new(decision, judgements, batch)

    def _apply_new(
        self, decision: decide.SomeNew, judgements: list[Judgement], batch: Batch
    ) -> Report:
        """Give the novel samples of a batch to a new model, or to one that is not calibrated."""
        models, novel, p = decision
        verdicts = [one.verdict for one in judgements]
        # Residuals contradict all rules of a group alike: the one that was not asked to split the
        # batch, though calibrated, must not learn it.
        numbers = self.settings.targets == NUMBERS
        asked = judgements if numbers else decide.one_per_group(judgements)
        judges = [one.model for one in asked]
        young = next((m for m in self.learners if m not in judges), None)
        why = explained_change(judgements, batch.X, batch.y, novel, self.latest)
        evidence = events.closest_verdicts(verdicts) | why.as_evidence()
        number = (young or self.open_model(evidence)).number
        self._mark_used(number, verdicts)
        self._share_out(models, np.flatnonzero(~novel), batch)
        self._give(number, batch, np.flatnonzero(novel))
        kind = events.NEW if novel.all() else events.MIXED
        known = numbers_of(models[~novel])
        now = self.journal.batches
        return Report(now, kind, number, p, why.kind, tuple(why.inputs), known)

    def explain(self, X: NDArray, y: NDArray) -> Explanation:
        """Return what kind of change a batch shows, and which inputs contradict most."""
        self._require_calibrated()
        batch = Batch(X, y, self.journal.samples)  # by itself: what came before it is no part of it
        judgements, decision = self._decide_with([], batch, self.false_alarms, may_wait=False)
        return explained(decision, judgements, X, y, self.latest)

    def _share_out(
        self, models: NDArray[np.int64], chosen: NDArray[np.int64], batch: Batch
    ) -> None:
        """Give each of the chosen samples to its model."""
        for number in np.unique(models).tolist():
            if any(model.number == number for model in self.models):
                self._give(number, batch, chosen[models[chosen] == number])

    def _give(self, number: int, batch: Batch, chosen: NDArray[np.int64]) -> None:
        """Let a model learn some samples of a batch, if it is still trained."""
        if not len(chosen):
            return
        self.last_used[number] = self.journal.batches
        model = self.model(number)
        if isinstance(model, Expert):
            return
        weight = None if batch.weight is None else batch.weight[chosen]
        model.buffer.add(batch.X[chosen], batch.y[chosen], batch.first + chosen, weight)
        if not model.is_calibrated:
            model.group = self._find_group(model)
        self._replace_by(model, model.advance(self.threads))

    def _find_group(self, model: Learner) -> int:
        """Return the group of an older model with the same inputs and other labels, or its own."""
        for older in self.calibrated:
            if older.number < model.number and is_same_inputs_other_labels(
                older, model.buffer, self.false_alarms
            ):
                return older.group
        return model.group

    def label(self, numbers: NDArray[np.int64], y: NDArray) -> int:
        """Set late labels of samples, numbered as they were taken; return how many are kept."""
        self._count_classes(y)
        total = self._label_undecided(numbers, y)
        for model in self.learners:
            found, expert = model.label(numbers, y, self.threads)
            total += found
            self._replace_by(model, expert)
        return total

    def _label_undecided(self, numbers: NDArray[np.int64], y: NDArray[np.int64]) -> int:
        if self.undecided is None:
            return 0
        first, labels = self.undecided.first, self.undecided.y.copy()
        here = (numbers >= first) & (numbers < first + len(labels))
        labels[numbers[here] - first] = y[here]
        self.undecided = self.undecided._replace(y=labels)
        return int(np.count_nonzero(here))

    def _replace_by(self, model: Learner, expert: Expert | None) -> None:
        """Put the expert, if training is over, in the place of the learner."""
        if expert is None:
            if self.pooled is not None and model.interim is not None:
                model.note_moments(model.interim)
            return
        if self.pooled is not None:
            expert = self._pool(model, expert)
        self.models[self.models.index(model)] = expert
        self.journal.record("stable", model.number, events.network_sizes(expert))
        if expert.group == expert.number:
            grouped = replace(expert, group=self._find_group(model))
            self.models[self.models.index(expert)] = grouped
            expert = grouped
        for other in self.experts:
            merge = self.settings.merge_after and other is not expert
            if merge and is_duplicate(other, expert, model.buffer):
                self._drop_duplicate(other.number, expert.number)
                break
        self._test_pooled(model)

    def _pool(self, model: Learner, expert: Expert) -> Expert:
        """Add what a finished model has found out of how classes vary; return it with its means."""
        found = model.moments_of(expert)
        if self.pooled is None or found is None:
            return expert
        self.pooled = self.pooled.plus(found)
        return replace(expert, moments=replace(found, scatter=None))

    def _test_pooled(self, model: Learner) -> None:
        """Test what is pooled on what a finished model held out; give it up if it is useless."""
        expert = next((one for one in self.experts if one.number == model.number), None)
        if self.pooled is None or expert is None:
            return
        # Which model of a group answers is not told by inputs.
        all_models = [expert, *(m for m in self.calibrated if m.group != expert.group)]
        moments = [one.moments for one in all_models if one.moments is not None]
        if len(moments) == len(all_models) > 1:
            X, right = model.held_out_of(expert, MOST_TESTED)
            evaluated = [Evaluated.by(one, X) for one in all_models]
            unit = self.units.unit
            found = test_on_held_out(self.pooled, moments, unit, evaluated, X, right)
            self.pooled = self.pooled.plus_test(found)
        if self.pooled.is_useless:
            self.pooled = None
            for i, one in enumerate(self.models):
                if isinstance(one, Learner):
                    one.moments = None
                else:
                    self.models[i] = replace(one, moments=None)

    def _count_samples_and_classes(self, y: NDArray) -> None:
        self.journal.samples += len(y)
        self._count_classes(y)

    def _count_classes(self, y: NDArray) -> None:
        self.n_classes = max(self.n_classes, int(class_codes(y).max(initial=-1)) + 1)

    def _complete_and_evict(self) -> None:
        """Finish learners whose task is over; keep to the number of models allowed."""
        learners = self.learners
        if len(learners) > 1 and learners[-1].is_calibrated:
            for model in learners[:-1]:
                self._complete(model)
        for model in self.learners:
            idle = self.journal.batches - self.last_used.get(model.number, self.journal.batches)
            if not model.is_calibrated and idle > MAX_IDLE_UNCALIBRATED and len(self.models) > 1:
                reason = f"nothing like it for {MAX_IDLE_UNCALIBRATED} batches"
                self.remove(model.number, {"reason": reason})
        limit = self.settings.max_models
        while limit and len(self.calibrated) > limit:
            unused = min(
                (m for m in self.calibrated if m.number != self.latest),
                key=lambda m: (self.last_used.get(m.number, 0), m.number),
            )
            self.remove(unused.number, {"reason": f"max_models = {limit}"})

    def _complete(self, model: Learner) -> None:
        """Finish the training of a model with the samples at hand."""
        self._replace_by(model, model.finish(self.threads))

    def finish(self, X: NDArray, y: NDArray, weight: NDArray | None = None) -> None:
        """Finish the training of all models now; X and y are the rest of the stream, if any."""
        if len(X):
            self.learn_batch(X, y, weight)
        if self.undecided is not None:
            self._settle(None)
        self.refinement = None  # from here on, the models answer
        few = min(self.settings.too_few, self.settings.buffer_size)
        for model in self.learners:
            n = len(model.buffer)
            if n == 0 or (n < few and not model.is_calibrated and len(self.models) > 1):
                self.remove(model.number, {"reason": f"{n} samples are too few to learn from"})
            else:
                self._complete(model)
        self._complete_and_evict()
        self.recent = []  # a finished system keeps no sample

    # ---------------------------------------------------------------- use, merging, removal

    def _mark_used(self, number: int, verdicts: list[Verdict]) -> None:
        """Note which model a batch goes to."""
        last = self.journal.events[-1] if self.journal.events else None
        just_opened = last is not None and last.kind == "opened" and last.model == number
        if number != self.latest and not just_opened:
            self.journal.record("chosen", number, events.closest_verdicts(verdicts))
        self.latest = number
        self.last_used[number] = self.journal.batches

    def _merge_duplicates(self, judgements: list[Judgement]) -> None:
        """Merge two experts if all batches that both judged say that they know the same."""
        if not self.settings.merge_after:
            return
        here = self.experts
        pair = self.agreement.add(
            [one for one in judgements if one.model in here], self.settings.merge_after
        )
        if pair is not None:
            self._drop_duplicate(*pair)

    def _drop_duplicate(self, kept: int, gone: int) -> None:
        """Keep one of two models that know the same."""
        self.journal.record("merged", kept, {"model": gone})
        self.last_used[kept] = max(self.last_used.get(kept, 0), self.last_used.get(gone, 0))
        self._drop(gone, successor=kept)

    def _drop(self, number: int, successor: int | None = None) -> None:
        self.models.remove(self.model(number))
        self.last_used.pop(number, None)
        self.agreement.forget(number)
        if self.latest == number:
            recent = max(self.models, key=lambda m: self.last_used.get(m.number, -1), default=None)
            self.latest = successor if successor is not None else recent.number if recent else None

    # ---------------------------------------------------------------- answers

    def clipped_to_float64(self, X: NDArray) -> NDArray:
        """Return inputs clipped to what float64 arithmetic can hold."""
        return self.units.clip(X)

    def evaluate(self, X: NDArray) -> list[Evaluated]:
        """Evaluate samples once by every calibrated model, or by the likely ones of many."""
        preselection = self._preselection()
        if preselection is None:
            return self._evaluate_by_all(X)
        chosen = dict(
            zip(preselection.numbers, preselection.rows(X, EXPERTS_PER_SAMPLE), strict=True)
        )
        result = []
        for model in self.calibrated:
            rows = chosen.get(model.number, np.arange(len(X)))
            if len(rows):
                result.append(Evaluated(model, rows, model.evaluate(X[rows])))
        return result

    def _evaluate_by_all(self, X: NDArray) -> list[Evaluated]:
        """Evaluate samples by every calibrated model, all together."""
        models = self.calibrated
        experts = tuple(answering(model) for model in models)
        known = self._joint
        if known is None or known.experts != experts:
            known = self._joint = JointEvaluation.of(experts)
        rows = np.arange(len(X))
        found = known.scores(X)
        return [Evaluated(model, rows, one) for model, one in zip(models, found, strict=True)]

    @property
    def discriminants(self) -> Discriminants | None:
        """The linear discriminants of all classes, where they take part in answers."""
        choice = None if self.pooled is None else self.pooled.choice
        moments = tuple(m.moments for m in self.calibrated if m.moments is not None)
        if self.pooled is None or choice is None or len(moments) < len(self.calibrated):
            return None
        known = self._discriminants
        if known is None or known.moments != moments or known.choice != choice:
            known = linear_discriminants(self.pooled, moments, self.units.unit, choice)
            self._discriminants = known
        return known

    def answer(self, X: NDArray, false_alarms: float | None = None) -> Answers:
        """Return route, outputs (class probabilities, or numbers) and novelty, in one pass.

        With a rate of false alarms, also which samples some model knows, if a model can tell.
        """
        evaluated, linear = self.evaluate(X), self.discriminants
        informed = evaluated if linear is None else linear.applied(evaluated, X)
        found = answers.answer(
            informed, self.models, X, self._default_outputs, self.latest, self.last_used
        )
        if false_alarms is not None and self.calibrated:
            by_all = evaluated if self._preselection() is None else self._evaluate_by_all(X)
            found = found._replace(known=answers.is_known(by_all, len(X), false_alarms))
        return self._refined(found, X)

    def _refined(self, found: Answers, X: NDArray) -> Answers:
        """Return answers in which those of the model in use are refined, where that is better."""
        model, _ = self._in_use()
        known = self.refinement
        if known is None or model is None or known.best < 0 or known.model != model.number:
            return found
        rows = np.flatnonzero(found.route == model.number)
        if len(rows):
            own = found.outputs[np.ix_(rows, np.array(known.classes))]
            outputs = found.outputs.copy()
            answers.write(outputs, rows, model, known.outputs(model, X[rows], own, known.best))
            found = found._replace(outputs=outputs)
        return found

    @property
    def _default_outputs(self) -> NDArray[np.float64]:
        """What is answered before L0 has learned: equal probabilities, or the mean target."""
        if self.settings.targets != NUMBERS:
            return np.full(self.n_classes, 1.0 / max(self.n_classes, 1))
        y = np.concatenate([np.zeros(0), *(model.buffer.y for model in self.learners)])
        known = y[is_labelled(y)]
        return np.full(self.n_classes, known.mean() if len(known) else 0.0)

    def intervals(self, X: NDArray, coverage: float) -> NDArray[np.float64]:
        """Return prediction intervals of numbers that have this coverage: (samples, 2)."""
        found = self.answer(X)
        half = answers.interval_half_widths(found.route, self.models, coverage)
        return found.outputs + half[:, None] * np.array([-1.0, 1.0])

    def scores(self, X: NDArray) -> NDArray[np.float64]:
        """Return the score of each calibrated model, low where it knows: (samples, models)."""
        return np.stack([m.evaluate(X).score for m in self._require_calibrated()], axis=1)

    def novelty(self, X: NDArray) -> NDArray[np.float64]:
        """Return how novel each sample is to the model that knows it best."""
        self._require_calibrated()
        return self.answer(X).novelty

    def is_known(self, X: NDArray, false_alarms: float) -> NDArray[np.bool_]:
        """Return whether some model knows each sample, at this rate of false alarms."""
        self._require_calibrated()
        return answers.is_known(self._evaluate_by_all(X), len(X), false_alarms)

    def conflicted_inputs(self, X: NDArray) -> NDArray[np.bool_]:
        """Return which inputs contradict the prediction by each sample's model."""
        self._require_calibrated()
        return answers.conflicted_inputs(self.answer(X).route, self.models, X)

    def _require_calibrated(self) -> list[Model]:
        models = self.calibrated
        if not models:
            raise ValueError("no model is calibrated yet, so that none can tell what it knows")
        return models
