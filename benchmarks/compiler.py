"""C files beside this one, compiled when asked for."""

import ctypes
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path


@functools.cache
def compiled(name: str, *flags: str) -> ctypes.CDLL | None:
    """Return the library of a C file, or None where it cannot be compiled."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "library.so"
        source = Path(__file__).with_name(name)
        command = [compiler, "-O3", *flags, "-shared", "-fPIC", str(source), "-o", str(target)]
        if subprocess.run(command, capture_output=True).returncode != 0:
            return None
        return ctypes.CDLL(str(target))
