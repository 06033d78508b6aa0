"""Our PREVAL: models of many tasks in one stream, without task labels.

A system holds the models and answers by them. `flow` says which batch goes to which model: learners
take samples and training steps, and become experts.
"""

from copy import copy, deepcopy
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dirad.core.random import bits
from dirad.preval import answers, events, flow
from dirad.preval.answers import Answers, Evaluated
from dirad.preval.cause import explained
from dirad.preval.duplicates import (
    Agreement,
    is_duplicate,
    is_same_inputs_other_labels,
)
from dirad.preval.events import Explanation, Journal, Report, Verdict
from dirad.preval.expert import Expert, find_model, with_bases
from dirad.preval.flow import Batch, Batches
from dirad.preval.input_units import CommonInputUnits
from dirad.preval.joint_evaluation import JointEvaluation
from dirad.preval.judgement import Judgement, Model, answering, judge
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
from dirad.preval.refinement import Refinement
from dirad.preval.settings import Settings
from dirad.preval.targets import NUMBERS, class_codes, is_labelled

MODEL_KEY = 100  # purpose of the random key of a model
MAX_IDLE_UNCALIBRATED = 20  # after which a learner of a few stray samples is removed


class System:
    """The models of a stream: they are opened, learn, are merged and removed, and answer."""

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
        self.recent: Batches = []
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
        return flow.learn_batch(self, Batch(X, y, self.journal.samples, weight))

    def in_use(self) -> tuple[Expert | None, int]:
        """Return the model in use as it answers, if it can, and which fit of it that is."""
        model = next((m for m in self.calibrated if m.number == self.latest), None)
        if isinstance(model, Learner):
            return model.interim, 2 * model.n_fitted + model.has_stable_l0
        return model, -1

    def judge(self, X: NDArray, y: NDArray[np.int64] | None = None) -> list[Verdict]:
        """Return what each calibrated model says of a batch."""
        return [judge(model, X, y, self.false_alarms).verdict for model in self.calibrated]

    def models_for_batch(self, X: NDArray) -> list[Model]:
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

    def explain(self, X: NDArray, y: NDArray) -> Explanation:
        """Return what kind of change a batch shows, and which inputs contradict most."""
        self._require_calibrated()
        batch = Batch(X, y, self.journal.samples)  # by itself: what came before it is no part of it
        judgements, decision = flow.decide_with(self, [], batch, self.false_alarms, may_wait=False)
        return explained(decision, judgements, X, y, self.latest)

    def give(self, number: int, batch: Batch, chosen: NDArray[np.int64]) -> None:
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
            expert = replace(expert, moments=model.moments_of(expert))
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
        self._pool(model)

    def _pool(self, model: Learner) -> None:
        """Add what a finished model has found out of how classes vary, and keep their means.

        It is tested first, on what the model held out: if it is useless, all of it is given up.
        Tested samples count as well.
        """
        expert = next((one for one in self.experts if one.number == model.number), None)
        if self.pooled is None or expert is None or expert.moments is None:
            return
        self._test_pooled(model, expert)
        if not self.pooled.is_useless:
            found = model.moments_of(expert, of_all=True) or expert.moments
            self.pooled = self.pooled.plus(found)
            kept = replace(expert, moments=replace(found, scatter=None))
            self.models[self.models.index(expert)] = kept
        else:
            self.pooled = None
            for i, one in enumerate(self.models):
                if isinstance(one, Learner):
                    one.moments = None
                else:
                    self.models[i] = replace(one, moments=None)

    def _test_pooled(self, model: Learner, expert: Expert) -> None:
        """Test what is pooled, with the moments of a new expert, on what its model held out."""
        assert self.pooled is not None
        # Which model of a group answers is not told by inputs.
        all_models = [expert, *(m for m in self.calibrated if m.group != expert.group)]
        moments = [one.moments for one in all_models if one.moments is not None]
        if len(moments) == len(all_models) > 1:
            X, right = model.held_out_of(expert, MOST_TESTED)
            evaluated = [Evaluated.by(one, X) for one in all_models]
            found = test_on_held_out(self.pooled, moments, self.units, evaluated, X, right)
            self.pooled = self.pooled.plus_test(found)

    def count_samples_and_classes(self, y: NDArray) -> None:
        """Count the samples and the classes of a batch that was taken."""
        self.journal.samples += len(y)
        self._count_classes(y)

    def _count_classes(self, y: NDArray) -> None:
        self.n_classes = max(self.n_classes, int(class_codes(y).max(initial=-1)) + 1)

    def complete_and_evict(self) -> None:
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
        for i, one in enumerate(self.models):
            if isinstance(one, Expert) and one.number == model.number:
                self.models[i] = model.fitted_to_all(one, self.threads)

    def finish(self, X: NDArray, y: NDArray, weight: NDArray | None = None) -> None:
        """Finish the training of all models now; X and y are the rest of the stream, if any."""
        if len(X):
            self.learn_batch(X, y, weight)
        if self.undecided is not None:
            flow.settle(self, None)
        self.refinement = None  # from here on, the models answer
        few = min(self.settings.too_few, self.settings.buffer_size)
        for model in self.learners:
            n = len(model.buffer)
            if n == 0 or (n < few and not model.is_calibrated and len(self.models) > 1):
                self.remove(model.number, {"reason": f"{n} samples are too few to learn from"})
            else:
                self._complete(model)
        self.complete_and_evict()
        self.recent = []  # a finished system keeps no sample

    # ---------------------------------------------------------------- use, merging, removal

    def mark_used(self, number: int, verdicts: list[Verdict]) -> None:
        """Note which model a batch goes to."""
        last = self.journal.events[-1] if self.journal.events else None
        just_opened = last is not None and last.kind == "opened" and last.model == number
        if number != self.latest and not just_opened:
            self.journal.record("chosen", number, events.closest_verdicts(verdicts))
        self.latest = number
        self.last_used[number] = self.journal.batches

    def merge_duplicates(self, judgements: list[Judgement]) -> None:
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
        if self.pooled is None or choice is None:
            return None
        moments = tuple(m.moments for m in self.calibrated if m.moments is not None)
        if len(moments) < len(self.calibrated):
            return None
        known = self._discriminants
        if known is None or known.moments != moments or known.choice != choice:
            known = linear_discriminants(self.pooled, moments, self.units, choice)
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
        model, _ = self.in_use()
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
