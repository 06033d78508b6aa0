"""Many models, one stream, no task labels: who takes a batch, who answers a sample.

The paper: while a model adapts it takes every batch. When all are stable, the batch goes to the
validated model with the least share of invalid samples; if none is validated, a new task has begun
and a new model is opened. Samples to be answered go, one by one, to the model with the least share
of conflicted nodes; of equals, which are 5 to 10 % at T_CP = 0.05, to the newest (the oldest
instead costs about 0.02 of accuracy after three tasks).

Ours: every model that has an opinion, adapting or not, judges every batch. One that none of them
knows is taken apart: samples that a model knows go to it, the others to a new one.
"""

import os
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.core.random import bits
from dirad.preval.buffer import UNLABELLED
from dirad.preval.buffer_model import BufferModel, Scale
from dirad.preval.calibration import both, two_sided
from dirad.preval.model import STABLE, Model, Verdict
from dirad.preval.settings import Settings
from dirad.preval.stream_model import StreamModel

MODEL = 100  # purpose of the random key of a model
UNUSUAL = 1.5  # novelty above which a sample is left to a model that has no opinion yet
MOSTLY_NEW = 0.2  # estimated share of known samples below which a batch is new altogether
SAME_INPUTS = 30  # samples of a batch from which a change of labels alone can be told
LEARNING, KNOWN, MIXED, NEW = "learning", "known", "mixed", "new"


def cores() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@dataclass(frozen=True)
class Event:
    """Something that happened to the system, and why."""

    batch: int  # batches seen before it
    kind: str  # "opened", "L0 stable", "stable", "chosen", "merged", "removed"
    model: int
    evidence: dict[str, Any] = field(default_factory=dict)


class Report(NamedTuple):
    """What the system says of one batch."""

    batch: int
    kind: str  # known; new; mixed: in part known; learning: nobody can tell yet
    model: int  # that took it, or most of it
    p: float = float("nan")  # chance that a known task shows so unusual a batch

    def __str__(self) -> str:
        text = {KNOWN: f"known: {self.model}", NEW: "new", MIXED: "mixed"}.get(self.kind, self.kind)
        return text if self.p != self.p else f"{text} (p = {self.p:.2g})"


class System:
    """The models, and the flow of batches and samples among them."""

    def __init__(
        self, n_inputs: int, n_classes: int, settings: Settings, *, seed: int = 0, threads: int = 1
    ) -> None:
        self.n_inputs = n_inputs
        self.n_classes = n_classes  # known so far; only the paper's models need to know all
        self.settings = settings
        self.seed = seed
        self.threads = threads
        self.models: list[Model] = []
        self.events: list[Event] = []
        self.reports: list[Report] = []  # one per batch
        self.batches = 0  # seen
        self.samples = 0  # seen
        self.opened = 0  # models, those that are gone included
        self.scale = Scale()
        self.used: dict[int, int] = {}  # per model: the last batch of which it took a part
        self.together: dict[tuple[int, int], int] = {}  # batches that both of two models knew
        self._latest: int | None = None  # the model that took the last batch

    @property
    def adapting(self) -> Model | None:
        """The newest model that is not stable yet, if there is one."""
        unfinished = self.unfinished
        return unfinished[-1] if unfinished else None

    @property
    def unfinished(self) -> list[Model]:
        """The models that are not stable yet: with the paper's settings one at most."""
        return [model for model in self.models if model.phase != STABLE]

    @property
    def stable(self) -> list[Model]:
        """The models that adapt no more."""
        return [model for model in self.models if model.phase == STABLE]

    @property
    def judges(self) -> list[Model]:
        """The models that have an opinion of batches and samples."""
        return [
            model
            for model in self.models
            if model.phase == STABLE or (isinstance(model, BufferModel) and model.has_opinion)
        ]

    @property
    def latest(self) -> Model:
        """The model that took the last batch."""
        if self._latest is None:
            raise ValueError("no batch was seen yet")
        return self.model(self._latest)

    def model(self, number: int) -> Model:
        """Return a model by its number, which it keeps for life."""
        for model in self.models:
            if model.number == number:
                return model
        raise ValueError(f"there is no model {number}: it was removed, or never opened")

    @property
    def n_parameters(self) -> int:
        """Every number that the models keep."""
        return sum(model.n_parameters for model in self.models)

    def judge(self, X: NDArray, y: NDArray[np.int64] | None = None) -> list[Verdict]:
        """Return what each model that has an opinion says of a batch."""
        return [model.judge(X, y) for model in self.judges]

    # ---------------------------------------------------------------- learning

    def learn(self, X: NDArray, y: NDArray[np.int64], *, until_stable: bool = False) -> int:
        """Take whole batches, in order; return how many samples were taken.

        X is (n, inputs), y are class codes from 0, and -1 where no label is known. A rest that
        makes no batch is left, and with `until_stable` also all that comes after no model is
        adapting any more.
        """
        size = self.settings.l0.batch_size
        start = 0
        while start + size <= len(X):
            if self.settings.buffer_size:
                self.take(X[start : start + size], y[start : start + size])
                start += size
            else:
                start += size * self._follow_paper(X[start:], y[start:])
            if until_stable and self.adapting is None:
                break
        return start

    def label(self, numbers: NDArray[np.int64], y: NDArray[np.int64]) -> None:
        """Take labels that came late. Samples are numbered as they were taken, from 0."""
        self.n_classes = max(self.n_classes, int(y.max(initial=-1)) + 1)
        for model in self.unfinished:
            if isinstance(model, BufferModel):
                model.label(numbers, y)

    def _follow_paper(self, X: NDArray, y: NDArray[np.int64]) -> int:
        """Take as many batches as one model's phase needs, or one; return how many."""
        size = self.settings.l0.batch_size
        model = self.adapting
        kind, p = LEARNING, float("nan")
        if model is None:
            kind = KNOWN
            model = self._choose(X[:size])
            if model is None:
                self._report(KNOWN, self.latest.number, p)
                self.samples += size
                return 1
            kind = NEW
        before = model.phase
        used = model.learn(X, y, self.threads)
        for i in range(used):
            self._report(kind if i == 0 else LEARNING, model.number, p)
        self._record_phase(model, before)
        self.samples += used * size
        self.n_classes = max(self.n_classes, int(y[: used * size].max(initial=-1)) + 1)
        return used

    def _choose(self, batch: NDArray) -> Model | None:
        """Return a new model where no stable one knows the batch, else None: it is processed."""
        verdicts = self.judge(batch)
        known = [v for v in verdicts if v.validated]
        if known:
            best = min(known, key=lambda v: v.value)  # of equals the oldest
            self._use(best.model, verdicts)
            return None
        return self.open_model(evidence_of(verdicts))

    def take(self, X: NDArray, y: NDArray[np.int64]) -> Report:
        """Take one batch of any size: find out whose it is, and let that model go on."""
        verdicts = self.judge(X, y)
        known = [v for v in verdicts if v.validated]
        p = max((v.p for v in verdicts), default=float("nan"))
        if not verdicts:
            young = self.adapting or self.open_model()
            self._report(LEARNING, young.number, p)
            self._give(young, X, y, np.arange(len(X)))
        elif known:
            # The model at hand stays, as long as it knows what it sees.
            best = max(known, key=lambda v: (v.model == self._latest, v.p))
            self._use(best.model, verdicts)
            self._report(KNOWN, best.model, best.p)
            self._count_together(known)
            if any(model.number == best.model for model in self.models):
                self._give(self.model(best.model), X, y, np.arange(len(X)))
        else:
            self._divide(X, y, verdicts, p)
        self.samples += len(X)
        self.n_classes = max(self.n_classes, int(y.max(initial=-1)) + 1)
        self._settle_up()
        return self.reports[-1]

    def _divide(self, X: NDArray, y: NDArray[np.int64], verdicts: list[Verdict], p: float) -> None:
        """Take a batch that no model knows as a whole: who knows which of its samples?"""
        given = y if self.settings.labels_in_detection else np.full(len(y), UNLABELLED)
        judges = [model for model in self.judges if isinstance(model, BufferModel)]
        mistaken = np.array([model.wrong(X, given) for model in judges])
        wrong: NDArray[np.bool_] = np.logical_and.reduce(mistaken, axis=0)
        scores = np.array([model.score(X) for model in judges])
        # A label that a model gives speaks for that model.
        place = np.argmin(np.where(mistaken & ~wrong, np.inf, scores), axis=0)
        deviate, variance = np.zeros(len(X)), 0.0
        for i, model in enumerate(judges):
            own = np.flatnonzero(place == i)
            if len(own):
                deviate[own] = model.deviates(X[own])
                variance += (len(own) / len(X) * model.spread_of_mean(X[own])) ** 2
        together = two_sided(float(deviate.mean()) / np.sqrt(variance))
        labelled = given != UNLABELLED
        errors = 1.0
        if labelled.any():
            usual = [model.usual for model in judges if model.usual is not None]
            errors = max(u.p_labels(int(wrong.sum()), int(labelled.sum())) for u in usual)
            together = both(together, errors)
        if len(np.unique(place)) > 1 and together >= self.settings.false_alarms:
            largest = judges[int(np.bincount(place).argmax())]
            self._use(largest.number, verdicts)
            self._report(MIXED, largest.number, together)
            for i, model in enumerate(judges):
                self._give(model, X, y, np.flatnonzero(place == i))
            return
        # Where labels show that something is new, they also show what.
        told = labelled if errors < self.settings.false_alarms else np.zeros(len(X), bool)
        novel = self._novel(deviate, wrong, told)
        rival = self._rival(X, given, verdicts) if len(novel) == len(X) else None
        young = next((m for m in self.unfinished if m not in judges), None)
        if young is None:
            young = self.open_model(evidence_of(verdicts))
            if rival is not None and isinstance(young, BufferModel):
                young.rival_of = rival
        kind = NEW if len(novel) == len(X) else MIXED
        rest = np.setdiff1d(np.arange(len(X)), novel)
        for i, model in enumerate(judges):
            self._give(model, X, y, rest[place[rest] == i])
        self._use(young.number, verdicts)
        self._report(kind, young.number, p)
        self._give(young, X, y, novel)

    @staticmethod
    def _novel(
        deviate: NDArray, wrong: NDArray[np.bool_], told: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """Return which samples are of a task that no model knows.

        Of those that labels tell of, the wrong ones. Of the others: half of all known samples lie
        below the middle of what is usual, so that twice as many as lie there are known, and the
        most unusual are not.
        """
        new = wrong & told
        others = np.flatnonzero(~told)
        if len(others):
            known = min(1.0, 2.0 * float(np.mean(deviate[others] < 0)))
            count = max(round((1.0 - known) * len(others)), 0 if told.any() else 1)
            new[others[np.argsort(-deviate[others], kind="stable")[:count]]] = True
        if np.mean(~new) < MOSTLY_NEW:
            return np.arange(len(new))
        return np.flatnonzero(new)

    def _rival(self, X: NDArray, y: NDArray[np.int64], verdicts: list[Verdict]) -> int | None:
        """Return a model that knows these inputs, and these classes, but not with these labels."""
        if len(X) < SAME_INPUTS:
            return None
        for verdict in sorted(verdicts, key=lambda v: -v.p_inputs):
            model = self.model(verdict.model)
            if verdict.p_inputs < self.settings.false_alarms:
                return None
            if np.mean(np.isin(y[y != UNLABELLED], model.classes)) > 0.5:
                root = model.rival_of if isinstance(model, BufferModel) else None
                return model.number if root is None else root
        return None

    def _give(
        self, model: Model, X: NDArray, y: NDArray[np.int64], chosen: NDArray[np.int64]
    ) -> None:
        """Let a model learn some samples of the batch at hand, if it still learns."""
        if not len(chosen):
            return
        self.used[model.number] = self.batches - 1
        if model.phase == STABLE or not isinstance(model, BufferModel):
            return
        before = model.phase
        if len(chosen) == len(X):
            model.keep(X, y, self.samples)
        else:
            for i in chosen:  # samples that are not neighbours in the stream
                model.keep(X[i : i + 1], y[i : i + 1], self.samples + int(i))
        model.advance(self.threads)
        self._record_phase(model, before)

    def _settle_up(self) -> None:
        """Finish what a newer task has put an end to; keep to the number of models allowed."""
        unfinished = self.unfinished
        judges = self.judges
        if len(unfinished) > 1 and unfinished[-1] in judges:
            for model in unfinished[:-1]:
                self._complete(model)
        limit = self.settings.max_models
        while limit and len(self.models) > limit:
            idle = min(
                (m for m in self.models if m.number != self._latest),
                key=lambda m: (self.used.get(m.number, 0), m.number),
                default=None,
            )
            if idle is None:
                break
            self.remove(idle.number, {"reason": f"max_models = {limit}"})

    def _complete(self, model: Model) -> None:
        """Bring a model to stability with the data at hand."""
        while model.phase != STABLE:
            before = model.phase
            model.finish(self.threads)
            self._record_phase(model, before)

    def _use(self, number: int, verdicts: list[Verdict]) -> None:
        """Note which model a batch goes to."""
        if number != self._latest and not self._just_opened(number):
            self.events.append(Event(self.batches, "chosen", number, evidence_of(verdicts)))
        self._latest = number
        self.used[number] = self.batches

    def _just_opened(self, number: int) -> bool:
        last = self.events[-1] if self.events else None
        return last is not None and last.kind == "opened" and last.model == number

    def _report(self, kind: str, model: int, p: float) -> None:
        self.reports.append(Report(self.batches, kind, model, p))
        self.batches += 1

    def open_model(self, evidence: dict[str, Any] | None = None) -> Model:
        """Open a model for the task of the next batch, whatever the others say of it."""
        number = self.opened
        self.opened += 1
        seed = int(bits(self.seed, MODEL, 0, number)) % 2**62
        model: Model
        if self.settings.buffer_size:
            base = None
            if self.settings.models == "shared":
                for unfinished in self.unfinished:  # what is built on must stand
                    self._complete(unfinished)
                finished = [m for m in self.stable if isinstance(m, BufferModel)]
                base = finished[-1] if finished else None
            model = BufferModel(number, self.n_inputs, self.settings, seed, self.scale, base)
        else:
            model = StreamModel(number, self.n_inputs, self.n_classes, self.settings, seed)
        self.models.append(model)
        self.events.append(Event(self.batches, "opened", number, evidence or {}))
        self._latest = number
        self.used[number] = self.batches
        return model

    def remove(self, number: int, evidence: dict[str, Any] | None = None) -> None:
        """Give up a model: what it learned is forgotten, all others stay as they are."""
        model = self.model(number)
        self.models.remove(model)
        self.events.append(Event(self.batches, "removed", number, evidence or {}))
        self._drop(number)

    def _drop(self, number: int) -> None:
        self.used.pop(number, None)
        self.together = {pair: n for pair, n in self.together.items() if number not in pair}
        if self._latest == number:
            recent = max(self.models, key=lambda m: self.used.get(m.number, -1), default=None)
            self._latest = None if recent is None else recent.number
        for model in self.models:
            if isinstance(model, BufferModel) and model.rival_of == number:
                model.rival_of = None

    def _count_together(self, known: list[Verdict]) -> None:
        """Merge two stable models that know the same batches, again and again."""
        numbers = [v.model for v in known if self.model(v.model).phase == STABLE]
        for i, a in enumerate(numbers):
            for b in numbers[i + 1 :]:
                if set(self.model(a).classes) != set(self.model(b).classes):
                    continue
                if self._are_rivals(a, b):
                    continue
                self.together[a, b] = self.together.get((a, b), 0) + 1
                if self.settings.merge_after and self.together[a, b] >= self.settings.merge_after:
                    self._merge(a, b, {"batches known to both": self.together[a, b]})
                    return

    def _are_rivals(self, a: int, b: int) -> bool:
        def root(number: int) -> int:
            own = getattr(self.model(number), "rival_of", None)
            return number if own is None else own

        return root(a) == root(b)

    def _merge(self, kept: int, gone: int, evidence: dict[str, Any]) -> None:
        """Keep one of two models that know the same."""
        model = self.model(gone)
        self.models.remove(model)
        self.events.append(Event(self.batches, "merged", kept, {"model": gone, **evidence}))
        if self._latest == gone:
            self._latest = kept
        self.used[kept] = max(self.used.get(kept, 0), self.used.get(gone, 0))
        self._drop(gone)

    def _record_phase(self, model: Model, before: str) -> None:
        """Note that a model entered another phase, if it did."""
        if model.phase == before:
            return
        network = model.network
        evidence: dict[str, Any] = {"edges": network.n_edges, "hidden": network.n_hidden}
        if model.phase == STABLE and model.known is not None and model.l1 is not None:
            grown = model.l1.network
            evidence |= {
                "confident": len(model.known.mean),
                "R_IS": model.known.invalid_share,
                "L1_edges": grown.n_edges if grown is not None else 0,
            }
        kind = "stable" if model.phase == STABLE else "L0 stable"
        self.events.append(Event(self.batches, kind, model.number, evidence))
        if model.phase == STABLE and isinstance(model, BufferModel):
            self._merge_into_older(model)
            model.forget()

    def _merge_into_older(self, model: BufferModel) -> None:
        """Give up a model that has just become stable if an older one knows its task already."""
        if not self.settings.merge_after or model.rival_of is not None:
            return
        held = model.buffer.held_out
        X, y = model.buffer.X[held].astype(np.float64), model.buffer.y[held]
        if not len(X):
            return
        for older in self.stable:
            if older is model or set(model.classes) != set(older.classes):
                continue
            verdict = older.judge(X, y)
            if verdict.validated:
                self._merge(older.number, model.number, {"p": verdict.p})
                return

    def finish(self, X: NDArray, y: NDArray[np.int64]) -> None:
        """Bring all adapting models to stability now, with the data at hand.

        X and y are what is left of the stream: fewer samples than a batch, or none.
        """
        if len(X):
            self.n_classes = max(self.n_classes, int(y.max(initial=-1)) + 1)
            if self.settings.buffer_size:
                self.take(X, y)
            else:
                model = self.adapting or self._choose(X)
                if model is not None:
                    model.keep(X, y)
        for model in self.unfinished:
            young = isinstance(model, BufferModel) and len(model.buffer) < self.settings.too_few
            if young and len(self.models) > 1:
                self.remove(model.number, {"reason": "too few samples to learn from"})
            else:
                self._complete(model)

    # ---------------------------------------------------------------- answers

    def scores(self, X: NDArray) -> NDArray[np.float64]:
        """Return how little each model with an opinion knows each sample: (samples, judges)."""
        if not self.judges:
            raise ValueError("no model has an opinion yet, so none can tell what it knows")
        return np.stack([model.score(X) for model in self.judges], axis=1)

    def route(self, X: NDArray) -> NDArray[np.int64]:
        """Return the number of the model that answers each sample."""
        judges = self.judges
        if not judges:
            return np.full(len(X), self.latest.number)
        # The least score; of equals the newest.
        newest_first = [model.number for model in judges[::-1]]
        result = np.array(newest_first)[np.argmin(self.scores(X)[:, ::-1], axis=1)]
        if not self.settings.buffer_size:
            return result
        answering = [m for m in self.unfinished if m not in judges and m.classes]
        for young in answering:
            if getattr(young, "rival_of", None) is None:
                result[self.novelty(X) > UNUSUAL] = young.number
        for number in np.unique(result):
            result[result == number] = self._in_force(int(number), answering)
        return result

    def _in_force(self, number: int, answering: list[Model]) -> int:
        """Return which of the models of the same inputs answers: the one last in use."""
        root = getattr(self.model(number), "rival_of", None)
        root = number if root is None else root
        group = [
            m
            for m in [*self.judges, *answering]
            if m.number == root or getattr(m, "rival_of", None) == root
        ]
        return max(group, key=lambda m: self.used.get(m.number, -1)).number if group else number

    def novelty(self, X: NDArray) -> NDArray[np.float64]:
        """Return how new each sample is to the model that it is least new to."""
        if not self.judges:
            raise ValueError("no model has an opinion yet, so none can tell what is new")
        return np.min([model.novelty(X) for model in self.judges], axis=0)

    def is_known(self, X: NDArray, false_alarms: float) -> NDArray[np.bool_]:
        """Return whether some model with an opinion knows each sample.

        `false_alarms` is the share of a model's own samples that it takes for unknown.
        """
        if not self.judges:
            raise ValueError("no model has an opinion yet, so none can tell what it knows")
        return np.any([model.knows(X, false_alarms) for model in self.judges], axis=0)

    def conflicts(self, X: NDArray) -> NDArray[np.bool_]:
        """Return which inputs contradict the prediction of each sample's model."""
        route = self.route(X)
        result = np.zeros((len(X), self.n_inputs), bool)
        for number in np.unique(route):
            model = self.model(number)
            if model.phase == STABLE:
                chosen = route == number
                result[chosen] = model.conflicted(X[chosen])[:, : self.n_inputs]
        return result

    def probabilities(self, X: NDArray) -> NDArray[np.float64]:
        """Return the probability of every class: (samples, classes), by each sample's model."""
        route = self.route(X)
        result = np.zeros((len(X), self.n_classes))
        for number in np.unique(route):
            chosen, model = np.flatnonzero(route == number), self.model(number)
            if model.classes:
                result[np.ix_(chosen, np.array(model.classes))] = model.probabilities(X[chosen])
        return result


def evidence_of(verdicts: list[Verdict]) -> dict[str, Any]:
    """Return what models said, for an event."""
    found = {
        "model": [v.model for v in verdicts],
        "value": [v.value for v in verdicts],
        "limit": [v.limit for v in verdicts],
    }
    if any(v.p == v.p for v in verdicts):
        found["p"] = [v.p for v in verdicts]
    return found
