"""A network on its way from data to an estimator: scaled, watched, and stopped at any step."""

import hashlib
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dirad.core.magnitudes import center_and_spread
from dirad.core.network import Network
from dirad.growth.adapt import Adaptation, Data, Desk, is_stable, new_data
from dirad.growth.state import PHASE, SMOOTHED, State, new_state
from dirad.history import GROWING, PHASE_NAMES, History
from dirad.inference import respond
from dirad.params import Params

LOOK = 200  # steps between two looks at the cost, and at held-out samples
PATIENCE = 5  # looks at a network that gets no better
MORE = 1.5, 10  # times the edges of the best, and some: then growth was for nothing
WORSE = 1.2  # times the least cost at which a finished network has gone astray


class Scale:
    """Standardization of the inputs that is folded into the network afterwards."""

    def __init__(self, X: NDArray, enabled: bool) -> None:
        self.mean, spread = np.zeros(X.shape[1]), np.ones(X.shape[1])
        if enabled:
            self.mean, spread = center_and_spread(X)
        # A constant feature says nothing; rounding must not make it look as if it did.
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
    """What a network is fitted to: inputs, targets, weights; groups, where parts keep shares."""

    def __init__(
        self, X: NDArray, targets: NDArray, weight: NDArray, groups: NDArray | None = None
    ) -> None:
        self.X = X
        self.targets = targets
        self.weight = weight
        self.groups = groups

    @cached_property
    def digest(self) -> str:
        """A name that no other samples have."""
        found = hashlib.sha256()
        for part in (self.X, self.targets, self.weight):
            found.update(str(part.shape).encode())
            found.update(np.ascontiguousarray(part, np.float64).tobytes())
        return found.hexdigest()


class Payoff:
    """Does growth pay? Edges that seem worth it one by one may together lead nowhere.

    Where the answers to the samples are nearly perfect, what is left to explain is noise, and any
    edge explains some of it. What counts is what it takes to tell the answers, edges included:
    half of ln(samples) for each (Schwarz's criterion). A network that only grows, and is not
    better by this, is held to the edges of its best.
    """

    def __init__(self) -> None:
        self.length = np.inf  # in nats: the least so far
        self.cost = np.inf  # the mean cost of the network that had it
        self.network: Network | None = None  # itself
        self.looks = 0  # since then
        self.limit = 0  # edges, once growth does not pay; 0: none

    def look(self, cost: float, network: Network, n_samples: int, squared: bool) -> None:
        """Take the mean cost of the last steps."""
        with np.errstate(divide="ignore"):
            told = 0.5 * np.log(2.0 * cost) if squared else cost  # of normal errors, or as it is
        length = n_samples * told + 0.5 * np.log(n_samples) * network.n_edges
        if length < self.length:
            self.length, self.cost = float(length), cost
            self.network, self.looks = network.copy(), 0
            return
        self.looks += 1
        if self.network is None or self.limit or self.looks < PATIENCE:
            return
        edges = self.network.n_edges
        if network.n_edges > MORE[0] * edges + MORE[1]:
            self.limit = max(edges, 1)

    def astray(self, cost: float) -> bool:
        """Is a finished network, of this cost at last, worse than one on its way was?"""
        return self.network is not None and not cost <= WORSE * self.cost


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
    ) -> None:
        if not 0.0 <= validation_fraction < 1.0:
            raise ValueError(f"validation_fraction must be in [0, 1), got {validation_fraction!r}")
        self.params = params
        self.digest = samples.digest
        self.validation_fraction = float(validation_fraction)
        self.scale = Scale(samples.X, enabled=standardize)
        self.split_seed = int(random_state.randint(2**31)) if validation_fraction else 0
        seed = int(random_state.randint(2**31))
        self.history = History()
        self.best_network: Network | None = None  # on held-out samples
        self.best_error = np.inf
        self.payoff = Payoff()
        fitted, _ = self._parts(samples)
        self.state: State = new_state(
            samples.X.shape[1],
            samples.targets.shape[1],
            transfer=transfer,
            seed=seed,
            n_samples=len(fitted.X),
        )
        self.state.network.usable[:] = ~self.scale.constant

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
        return is_stable(self.state) or self.state.step >= self._last_step

    @property
    def _last_step(self) -> int:
        return self.params.max_steps + self.params.settle_steps + 1

    def advance(self, samples: Samples, steps: int | None, verbose: bool) -> NDArray:
        """Take some steps, or all that are left; return the scaled inputs fitted to."""
        if samples.digest != self.digest:
            raise ValueError("these are not the samples that the fit began with")
        fitted, held_out = self._parts(samples)
        data = new_data(fitted.X, fitted.targets, self.params, fitted.weight)
        stop = self._last_step if steps is None else min(self.state.step + steps, self._last_step)
        with Shown(self.params, verbose) as shown:
            self._advance(data, stop, held_out, shown)
        return fitted.X

    def _advance(self, data: Data, stop: int, held_out: Samples | None, shown: "Shown") -> None:
        adaptation = Adaptation(self.state, self._limited)
        desk = Desk(self.params, len(data.inputs))
        while adaptation.state.step < stop and not adaptation.stable:
            # Looks fall on the same steps, wherever the fit was stopped before.
            pause = (adaptation.state.step // LOOK + 1) * LOOK
            self.history.extend(adaptation.advance(data, min(pause, stop), desk))
            self.state = adaptation.state
            shown.update(self.state)
            if self.state.step != pause and not adaptation.stable:
                continue
            if held_out is not None:
                self._look(held_out)
            if self._grows_without_limit:
                n, squared = len(data.inputs), self.params.cost == "squared"
                self.payoff.look(self._last_cost, self.state.network, n, squared)
                if self.payoff.limit:  # growth ends with it: this happens once
                    adaptation = Adaptation(self.state, self._limited)

    @property
    def _grows_without_limit(self) -> bool:
        """Does our own ordering add edges, as many as it likes? The paper's has patience."""
        unlimited = self.params.max_edges == Params.max_edges
        return self.params.ordering == "gain" and unlimited and self.state.clock[PHASE] == GROWING

    @property
    def _limited(self) -> Params:
        """The parameters, with the edges to which growth that did not pay is held."""
        limit = self.payoff.limit
        return self.params.replace(max_edges=limit) if limit else self.params

    @property
    def _last_cost(self) -> float:
        """The mean cost of the last steps."""
        return float(np.mean(self.history.error[-LOOK:])) if len(self.history.error) else np.inf

    def _look(self, held_out: Samples) -> None:
        """Keep the network if none did better on held-out samples.

        Above the limit of edges a network is only on its way: it is not offered as the best.
        """
        network = self.state.network
        if network.n_edges > self.params.max_edges:
            return
        error = float(np.mean((respond(network, held_out.X) - held_out.targets) ** 2))
        if error < self.best_error:
            self.best_error, self.best_network = error, network.copy()

    @property
    def network(self) -> Network:
        """The network to use, which takes scaled inputs."""
        if self.best_network is not None:
            return self.best_network
        best = self.payoff.network
        if best is not None and self.stable and self.payoff.astray(self._last_cost):
            return best
        return self.state.network


class Shown:
    """A progress bar over the steps of a fit."""

    def __init__(self, params: Params, verbose: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed}/{task.total} steps"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=not verbose,
        )
        self.task = self.progress.add_task("growing", total=params.max_steps)

    def __enter__(self) -> "Shown":
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def update(self, state: State) -> None:
        """Show where it stands."""
        self.progress.update(
            self.task,
            completed=state.step,
            description=(
                f"{PHASE_NAMES[state.clock[PHASE]]}: error {state.meter[SMOOTHED]:.4f}, "
                f"{state.network.n_edges} edges, {state.network.n_hidden} hidden"
            ),
        )
