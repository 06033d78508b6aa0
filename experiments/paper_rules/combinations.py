"""The combinations of connectivity, stop of L1 and rule that are compared."""

from typing import NamedTuple

from experiments.paper_rules.recordings import CONNECTIVITY, STOPS
from experiments.paper_rules.rules import AS_PRINTED, MEASURES, OR_ALL, VALID, Rule


class Combination(NamedTuple):
    """One combination."""

    connectivity: str
    stop: str
    rule: Rule


def combinations() -> list[Combination]:
    """Return all combinations; a rule differs from `Rule()` in at most three fields."""
    everywhere = [Rule(measure) for measure in MEASURES]
    everywhere += [Rule(measure, limit=OR_ALL) for measure in ("absolute", "squared")]
    rules = [
        Rule(statistics=statistics, share=share)
        for statistics in ("last", "one before", "last ten", "each target's own last")
        for share in ("last", "last ten", "next")
    ]
    rules += [Rule(measure, limit=limit) for limit in (OR_ALL, VALID) for measure in MEASURES]
    for measure in ("absolute", "squared"):
        rules += [
            Rule(measure, statistics=statistics, limit=limit)
            for limit in (OR_ALL, VALID)
            for statistics in ("last ten", "each target's own last")
        ]
        rules += [
            Rule(measure, limit=limit, batches=batches)
            for batches in (3, 10)
            for limit in (AS_PRINTED, OR_ALL, VALID)
        ]
        rules += [Rule(measure, T_conf=T_conf) for T_conf in (2.0, 2.5, 3.0, 4.0)]
        rules += [Rule(measure, T_SV=T_SV) for T_SV in (0.02, 0.03, 0.05, 0.1)]
    found = [Combination(c, s, rule) for c in CONNECTIVITY for s in STOPS for rule in everywhere]
    found += [Combination(c, "each", rule) for c in CONNECTIVITY for rule in rules]
    return list(dict.fromkeys(found))
