"""All combinations as tables, beside the paper's own numbers."""

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from dirad.report.tables import Section
from experiments.paper_rules.rules import TIES, Rule
from experiments.paper_rules.scores import Score, log_likelihood, paper_accuracies, paper_outcomes
from experiments.reproduction import published

NOTE = (
    "{runs} runs with the digits of the first of the paper's runs at every T_CP, ten draws of the"
    " judged batches each. The preset `paper` is the row strict, each, squared, last, last, above"
    " (1+ε)R or all, 1, 1.5, 0.01. Columns 0.05 to 0.20, the four values of T_CP: per cent of "
    "runs that detected both new tasks, only the second, only the third, neither. Detection: "
    "log-likelihood of the outcomes of all 32 runs of the paper, under these frequencies with one"
    " added to each count; the first row has the paper's own frequencies in place of ours. "
    "Routing: log-density of the paper's accuracies T2 and T3 in the runs that detected all "
    "tasks, under normal distributions fitted to ours. Together: their sum. False alarms: share "
    "of further batches of its own task that a model takes for new. T2, T3: accuracies if every "
    "task is detected. L1 error: mean squared error over all targets."
)


def per_T_CP(values: Sequence[float] | NDArray, digits: int = 2) -> str:
    """Return one number per T_CP.

    >>> per_T_CP([0.5, 1.0], 1)
    '0.5 / 1.0'
    """
    return " / ".join(f"{value:.{digits}f}" for value in values)


def shares(counts: NDArray) -> dict[str, str]:
    """Return, for each T_CP, the per cent of runs with each of the OUTCOMES."""
    per_cent = 100.0 * counts / counts.sum(axis=0)
    return {
        f"{T_CP:.2f}": " ".join(f"{value:.0f}" for value in per_cent[:, column])
        for column, T_CP in enumerate(published.T_CP)
    }


def paper_row(runs: int) -> dict[str, Any]:
    """Return the paper's own row: its frequencies in place of ours."""
    observed = paper_outcomes()
    means = [accuracy.mean(axis=0) for accuracy in paper_accuracies()]
    return {
        "connectivity": "the paper",
        "detection": f"{log_likelihood(observed * runs / observed.sum(axis=0), observed):.1f}",
        **shares(observed),
        "T2": per_T_CP([mean[1] for mean in means]),
        "T3": per_T_CP([mean[2] for mean in means]),
        "L1 error": "≈ 0.05",
    }


def row(score: Score) -> dict[str, Any]:
    """Return one combination as a row."""
    connectivity, stop, rule = score.combination
    accuracy = score.accuracy[0].mean(axis=0)
    return {
        "connectivity": connectivity,
        "end of L1": stop,
        "error": rule.measure,
        "μ, σ from": rule.statistics,
        "R_IS from": rule.share,
        "a batch is new": rule.limit,
        "batches": rule.batches,
        "T_conf": rule.T_conf,
        "T_SV": rule.T_SV,
        "together": f"{score.detection + score.routing:.1f}",
        "detection": f"{score.detection:.1f}",
        "routing": f"{score.routing:.1f}",
        **shares(score.counts),
        "R_IS": per_T_CP(score.R_IS),
        "confident": per_T_CP(score.confident, 0),
        "false alarms": per_T_CP(score.false_alarms),
        "T2": per_T_CP(accuracy[1]),
        "T3": per_T_CP(accuracy[2]),
        "L1 error": f"{score.squared_error:.3f}",
        "L1 edges": f"{score.edges:,.0f}",
    }


def tie_row(score: Score, ties: int) -> dict[str, Any]:
    """Return the accuracies of one combination with ties broken in one way."""
    accuracy = score.accuracy[ties].mean(axis=0)
    return {
        "connectivity": score.combination.connectivity,
        "error": score.combination.rule.measure,
        "ties": TIES[ties],
        "T2": per_T_CP(accuracy[1]),
        "T3": per_T_CP(accuracy[2]),
    }


def sections(scores: Sequence[Score]) -> list[Section]:
    """Return all combinations, the likeliest first, and the effect of ties in routing."""
    ranked = sorted(scores, key=lambda score: -score.detection - score.routing)
    runs = scores[0].runs
    rows = [row(score) for score in ranked]
    theirs = paper_row(runs)
    first = {column: theirs.get(column, "–") for column in rows[0]}
    ties = [
        tie_row(score, i)
        for score in scores
        if score.combination.stop == "each" and score.combination.rule in (Rule(), Rule("squared"))
        for i in range(len(TIES))
    ]
    return [
        Section("All combinations", [first, *rows], NOTE.format(runs=runs)),
        Section(
            "Ties in routing",
            ties,
            "Which model answers a sample that several models know equally well.",
        ),
    ]
