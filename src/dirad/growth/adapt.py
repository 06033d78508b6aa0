"""Adaptation: steps on batches of a data set until the network is stable."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.core.network import Network, with_capacity
from dirad.core.propagate import Workspace, new_workspace
from dirad.core.second_process import Call, all_cached, compile_lock, run_beside
from dirad.growth.batches import Data, new_data
from dirad.growth.paper_step import run_paper_steps
from dirad.growth.state import (
    PHASE,
    Log,
    Scratch,
    State,
    new_scratch,
    new_state,
    with_state_capacity,
    working_type,
)
from dirad.growth.step import DONE, FULL, RAN, ROUND, run_steps
from dirad.growth.structure_round import complete_step
from dirad.history import STABLE, History
from dirad.params import Params


class Batch(NamedTuple):
    """Samples for one step: X (n, inputs), y (n, outputs) or (n,), and sample weights (n,)."""

    X: NDArray
    y: NDArray
    sample_weight: NDArray | None = None


class WorkspacePool:
    """Workspaces shared by networks with the same inputs and outputs, one network at a time."""

    def __init__(self, params: Params, n_samples: int) -> None:
        self.params = params
        self.n_work = min(params.batch_size, n_samples)
        self.n_wide = min(params.growth_batch, n_samples) if params.ordering == "gain" else 1
        self._spaces: tuple[Workspace, Workspace] | None = None
        self._inputs: NDArray | None = None  # the inputs that the workspaces hold
        self._resident = np.zeros(2, np.int64)

    def with_resident_flag(self, data: Data) -> Data:
        """Return the data, marked with whether the workspaces already hold their inputs."""
        if self._inputs is not data.inputs:
            self._inputs = data.inputs
            self._resident[:] = 0
        return data._replace(resident=self._resident)

    def workspaces(self, network: Network) -> tuple[Workspace, Workspace]:
        """Return a workspace for steps and one for rounds of growth with room for this network."""
        if self._spaces is not None:
            work = self._spaces[0]
            units, edges = len(work.term_0), len(work.edge_weight)
            if units >= len(network.units) and edges >= len(network.edges):
                return self._spaces
            # Half as much again: the networks that share the pool grow too.
            network = with_capacity(
                network,
                max(units, 3 * len(network.units) // 2),
                max(edges, 3 * len(network.edges) // 2),
            )
        dtype = working_type(self.params)
        self._resident[:] = 0
        self._spaces = (
            new_workspace(network, self.n_work, dtype),
            new_workspace(network, self.n_wide, dtype),
        )
        return self._spaces


class Adaptation:
    """A network that adapts, and scratch arrays that are kept from call to call."""

    def __init__(self, state: State, params: Params) -> None:
        self.state = state
        self.params = params
        self.constants = params.constants()
        self._scratch: Scratch | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle without scratch arrays, which are larger than everything else."""
        return Adaptation, (self.state, self.params)

    @property
    def stable(self) -> bool:
        """Has the network finished adapting?"""
        return is_stable(self.state)

    def replace(self, state: State) -> None:
        """Continue from another state."""
        self.state, self._scratch = state, None

    def advance(self, data: Data, until: int, pool: WorkspacePool) -> History:
        """Take steps on `data` until the network is stable, or until step `until`."""
        network = self.state.network
        wanted, given = (network.n_inputs, network.n_outputs), (data.inputs, data.targets)
        if wanted != tuple(part.shape[1] for part in given):
            raise ValueError(
                f"the network has {wanted[0]} inputs and {wanted[1]} outputs, the data have "
                f"{given[0].shape[1]} and {given[1].shape[1]}"
            )
        history = History()
        data = pool.with_resident_flag(data)
        data.epoch[0] = -1  # the workspace may hold the batch of another network
        result = RAN
        while self.state.step < until and result != DONE:
            first = self.state.step
            error = np.zeros(until - first)
            edges, hidden = np.zeros((2, until - first), np.int64)
            work, wide = pool.workspaces(self.state.network)
            if self._scratch is None:
                self._scratch = new_scratch(self.state, self.params, pool.n_work, work)
            scratch = self._scratch._replace(work=work)
            result = self._run_until_stop(scratch, wide, data, until, (error, edges, hidden))
            taken = slice(self.state.step - first)
            events = take_events(scratch.log)
            # Copies: the arrays may be much longer than the steps taken.
            history.extend(
                History(events, error[taken].copy(), edges[taken].copy(), hidden[taken].copy())
            )
            if result == FULL:
                self.state, self._scratch = with_doubled_capacity(self.state), None
                data.epoch[0] = -1
        return history

    def _run_until_stop(
        self,
        scratch: Scratch,
        wide: Workspace,
        data: Data,
        until: int,
        records: tuple[NDArray, NDArray, NDArray],
    ) -> int:
        """Take steps until there is a reason to stop, and return it.

        `records` are the error, the edges and the hidden nodes of every step. Our own ordering
        alternates between two programs: steps, and rounds that change the structure.
        """
        state, constants, first = self.state, self.constants, self.state.step
        if self.params.ordering != "gain":
            return run_paper_steps(state, scratch, data, constants, until, *records)
        while state.step < until and not self.stable:
            left = [record[state.step - first :] for record in records]
            result = run_steps(state, scratch, data, constants, until, *left)
            if result != ROUND:
                return result
            i = state.step - first
            complete_step(state, scratch.plan, wide, data, scratch.log, constants)
            records[1][i], records[2][i] = state.network.n_edges, state.network.n_hidden
        return DONE if self.stable else RAN


def adapt(
    state: State,
    data: Data,
    params: Params,
    *,
    until: int | None = None,
    chunk: int = 200,
    report: Callable[[State], None] | None = None,
) -> tuple[State, History]:
    """Take steps until the network is stable, or until step `until`.

    `state` is changed: continue with the state returned. `report` is called with the state after
    every `chunk` steps.
    """
    adaptation, history = Adaptation(state, params), History()
    pool = WorkspacePool(params, len(data.inputs))
    stop = params.max_steps + params.settle_steps + 1 if until is None else until
    while adaptation.state.step < stop and not adaptation.stable:
        before = adaptation.state.step
        history.extend(adaptation.advance(data, min(before + chunk, stop), pool))
        if report is not None and adaptation.state.step > before:
            report(adaptation.state)
    return adaptation.state, history


def step(state: State, batch: Batch, params: Params) -> tuple[State, History]:
    """Return the state after one step on a batch, and what happened. `state` stays as it is.

    This is `adapt` on a data set that consists of the batch alone.
    """
    n = max(len(batch.X), 1)
    whole = params.replace(batch_size=n, growth_batch=n)
    data = new_data(batch.X, batch.y, whole, batch.sample_weight)
    return adapt(state.copy(), data, whole, until=state.step + 1)


def is_stable(state: State) -> bool:
    """Has the network finished adapting?"""
    return bool(state.clock[PHASE] == STABLE)


def with_doubled_capacity(state: State) -> State:
    """Return the state in arrays with twice the capacity."""
    return with_state_capacity(
        state, 2 * len(state.network.units) + 64, 2 * len(state.network.edges) + 64
    )


def take_events(log: Log) -> NDArray:
    """Return the events written since the last call, and empty the log."""
    events = log.events[: log.written[0]].copy()
    log.written[0] = 0
    return events


def warm_up(precision: str = "float32", ordering: str = "gain") -> None:
    """Compile the programs of an ordering, or load them from the disk cache.

    Our own ordering has two programs, which are compiled at the same time where both are missing.
    """
    if (precision, ordering) in _loaded:
        return
    calls = program_calls(precision, ordering)
    if not all_cached(calls):
        with compile_lock():
            if len(calls) == 2 and not any(all_cached([call]) for call in calls):
                with run_beside(
                    f"from {__name__} import load; load({precision!r}, {ordering!r}, 0)"
                ):
                    _call_all(calls[1:])
            _call_all(calls)
    else:
        _call_all(calls)
    _loaded.add((precision, ordering))


_loaded: set[tuple[str, str]] = set()  # precisions and orderings whose programs are loaded


def program_calls(precision: str, ordering: str) -> list[Call]:
    """Return the programs of an ordering, with arguments for which they do next to nothing."""
    params = Params(precision=precision, ordering=ordering)
    state, pool = new_state(1, 1), WorkspacePool(params, 1)
    data = pool.with_resident_flag(new_data(np.zeros((1, 1)), np.zeros(1), params))
    work, wide = pool.workspaces(state.network)
    scratch = new_scratch(state, params, 1, work)
    constants, counts = params.constants(), np.zeros(1, np.int64)
    steps = (state, scratch, data, constants, 0, np.zeros(1), counts, counts)
    if ordering != "gain":
        return [(run_paper_steps, steps)]
    completion = (state, scratch.plan, wide, data, scratch.log, constants)
    return [(run_steps, steps), (complete_step, completion)]


def load(precision: str, ordering: str, number: int) -> None:
    """Compile one of the programs of an ordering, or load it from the disk cache."""
    _call_all(program_calls(precision, ordering)[number : number + 1])


def _call_all(calls: list[Call]) -> None:
    for program, args in calls:
        program(*args)
