"""Checkpoints: a model saved while it is still learning, so that a stopped command can continue."""

import errno
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from dirad.atomic import claimed
from dirad.cli.app import Output, Stopped, Usage
from dirad.cli.files import encoder_of

if TYPE_CHECKING:
    from dirad.storage import ModelFile
    from dirad.tables import Encoder, Table

SUFFIX = ".checkpoint"  # appended to the name of a model file

Pause = Callable[..., None]  # called with a model, where it is, and what else to record


@dataclass
class Job:
    """What a command learns from, and where it saves the model."""

    table: "Table"
    encoder: "Encoder"  # grows with new classes
    output: Path
    is_unchanged: Callable[[], bool]  # whether the output is still the file it was at the start
    provenance: dict[str, Any]  # seed and data
    conditions: dict[str, Any]  # what else must be the same for --resume
    every: float  # seconds between two checkpoints
    talk: Output

    @property
    def checkpoint(self) -> Path:
        """The file that holds the model while it is still learning."""
        return checkpoint_of(self.output)

    def save_checkpoint(self, model: Any, **more: Any) -> None:
        """Save the model as it is now."""
        from dirad.storage import save

        provenance = self.provenance | self.conditions | more
        save(model, self.checkpoint, encoder=self.encoder.to_json(), provenance=provenance)

    def save_model(self, model: Any, **more: Any) -> None:
        """Save the finished model, and delete its checkpoint."""
        provenance = self.provenance | more
        write_model(model, self.output, self.is_unchanged, self.encoder.to_json(), provenance)

    def read_checkpoint(self) -> "ModelFile":
        """Return what the same command saved when it was stopped."""
        from dirad.storage import read

        if not self.checkpoint.exists():
            why = "if the command was stopped before its first step, start without --resume"
            if self.output.exists():
                why = f"{self.output} is finished; without --resume it is fitted again"
            raise Usage(f"--resume: there is no {self.checkpoint}; {why}")
        found = read(self.checkpoint)
        if found.provenance.get("data") != self.provenance["data"]:
            raise Usage(f"--resume: {self.checkpoint} is of other data")
        other = _other_columns(encoder_of(found, self.checkpoint), self.encoder)
        for name, value in self.conditions.items():
            # --unseen zero may be added: with "refuse" no unseen category was accepted so far.
            if found.provenance.get(name, value) != value and (name, value) != ("--unseen", "zero"):
                other = other or f"another {name}"
        if other:
            raise Usage(f"--resume: {self.checkpoint} is of a command with {other}")
        return found

    def require_same(self, model: Any, fresh: Any) -> None:
        """Refuse a checkpoint whose model has other parameters than a new model would have."""
        if type(model) is not type(fresh) or model.get_params() != fresh.get_params():
            raise Usage(f"--resume: {self.checkpoint} is of a command with other options")

    @contextmanager
    def pauses(self) -> Iterator[Pause]:
        """Yield a function to be called with the model between two steps of learning.

        It saves a checkpoint if one is due. After Ctrl-C it saves one and raises `Stopped`.
        """
        saved = time.monotonic()

        def pause(model: Any, where: str, **more: Any) -> None:
            nonlocal saved
            if interrupted:
                self.save_checkpoint(model, **more)
                raise Stopped(
                    f"stopped {where}; {self.checkpoint} is the model so far, --resume continues"
                )
            if time.monotonic() >= saved + self.every:
                self.save_checkpoint(model, **more)
                saved = time.monotonic()

        with _interruptions() as interrupted:
            yield pause


def checkpoint_of(output: Path) -> Path:
    """Return the name of the checkpoint of a model file."""
    return output.with_name(output.name + SUFFIX)


def provenance_of(table: "Table", seed: Any, earlier: Any = None) -> dict[str, Any]:
    """Return where a model comes from: its seed, and all files that it learned from."""
    from dirad.tables import digest

    files = table.files or (table.path,)
    shown = [{"file": path.name, "sha256": digest(path)} for path in files]
    return {"seed": seed, "data": [*(earlier if isinstance(earlier, list) else ()), *shown]}


@contextmanager
def claimed_output(output: Path) -> Iterator[Callable[[], bool]]:
    """Keep other processes from writing a model file and its checkpoint.

    Yield a function that returns whether the model file is still what it was.
    """
    with claimed(output) as is_unchanged, claimed(checkpoint_of(output)):
        yield is_unchanged


def write_model(
    model: Any,
    output: Path,
    is_unchanged: Callable[[], bool],
    encoder: Mapping[str, Any] | None,
    provenance: Mapping[str, Any],
) -> None:
    """Save a finished model and delete its checkpoint.

    If another program has changed the file, the model is saved as the checkpoint instead.
    """
    from dirad.storage import save

    checkpoint = checkpoint_of(output)
    if is_unchanged():
        save(model, output, encoder=encoder, provenance=provenance)
        checkpoint.unlink(missing_ok=True)
        return
    save(model, checkpoint, encoder=encoder, provenance=provenance)
    why = f"another program changed this file, so it was not replaced; {checkpoint} is the model"
    raise OSError(errno.ESTALE, why, str(output))


def _other_columns(old: "Encoder", new: "Encoder") -> str:
    """Say in which option two encoders of one file differ, apart from classes; empty if none."""
    if old.target.name != new.target.name:
        return f"another --target, {old.target.name!r}"
    if old.target.task != new.target.task:
        return f"another --task, {old.target.task}"
    if (old.time and old.time.name) != (new.time and new.time.name):
        return "another --time"
    if [field.name for field in old.inputs] != [field.name for field in new.inputs]:
        return "other columns (--drop, --header, --delimiter)"
    kinds = [
        [encoder.target.kind, *((field.kind, field.categories) for field in encoder.inputs)]
        for encoder in (old, new)
    ]
    if kinds[0] != kinds[1]:
        return "another --category"
    return "" if old.inputs == new.inputs else "another --impute"


@contextmanager
def _interruptions() -> Iterator[Sequence[int]]:
    """Yield a list that is empty until Ctrl-C is pressed; pressed again, it stops at once."""
    caught: list[int] = []

    def handle(number: int, _: FrameType | None) -> None:
        if caught:
            raise KeyboardInterrupt
        caught.append(number)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
