"""The boards: which emulator, which compiler, where their memory is."""

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple


class Board(NamedTuple):
    """An emulated board."""

    core: str
    machine: str  # its name for the emulator
    emulator: str
    compiler: str  # prefix of the names of its programs
    options: tuple[str, ...]  # of the compiler
    libraries: str  # specs of the C library
    flash: tuple[int, int]  # address and bytes
    ram: tuple[int, int]
    start: str  # source of the start of its programs

    @property
    def missing(self) -> list[str]:
        """The programs and the C library that are not installed."""
        gcc = f"{self.compiler}gcc"
        programs = (gcc, f"{self.compiler}size", self.emulator)
        found = [name for name in programs if shutil.which(name) is None]
        return found if found else self._missing_library(gcc)

    def _missing_library(self, gcc: str) -> list[str]:
        ask = [gcc, f"-print-file-name={self.libraries}"]
        said = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip()
        return [] if Path(said).is_absolute() else [f"{self.libraries} of {gcc}"]


def _arm(core: str, machine: str, flash: int, ram: int, *options: str) -> Board:
    return Board(
        core=core,
        machine=machine,
        emulator="qemu-system-arm",
        compiler="arm-none-eabi-",
        options=("-mthumb", *options),
        libraries="nano.specs",
        flash=(0, flash),
        ram=(0x2000_0000, ram),
        start="start_arm.c",
    )


_K, _M = 2**10, 2**20
SOFT, HARD = "-mfloat-abi=soft", "-mfloat-abi=hard"
BOARDS = {
    "m0": _arm("Cortex-M0", "microbit", 256 * _K, 16 * _K, "-mcpu=cortex-m0", SOFT),
    "m3": _arm("Cortex-M3", "mps2-an385", 4 * _M, 4 * _M, "-mcpu=cortex-m3", SOFT),
    "m4": _arm("Cortex-M4", "mps2-an386", 4 * _M, 4 * _M, "-mcpu=cortex-m4", SOFT),
    "m4f": _arm(
        "Cortex-M4F", "mps2-an386", 4 * _M, 4 * _M, "-mcpu=cortex-m4", HARD, "-mfpu=fpv4-sp-d16"
    ),
    "rv32": Board(
        core="RV32IMAC",
        machine="virt",
        emulator="qemu-system-riscv32",
        compiler="riscv64-unknown-elf-",
        options=("-march=rv32imac", "-mabi=ilp32", "-mcmodel=medany", "-msmall-data-limit=0"),
        libraries="picolibc.specs",
        flash=(0x8000_0000, _M),
        ram=(0x8010_0000, _M),
        start="start_riscv.c",
    ),
}
