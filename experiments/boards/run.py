"""Models on emulated boards and on the host: their answers, and what a board needs for them.

The emulator's clock advances by the same time with every instruction (`-icount`), so that the
board's own timer counts instructions. A loop of known length tells how many ticks one takes.
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from experiments.boards.build import HERE, SMALL, Row, Sizes, empty_sizes, image, sizes
from experiments.boards.machines import Board

KNOWN_LOOP = 2 * 500_000  # instructions between the two counts of the harness
SHIFT = 8  # an instruction takes 2^8 ns, several ticks of every timer
LIMIT = 600  # seconds until a program is ended


class Measured(NamedTuple):
    """What a model needs on a board, and what it answers."""

    answers: NDArray  # (samples, outputs)
    flash: int  # bytes of code and constants that the model adds to a program, libraries included
    ram: int  # bytes of static data that it adds
    stack: int  # bytes, the most of the first samples
    instructions: float  # per answer, the mean
    most: int  # instructions


def measure(
    board: Board,
    source: str,
    X: NDArray,
    answer: tuple[int, DTypeLike],
    *,
    options: Sequence[str] = SMALL,
    files: dict[str, str] | None = None,
) -> Measured:
    """Run a model that defines ``void answer(const void *x, void *out)`` on a board.

    `X` holds the samples as the model takes them, `answer` the number and type of its outputs,
    `files` the contents of headers.
    """
    X = np.ascontiguousarray(X)
    row = _row(X, answer)
    with TemporaryDirectory() as name:
        folder = Path(name)
        for file, content in (files or {}).items():
            (folder / file).write_text(content)
        program = image(board, source, row, folder, options)
        (folder / "in.bin").write_bytes(X.tobytes())
        _emulate(board, program)
        answers = np.fromfile(folder / "out.bin", answer[1]).reshape(-1, answer[0])
        counts = np.fromfile(folder / "counts.bin", np.uint32)
        whole = sizes(board, program)
    if len(answers) != len(X):
        raise RuntimeError(f"{len(answers)} answers for {len(X)} samples on {board.core}")
    return _measured(answers, counts.tolist(), whole, empty_sizes(board, row))


def _measured(answers: NDArray, counts: list[int], whole: Sizes, empty: Sizes) -> Measured:
    once, twice, nothing, low, high, _, most, stack = counts
    ticks = (twice - once) / KNOWN_LOOP
    total = low + (high << 32)
    return Measured(
        answers,
        flash=whole.flash - empty.flash,
        ram=whole.ram - empty.ram,
        stack=stack,
        instructions=(total / len(answers) - nothing) / ticks,
        most=round((most - nothing) / ticks),
    )


def host_answers(
    source: str,
    X: NDArray,
    answer: tuple[int, DTypeLike],
    *,
    options: Sequence[str] = ("-O2", "-std=c99"),
    files: dict[str, str] | None = None,
) -> NDArray:
    """Return the answers of the same source, compiled for this machine: (samples, outputs)."""
    X = np.ascontiguousarray(X)
    row = _row(X, answer)
    with TemporaryDirectory() as name:
        folder = Path(name)
        for file, content in ({"model.c": source} | (files or {})).items():
            (folder / file).write_text(content)
        sizes = [f"-DIN_BYTES={row.given}", f"-DOUT_BYTES={row.answer}"]
        command = ["gcc", *options, *sizes, "model.c", str(HERE / "host.c")]
        subprocess.run([*command, "-lm", "-o", "program"], cwd=folder, check=True)
        done = subprocess.run(
            [folder / "program"], input=X.tobytes(), capture_output=True, check=False
        )
    if done.returncode:
        raise RuntimeError(f"the program ends with {done.returncode}: {done.stderr.decode()}")
    return np.frombuffer(done.stdout, answer[1]).reshape(-1, answer[0])


def _row(X: NDArray, answer: tuple[int, DTypeLike]) -> Row:
    if X.ndim != 2 or not len(X):
        raise ValueError(f"X must have samples and inputs, got the shape {X.shape}")
    if sys.byteorder != "little":
        raise RuntimeError("the boards are little-endian, and this machine is not")
    return Row(X.shape[1] * X.itemsize, answer[0] * np.dtype(answer[1]).itemsize)


def _emulate(board: Board, program: Path) -> None:
    """Run a program; it reads and writes the files of its folder."""
    command = [
        board.emulator, "-M", board.machine, "-nographic", "-monitor", "none", "-serial", "none",
        "-bios", "none", "-icount", f"shift={SHIFT}",
        "-semihosting-config", "enable=on,target=native", "-kernel", program.name,
    ]  # fmt: skip
    done = subprocess.run(
        command, cwd=program.parent, capture_output=True, text=True, timeout=LIMIT, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"the program on {board.core} failed: {done.stdout}{done.stderr}")
