"""Bytes of flash of a C source on a Cortex-M0: measured with a cross compiler, or estimated."""

import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from dirad.export.compact.encode import encoded
from dirad.export.compact.form import NODE_MOST, POWERS, CompactNetwork, bounds
from dirad.export.compact.source import compact_source
from dirad.export.compact.straight import straight_bytes

COMPILER = "arm-none-eabi-gcc"
CORE = ("-mcpu=cortex-m0", "-mthumb", "-Os", "-std=c99", "-ffunction-sections", "-fdata-sections")
LINK = ("-nostartfiles", "-Wl,--gc-sections", "-Wl,-e,answer", "--specs=nosys.specs")

_CALL = """
int32_t answer(const uint8_t *x, int32_t *out);
int32_t answer(const uint8_t *x, int32_t *out)
{{
    {call}
}}
"""

# Bytes of code without the table, as arm-none-eabi-gcc 12 compiles it: the largest that were found
# with each property. A test compares them with the compiler that is installed.
ONE_OUTPUT, VALUES, CLASSES = 0, 1, 2
WITHOUT_NODES, WITH_NODES = (68, 100, 124), (220, 228, 264)
OF_TWO_FORMATS, OF_POWERS, OF_LARGE_BIAS, OF_LIMIT = 56, 20, 24, 24
MARGIN = 8


@cache
def has_compiler() -> bool:
    """Is the cross compiler installed?"""
    return shutil.which(COMPILER) is not None


def caller(net: CompactNetwork, name: str = "model") -> str:
    """Return a function that calls the model, so that it is compiled."""
    if net.classes is None:
        return _CALL.format(call=f"{name}_predict(x, out);\n    return 0;")
    return _CALL.format(call=f"(void)out;\n    return {name}_predict_class(x);")


def linked_flash(source: str, *, libraries: tuple[str, ...] = ()) -> int:
    """Return the bytes of code, constants and initial data of a source whose entry is `answer`.

    What it needs of the compiler's libraries is linked and counted.
    """
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "model.c").write_text(source)
        command = [COMPILER, *CORE, *LINK, "model.c", "-o", "model.elf", *libraries]
        made = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if made.returncode:
            raise RuntimeError(f"{COMPILER} could not compile a model: {made.stderr.strip()[:500]}")
        size = ["arm-none-eabi-size", "model.elf"]
        said = subprocess.run(size, cwd=folder, check=True, capture_output=True, text=True).stdout
    code, data = map(int, said.splitlines()[1].split()[:2])
    return code + data


def flash(net: CompactNetwork, *, fast: bool = False) -> int:
    """Return the bytes of a compact network with its code on a Cortex-M0."""
    if has_compiler():
        return linked_flash(compact_source(net, fast=fast) + caller(net))
    return straight_bytes(net) if fast else estimated_flash(net)


def code_estimate(net: CompactNetwork) -> int:
    """Return about how many bytes the code takes."""
    mixed = net.formats[0] != net.formats[1] and net.n_hidden > 0
    kind = ONE_OUTPUT if net.n_outputs == 1 else VALUES if net.classes is None else CLASSES
    return (
        (WITH_NODES if net.n_hidden else WITHOUT_NODES)[kind]
        + OF_TWO_FORMATS * mixed
        + OF_POWERS * (net.formats[1].kind == POWERS)
        + OF_LARGE_BIAS * (net.bias_bytes == 2)
        + OF_LIMIT * bool(bounds(net).nodes.max(initial=0) > NODE_MOST)
        + MARGIN
    )


def estimated_flash(net: CompactNetwork) -> int:
    """Return the bytes of a compact network with its code, without a compiler."""
    return len(encoded(net).stream) + code_estimate(net)
