"""The command `dirad export`: a model as C, a library, ONNX, Python, a formula or a drawing."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from cyclopts import Parameter

from dirad.cli.app import TALKATIVE, Flag, Output, PositiveInt, Usage, app, raw_stdout
from dirad.cli.files import (
    check_output,
    encoder_of,
    names_of,
    open_data,
    require_begun,
    rows_of,
    stored_ranges,
)
from dirad.cli.for_bytes import CompactC, check_bytes
from dirad.cli.options import DETECTED, ModelPath, OptionalOutputFile, Reading
from dirad.cli.printing import Findings

if TYPE_CHECKING:
    from dirad.storage import ModelFile

REROUTED = "share of rows that another model answers"
LARGEST_ERROR = "largest error within the ranges"
CLIPPED = (
    "Inputs of type float outside the ranges (those of the rows fitted to, or --low and --high) "
    "are clipped to them; their error may be larger."
)
NEAR_TIES = (
    "A sample about which two models are nearly tied may go to the other one in fixed point."
)
LEARNS = "It contains dirad.h, which adapts the parameters."
USELESS = 0.5  # error of a probability from which an answer says nothing
L0_ALONE = (
    "The formula is that of L0 alone. The model's answers also depend on how well each cluster of "
    "L1 predicts the inputs; c, onnx and python compute all of it."
)
NEEDS_OUTPUT = {
    "onnx": "a file: --output model.onnx",
    "arduino": "a new folder or a zip file: --output model.zip",
    "zephyr": "a new folder or a zip file: --output model",
}
OF_ONE_NETWORK = ("formula", "dot", "svg")  # what shows only one of several networks

LIBRARIES = ("arduino", "zephyr")  # several files
IN_C = ("c", *LIBRARIES)

Format = Literal["c", "arduino", "zephyr", "onnx", "python", "formula", "dot", "svg"]


@Parameter(name="*")
@dataclass(frozen=True)
class COptions:
    """Options for C."""

    name: str | None = None
    """In C: prefix of the functions' names [default: model]."""
    fixed: Literal[16, 32] | None = None
    """In C: compute in fixed point, with weights of 16 or 32 bits."""
    bytes: PositiveInt | None = None
    """In C: flash that model and code may take on a Cortex-M0. Weights are stored in few bits, and
    edges removed where need be. Inputs are bytes."""
    fast: Flag = False
    """With --bytes: straight-line code in place of a table and a loop. It takes about a tenth of
    the instructions, and several times as many bytes for an edge, so that fewer edges fit."""
    data: Path | None = None
    """With --bytes: rows to which the weights are adapted, best those that the model was fitted to
    [default: the network is rounded as it is]."""
    low: float | None = None
    """In fixed point: lower end of the range of all inputs [default: of each input, its range in
    the data fitted to]."""
    high: float | None = None
    """In fixed point: upper end of the range [default: likewise]."""
    learn: Flag = False
    """In C: the parameters of a single network can be adapted on the device, with dirad.h."""


NO_C_OPTIONS = COptions()


@Parameter(name="*")
@dataclass(frozen=True)
class NoveltyOptions:
    """Options for what a continual model calls new."""

    false_alarms: float | None = None
    """For C, ONNX and Python, of a continual model: the share of rows of known tasks that are
    called unknown [default: 0.05]."""
    calibrate: Path | None = None
    """For C, of a continual model: a data file with rows of known tasks that were not learned from.
    They determine the thresholds of novelty, with errors as the exported model computes them."""


NO_NOVELTY_OPTIONS = NoveltyOptions()


@app.command
def export(
    model: ModelPath,
    *,
    to: Format,
    output: OptionalOutputFile = None,
    number: int | None = None,
    c: COptions = NO_C_OPTIONS,
    novelty: NoveltyOptions = NO_NOVELTY_OPTIONS,
    reading: Reading = DETECTED,
    talk: Output = TALKATIVE,
) -> None:
    """Export a model for use without dirad: C, ONNX, a Python module, a formula or a drawing.

    An Arduino library or a Zephyr module is C, with an example and what their build systems need;
    PlatformIO takes both. It is written into a new folder, or into a zip file.

    C, ONNX and Python compute exactly what the model computes, including the scaling of inputs; so
    does the formula of a single network. For a continual model, the formula and the drawing show
    one of its L0 networks. An exported continual model predicts, chooses the model that answers,
    and tells whether a sample is known, at the rate of false alarms that --false-alarms promises;
    in C it also tests batches of a stream for a new task.

    ```
    dirad export model.dirad --to c -o model.h            # C99, one header, no malloc
    dirad export model.dirad --to c --fixed 16 -o fixed.h # whole numbers only
    dirad export model.dirad --to c --bytes 2048 --data train.csv -o small.h
    dirad export model.dirad --to c --learn -o learn.h    # adapts on the device
    dirad export model.dirad --to arduino -o model.zip    # or --to zephyr -o folder
    dirad export model.dirad --to onnx -o model.onnx
    dirad export model.dirad --to python -o standalone.py # imports only math
    dirad export model.dirad --to formula                 # LaTeX
    dirad export model.dirad --to svg -o network.svg
    ```

    Parameters
    ----------
    to
        The format: c, arduino, zephyr, onnx, python, formula, dot or svg.
    output
        The file to write [default: standard output; onnx needs a file, arduino and zephyr a new
        folder or a zip file].
    number
        For the formula or drawing of a continual model: which of its models.
    """
    found = _finished(model)
    _check_place(output, to, model)
    _check_c_options(found.model, to, c)
    _check_number(found.model, to, number)
    _check_novelty(found.model, to, novelty)
    if c.bytes is not None:
        wanted = CompactC(c.bytes, c.name or "model", c.low, c.high, c.data, c.fast, reading)
        content, facts, note = wanted.export(found, model, talk)
    else:
        content, facts = _exported(found, model, to, number, c, novelty)
        note = ""
    if output is None:
        assert isinstance(content, bytes)
        raw_stdout().write(content)
        return
    findings = Findings(talk)
    about = _written(content, output, c.name or "model") | facts
    findings.facts("Export", about, f"{_notes(found, model, to, c)} {note}".strip())
    findings.print()


def _finished(path: Path) -> "ModelFile":
    """Read a model that can be exported."""
    from dirad.storage import read

    found = read(path)
    require_begun(found, path)
    if any(one.phase != "stable" for one in getattr(found.model, "models_", ())):
        raise Usage(f"{path} is still learning: dirad learn {path} --finish finishes it")
    if found.fitted.estimator == "PREVALRegressor":
        raise Usage(f"{path} is a continual model of numbers, which cannot be exported")
    names = names_of(found, path)
    if names is not None:
        found.model.feature_names_in_ = np.array(names, object)
    return found


def _check_place(output: Path | None, to: Format, model: Path) -> None:
    """Refuse an output that cannot be written or holds something else; require one of files."""
    from dirad.atomic import check_new_folder
    from dirad.export.library import is_zip

    if output is None:
        if to in NEEDS_OUTPUT:
            raise Usage(f"--to {to} needs {NEEDS_OUTPUT[to]}")
        return
    if to not in LIBRARIES or is_zip(output):
        check_output(output, model)
        return
    try:
        check_new_folder(output)
    except OSError as error:
        raise Usage(f"--output {output}: {error.strerror}") from None


def _written(content: bytes | dict[str, str], output: Path, name: str) -> dict[str, Any]:
    """Write a file, or the files of a library; return facts about them."""
    from dirad.atomic import replacing
    from dirad.export import write_library

    if isinstance(content, bytes):
        with replacing(output) as part:
            part.write_bytes(content)
        return {"file": str(output), "bytes": len(content)}
    write_library(content, output, name)
    return {"library": str(output), "files": len(content)}


def _exported(
    found: "ModelFile",
    path: Path,
    to: Format,
    number: int | None,
    c: COptions,
    novelty: NoveltyOptions,
) -> tuple[bytes | dict[str, str], dict[str, Any]]:
    """Return the content of the exported file, or those of several, and facts about it."""
    from dirad import export as exports
    from dirad.export.onnx import onnx_ends

    model = found.model
    fixed = None
    if c.fixed is not None:
        fixed = exports.Fixed(c.fixed, *_ranges(found, path, c))
    facts: dict[str, Any] = {}
    rate = {} if novelty.false_alarms is None else {"false_alarms": novelty.false_alarms}
    try:
        if to == "c" and c.learn:
            content = exports.to_c_learner(model, name=c.name or "model")
        elif to in IN_C:
            makers = {"c": exports.to_c, "arduino": exports.to_arduino, "zephyr": exports.to_zephyr}
            X = _calibration(found, path, novelty)
            content = makers[to](model, name=c.name or "model", fixed=fixed, calibration=X, **rate)
            size = exports.c_size(model, fixed=fixed)
            facts = {"flash, bytes": size.flash, "RAM, bytes": size.ram}
            if fixed is not None and X is not None:
                facts[REROUTED] = exports.rerouted_share(model, X, fixed)
            if fixed is not None and hasattr(model, "network_"):
                facts[LARGEST_ERROR] = exports.fixed_bound(model, fixed)
                _check_bound(model, facts[LARGEST_ERROR], c.fixed)
        elif to == "onnx":
            content = exports.to_onnx(model, **rate)
            facts = onnx_ends(content)
        elif to == "python":
            content = exports.to_python(model, **rate)
        elif to == "formula":
            content = exports.to_formula(model, number=number).latex() + "\n"
        else:
            draw = exports.to_dot if to == "dot" else exports.to_svg
            content = draw(model, number=number)
    except ValueError as error:  # this model cannot be exported so
        option = f"--to {to}" if c.fixed is None else f"--fixed {c.fixed}"
        raise Usage(f"{option}: {error}") from None
    return content.encode() if isinstance(content, str) else content, facts


def _ranges(found: "ModelFile", path: Path, c: COptions) -> tuple[Any, Any]:
    """Return the range of the inputs: as given, or as in the data fitted to, or from 0 to 1."""
    if c.low is not None and c.high is not None:
        return c.low, c.high
    lows, highs = stored_ranges(found, path) or (0.0, 1.0)
    if c.low is not None and c.low > np.min(highs):
        raise Usage(f"--low is {c.low:g}, but an input ends at {np.min(highs):g}: give --high too")
    if c.high is not None and c.high < np.max(lows):
        raise Usage(
            f"--high is {c.high:g}, but an input begins at {np.max(lows):g}: give --low too"
        )
    return lows if c.low is None else c.low, highs if c.high is None else c.high


def _check_c_options(model: Any, to: Format, c: COptions) -> None:
    """Refuse options of C and of fixed point where they have no meaning."""
    from dirad.export.c_source import NAMES, is_name

    for option, value in (("--learn", c.learn), ("--bytes", c.bytes)):
        if value and to != "c":
            raise Usage(f"{option} is for --to c, not for {to}")
    if to not in IN_C:
        for option, value in (("--name", c.name), ("--fixed", c.fixed)):
            if value is not None:
                raise Usage(f"{option} is for C, not for {to}")
    if c.name is not None and not is_name(c.name):
        raise Usage(f"--name: must be {NAMES}, not {c.name!r}")
    check_bytes(c.bytes, c.fixed, c.data, learn=c.learn, fast=c.fast)
    for option, value in (("--low", c.low), ("--high", c.high)):
        if value is not None and c.fixed is None and c.bytes is None:
            raise Usage(
                f"{option} is for fixed point, in C: it needs --fixed 16, --fixed 32 or --bytes"
            )
        if value is not None and not math.isfinite(value):
            raise Usage(f"{option}: must be a finite number, not {value}")
    if c.learn and c.fixed is not None:
        raise Usage("--learn is for floating point: parameters of whole numbers do not adapt")
    if c.learn and not hasattr(model, "network_"):
        raise Usage("--learn is for a single network, not for a continual model")
    if c.low is not None and c.high is not None and c.low > c.high:
        raise Usage(f"--low is {c.low:g}, but --high is {c.high:g}")


def _calibration(found: "ModelFile", path: Path, novelty: NoveltyOptions) -> Any:
    """Return the inputs of the rows by which the exported model is calibrated, if any are given."""
    if novelty.calibrate is None:
        return None
    return rows_of(found, path, open_data(novelty.calibrate, DETECTED))[0]


def _check_novelty(model: Any, to: Format, novelty: NoveltyOptions) -> None:
    """Refuse options on novelty where there is none, and what is no rate."""
    rate = novelty.false_alarms
    known = hasattr(model, "models_")
    if rate is not None and (to in OF_ONE_NETWORK or not known):
        raise Usage("--false-alarms is for a continual model, in code: c, onnx or python")
    if novelty.calibrate is not None and (to not in IN_C or not known):
        raise Usage("--calibrate is for a continual model, in C")
    if rate is not None and not 0 < rate < 1:
        raise Usage(f"--false-alarms: must be between 0 and 1, not {rate:g}")


def _check_bound(model: Any, bound: float, fixed: int | None) -> None:
    """Refuse fixed point if its errors make the answers meaningless."""
    if hasattr(model, "classes_") and bound >= USELESS:
        finer = "--fixed 32, or " if fixed == 16 else ""
        raise Usage(
            f"--fixed {fixed}: probabilities may be wrong by {bound:.2g}, which makes them "
            f"meaningless; use {finer}narrower ranges (--low, --high), or floating point"
        )


def _check_number(model: Any, to: Format, number: int | None) -> None:
    """Refuse `--number` where there is nothing to choose; require it where there is."""
    if to not in OF_ONE_NETWORK:
        if number is not None:
            raise Usage(f"--number is for a formula or a drawing, not for {to}")
        return
    numbers = [one.number for one in getattr(model, "models_", ())]
    listed = ", ".join(map(str, numbers))
    if number is not None and not numbers:
        raise Usage("--number chooses a model of a continual model, and this is a single network")
    if number is not None and number not in numbers:
        raise Usage(f"--number {number}: the models are {listed}")
    if number is None and len(numbers) > 1:
        raise Usage(f"--number: choose one of the models {listed}")


def _notes(found: "ModelFile", path: Path, to: Format, c: COptions) -> str:
    """Return what a user of the exported file has to know."""
    notes = []
    if to not in OF_ONE_NETWORK and found.encoder is not None:
        fields = encoder_of(found, path).inputs
        filled = ", missing values filled" if any(f.fill is not None for f in fields) else ""
        if filled or any(field.kind != "number" for field in fields):
            notes.append(
                f"It takes {found.model.n_features_in_} numbers: categories as 0 or 1{filled}. "
                f"dirad inspect {path} --inputs lists them, in order."
            )
    if to == "formula" and hasattr(found.model, "models_"):
        notes.append(L0_ALONE)
    if c.fixed is not None:
        notes.append(CLIPPED)
        if hasattr(found.model, "models_"):
            notes.append(NEAR_TIES)
    if c.learn:
        notes.append(LEARNS)
    return " ".join(notes)
