"""A model as a Zephyr module, which PlatformIO takes as well."""

from typing import Any

from dirad.export.exported import Estimator
from dirad.export.fixed_point import Fixed
from dirad.export.library import (
    Parts,
    library_parts,
    platformio,
    reading,
    readme,
    take_inputs,
    value_of_output,
)

SAMPLE = "samples/sensor_loop"

_MODULE = """name: {name}
build:
  cmake: zephyr
  kconfig: zephyr/Kconfig
samples:
  - samples
"""

_CMAKE = """if(CONFIG_DIRAD_{NAME})
  zephyr_include_directories(${CMAKE_CURRENT_SOURCE_DIR}/../src)
endif()
"""

_KCONFIG = (
    "config DIRAD_{NAME}\n"
    '\tbool "The model {name}: predictions in C"\n'
    "{libc}"
    "\thelp\n"
    "\t  Adds {name}.h, a fitted model, to the include path.\n"
)

_SAMPLE_CMAKE = """cmake_minimum_required(VERSION 3.20.0)
list(APPEND ZEPHYR_EXTRA_MODULES ${CMAKE_CURRENT_SOURCE_DIR}/../..)
find_package(Zephyr REQUIRED HINTS $ENV{ZEPHYR_BASE})
project({name}_sensor_loop LANGUAGES C)
target_sources(app PRIVATE src/main.c)
"""

_SAMPLE_YAML = """sample:
  name: Sensor loop of the model {name}
tests:
  sample.{name}.sensor_loop:
    build_only: true
    tags: {name}
"""

_MAIN = """/* Reads the inputs once a second, lets the model predict, and prints the answer.
 *
 * Put your own sensors into `reading`.
 */
#include <zephyr/kernel.h>
#include <zephyr/sys/printk.h>

#include <{name}.h>

{reading}
int main(void)
{
{classes}    for (;;) {
{inputs}{answer}        k_sleep(K_SECONDS(1));
    }
    return 0;
}
"""

_CLASSES = "    static const char *const classes[] = {NAME}_CLASSES;\n"
_CLASS = """        printk("%s\\n", classes[{name}_predict_class(x)]);
"""
_VALUE = """        {number} out[{NAME}_N_OUTPUTS];
        {name}_predict(x, out);
        for (int i = 0; i < {NAME}_N_OUTPUTS; i++)
            printk("%f\\n", (double)({value}));
"""

_INSTALL = """
In Zephyr: add this folder to your build, by `-DZEPHYR_EXTRA_MODULES=path/to/{name}`, and set
`CONFIG_DIRAD_{NAME}=y`. The application `samples/sensor_loop` does so:
`west build -b qemu_cortex_m3 samples/sensor_loop -t run`.
In PlatformIO: copy the folder into `lib`.
"""


def to_zephyr(
    model: Estimator, *, name: str = "model", fixed: Fixed | int | None = None, **novelty: Any
) -> dict[str, str]:
    """Return a model as the files of a Zephyr module: their contents, by their paths.

    The header is that of `to_c`, whose other options this takes too; a sample application reads
    sensors in a loop. `write_library` writes the files into a new folder or a zip file.
    `library.json` makes it a PlatformIO library too.
    """
    parts = library_parts(model, name, fixed, **novelty)
    libc = "" if parts.fixed else "\tselect REQUIRES_FULL_LIBC\n"
    floats = "CONFIG_CBPRINTF_FP_SUPPORT=y\n" if parts.whole.classes is None else ""
    return {
        "zephyr/module.yml": parts.put(_MODULE),
        "zephyr/CMakeLists.txt": parts.put(_CMAKE),
        "zephyr/Kconfig": parts.put(_KCONFIG.replace("{libc}", libc)),
        "library.json": platformio(parts, (SAMPLE, "src/main.c"), "zephyr"),
        "README.md": readme(parts, parts.put(_INSTALL)),
        f"src/{name}.h": parts.header,
        f"{SAMPLE}/CMakeLists.txt": parts.put(_SAMPLE_CMAKE),
        f"{SAMPLE}/prj.conf": parts.put("CONFIG_DIRAD_{NAME}=y\n") + floats,
        f"{SAMPLE}/sample.yaml": parts.put(_SAMPLE_YAML),
        f"{SAMPLE}/src/main.c": _main(parts),
    }


def _main(parts: Parts) -> str:
    classes = parts.whole.classes is not None
    answer = _CLASS if classes else _VALUE
    answer = answer.replace("{number}", parts.number).replace("{value}", value_of_output(parts))
    source = _MAIN.replace("{classes}", _CLASSES if classes else "").replace("{answer}", answer)
    return (
        parts.put(source)
        .replace("{inputs}", take_inputs(parts, "        "))
        .replace("{reading}", reading(parts, "0.0f"))
    )
