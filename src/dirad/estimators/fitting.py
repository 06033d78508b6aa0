"""The fit of a network: standardization, held-out samples, early stopping, resuming."""

import hashlib
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dirad.core.compose import average_activations
from dirad.core.input_groups import NO_GROUPS, InputGroups
from dirad.core.magnitudes import mean_and_std
from dirad.core.network import Network
from dirad.estimators.starts import Start, description_length, number_of_starts, params_of_start
from dirad.estimators.trial import CLEARLY, MATERIAL, TRIAL_SHARE, held_out_rows, is_better
from dirad.growth.adapt import Adaptation, Data, WorkspacePool, adapt, is_stable, new_data, warm_up
from dirad.growth.state import PHASE, State, new_state
from dirad.history import EDGE, RECORD, STABLE, History
from dirad.inference import respond
from dirad.params import Params

if TYPE_CHECKING:  # slow to import, and a saved model that only predicts does without
    from dirad.growth.wide import Samples as Scaled
    from dirad.growth.wide import WideFit

CHECK_INTERVAL = 200  # steps between two checks of held-out samples
STRUCTURES = ("auto", "compact", "wide")
LEAST_HELD_OUT = 10  # samples; with fewer only a compact network is grown
MOST_WIDE_INPUTS = 300  # with more, a wide network is grown only if it is asked for
FEW_SAMPLES, FEW_FOLDS = 1000, 3  # with so few, three folds are held out, one after the other
TRIAL_SAMPLES = 10_000  # at most so many others are used for it
TRIAL_SETTLE_STEPS = 1000  # of the compact network that is only compared


class Scale:
    """Standardization of the inputs that is folded into the network afterwards."""

    def __init__(self, X: NDArray, enabled: bool) -> None:
        self.mean, spread = np.zeros(X.shape[1]), np.ones(X.shape[1])
        if enabled:
            self.mean, spread = mean_and_std(X)
        # A constant feature must not seem informative because of rounding errors.
        self.constant = spread == 0
        self.spread = np.where(self.constant, 1.0, spread)

    def apply(self, X: NDArray) -> NDArray:
        """Return inputs as the network sees them."""
        return (X - self.mean) / self.spread

    def fold(self, network: Network) -> Network:
        """Return a network that gives for X what `network` gives for apply(X)."""
        network = network.copy()
        edges = network.edges
        for e in np.flatnonzero((edges["source"] >= 0) & (edges["source"] < network.n_inputs)):
            source, term = edges["source"][e], edges["term"][e]
            edges["weight"][e] /= self.spread[source]
            network.bias[term // 2, term % 2] -= edges["weight"][e] * self.mean[source]
        return network


class Samples:
    """Training data: inputs, targets, weights, and groups for a stratified split."""

    def __init__(
        self,
        X: NDArray,
        targets: NDArray,
        weight: NDArray,
        groups: NDArray | None = None,
        columns: InputGroups = NO_GROUPS,
    ) -> None:
        self.X = X
        self.targets = targets
        self.weight = weight
        self.groups = groups
        self.columns = columns

    @cached_property
    def digest(self) -> str:
        """A hash of the samples."""
        found = hashlib.sha256()
        for part in (self.X, self.targets, self.weight):
            found.update(str(part.shape).encode())
            found.update(np.ascontiguousarray(part, np.float64).tobytes())
        return found.hexdigest()


class Fit:
    """A fit that can stop after any step and go on later, on the same samples."""

    def __init__(
        self,
        samples: Samples,
        params: Params,
        transfer: int,
        random_state: np.random.RandomState,
        *,
        standardize: bool,
        validation_fraction: float,
        committee: int = 1,
        n_init: int | str = 1,
        structure: str = "compact",
        verbose: bool = False,
    ) -> None:
        if committee < 1:
            raise ValueError(f"committee must be at least 1, got {committee!r}")
        if not 0.0 <= validation_fraction < 1.0:
            raise ValueError(f"validation_fraction must be in [0, 1), got {validation_fraction!r}")
        self.params = params
        self.digest = samples.digest
        self.validation_fraction = float(validation_fraction)
        self.scale = Scale(samples.X, enabled=standardize)
        self.split_seed = int(random_state.randint(2**31)) if validation_fraction else 0
        self.n_starts = number_of_starts(n_init, params, committee, structure)
        n_networks = max(committee, self.n_starts)
        self.seeds = [int(random_state.randint(2**31)) for _ in range(n_networks)]
        self.members: list[Network] = []  # networks of a committee that are finished
        self.kept: Start | None = None  # the best of the starts that are finished
        self.finished_steps: list[int] = []  # taken by each network that is finished
        self.transfer = transfer
        self.structure = _possible_structure(structure, params, samples, self.validation_fraction)
        self._begin_member(samples)
        if self.structure == "auto":
            wide = self._wide_if_better(samples, verbose)
            self.structure = "compact" if wide is None else "wide"
            if wide is not None:
                self._take_wide(wide, samples)

    def _begin_member(self, samples: Samples) -> None:
        """Begin a network without edges."""
        self.history = History()
        self.best_network: Network | None = None  # on held-out samples
        self.best_error = np.inf
        fitted, _ = self._parts(samples)
        self.state: State = self._new_state(self.seeds[len(self.finished_steps)], fitted)

    def _new_state(self, seed: int, samples: "Samples | Scaled") -> State:
        """Return a network without edges for so many samples."""
        n_outputs = samples.targets.shape[1]
        state = new_state(
            len(self.scale.mean),
            n_outputs,
            transfer=self.transfer,
            seed=seed,
            n_samples=len(samples.targets),
        )
        state.network.usable[:] = ~self.scale.constant
        return state

    def _parts(self, samples: Samples) -> tuple[Samples, Samples | None]:
        """Return the scaled samples that are fitted to, and those held out, if any."""
        X, targets, weight = self.scale.apply(samples.X), samples.targets, samples.weight
        if not self.validation_fraction:
            return Samples(X, targets, weight), None
        from sklearn.model_selection import train_test_split  # slow to import; here alone

        parts: Any = train_test_split(
            X,
            targets,
            weight,
            test_size=self.validation_fraction,
            random_state=self.split_seed,
            stratify=samples.groups,
        )
        return Samples(*parts[::2]), Samples(*parts[1::2])

    @property
    def stable(self) -> bool:
        """Is there nothing left to do?"""
        last = self.structure == "wide" or len(self.finished_steps) + 1 >= len(self.seeds)
        return self._member_stable and last

    @property
    def _member_stable(self) -> bool:
        """Is the present network finished?"""
        return is_stable(self.state) or self.state.step >= self._last_step

    @property
    def _last_step(self) -> int:
        return self.params.max_steps + self.params.settle_steps + 1

    def advance(self, samples: Samples, steps: int | None, verbose: bool) -> NDArray:
        """Take some steps, or all that are left; return the scaled inputs fitted to."""
        if samples.digest != self.digest:
            raise ValueError("these are not the samples that the fit began with")
        left = self._last_step * len(self.seeds) if steps is None else steps
        fitted, held_out = self._parts(samples)
        from dirad.estimators.progress import ProgressBar

        data: Data | None = None
        if self.structure == "compact":
            data = new_data(fitted.X, fitted.targets, self.params, fitted.weight)
            load_kernels(self.params, verbose)
        with ProgressBar(self.params, verbose) as bar:
            while left > 0 and not self.stable:
                if self._member_stable:
                    self._finish_member(fitted)
                    self._begin_member(samples)
                before = self.state.step
                if data is None:
                    self._take_wide(self._fit_wide(samples), samples)
                    left -= 1
                else:
                    self._advance(data, min(before + left, self._last_step), held_out, bar)
                    left -= self.state.step - before
        if self.kept is not None and self.stable:
            self._finish_member(fitted)
        return fitted.X

    def _finish_member(self, fitted: Samples) -> None:
        """Keep a finished network: as a member of the committee, or if it is the best start."""
        if self.n_starts == 1:
            self.members.append(self._member)
        else:
            length = self.best_error
            if not self.validation_fraction:
                described = fitted.X, fitted.targets, fitted.weight
                length = description_length(self._member, *described, self._params_now)
            if self.kept is None or length < self.kept.length:
                self.kept = Start(self._member, self.history, length)
        self.finished_steps.append(self.state.step)

    def _fit_wide(self, samples: Samples) -> "WideFit":
        """Grow a wide network."""
        from dirad.growth.wide import fit_wide

        seed = self.seeds[0]
        scaled, held_out = (
            self._scaled(samples),
            self._held_out(samples, seed),
        )
        constants = self.transfer, self.params.prior, ~self.scale.constant, seed
        return fit_wide(scaled, held_out, *constants, samples.columns)

    def _take_wide(self, first: "WideFit", samples: Samples) -> None:
        """Take a wide network, or the average of a committee of which this is the first."""
        from dirad.estimators.tree_rules import tree_rules
        from dirad.growth.wide import finished, fit_alike

        drafts, scaled = [first.draft], self._scaled(samples)
        # Networks without hidden nodes that are fitted to the same samples are the same.
        others = self.seeds[1:] if self.n_starts == 1 and first.draft.rounds else []
        for i, seed in enumerate(others):
            held_out, seeds = self._held_out(samples, seed), (self.seeds[0], seed)
            # Every other network has rules among its candidates, so that they err differently.
            propose = tree_rules if i % 2 == 0 else None
            drafts.append(
                fit_alike(scaled, held_out, first, seeds, samples.columns, propose=propose)
            )
        draft = finished(drafts)
        self.best_network, self.history = draft.network(), draft.history()
        if len(drafts) > 1:
            self.history = assembly(self.best_network, first.draft.history())
        self.state.clock[PHASE] = STABLE

    def _scaled(self, samples: Samples) -> "Scaled":
        from dirad.growth.wide import Samples as Scaled

        return Scaled(self.scale.apply(samples.X), samples.targets, samples.weight)

    def _wide_if_better(self, samples: Samples, verbose: bool) -> "WideFit | None":
        """Return a wide network if it predicts held-out samples clearly better than a compact one.

        Both are grown on the other samples for this comparison. Few samples make nothing clear;
        then it is enough if a network without hidden nodes is better, since it is simple too.
        """
        load_kernels(self.params, verbose)
        wide, scaled = self._fit_wide(samples), self._scaled(samples)
        held_out = self._held_out(samples, self.seeds[0])
        tests, compact = [np.flatnonzero(held_out)], [self._compact_answers(scaled, held_out)]
        test = scaled.take(tests[0])
        clearly = self.transfer, CLEARLY[self.transfer], MATERIAL
        if is_better(wide.held_out_answers, compact[0], test, *clearly):
            return wide
        if len(samples.X) > FEW_SAMPLES:
            return None
        linear = [self._linear_answers(scaled, held_out)]
        for fold in range(1, FEW_FOLDS):
            held_out = self._held_out(samples, self.seeds[0], fold)
            tests.append(np.flatnonzero(held_out))
            compact.append(self._compact_answers(scaled, held_out))
            linear.append(self._linear_answers(scaled, held_out))
        answers, others = np.concatenate(linear), np.concatenate(compact)
        test = scaled.take(np.concatenate(tests))
        better = is_better(answers, others, test, self.transfer, (0.0,), MATERIAL)
        return wide if better else None

    def _held_out(self, samples: Samples, seed: int, fold: int = 0) -> NDArray[np.bool_]:
        return held_out_rows(len(samples.X), samples.groups, seed, fold)

    def _compact_answers(self, scaled: "Scaled", held_out: NDArray[np.bool_]) -> NDArray:
        """Return the answers to held-out samples of a compact network grown on others."""
        order = np.random.default_rng(self.seeds[0]).permutation(np.flatnonzero(~held_out))
        rest = scaled.take(np.sort(order[:TRIAL_SAMPLES]))
        steps = min(TRIAL_SETTLE_STEPS, self.params.settle_steps)
        data = new_data(rest.inputs, rest.targets, self.params, rest.weight)
        best, shortest = self.state.network, np.inf
        for start in range(self.n_starts):
            params = params_of_start(self.params, start).replace(settle_steps=steps)
            state, _ = adapt(self._new_state(self.seeds[start], rest), data, params)
            length = description_length(state.network, *rest, params)
            if length < shortest:
                best, shortest = state.network, length
        return respond(best, scaled.inputs[held_out])

    def _linear_answers(self, scaled: "Scaled", held_out: NDArray[np.bool_]) -> NDArray:
        """Return the answers to held-out samples of a network without hidden nodes."""
        from dirad.growth.wide import fit_linear

        rest, usable = scaled.take(np.flatnonzero(~held_out)), ~self.scale.constant
        return fit_linear(rest, self.transfer, self.params.prior, usable, scaled.inputs[held_out])

    def _advance(self, data: Data, stop: int, held_out: Samples | None, bar: Any) -> None:
        params = self._params_now
        adaptation = Adaptation(self.state, params)
        pool = WorkspacePool(params, len(data.inputs))
        while adaptation.state.step < stop and not adaptation.stable:
            # Checks are at multiples of the interval, also after the fit was resumed.
            pause = (adaptation.state.step // CHECK_INTERVAL + 1) * CHECK_INTERVAL
            self.history.extend(adaptation.advance(data, min(pause, stop), pool))
            self.state = adaptation.state
            bar.update(self.state, self.place)
            if self.state.step != pause and not adaptation.stable:
                continue
            if held_out is not None:
                self._check_held_out(held_out)

    def _check_held_out(self, held_out: Samples) -> None:
        """Keep the network if none did better on held-out samples.

        A network with more edges than allowed is temporary, and cannot be the best.
        """
        network = self.state.network
        if network.n_edges > self.params.max_edges:
            return
        error = float(np.mean((respond(network, held_out.X) - held_out.targets) ** 2))
        if error < self.best_error:
            self.best_error, self.best_network = error, network.copy()

    @property
    def _member(self) -> Network:
        """The present network, or the best on held-out samples."""
        return self.state.network if self.best_network is None else self.best_network

    @property
    def network(self) -> Network:
        """The network to use, which takes scaled inputs: the best start, a committee's average."""
        if self.kept is not None:
            return self.kept.network
        return average_activations([*self.members, self._member]) if self.members else self._member

    @property
    def n_steps(self) -> int:
        """Steps that led to the network: of adaptation, or rounds of growth of a wide network."""
        return len(self.growth.error)

    @property
    def _params_now(self) -> Params:
        """The constants of the network that is grown now."""
        if self.n_starts == 1:
            return self.params
        return params_of_start(self.params, len(self.finished_steps))

    @property
    def place(self) -> str:
        """Which of several networks is grown now."""
        several = len(self.seeds) > 1 and self.structure == "compact"
        number = min(len(self.finished_steps) + 1, len(self.seeds))
        return f"network {number} of {len(self.seeds)}, " if several else ""

    @property
    def progress(self) -> tuple[int, int]:
        """Steps taken by all networks, and the most that they may take."""
        return sum(self.finished_steps) + self.state.step, self._last_step * len(self.seeds)

    @property
    def growth(self) -> History:
        """What led to the network: the growth of one, or the assembly of a committee."""
        if self.kept is not None:
            return self.kept.history
        return assembly(self.network, self.history) if self.members else self.history


def load_kernels(params: Params, verbose: bool) -> None:
    """Compile the kernels, or load them from the disk cache."""
    from dirad.estimators.progress import compilation_progress

    with compilation_progress(verbose):
        warm_up(params.precision, params.ordering)


def _possible_structure(structure: str, params: Params, samples: Samples, held_out: float) -> str:
    """Return the structure to grow; "auto" needs samples to hold out, and no limit of edges."""
    if structure not in STRUCTURES:
        raise ValueError(f"structure must be one of {STRUCTURES}, got {structure!r}")
    unlimited = params.ordering == "gain" and params.max_edges == Params.max_edges
    if structure == "wide" and (held_out or not unlimited):
        what = "validation_fraction" if unlimited else "max_edges or preset='paper'"
        raise ValueError(f"structure='wide' cannot be combined with {what}")
    suitable = (
        len(samples.X) // TRIAL_SHARE >= LEAST_HELD_OUT and samples.X.shape[1] <= MOST_WIDE_INPUTS
    )
    if structure == "auto" and (held_out or not unlimited or not suitable):
        return "compact"
    return structure


def assembly(network: Network, last: History) -> History:
    """Return a history in which all edges of a network appear at once, in the last step."""
    edges = np.flatnonzero(network.edges["source"] >= 0)
    events = np.zeros(len(edges), RECORD)
    events["kind"], events["part"] = EDGE, edges
    events["source"], events["term"] = network.edges["source"][edges], network.edges["term"][edges]
    events["value"] = network.edges["weight"][edges]
    events["unit"] = events["second"] = -1
    return History(events, last.error[-1:], np.array([len(edges)]), np.array([network.n_hidden]))
