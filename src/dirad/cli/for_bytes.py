"""`dirad export --bytes` and `dirad fit --max-bytes`: a network in a number of bytes of flash."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dirad.cli.app import Output, Usage, spinner
from dirad.cli.files import encoder_of, open_data, rows_of, scores, stored_ranges
from dirad.cli.options import Reading

if TYPE_CHECKING:
    from dirad.export.compact import Compacted, CompactNetwork
    from dirad.storage import ModelFile

COMPACT = "compact network"  # where the provenance of a model file holds it
MAX_BYTES = "max bytes"


def check_bytes(
    most: int | None, fixed: int | None, data: Path | None, *, learn: bool, fast: bool
) -> None:
    """Refuse options that contradict `--bytes`."""
    if fast and most is None:
        raise Usage("--fast is for --bytes: in other C, sums are loops over tables")
    if most is not None and learn:
        raise Usage("--learn is for numbers in float: weights of few bits (--bytes) do not adapt")
    if most is not None and fixed is not None:
        raise Usage("--bytes chooses the bits of each weight itself: leave --fixed out")
    if data is not None and most is None:
        raise Usage("--data is for --bytes: the weights are adapted to its rows")


@dataclass(frozen=True)
class CompactC:
    """What is asked for."""

    max_bytes: int
    name: str
    low: float | None
    high: float | None
    data: Path | None
    fast: bool
    reading: Reading

    def export(
        self, found: "ModelFile", path: Path, talk: Output
    ) -> tuple[bytes, dict[str, Any], str]:
        """Return the header, facts about it, and what a user has to know."""
        from dirad.export.compact import compact_source

        try:
            made = self._stored(found, path) or self._searched(found, path, talk)
            source = compact_source(made.net, self.name, fast=self.fast)
        except (ValueError, TypeError) as error:
            raise Usage(f"--bytes {self.max_bytes}: {error}") from None
        return source.encode(), facts(made), flash_note(made)

    def _stored(self, found: "ModelFile", path: Path) -> "Compacted | None":
        """Return the compact network that `dirad fit --max-bytes` stored, if it is the one."""
        from dirad.export.compact import Compacted
        from dirad.export.compact.flash import flash, has_compiler
        from dirad.export.compact.stored import from_json

        known = found.provenance.get(COMPACT)
        others = (self.data, self.low, self.high)
        if known is None or found.provenance.get(MAX_BYTES) != self.max_bytes:
            return None
        if any(one is not None for one in others):
            return None  # others than those it was made for
        names = tuple(encoder_of(found, path).feature_names)
        classes = getattr(found.model, "classes_", None)
        labels = None if classes is None else tuple(classes.tolist())
        net = from_json(known, labels, names)
        if net.n_inputs != found.model.n_features_in_ or not _answers_all(net, labels):
            raise ValueError("the stored compact network is that of another model")
        size = flash(net, fast=self.fast)
        if size > self.max_bytes:  # straight-line code is larger than the table
            return None
        return Compacted(net, size, has_compiler(), None, None)

    def _searched(self, found: "ModelFile", path: Path, talk: Output) -> "Compacted":
        from dirad.export.compact import to_compact

        X = y = None
        low, high = self.low, self.high
        if self.data is None:
            ends = stored_ranges(found, path)
            low, high = (
                given if ends is None or given is not None else ends[i]
                for i, given in enumerate((low, high))
            )
        else:
            X, y = rows_of(found, path, open_data(self.data, self.reading))
            if y is None:
                target = encoder_of(found, path).target.name
                raise Usage(f"--data {self.data}: it has no column {target!r} to adapt to")
        with spinner(talk, f"searching for {self.max_bytes} bytes"):
            return to_compact(found.model, self.max_bytes, X, y, low=low, high=high, fast=self.fast)


def _answers_all(net: Any, labels: tuple[Any, ...] | None) -> bool:
    """Has a network an output for each class, or one for two classes?"""
    return labels is None or net.n_outputs == (1 if len(labels) == 2 else len(labels))


def check_max_bytes(max_edges: int | None, preset: str, committee: int, structure: str) -> None:
    """Refuse options that contradict `--max-bytes`, which decides size and structure itself."""
    given = {
        "--max-edges": max_edges is not None,
        "--preset paper": preset == "paper",
        "--committee": committee > 1,
        "--structure": structure != "auto",
    }
    for option, is_given in given.items():
        if is_given:
            raise Usage(f"--max-bytes decides the size of the network itself: leave {option} out")


class Answers:
    """A compact network as an estimator, to be scored."""

    def __init__(self, net: "CompactNetwork") -> None:
        self.net = net
        if net.classes is not None:
            self.classes_ = net.classes

    def predict(self, X: Any) -> Any:
        """Return what the C answers."""
        from dirad.export.compact import predict

        return predict(self.net, X)

    def score(self, X: Any, y: Any) -> float:
        """Return the accuracy, or R²."""
        from dirad.export.compact.budget import score

        return score(self, self.predict(X), y)


class Grown(NamedTuple):
    """A network grown for a number of bytes."""

    model: Any  # in real numbers
    stored: dict[str, Any]  # what its file stores
    facts: dict[str, Any]
    answers: Answers  # of the compact network


def grown_for_bytes(fresh: Any, X: Any, y: Any, most: int, seed: int, talk: Output) -> Grown:
    """Return a network grown for a number of bytes, and what it is in these."""
    from dirad.export.compact.growing import fit_compact
    from dirad.export.compact.stored import as_json

    try:
        with spinner(talk, f"growing for {most} bytes"):
            model, made = fit_compact(fresh, X, y, most, seed=seed)
    except ValueError as error:
        raise Usage(f"--max-bytes {most}: {error}") from None
    about = facts(made)
    shown = {key: about[key] for key in about if key not in ("edges", "hidden nodes")}
    shown |= {"edges in these bytes": made.net.n_edges}
    stored = {MAX_BYTES: most, COMPACT: as_json(made.net)}
    return Grown(model, stored, shown, Answers(made.net))


def compact_scores(answers: Answers, X: Any, y: Any) -> dict[str, float]:
    """Return how good a compact network is on test rows."""
    found = scores(answers, X, y)
    return {f"{key} in these bytes": value for key, value in found.items() if "test" in key}


def flash_note(made: "Compacted") -> str:
    """Say what the bytes of flash are."""
    if made.is_measured:
        return "Flash is that of model and code on a Cortex-M0, by arm-none-eabi-gcc -Os."
    return (
        "Flash is that of model and code on a Cortex-M0, estimated: arm-none-eabi-gcc is not "
        "installed."
    )


def facts(made: "Compacted") -> dict[str, Any]:
    """Return what a user wants to know about a compact network."""
    net = made.net
    hidden, output = net.formats
    bits = f"{hidden.bits}" if hidden.bits == output.bits else f"{hidden.bits} and {output.bits}"
    found: dict[str, Any] = {
        "flash, bytes": made.flash,
        "edges": net.n_edges,
        "hidden nodes": net.n_hidden,
        "bits per weight": bits,
    }
    if made.before is not None and made.after is not None:
        what = "R²" if net.classes is None else "accuracy"
        found |= {f"{what} before": made.before, f"{what} after": made.after}
    return found
