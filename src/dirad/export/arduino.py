"""A model as an Arduino library, which PlatformIO takes as well."""

from typing import Any

from dirad.export.exported import Estimator
from dirad.export.fixed_point import Fixed
from dirad.export.library import (
    SENTENCE,
    VERSION,
    Parts,
    library_parts,
    platformio,
    reading,
    readme,
    take_inputs,
    value_of_output,
)

EXAMPLE = "SensorLoop"
LONGEST = 63  # characters of a library's name
RESERVED = "arduino"  # names of libraries must not begin so

_PROPERTIES = """name={name}
version={version}
author=dirad
maintainer=dirad
sentence={sentence}
paragraph={about}
category=Data Processing
url=https://example.org/{name}
architectures=*
includes={name}.h
"""

_SKETCH = """/* Reads the inputs once a second, lets the model predict, and prints the answer.
 *
 * Put your own sensors into `reading`.
 */
#include <{name}.h>

{reading}
void setup()
{
    Serial.begin(9600);
}

void loop()
{
{inputs}{answer}    delay(1000);
}
"""

_CLASS = """    static const char *const classes[] = {NAME}_CLASSES;
    Serial.println(classes[{name}_predict_class(x)]);
"""

_VALUE = """    {number} out[{NAME}_N_OUTPUTS];
    {name}_predict(x, out);
    for (int i = 0; i < {NAME}_N_OUTPUTS; i++)
        Serial.println({value}, 4);
"""

_INSTALL = """
In the Arduino IDE: Sketch, Include Library, Add .ZIP Library; then File, Examples, {name},
SensorLoop. In PlatformIO: copy the folder into `lib`.

On AVR boards (Uno, Nano, Mega), constants are kept in RAM as well.
"""


def to_arduino(
    model: Estimator, *, name: str = "model", fixed: Fixed | int | None = None, **novelty: Any
) -> dict[str, str]:
    """Return a model as the files of an Arduino library: their contents, by their paths.

    The header is that of `to_c`, whose other options this takes too; an example sketch reads
    sensors in a loop. `write_library` writes the files into a new folder or a zip file.
    `library.json` makes it a PlatformIO library too.
    """
    if len(name) > LONGEST or name.lower().startswith(RESERVED):
        raise ValueError(
            f"the name of an Arduino library has at most {LONGEST} characters and does not begin "
            f"with {RESERVED!r}: {name!r}"
        )
    parts = library_parts(model, name, fixed, **novelty)
    folder, file = f"examples/{EXAMPLE}", f"{EXAMPLE}.ino"
    return {
        "library.properties": _PROPERTIES.format(
            name=name, version=VERSION, sentence=SENTENCE, about=f"{parts.whole.title}."
        ),
        "library.json": platformio(parts, (folder, file), "arduino"),
        "keywords.txt": _keywords(parts),
        "README.md": readme(parts, parts.put(_INSTALL)),
        f"src/{name}.h": parts.header,
        f"{folder}/{file}": _sketch(parts),
    }


def _sketch(parts: Parts) -> str:
    answer = _VALUE if parts.whole.classes is None else _CLASS
    answer = answer.replace("{number}", parts.number).replace("{value}", value_of_output(parts))
    return (
        parts.put(_SKETCH.replace("{answer}", answer))
        .replace("{inputs}", take_inputs(parts, "    "))
        .replace("{reading}", reading(parts, "analogRead(A{i})"))
    )


def _keywords(parts: Parts) -> str:
    """Return the words that the Arduino IDE colours: functions and constants."""
    sizes = [f"{parts.name.upper()}_{size}" for size in ("N_INPUTS", "N_OUTPUTS")]
    lines = [f"{word}\tKEYWORD2" for word in parts.functions]
    return "\n".join([*lines, *(f"{word}\tLITERAL1" for word in sizes), ""])
