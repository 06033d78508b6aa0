"""Networks, what adapts them, and what became of them, as they stand in a model file."""

from dataclasses import fields
from typing import Any

import numpy as np

from dirad.core.network import (
    EDGE,
    FREE,
    LOGISTIC,
    MODULATORY,
    N_INPUTS,
    N_OUTPUTS,
    OUTPUT,
    SOFTMAX,
    TRANSFER,
    UNIT,
    Network,
)
from dirad.growth.adapt import Adaptation
from dirad.growth.state import EDGE_LIFE, PHASE, STEP, UNIT_LIFE, State, new_trimming
from dirad.history import KIND_NAMES, PHASE_NAMES, RECORD, History
from dirad.inference import levels
from dirad.params import CHOICES, Params
from dirad.storage.codecs import Array, Codec, Flag, Int, Real, Text
from dirad.storage.composites import Maybe, Object, Shared
from dirad.storage.errors import ModelError


def must(right: Any, text: str) -> None:
    """Refuse what is not right."""
    if not right:
        raise ModelError(text)


def check_network(net: Network) -> None:
    """Refuse a network that could not have grown: kernels trust what stands in it."""
    inputs, units, edges, outputs, transfer = net.counts.tolist()
    must(inputs == len(net.usable), f"{inputs} inputs, but {len(net.usable)} are described")
    must(0 <= outputs <= units <= len(net.units), f"{outputs} outputs, {units} units make no sense")
    must(0 <= edges <= len(net.edges), f"{edges} edges do not fit into {len(net.edges)} places")
    must(LOGISTIC <= transfer <= SOFTMAX, f"there is no transfer {transfer}")
    kind = net.units["kind"]
    must(np.isin(kind, (FREE, OUTPUT, MODULATORY)).all(), "a unit is of no known kind")
    must((kind[units:] == FREE).all(), "a unit stands beyond the last one")
    columns = np.sort(net.units["output"][kind == OUTPUT])
    must(np.array_equal(columns, np.arange(outputs)), "outputs are missing, or there twice")
    source, term = net.edges["source"], net.edges["term"]
    must((source[edges:] < 0).all(), "an edge stands beyond the last one")
    used = source >= 0
    source, term = source[used], term[used]
    must((source < inputs + units).all(), f"an edge leaves node {source.max(initial=0)}: none such")
    must(((term >= 0) & (term < 2 * units)).all(), "an edge enters a unit that is not there")
    inner = source[source >= inputs] - inputs
    must((kind[inner] != FREE).all() and (kind[term // 2] != FREE).all(), "an edge ends at no unit")
    must((kind[term[term % 2 == 1] // 2] == MODULATORY).all(), "an output has no second term")
    levels(net)  # a cycle is an error


def check_state(state: State) -> None:
    """Refuse a state whose parts do not belong together."""
    fixed = [N_INPUTS, N_OUTPUTS, TRANSFER]
    for one in (state.network, state.best, state.trimmed):
        must(np.array_equal(state.network.counts[fixed], one.counts[fixed]),
             "the best network has other inputs or outputs")  # fmt: skip
        must(len(one.units) == len(state.unit_life), "units and their lives differ in number")
        must(len(one.edges) == len(state.edge_life), "edges and their lives differ in number")
    must(state.clock[STEP] >= 0, "the clock stands before the start")
    must(0 <= state.clock[PHASE] < len(PHASE_NAMES), f"there is no phase {state.clock[PHASE]}")


def check_history(history: History) -> None:
    """Refuse events of no known kind, or measurements out of step."""
    kinds = history.events["kind"]
    must(((kinds >= 0) & (kinds < len(KIND_NAMES))).all(), "an event is of no known kind")


def options_of(cls: Any, choices: dict[str, tuple[str, ...]], special: dict[str, Codec]) -> dict:
    """Return the codecs of a dataclass's fields, by their declared types."""
    by_type: dict[Any, Codec] = {int: Int(), float: Real(), bool: Flag(), str: Text()}
    return {
        item.name: special.get(item.name)
        or (Text(*choices[item.name]) if item.name in choices else by_type[item.type])
        for item in fields(cls)
    }


INT, REAL = np.int64, np.float64

PARAMS = Object(Params, options_of(Params, CHOICES, {}))

NETWORK = Object(
    Network,
    {
        "counts": Array(INT, 5),
        "usable": Array(np.bool_, "inputs"),
        "units": Array(UNIT, "units"),
        "bias": Array(REAL, "units", 2),
        "edges": Array(EDGE, "edges"),
    },
    check_network,
)
SHARED_NETWORK = Shared(NETWORK)


def new_state_from(**found: Any) -> State:
    """Return a state; those of dirad 0.1 know nothing of trimming."""
    if found["trimmed"] is None:
        found["trimmed"] = found["best"].copy()
    if found["trimming"] is None:
        found["trimming"] = new_trimming()
    return State(**found)


STATE = Object(
    new_state_from,
    {
        "network": NETWORK,
        "best": NETWORK,
        "trimmed": Maybe(NETWORK),
        "edge_life": Array(EDGE_LIFE, "edges"),
        "unit_life": Array(UNIT_LIFE, "units"),
        "bias_mean": Array(REAL, "units", 2),
        "bias_square": Array(REAL, "units", 2),
        "clock": Array(INT, 9),
        "meter": Array(REAL, 3, finite=False),
        "trimming": Maybe(Array(REAL, 5, finite=False)),
    },
    check_state,
)

HISTORY = Object(
    History,
    {
        "events": Array(RECORD, "events", finite=False),
        "error": Array(REAL, "steps", finite=False),
        "edges": Array(INT, "steps"),
        "hidden": Array(INT, "steps"),
    },
    check_history,
)

ADAPTATION = Object(Adaptation, {"state": STATE, "params": PARAMS})
