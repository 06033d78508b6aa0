"""Programs for a board: compiled, linked, and their sizes."""

import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from experiments.boards.machines import Board

HERE = Path(__file__).parent
SMALL = ("-Os", "-std=c99")
OWN = ("-Os", "-std=gnu99", "-Wall", "-Wextra", "-Werror", "-fno-tree-loop-distribute-patterns")
SECTIONS = ("-ffunction-sections", "-fdata-sections")
EMPTY = """void answer(const void *x, void *out);
void answer(const void *x, void *out) { (void)x; (void)out; }
"""


class Sizes(NamedTuple):
    """Bytes of a program, or of what a model adds to one."""

    flash: int  # code, constants, initial values
    ram: int  # static data, without the stack


class Row(NamedTuple):
    """Bytes of one sample on its way to the model, and of its answer."""

    given: int
    answer: int


def image(
    board: Board, source: str, row: Row, folder: Path, options: Sequence[str] = SMALL
) -> Path:
    """Compile a model that defines ``answer(x, out)``, and link it with the harness.

    Headers that the model includes may be in `folder`.
    """
    (folder / "model.c").write_text(source)
    _write_memory(board, folder / "memory.ld")
    _run([*_compiler(board), *options, "-c", "model.c"], folder)
    for name, compiled in _harness(board, row).items():
        (folder / name).write_bytes(compiled)
    objects = ["model.o", *_harness(board, row)]
    linked = ["-nostartfiles", "-Wl,--gc-sections", "-Wl,-e,0", f"-T{HERE / 'board.ld'}", "-L."]
    _run([*_compiler(board), *linked, *objects, "-lm", "-o", "program.elf"], folder)
    return folder / "program.elf"


@cache
def _harness(board: Board, row: Row) -> dict[str, bytes]:
    """Return the object files of what is around a model, by their names."""
    defined = [f"-DIN_BYTES={row.given}", f"-DOUT_BYTES={row.answer}"]
    sources = [HERE / "harness.c", HERE / board.start]
    with TemporaryDirectory() as name:
        folder = Path(name)
        _run([*_compiler(board), *OWN, *defined, f"-I{HERE}", "-c", *map(str, sources)], folder)
        return {file.name: file.read_bytes() for file in sorted(folder.glob("*.o"))}


def _compiler(board: Board) -> list[str]:
    return [f"{board.compiler}gcc", *board.options, *SECTIONS, f"--specs={board.libraries}"]


def sizes(board: Board, program: Path) -> Sizes:
    """Return the bytes of a whole program."""
    said = _run([f"{board.compiler}size", program.name], program.parent)
    text, data, zeros = map(int, said.splitlines()[1].split()[:3])
    return Sizes(text + data, data + zeros)


@cache
def empty_sizes(board: Board, row: Row) -> Sizes:
    """Return the bytes of the same program with a model that does nothing."""
    with TemporaryDirectory() as folder:
        return sizes(board, image(board, EMPTY, row, Path(folder)))


def _write_memory(board: Board, file: Path) -> None:
    lines = [
        f"    {name} : ORIGIN = {origin:#x}, LENGTH = {length:#x}"
        for name, (origin, length) in (("FLASH", board.flash), ("RAM", board.ram))
    ]
    file.write_text("\n".join(["MEMORY", "{", *lines, "}", ""]))


def _run(command: Sequence[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout
