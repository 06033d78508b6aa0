"""What libraries for boards share: the answer in an example, PlatformIO's file, how to write them.

A library is a set of files, by their paths: the exported header in `src`, and around it what a
build system and a reader need.
"""

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from dirad.atomic import new_folder, replacing
from dirad.export.c import c_size, to_c
from dirad.export.c_source import text
from dirad.export.exported import Estimator, Exported, exported
from dirad.export.fixed_point import Fixed

VERSION = "1.0.0"
SENTENCE = "Predictions of a fitted model in C, without malloc."
BEFORE_ALL = (1980, 1, 1, 0, 0, 0)  # the first date of a zip file: the same model, the same bytes
NAMED_INPUTS = 6  # inputs that an example reads; Arduino boards have six analog pins, A0 to A5


class Parts(NamedTuple):
    """A model for a library."""

    name: str
    whole: Exported
    header: str
    fixed: bool
    flash: int  # bytes of constants
    ram: int  # bytes of scratch

    @property
    def number(self) -> str:
        """The type of its inputs and outputs in C."""
        return "int32_t" if self.fixed else "float"

    def put(self, template: str) -> str:
        """Return a template with the name inserted."""
        return template.replace("{name}", self.name).replace("{NAME}", self.name.upper())

    @property
    def functions(self) -> list[str]:
        """The functions of the header that a user calls."""
        found = [f"{self.name}_predict"]
        found += [f"{self.name}_input"] if self.fixed else []
        found += [f"{self.name}_predict_class"] if self.whole.classes is not None else []
        return found + ([f"{self.name}_route"] if self.whole.routed else [])


def library_parts(model: Estimator, name: str, fixed: Fixed | int | None, **novelty: Any) -> Parts:
    """Return a fitted model as libraries need it."""
    header = to_c(model, name=name, fixed=fixed, **novelty)
    return Parts(name, exported(model), header, fixed is not None, *c_size(model, fixed=fixed))


def write_library(files: Mapping[str, str], path: str | Path, name: str = "model") -> None:
    """Write the files of a library into a new folder, or into a zip file if `path` ends in .zip.

    In a zip file they are in a folder called `name`. A folder that holds something is refused.
    """
    path = Path(path)
    if is_zip(path):
        with replacing(path) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
            for inside, content in sorted(files.items()):
                entry = zipfile.ZipInfo(str(PurePosixPath(name, inside)), BEFORE_ALL)
                entry.external_attr = 0o644 << 16
                archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
        return
    with new_folder(path) as folder:
        for inside, content in files.items():
            file = folder / inside
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content, encoding="utf-8", newline="\n")


def is_zip(path: Path) -> bool:
    """Return whether a library is written as a zip file."""
    return path.suffix.lower() == ".zip"


# ------------------------------------------------------------------ examples in C


def reading(parts: Parts, call: str) -> str:
    """Return the C function that reads an input; in `call`, {i} is the number of the input."""
    lines = [
        "/* One input, in the units of the data that the model was fitted to. */",
        "static float reading(int i)",
        "{",
        "    switch (i) {",
    ]
    for i, name in enumerate(parts.whole.inputs[:NAMED_INPUTS]):
        gap = "; NAN if it is missing" if name in parts.whole.gaps else ""
        lines += [f"    case {i}: /* {_remark(name)}{gap} */"]
        lines += [f"        return {call.replace('{i}', str(i))};"]
    rest = len(parts.whole.inputs) - NAMED_INPUTS
    more = f" /* {rest} more, see the top of {parts.name}.h */" if rest > 0 else ""
    return "\n".join([*lines, f"    default:{more}", "        return 0.0f;", "    }", "}", ""])


def _remark(words: str) -> str:
    """Return words that are safe in a C comment.

    >>> print(_remark("a */ b"))
    "a * / b"
    """
    return text(words).replace("*/", "* /").replace("/*", "/ *")


def take_inputs(parts: Parts, indent: str) -> str:
    """Return the C statements that fill x from `reading`."""
    value = f"{parts.name}_input(i, reading(i))" if parts.fixed else "reading(i)"
    lines = [
        f"{parts.number} x[{parts.name.upper()}_N_INPUTS];",
        f"for (int i = 0; i < {parts.name.upper()}_N_INPUTS; i++)",
        f"    x[i] = {value};",
    ]
    return "".join(f"{indent}{line}\n" for line in lines)


def value_of_output(parts: Parts) -> str:
    """Return the C expression of output i as a real number."""
    scale = f" / (float)((int32_t)1 << {parts.name.upper()}_OUT_FRACTION)"
    return "out[i]" if not parts.fixed else f"(float)out[i]{scale}"


# ------------------------------------------------------------------ texts


def platformio(parts: Parts, example: tuple[str, str], frameworks: str) -> str:
    """Return PlatformIO's library.json; `example` is a folder and a file in it."""
    folder, file = example
    about = {
        "name": parts.name,
        "version": VERSION,
        "description": SENTENCE,
        "keywords": ["model", "prediction", "classification", "regression"],
        "headers": f"{parts.name}.h",
        "frameworks": frameworks,
        "platforms": "*",
        "examples": [{"name": PurePosixPath(folder).name, "base": folder, "files": [file]}],
    }
    return json.dumps(about, indent=2) + "\n"


def readme(parts: Parts, install: str) -> str:
    """Return the page that explains the library."""
    whole = parts.whole
    inputs = [f"{i}. {_code(name)}" for i, name in enumerate(whole.inputs)]
    what = "Outputs" if whole.classes is None else "Classes"
    outputs = [f"{i}. {_code(name)}" for i, name in enumerate(whole.outputs)]
    arithmetic = "fixed point (whole numbers, no library)" if parts.fixed else "float"
    lines = [
        f"# {parts.name}",
        "",
        f"{whole.title}. Computes in {arithmetic}; {parts.flash} bytes of constants and the code, "
        f"{parts.ram} bytes of scratch on the stack.",
        "",
        install.strip(),
        "",
        f"The comment at the top of `src/{parts.name}.h` shows how its functions are called. "
        "Change the name, version, author and address of the library before you publish it.",
        "",
        *("## Inputs", "", *inputs, ""),
        *((f"May be missing: {', '.join(map(_code, whole.gaps))}.", "") if whole.gaps else ()),
        *(line for remark in whole.remarks for line in (_plain(remark), "")),
        *(f"## {what}", "", *outputs),
    ]
    return "\n".join(lines) + "\n"


def _plain(words: str) -> str:
    """Return words on one line."""
    return " ".join(words.split())


def _code(words: str) -> str:
    """Return a name as Markdown shows it, on one line.

    >>> print(_code("a`b"))
    `a'b`
    """
    return f"`{_plain(words).replace('`', chr(39))}`"
