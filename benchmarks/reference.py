"""The step in C, compiled when asked for and called on the package's own arrays."""

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from networks import Case

FLAGS = ["-O3", "-march=native", "-ffast-math", "-shared", "-fPIC"]
POINTERS = (
    "counts units bias edges status order in_start in_edge out_start out_edge "
    "state term_0 term_1 delta felt target sample_weight "
    "edge_weight out_weight edge_source out_term edge_pull term_pull"
).split()


class Job(ctypes.Structure):
    """The record of reference.c."""

    _fields_ = (
        [(name, ctypes.c_void_p) for name in POINTERS]
        + [(name, ctypes.c_int64) for name in ("columns", "samples", "width")]
        + [(name, ctypes.c_double) for name in ("gamma", "delta_min", "tolerance")]
    )


def compile_reference() -> ctypes.CDLL | None:
    """Return the compiled reference, or None where there is no C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    source = Path(__file__).with_name("reference.c")
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "reference.so"
        subprocess.run([compiler, *FLAGS, str(source), "-o", str(target), "-lm"], check=True)
        library = ctypes.CDLL(str(target))
    library.take_steps.argtypes = [ctypes.POINTER(Job), ctypes.c_int64, ctypes.c_void_p]
    library.take_steps.restype = None
    return library


def job_for(case: Case) -> Job:
    """Return the addresses of a case's arrays. The case must outlive the job."""
    network, work, plan = case.state.network, case.scratch.work, case.scratch.plan
    arrays = {**network._asdict(), **plan._asdict(), **work._asdict()}
    arrays["edge_pull"] = case.scratch.potential.edges
    arrays["term_pull"] = case.scratch.potential.terms
    return Job(
        *(arrays[name].ctypes.data for name in POINTERS),
        work.state.shape[1],
        int(work.width[0]),
        int(work.width[1]),
        case.params.gamma,
        case.params.delta_min,
        case.params.acceptable_mismatch,
    )


def c_steps(library: ctypes.CDLL, job: Job, error: np.ndarray) -> None:
    """Take as many steps as `error` has places."""
    library.take_steps(ctypes.byref(job), len(error), error.ctypes.data)
