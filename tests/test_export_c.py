"""C against the models it comes from: compiled without a warning, over 10,000 random inputs."""

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from dirad.export import Fixed, c_size, fixed_bound, to_c
from exported_models import ALONE, NETWORKS, SYSTEMS, answers, inputs, line_with_name, model

STRICT = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror"]
WHOLE = ("softmax", "binary", "regressor", "columns", "paper regressor")

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is missing")

_MAIN = """#include "model.h"
void all(const float *given, {number} *out, long n);
void all(const float *given, {number} *out, long n)
{{
    for (long k = 0; k < n; k++) {{
        {number} x[MODEL_N_INPUTS];
        for (int i = 0; i < MODEL_N_INPUTS; i++)
            x[i] = {input};
        model_predict(x, out + k * MODEL_N_OUTPUTS);
    }}
}}
"""


def compiled(source: str, folder: Path, *options: str) -> ctypes.CDLL:
    """Compile a header with strict warnings; return the library."""
    fixed = "model_input" in source
    number = "int32_t" if fixed else "float"
    given = "given[k * MODEL_N_INPUTS + i]"
    taken = f"model_input(i, {given})" if fixed else given
    (folder / "model.h").write_text(source)
    (folder / "main.c").write_text(_MAIN.format(number=number, input=taken))
    library = folder / "model.so"
    build = ["gcc", *STRICT, *options, "-shared", "-fPIC", "main.c", "-o", library, "-lm"]
    subprocess.run(build, cwd=folder, check=True)
    return ctypes.CDLL(str(library))


def run(source: str, folder: Path, X: NDArray, n_outputs: int, *options: str) -> NDArray:
    """Return the answers of the compiled header: (samples, outputs)."""
    library = compiled(source, folder, *options)
    whole = re.search(r"_OUT_FRACTION (\d+)", source)
    out = np.zeros((len(X), n_outputs), np.int32 if whole else np.float32)
    X = np.ascontiguousarray(X, np.float32)
    pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in (X, out)]
    library.all(*pointers, ctypes.c_long(len(X)))
    return out / 2.0 ** int(whole.group(1)) if whole else out


def built_and_run(lines: list[str], folder: Path) -> str:
    """Return what a program prints."""
    (folder / "main.c").write_text("\n".join([*lines, ""]))
    subprocess.run(["gcc", *STRICT, "main.c", "-lm"], cwd=folder, check=True)
    return subprocess.run([folder / "a.out"], capture_output=True, text=True, check=True).stdout


def ranges(kind: str, bits: int) -> Fixed:
    X = inputs(kind)
    return Fixed(bits, X.min(axis=0).tolist(), X.max(axis=0).tolist())


@pytest.mark.parametrize("kind", NETWORKS + ALONE + SYSTEMS[:3])
def test_float_is_close(kind, tmp_path):
    X, expected = inputs(kind), answers(kind)
    found = run(to_c(model(kind)), tmp_path, X, expected.shape[1], "-O2")
    assert np.abs(found - expected).max() < 1e-5


@pytest.mark.parametrize("bits", [16, 32])
@pytest.mark.parametrize("kind", WHOLE)
def test_whole_numbers_keep_their_bound(kind, bits, tmp_path):
    X, expected = inputs(kind), answers(kind)
    fixed = ranges(kind, bits)
    source = to_c(model(kind), fixed=fixed)
    # A number that does not fit would be undefined behaviour: let it stop the program.
    traps = ["-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"]
    off = np.abs(run(source, tmp_path, X, expected.shape[1], *traps) - expected).max()
    bound = fixed_bound(model(kind), fixed)
    assert off <= bound
    assert bound < (0.01 if bits == 16 else 1e-4) * max(1.0, np.abs(expected).max())
    assert "math.h" not in source
    assert f"ERROR_BOUND {bound:.9g}" in source


def test_inputs_beyond_their_range_are_taken_as_its_end(tmp_path):
    fixed = Fixed(32, 0.2, 0.8)
    X = inputs("binary")
    found = run(to_c(model("binary"), fixed=fixed), tmp_path, X, 2)
    expected = model("binary").predict_proba(np.clip(X, 0.2, 0.8))
    assert np.abs(found - expected).max() <= fixed_bound(model("binary"), fixed)


def test_pixels_are_taken_as_they_are():
    assert to_c(model("binary"), fixed=16) == to_c(model("binary"), fixed=Fixed(16, 0.0, 1.0))


@pytest.mark.parametrize("level", ["-O0", "-Os", "-O3"])
@pytest.mark.parametrize("fixed", [None, 16])
def test_no_warning_at_any_level(level, fixed, tmp_path):
    compiled(to_c(model("binary"), fixed=fixed), tmp_path, level)


def test_class_and_route(tmp_path):
    source = to_c(model("system"), name="net")
    (tmp_path / "net.h").write_text(source)
    main = """#include <stdio.h>
#include "net.h"
int main(void)
{
    static const char *classes[] = NET_CLASSES;
    static const int models[] = NET_MODELS;
    static const float x[2][NET_N_INPUTS] = { { 0, 0, 0 }, { 10, 10, 10 } };
    for (int i = 0; i < 2; i++)
        printf("%s %d\\n", classes[net_predict_class(x[i])], models[net_route(x[i])]);
    return 0;
}"""
    said = built_and_run(main.splitlines(), tmp_path)
    assert said.split() == ["0", "0", "11", "1"]


@pytest.mark.parametrize("fixed", [None, 16, 32])
def test_size_is_that_of_the_compiled_tables(fixed, tmp_path):
    source = to_c(model("softmax"), fixed=fixed)
    size = c_size(model("softmax"), fixed=fixed)
    (tmp_path / "model.h").write_text(source)
    names = re.findall(r"^static const \w+ (model_\w+)\[\d+\] =", source, re.MULTILINE)
    total = " + ".join(f"sizeof {name}" for name in names)
    lines = ['#include "model.h"', "#include <stdio.h>", "int main(void) {"]
    lines += [f'printf("%d %d", (int)({total}), (int)(MODEL_N_SCRATCH * sizeof(float)));']
    said = built_and_run([*lines, "return 0; }"], tmp_path)
    assert said.split() == [str(size.flash), str(size.ram)]
    assert f"Flash: {size.flash} bytes of constants" in source


def test_names_that_would_break_the_source(tmp_path):
    source = to_c(line_with_name('*/ "a"\\ ??/ {name}'))
    (tmp_path / "model.h").write_text(source)
    lines = ['#include "model.h"', "#include <stdio.h>", "int main(void) {"]
    lines += ["const char *names[] = MODEL_INPUTS;", "puts(names[0]); return 0; }"]
    assert built_and_run(lines, tmp_path) == '*/ "a"\\ ??/ {name}\n'


@pytest.mark.parametrize(
    ("kind", "fixed"), [("binary", None), ("binary", 16), ("regressor", None), ("system", None)]
)
def test_the_usage_at_the_top_works(kind, fixed, tmp_path):
    source = to_c(model(kind), name="net", fixed=fixed)
    (tmp_path / "net.h").write_text(source)
    top = source[source.index("Usage:") : source.index("*/")]
    calls = re.findall(r"^ \*     (\S.*?;)", top, re.MULTILINE)
    assert ("int k = net_predict_class(x);" in calls) == (kind != "regressor")
    assert ("int m = net_route(x);" in calls) == (kind == "system")
    assert " *     x[1]: x1\n" in top
    lines = ['#include "net.h"', "int main(void) {", "const int i = 0; const float value = 1;"]
    used = "(void)i; (void)value; (void)out; x[0] = 0;"
    used += " (void)k;" if kind != "regressor" else ""
    used += " (void)m; (void)known; (void)z;" if kind == "system" else ""
    fill = "for (int j = 0; j < NET_N_INPUTS; j++) x[j] = 0;"
    built_and_run([*lines, calls[0], fill, *calls[1:], used, "return 0; }"], tmp_path)


def test_many_inputs_are_named_in_part():
    regressor = line_with_name("a /* b ö")
    assert "x[0]: a / * b \\xf6\n" in to_c(regressor)
    top = to_c(model("regressor"))
    assert "x[6]: x6\n *     ...\n *     x[9]: x9\n */" in top


def test_what_cannot_be_written_says_why():
    with pytest.raises(ValueError, match="name must be letters"):
        to_c(model("binary"), name="my model")
    with pytest.raises(ValueError, match="16 or 32, got 8"):
        to_c(model("binary"), fixed=8)
    with pytest.raises(ValueError, match="PREVAL system"):
        fixed_bound(model("system"), 16)
    with pytest.raises(ValueError, match="the paper's models"):
        to_c(model("paper system"), fixed=16)
    with pytest.raises(ValueError, match="a single network has no novelty"):
        to_c(model("binary"), calibration=inputs("binary"))
    with pytest.raises(ValueError, match="preset='paper'"):
        to_c(model("paper"), fixed=16)
    with pytest.raises(ValueError, match="low has 2 ends for 3 inputs"):
        to_c(model("binary"), fixed=Fixed(16, [0.0, 0.0], 1.0))
    with pytest.raises(ValueError, match="too large"):
        to_c(model("binary"), fixed=Fixed(16, 0.0, 1e12))
