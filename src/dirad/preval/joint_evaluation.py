"""All models of a system, evaluated together."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from numpy.typing import NDArray

from dirad.immutable import shared
from dirad.inference import evaluate
from dirad.preval.expert import Expert, Scores
from dirad.program import Program
from dirad.side_by_side import result_name, side_by_side


@dataclass(frozen=True, eq=False)
class JointEvaluation:
    """The program of several experts."""

    experts: tuple[Expert, ...]
    program: Program | None  # None: each is evaluated by itself

    def __deepcopy__(self, memo: dict[Any, Any]) -> "JointEvaluation":
        return shared(self, memo)

    @classmethod
    def of(cls, experts: Sequence[Expert]) -> "JointEvaluation":
        """Join the programs of experts, unless some have none."""
        joint = None
        if len(experts) > 1 and all(expert.l1 is not None for expert in experts):
            joint = side_by_side([expert.evaluator.program for expert in experts])
        return cls(tuple(experts), joint)

    def scores(self, X: NDArray) -> list[Scores]:
        """Return the scores of samples by each expert."""
        if self.program is None:
            return [expert.evaluate(X) for expert in self.experts]
        found = evaluate(self.program, X)
        return [
            expert.evaluator.scores_from({name: found[joint] for name, joint in names})
            for expert, names in zip(self.experts, self.result_names, strict=True)
        ]

    @cached_property
    def result_names(self) -> list[list[tuple[str, str]]]:
        """The names of each expert's results, with those that they have in the program."""
        return [
            [(name, result_name(name, i)) for name in expert.evaluator.program.results]
            for i, expert in enumerate(self.experts)
        ]
