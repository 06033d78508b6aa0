"""Stopping: when a network is stable, and which snapshot of it is kept."""

from dirad.core.compilation import kernel
from dirad.core.edits import copy_into
from dirad.core.order import rebuild
from dirad.growth.state import (
    BEST,
    BEST_STEP,
    ERROR,
    GAIN,
    PHASE,
    PHASE_START,
    SINCE_BEST,
    SMOOTHED,
    STEP,
    write_event,
)
from dirad.history import PHASE as PHASE_EVENT
from dirad.history import RESTORED, SETTLING, STABLE


@kernel
def record_error_and_best(state, error, params):
    """Record the error of a batch; keep a snapshot when the smoothed error is the lowest so far.

    Batches change every step, so that patience uses an exponentially smoothed error;
    `error_smoothing` = 1 uses the newest batch alone.
    """
    clock, meter = state.clock, state.meter
    meter[ERROR] = error
    # At first a plain mean, as long as it weights the newest batch more.
    weight = max(params.error_smoothing, 1.0 / (clock[STEP] + 1.0))
    meter[SMOOTHED] += weight * (error - meter[SMOOTHED])
    if meter[SMOOTHED] < meter[BEST]:
        meter[BEST] = meter[SMOOTHED]
        clock[SINCE_BEST] = 0
        clock[BEST_STEP] = clock[STEP]
        if params.settle_steps > 0 and params.ordering != GAIN:
            copy_into(state.network, state.best)
    else:
        clock[SINCE_BEST] += 1


@kernel
def enter_phase(state, log, phase):
    """Begin a phase, and log it."""
    state.clock[PHASE] = phase
    state.clock[PHASE_START] = state.clock[STEP] + 1
    write_event(state, log, PHASE_EVENT, phase, -1, -1, -1, -1, state.meter[SMOOTHED])


@kernel
def restore_best(state, plan, log):
    """Restore the snapshot of the lowest smoothed error."""
    if state.clock[BEST_STEP] >= 0:
        restore(state, plan, log, state.best, state.clock[BEST_STEP] - 1)


@kernel
def restore(state, plan, log, network, part):
    """Return to another network; the momentum is 0 again. `part` tells which (see `RECORD`)."""
    copy_into(network, state.network)
    rebuild(state.network, plan)
    state.bias_mean[:] = 0.0
    for e in range(state.edge_life.shape[0]):
        state.edge_life[e].mean = 0.0
        state.edge_life[e].fading = 0
    write_event(state, log, RESTORED, part, -1, -1, -1, -1, 0.0)


@kernel
def end_growth_phase(state, log, params):
    """Enter the settling phase, or the stable phase where there is no settling."""
    if params.settle_steps > 0:
        enter_phase(state, log, SETTLING)
    else:
        enter_phase(state, log, STABLE)


@kernel
def apply_patience(state, plan, log, params):
    """The paper's rule: stable after `patience` steps without a decrease."""
    if state.clock[SINCE_BEST] >= params.patience:
        if params.settle_steps > 0:
            restore_best(state, plan, log)
        end_growth_phase(state, log, params)
