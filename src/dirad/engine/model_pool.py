"""Models of a large system in actors: they are asked all at once, and answer as they do at home."""

import copy
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dirad.engine.rays import RayEngine, clear_errors, single_threaded, stored

MODELS_PER_ACTOR = 8
ANSWER_WITHIN = 600.0  # seconds in which a question must be answered
RETRIES = 2  # of a question whose actor dies; one that kills it each time must end
RESTARTS = 10  # of an actor, in all
# What a system looks at in a model before and after it asks; paper models have only some of it.
SMALL = ("number", "group", "classes", "phase", "has_opinion", "offset", "spread", "usual")


class Residence:
    """What runs in an actor: some models, who answer questions."""

    def __init__(self, packed: bytes) -> None:
        self.models = {model.number: model for model in pickle.loads(packed)}

    def ask(self, number: int, question: str, *args: Any) -> Any:
        """Return the answer of a model to a question: the name of a method."""
        return single_threaded(getattr(self.models[number], question), *args)


class Resident:
    """Stands in a system for a model that lives elsewhere."""

    def __init__(self, model: Any, actor: Any, engine: RayEngine) -> None:
        self.number: int = model.number
        self.actor = actor
        self._engine = engine
        for name in SMALL:
            if hasattr(model, name):
                setattr(self, name, getattr(model, name))

    def ask(self, question: str, *args: Any) -> Any:
        """Send a question; return the reference to its answer."""
        with clear_errors(self._engine.ray):
            return self.actor.ask.remote(self.number, question, *args)

    def __getattr__(self, question: str) -> Any:
        """Return the method of the model: a question that waits for the answer."""
        if question.startswith("_"):
            raise AttributeError(question)
        return lambda *args: self._engine.answer(self.ask(question, *args))


class ModelPool:
    """A system (of `dirad.preval`) all of whose models are stable, spread over a cluster.

    To be made where `on_ray` is in force. It answers what the system answers. The system given
    stays as it is and is not needed any more: the models are in Ray's store, pickled, and an actor
    that dies is made again from there, some times. In a `with` statement the actors end with the
    block. What is not answered in `answer_within` seconds, or kills its actor, is a `ClusterError`.
    """

    def __init__(
        self,
        system: Any,
        *,
        models_per_actor: int = MODELS_PER_ACTOR,
        answer_within: float = ANSWER_WITHIN,
    ) -> None:
        if models_per_actor < 1:
            raise ValueError(f"models_per_actor must be at least 1, got {models_per_actor!r}")
        if not system.models:
            raise ValueError("a system without models has nothing to place")
        for model in system.unfinished:
            raise ValueError(f"model {model.number} still adapts: finish the system first")
        self.engine = RayEngine(answer_within)
        self.actors: list[Any] = []
        self._packed: list[Any] = []  # references: what nobody refers to leaves the store
        self.system = copy.copy(system)
        self.system.asking = self._ask_at_once
        self.system.models = []
        for first in range(0, len(system.models), models_per_actor):
            self._place(system.models[first : first + models_per_actor])

    def _place(self, models: Sequence[Any]) -> None:
        """Let some models live in an actor of their own."""
        kind = self.engine.ray.remote(Residence).options(
            num_cpus=0,
            max_restarts=RESTARTS,
            max_task_retries=RETRIES,
            scheduling_strategy="SPREAD",
        )
        with clear_errors(self.engine.ray):
            packed = self.engine.ray.put(pickle.dumps(models))
            actor = kind.remote(packed)
        self.actors.append(actor)
        self._packed.append(packed)
        self.system.models += [Resident(model, actor, self.engine) for model in models]

    def _ask_at_once(
        self, models: Sequence[Resident], question: str, arguments: Sequence[Sequence[Any]]
    ) -> list[Any]:
        """Return the answers of models, who work at the same time."""
        with clear_errors(self.engine.ray):
            sent = stored(self.engine.ray, arguments)
        asked = [model.ask(question, *args) for model, args in zip(models, sent, strict=True)]
        return [self.engine.answer(one) for one in asked]

    def __enter__(self) -> "ModelPool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the actors."""
        while self.actors:
            self.engine.ray.kill(self.actors.pop())
        self._packed.clear()

    def scores(self, X: NDArray) -> NDArray[np.float64]:
        """Return how little each model knows each sample: (samples, models)."""
        return self.system.scores(X)

    def route(self, X: NDArray) -> NDArray[np.int64]:
        """Return the number of the model that answers each sample."""
        return self.system.route(X)

    def judge(self, X: NDArray, y: NDArray[np.int64] | None = None) -> list[Any]:
        """Return what each model says of a batch: a `Verdict` per model."""
        return self.system.judge(X, y)

    def probabilities(self, X: NDArray) -> NDArray[np.float64]:
        """Return the probability of every class: (samples, classes), by each sample's model."""
        return self.system.probabilities(X)
