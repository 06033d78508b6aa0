"""Arduino libraries and Zephyr modules: what their specifications ask, and that they compile."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import kconfiglib
import numpy as np
import pytest
import yaml

from c_models import inputs, model, ranges
from dirad.atomic import new_folder
from dirad.export import to_arduino, to_c, to_zephyr, write_library
from exported_models import line_with_name

MAKERS = {"arduino": to_arduino, "zephyr": to_zephyr}
KINDS = [("softmax", 16), ("columns", None), ("two classes", 16), ("system", None)]
STRICT = ["-Wall", "-Wextra", "-Werror"]
NAMES = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.\- ]{0,62}")  # of libraries, by Arduino's specification
CATEGORIES = {
    "Communication", "Data Processing", "Data Storage", "Device Control", "Display", "Other",
    "Sensors", "Signal Input/Output", "Timing", "Uncategorized",
}  # fmt: skip
COMPILERS = {
    "g++": [],
    "arm-none-eabi-g++": ["-mcpu=cortex-m0", "-mthumb"],
    "avr-g++": ["-mmcu=atmega328p"],
}

# As much of Arduino as the sketch uses: sensors that give numbers of a file, prints that are seen.
_ARDUINO = """#include <math.h>
#include <stdint.h>
#ifndef __AVR__
#include <stdio.h>
#endif
enum { A0, A1, A2, A3, A4, A5 };
int analogRead(int pin);
void delay(unsigned long milliseconds);
struct Port {
    void begin(long) {}
    void println(const char *);
    void println(double, int);
};
extern Port Serial;
void setup();
void loop();
"""
_DEVICE = """#include "Arduino.h"
Port Serial;
static const int readings[6] = { 5, 3, 1, 0, 2, 4 };
int analogRead(int pin) { return readings[pin]; }
void delay(unsigned long) {}
#ifdef __AVR__
void Port::println(const char *) {}
void Port::println(double, int) {}
#else
void Port::println(const char *text) { printf("%s\\n", text); }
void Port::println(double value, int digits) { printf("%.*f\\n", digits, value); }
#endif
int main() { setup(); loop(); return 0; }
"""
_KERNEL = """#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#define K_SECONDS(n) (n)
#define printk printf
static inline void k_sleep(int seconds) { exit(seconds - 1); }
"""


def files(to, kind, bits, name="model"):
    return MAKERS[to](model(kind), name=name, fixed=None if bits is None else ranges(kind, bits))


@pytest.fixture(params=KINDS, ids=lambda kind: f"{kind[0]} {kind[1]}")
def arduino(request, tmp_path):
    write_library(files("arduino", *request.param), tmp_path / "lib")
    return tmp_path / "lib"


@pytest.fixture(params=KINDS, ids=lambda kind: f"{kind[0]} {kind[1]}")
def zephyr(request, tmp_path):
    write_library(files("zephyr", *request.param), tmp_path / "lib")
    return tmp_path / "lib"


# ------------------------------------------------------------------ specifications


def test_an_arduino_library_has_what_the_specification_asks(arduino):
    lines = (arduino / "library.properties").read_text().splitlines()
    found = dict(line.split("=", 1) for line in lines)
    asked = "name version author maintainer sentence paragraph category url architectures includes"
    assert set(found) == set(asked.split())
    assert all(value.strip() == value != "" for value in found.values())
    assert NAMES.fullmatch(found["name"])
    assert re.fullmatch(r"\d+\.\d+\.\d+", found["version"])
    assert found["category"] in CATEGORIES
    assert found["architectures"] == "*"
    assert (arduino / "src" / found["includes"]).exists()
    assert not found["paragraph"].startswith(found["sentence"])
    sketches = list(arduino.rglob("*.ino"))
    assert [path.parent.name for path in sketches] == [path.stem for path in sketches]
    assert sketches[0].parent.parent == arduino / "examples"
    assert {path.name for path in arduino.iterdir()} == {
        "library.properties", "library.json", "keywords.txt", "README.md", "src", "examples",
    }  # fmt: skip


def test_keywords_are_words_of_the_header(arduino):
    header = (arduino / "src" / "model.h").read_text()
    for line in (arduino / "keywords.txt").read_text().splitlines():
        word, kind = line.split("\t")  # one tab, nothing else
        assert re.search(rf"\b{word}\b", header)
        assert kind == ("LITERAL1" if word.isupper() else "KEYWORD2")


def test_a_zephyr_module_has_what_its_build_reads(zephyr):
    about = yaml.safe_load((zephyr / "zephyr/module.yml").read_text())
    assert about["name"] == "model"
    assert (zephyr / about["build"]["cmake"] / "CMakeLists.txt").exists()
    kconfig = kconfiglib.Kconfig(str(zephyr / about["build"]["kconfig"]), warn_to_stderr=False)
    assert "DIRAD_MODEL" in kconfig.syms
    needs_math = "math.h" in (zephyr / "src/model.h").read_text()
    assert ("REQUIRES_FULL_LIBC" in kconfig.syms) == needs_math
    for folder in about["samples"]:
        sample = yaml.safe_load((zephyr / folder / "sensor_loop/sample.yaml").read_text())
        assert set(sample) == {"sample", "tests"}
        set_here = (zephyr / folder / "sensor_loop/prj.conf").read_text()
        assert "CONFIG_DIRAD_MODEL=y\n" in set_here
    assert "if(CONFIG_DIRAD_MODEL)" in (zephyr / "zephyr/CMakeLists.txt").read_text()


@pytest.mark.parametrize("to", MAKERS)
def test_platformio_takes_the_library(to, tmp_path):
    write_library(files(to, "softmax", 16, "flowers"), tmp_path / "lib")
    about = json.loads((tmp_path / "lib/library.json").read_text())
    (example,) = about["examples"]
    assert all((tmp_path / "lib" / example["base"] / file).exists() for file in example["files"])
    settings = {
        "PLATFORMIO_CORE_DIR": str(tmp_path / "core"),
        "PLATFORMIO_SETTING_ENABLE_TELEMETRY": "no",
        "PLATFORMIO_SETTING_CHECK_PLATFORMIO_INTERVAL": "9999",
    }

    def pack(to):
        command = [sys.executable, "-m", "platformio", "pkg", "pack", "-o", str(to)]
        return subprocess.run(
            [*command, str(tmp_path / "lib")], env=os.environ | settings, capture_output=True,
            text=True, check=False,
        )  # fmt: skip

    done = pack(tmp_path / "packed.tar.gz")
    assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / "lib/library.json").write_text(json.dumps(about | {"version": "one"}))
    assert pack(tmp_path / "wrong.tar.gz").returncode != 0  # it does check


# ------------------------------------------------------------------ examples


@pytest.mark.parametrize("compiler", COMPILERS)
def test_the_sketch_compiles_as_cpp(arduino, compiler, tmp_path):
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is missing")
    build = [compiler, *COMPILERS[compiler], "-std=gnu++11", "-Os", *STRICT]
    done = compiled_sketch(arduino, tmp_path, [*build, "-c"])
    assert done.returncode == 0, done.stderr


def compiled_sketch(library, folder, build):
    """Build the sketch as the IDE does: Arduino.h before all else."""
    (folder / "Arduino.h").write_text(_ARDUINO)
    sketch = next(library.rglob("*.ino")).read_text()
    (folder / "sketch.cpp").write_text(f'#include "Arduino.h"\n{sketch}')
    (folder / "device.cpp").write_text(_DEVICE)
    command = [*build, f"-I{library / 'src'}", "-I.", "sketch.cpp", "device.cpp"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def expected(kind):
    """The answer to the readings of `_DEVICE`; what an example does not read is 0."""
    own = model(kind)
    x = np.zeros(own.n_features_in_)
    n = min(6, len(x))
    x[:n] = [5, 3, 1, 0, 2, 4][:n]
    return own, x[None]


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is missing")
@pytest.mark.parametrize("bits", [None, 32])
@pytest.mark.parametrize("kind", ["softmax", "columns"])
def test_the_sketch_prints_the_answer(kind, bits, tmp_path):
    write_library(files("arduino", kind, bits), tmp_path / "lib")
    done = compiled_sketch(tmp_path / "lib", tmp_path, ["g++", "-std=gnu++11", *STRICT])
    assert done.returncode == 0, done.stderr
    said = subprocess.run([tmp_path / "a.out"], capture_output=True, text=True, check=True).stdout
    own, x = expected(kind)
    if bits is not None:
        X = inputs(kind)
        x = np.clip(x, X.min(axis=0), X.max(axis=0))
    if kind == "softmax":
        assert said.split() == [str(own.predict(x)[0])]
    else:
        assert np.array(said.split(), float) == pytest.approx(own.predict(x)[0], abs=1e-3)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is missing")
def test_the_sample_compiles_and_runs(zephyr, tmp_path):
    for name in ("kernel.h", "sys/printk.h"):
        (tmp_path / "zephyr" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "zephyr" / name).write_text(_KERNEL if name == "kernel.h" else "")
    main = zephyr / "samples/sensor_loop/src/main.c"
    command = ["gcc", "-std=c99", *STRICT, f"-I{tmp_path}", f"-I{zephyr / 'src'}", str(main)]
    subprocess.run([*command, "-lm"], cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "a.out"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout.strip()


def test_names_that_would_break_the_sources(tmp_path):
    hostile = '*/ "a"\\ ??/ {name} {inputs} /* `\n# x'
    for to, maker in MAKERS.items():
        made = maker(line_with_name(hostile))
        library = tmp_path / to
        write_library(made, library)
        if to == "arduino" and shutil.which("g++"):
            done = compiled_sketch(library, tmp_path, ["g++", "-std=gnu++11", *STRICT])
            assert done.returncode == 0, done.stderr
        assert "\n# x" not in made["README.md"]


# ------------------------------------------------------------------ files


def test_the_header_is_that_of_c(tmp_path):
    for maker in MAKERS.values():
        made = maker(model("softmax"), name="iris")
        assert made["src/iris.h"] == to_c(model("softmax"), name="iris")


def test_a_zip_file_holds_one_folder_and_is_always_the_same(tmp_path):
    made = files("arduino", "softmax", 16)
    for name in ("one.zip", "two.ZIP", "one.zip"):  # a zip file may be replaced
        write_library(made, tmp_path / name, "iris")
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.ZIP").read_bytes()
    with zipfile.ZipFile(tmp_path / "one.zip") as archive:
        assert {entry.date_time[0] for entry in archive.infolist()} == {1980}
        assert {f"iris/{path}": text for path, text in made.items()} == {
            entry: archive.read(entry).decode() for entry in archive.namelist()
        }


def test_a_folder_that_holds_something_is_refused(tmp_path):
    made = {"a.txt": "new"}
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a.txt").write_text("old")
    (tmp_path / "file").write_text("old")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileExistsError, match="not empty"):
        write_library(made, tmp_path / "full")
    with pytest.raises(FileExistsError, match="a file already"):
        write_library(made, tmp_path / "file")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        write_library(made, tmp_path / "missing" / "lib")
    assert (tmp_path / "full" / "a.txt").read_text() == "old"
    write_library(made, tmp_path / "empty")
    assert (tmp_path / "empty" / "a.txt").read_text() == "new"
    assert {path.name for path in tmp_path.iterdir()} == {"full", "file", "empty"}


def test_a_folder_is_written_whole_or_not_at_all(tmp_path):
    def fill(path):
        with new_folder(path) as folder:
            (folder / "a.txt").write_text("one")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fill(tmp_path / "lib")
    assert list(Path(tmp_path).iterdir()) == []


def test_names_that_arduino_refuses():
    for name in ("Arduino_model", "a" * 64):
        with pytest.raises(ValueError, match="name of an Arduino library"):
            to_arduino(model("softmax"), name=name)
    with pytest.raises(ValueError, match="name must be letters"):
        to_zephyr(model("softmax"), name="my model")
