"""Our system: every model that has an opinion, adapting or not, judges every batch.

A batch that a model knows goes to it. One that none knows is taken apart: samples that a model
knows go to it, the others to a new one.
"""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dirad.preval.buffer import UNLABELLED
from dirad.preval.buffer_model import BufferModel, Look
from dirad.preval.division import Division, divide
from dirad.preval.events import (
    KNOWN,
    LEARNING,
    MIXED,
    NEW,
    NO_CHANCE,
    Report,
    evidence_of,
)
from dirad.preval.kinship import Together, are_doubles, are_rivals
from dirad.preval.model import STABLE, Verdict
from dirad.preval.scale import Scale
from dirad.preval.screening import ASKED, ASKED_OF_BATCH, FEW, Screen
from dirad.preval.settings import Settings
from dirad.preval.system import System

STRAY = 20  # batches after which a model of a few stray samples is given up
UNUSUAL = 1.5  # novelty above which a sample is left to a model that has no opinion yet


class BufferSystem(System[BufferModel]):
    """Models that collect a sample of their task, and judge what comes."""

    _screened: Screen | None = None  # made when it is needed

    def __init__(
        self, n_inputs: int, n_classes: int, settings: Settings, *, seed: int = 0, threads: int = 1
    ) -> None:
        super().__init__(n_inputs, n_classes, settings, seed=seed, threads=threads)
        self.scale = Scale()
        self.together = Together()
        self.used: dict[int, int] = {}  # per model: the last batch of which it took a part

    def _new_model(self, number: int, seed: int) -> BufferModel:
        base = None
        if self.settings.models == "shared":
            for unfinished in self.unfinished:  # what is built on must stand
                self._complete(unfinished)
            base = self.stable[-1] if self.stable else None
        self.used[number] = self.batches
        return BufferModel(number, self.n_inputs, self.settings, seed, self.scale, base)

    @property
    def units(self) -> NDArray[np.float64] | float:
        return self.scale.unit if self.scale.is_known else 1.0

    def working_copy(self) -> Self:
        result = super().working_copy()
        if not self.scale.is_known:  # the models' copies have a new one, which learns
            result.scale = result.models[0].scale if result.models else Scale()
        result.together = deepcopy(self.together)
        result.used = dict(self.used)
        return result

    def _unchanging(self) -> dict[int, Any]:
        shared = super()._unchanging()
        if self.scale.is_known:
            shared[id(self.scale)] = self.scale
        for model in self.models:
            below = model.base
            while below is not None:
                shared |= {id(below): below, id(below.l1): below.l1}
                below = below.base
        return shared

    @property
    def n_parameters(self) -> int:
        """Every number kept, by models that are gone but that others stand on too."""
        kept: dict[int, BufferModel] = {}
        for model in self.models:
            below: BufferModel | None = model
            while below is not None:
                kept[below.number] = below
                below = below.base
        return self.scale.n_stored + sum(model.n_parameters for model in kept.values())

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
            self.take(X[start : start + size], y[start : start + size])
            start += size
            if until_stable and self.adapting is None:
                break
        return start

    def take(self, X: NDArray, y: NDArray[np.int64]) -> Report:
        """Take one batch of any size: find out whose it is, and let that model go on."""
        judges = self._asked_of_batch(X)
        looks = [model.look(X) for model in judges]
        verdicts = [model.verdict(seen, y) for model, seen in zip(judges, looks, strict=True)]
        known = [v for v in verdicts if v.validated]
        everything = np.arange(len(X))
        if not judges:
            young = self.adapting or self.open_model()
            self._give(young, X, y, everything)
            self._report(LEARNING, young.number, NO_CHANCE)
        elif known:
            # The model at hand stays, as long as it knows what it sees.
            best = max(known, key=lambda v: (v.model == self._latest, v.p))
            self._use(best.model, verdicts)
            self._give(self.model(best.model), X, y, everything)
            self._report(KNOWN, best.model, best.p)
            self._merge_doubles(judges, looks, verdicts)
        else:
            self._take_apart(X, y, judges, looks, verdicts)
        self._count(y)
        self._settle_up()
        return self.reports[-1]

    def _asked_of_batch(self, X: NDArray) -> list[BufferModel]:
        """Return the models that judge a batch: all, or of many stable ones the likely ones."""
        screen = self._screen()
        if screen is None:
            return self.judges
        likely = screen.likeliest_of_batch(X, ASKED_OF_BATCH) | {self._latest}
        return [m for m in self.judges if m.phase != STABLE or m.number in likely]

    def _screen(self) -> Screen | None:
        """Return the screen of the stable models, if there are many that differ in their inputs."""
        stable = self.stable
        if len(stable) <= FEW or self.settings.models == "shared":
            return None
        if self._screened is None or self._screened.numbers != tuple(m.number for m in stable):
            self._screened = Screen(stable)
        return self._screened

    def _take_apart(
        self,
        X: NDArray,
        y: NDArray[np.int64],
        judges: list[BufferModel],
        looks: list[Look],
        verdicts: list[Verdict],
    ) -> None:
        """Take a batch that no model knows as a whole."""
        least = self.settings.false_alarms
        given = y if self.settings.labels_in_detection else np.full(len(y), UNLABELLED)
        judges, looks = self._one_of_a_kind(judges, looks, verdicts)
        division = divide(judges, looks, given, least)
        if division.p >= least and not division.novel.all():
            largest = judges[int(np.bincount(division.place).argmax())]
            self._use(largest.number, verdicts)
            self._share_out(X, y, judges, division, np.zeros(len(X), bool))
            self._report(MIXED, largest.number, division.p)
            return
        young = next((m for m in self.unfinished if m not in judges), None)
        if young is None:
            young = self.open_model(evidence_of(verdicts))
        self._use(young.number, verdicts)
        self._share_out(X, y, judges, division, division.novel)
        self._give(young, X, y, np.flatnonzero(division.novel))
        kind = NEW if division.novel.all() else MIXED
        self._report(kind, young.number, max(v.p for v in verdicts))

    @staticmethod
    def _one_of_a_kind(
        judges: list[BufferModel], looks: list[Look], verdicts: list[Verdict]
    ) -> tuple[list[BufferModel], list[Look]]:
        """Return of models of the same inputs the one whose answers fit best: rules do not mix."""
        best: dict[int, int] = {}
        for i, model in enumerate(judges):
            j = best.get(model.group)
            if j is None or verdicts[i].p_labels > verdicts[j].p_labels:
                best[model.group] = i
        places = sorted(best.values())
        return [judges[i] for i in places], [looks[i] for i in places]

    def _share_out(
        self,
        X: NDArray,
        y: NDArray[np.int64],
        judges: list[BufferModel],
        division: Division,
        novel: NDArray[np.bool_],
    ) -> None:
        """Give every sample that is not new to the model that knows it."""
        for i, model in enumerate(judges):
            if model in self.models:
                self._give(model, X, y, np.flatnonzero((division.place == i) & ~novel))

    def _give(
        self, model: BufferModel, X: NDArray, y: NDArray[np.int64], chosen: NDArray[np.int64]
    ) -> None:
        """Let a model learn some samples of the batch at hand, if it still learns."""
        if not len(chosen):
            return
        self.used[model.number] = self.batches
        if model.phase == STABLE:
            return
        before, mute = model.phase, not model.has_opinion
        model.keep(X[chosen], y[chosen], self.samples + chosen)
        if mute:
            self._find_rival(model)
        model.advance(self.threads)
        self._end_phase(model, before)

    def _find_rival(self, model: BufferModel) -> None:
        """Find out whether a young model is one of known inputs with other labels."""
        for older in self.judges:
            if older.number < model.number and are_rivals(older, model):
                model.group = older.group
                return

    def label(self, numbers: NDArray[np.int64], y: NDArray[np.int64]) -> int:
        self.n_classes = max(self.n_classes, int(y.max(initial=-1)) + 1)
        found = 0
        for model in self.unfinished:
            before = model.phase
            found += model.label(numbers, y, self.threads)
            self._end_phase(model, before)
        return found

    def _end_phase(self, model: BufferModel, before: str) -> None:
        """Note a change of phase; a model that has become stable forgets its samples."""
        if not self._record_phase(model, before) or model.phase != STABLE:
            return
        if model.group == model.number:
            self._find_rival(model)
        for other in self.stable:
            if self.settings.merge_after and other is not model and are_doubles(other, model):
                self._merge(other.number, model.number)
                break
        model.forget()

    def _settle_up(self) -> None:
        """Finish what a newer task has put an end to; keep to the number of models allowed."""
        unfinished = self.unfinished
        if len(unfinished) > 1 and unfinished[-1].has_opinion:
            for model in unfinished[:-1]:
                self._complete(model)
        for model in self.unfinished:
            idle_for = self.batches - self.used.get(model.number, self.batches)
            if not model.has_opinion and idle_for > STRAY and len(self.models) > 1:
                self.remove(model.number, {"reason": f"nothing like it for {STRAY} batches"})
        limit = self.settings.max_models
        while limit and len(self.judges) > limit:  # a model counts when it has an opinion
            idle = min(
                (m for m in self.judges if m.number != self._latest),
                key=lambda m: (self.used.get(m.number, 0), m.number),
            )
            self.remove(idle.number, {"reason": f"max_models = {limit}"})

    def _complete(self, model: BufferModel) -> None:
        """Bring a model to stability with the data at hand."""
        while model.phase != STABLE:
            before = model.phase
            model.finish(self.threads)
            self._end_phase(model, before)

    def finish(self, X: NDArray, y: NDArray[np.int64]) -> None:
        if len(X):
            self.take(X, y)
        few = min(self.settings.too_few, self.settings.buffer_size)
        for model in self.unfinished:
            n = len(model.buffer)
            if n == 0 or (n < few and not model.has_opinion and len(self.models) > 1):
                self.remove(model.number, {"reason": f"{n} samples are too few to learn from"})
            else:
                self._complete(model)
        self._settle_up()

    # ---------------------------------------------------------------- use, merging, removal

    def _use(self, number: int, verdicts: list[Verdict]) -> None:
        """Note which model a batch goes to."""
        last = self.events[-1] if self.events else None
        opened = last is not None and last.kind == "opened" and last.model == number
        if number != self._latest and not opened:
            self._record("chosen", number, evidence_of(verdicts))
        self._latest = number
        self.used[number] = self.batches

    def _merge_doubles(
        self, judges: list[BufferModel], looks: list[Look], verdicts: list[Verdict]
    ) -> None:
        """Merge two stable models if all they saw says that they know the same."""
        if not self.settings.merge_after:
            return
        judged = [
            (model, seen, verdict.validated)
            for model, seen, verdict in zip(judges, looks, verdicts, strict=True)
            if model.phase == STABLE and model in self.models
        ]
        pair = self.together.note(judged, self.settings.merge_after)
        if pair is not None:
            self._merge(*pair)

    def _merge(self, kept: int, gone: int) -> None:
        """Keep one of two models that know the same."""
        self._record("merged", kept, {"model": gone})
        self.used[kept] = max(self.used.get(kept, 0), self.used.get(gone, 0))
        self._drop(gone, heir=kept)

    def _drop(self, number: int, heir: int | None = None) -> None:
        self.models.remove(self.model(number))
        self.used.pop(number, None)
        self.together.forget(number)
        if self._latest == number:
            recent = max(self.models, key=lambda m: self.used.get(m.number, -1), default=None)
            self._latest = heir if heir is not None else recent.number if recent else None

    # ---------------------------------------------------------------- answers

    def _asked_of(self, X: NDArray) -> list[tuple[BufferModel, NDArray[np.int64]]]:
        """Return the stable models, each with the samples of which it is asked.

        That is all samples, or where models are many those that it is likely to know.
        """
        everything, screen = np.arange(len(X)), self._screen()
        if screen is None:
            return [(model, everything) for model in self.stable]
        places = screen.likeliest(X, ASKED)
        order = np.argsort(places.ravel(), kind="stable")
        ends = np.searchsorted(places.ravel()[order], np.arange(len(self.stable) + 1))
        samples = order // ASKED
        return [
            (model, samples[first:last])
            for model, first, last in zip(self.stable, ends, ends[1:], strict=False)
            if last > first
        ]

    def _answered(
        self, X: NDArray, question: str
    ) -> Iterator[tuple[BufferModel, NDArray[np.int64], Any]]:
        """Yield the stable models, each with the samples it was asked of, and its answer."""
        pairs = self._asked_of(X)
        models = [model for model, _ in pairs]
        answers = self.asking(models, question, [(X[asked],) for _, asked in pairs])
        for (model, asked), answer in zip(pairs, answers, strict=True):
            yield model, asked, answer

    def _best_of_stable(self, X: NDArray) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the stable model of the least error for each sample, and its novelty.

        Of equals the newest.
        """
        least, novelty = np.full((2, len(X)), np.inf)
        numbers = np.full(len(X), -1, np.int64)
        for model, asked, seen in self._answered(X, "look"):
            better = seen.score <= least[asked]
            chosen = asked[better]
            numbers[chosen] = model.number
            least[chosen] = seen.score[better]
            novelty[chosen] = model.novelty_of(seen.part(better))
        return numbers, novelty

    def _route_by_novelty(self, X: NDArray, adapting: list[BufferModel]) -> NDArray[np.int64]:
        """Return the model of each sample where some predict by a sketch only.

        Errors of a sketch are larger than those of L1, so that what is usual for each decides:
        among the stable ones the least error, and then the least novelty.
        """
        numbers, least = self._best_of_stable(X)
        for model in adapting:
            own = model.novelty(X)
            numbers = np.where(own < least, model.number, numbers)
            least = np.minimum(own, least)
        return numbers

    def novelty(self, X: NDArray) -> NDArray[np.float64]:
        """Return how new each sample is to the model that it is least new to."""
        if self._screen() is None:
            return super().novelty(X)
        result = np.full(len(X), np.inf)
        for _, asked, novelty in self._answered(X, "novelty"):
            result[asked] = np.minimum(result[asked], novelty)
        for model in self.judges:
            if model.phase != STABLE:
                result = np.minimum(result, model.novelty(X))
        return result

    def route(self, X: NDArray) -> NDArray[np.int64]:
        """Return the number of the model that answers each sample.

        The least score; what is new to all, a model without an opinion yet. Of models of the same
        inputs the one last in use answers, if it can.
        """
        judges = self.judges
        adapting = [m for m in judges if m.phase != STABLE]
        if len(adapting) < len(judges):
            result = self._route_by_novelty(X, adapting)
        else:
            result = super().route(X)
        young = [m for m in self.unfinished if not m.has_opinion and m.classes]
        strangers = [m for m in young if m.group == m.number]
        if judges and strangers:
            result[self.novelty(X) > UNUSUAL] = strangers[-1].number
        for number in np.unique(result):
            group = self.model(number).group
            kin = [m for m in [*judges, *young] if m.group == group and m.classes]
            if kin:
                last = max(kin, key=lambda m: self.used.get(m.number, -1))
                result[result == number] = last.number
        return result
