"""What both kinds of C share: names, tables and the frame of the header."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dirad.export.exported import Exported, Member
from dirad.program import Program

NUMBERS_PER_LINE = 8
NAMED_INPUTS = 8  # inputs that the comment on usage lists
NAMES = "letters, digits and _, and begin with a letter"


class CSize(NamedTuple):
    """Bytes that a model needs, without its code."""

    flash: int  # constants
    ram: int  # scratch, on the stack during a call


class ConstantTable(NamedTuple):
    """An array of constants."""

    type: str
    name: str
    values: tuple[str, ...]

    @property
    def n_bytes(self) -> int:
        """The size of the table."""
        return len(self.values) * {"float": 4}.get(self.type, _bits(self.type) // 8)

    def source(self, prefix: str) -> str:
        """Return the declaration."""
        lines = [
            "    " + ", ".join(self.values[i : i + NUMBERS_PER_LINE])
            for i in range(0, len(self.values), NUMBERS_PER_LINE)
        ]
        inside = ",\n".join(lines)
        return (
            f"static const {self.type} {prefix}_{self.name}[{len(self.values)}] = {{\n{inside}\n}};"
        )


def _bits(kind: str) -> int:
    found = re.search(r"\d+", kind)
    return int(found.group()) if found else 0


def table(kind: str, name: str, values: Iterable[object]) -> ConstantTable:
    """Return a table; an empty one gets a 0, because C has no empty arrays."""
    return ConstantTable(kind, name, tuple(str(value) for value in values) or ("0",))


def unsigned(name: str, values: Iterable[int]) -> ConstantTable:
    """Return a table of unsigned integers, in the smallest type that holds them."""
    values = list(values)
    most = max(values, default=0)
    return table(f"uint{8 if most < 2**8 else 16 if most < 2**16 else 32}_t", name, values)


def real(number: float) -> str:
    """Return a literal of type float.

    >>> real(0.1), real(2.0)
    ('0.1f', '2.0f')
    """
    text = f"{number:.9g}"
    if number != 0.0 and abs(number) < 1e-37:
        text = "0"
    if abs(number) > 3e38:
        raise ValueError(f"a number of the model is too large for float: {number!r}")
    return f"{text}f" if re.search(r"[.e]", text) else f"{text}.0f"


def check_name(name: str) -> None:
    """Raise an error unless `name` can begin the names in a C program."""
    if not is_name(name):
        raise ValueError(f"name must be {NAMES}: {name!r}")


def is_name(name: str) -> bool:
    """Return whether `name` can begin the names in a C program."""
    return bool(re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name))


def text(words: str) -> str:
    """Return a string literal of plain ASCII, without trigraphs.

    >>> print(text('a "b"?'))
    "a \\042b\\042\\077"
    """
    safe = set(range(32, 127)) - set(b'"\\?')
    inside = "".join(chr(b) if b in safe else f"\\{b:03o}" for b in words.encode())
    return f'"{inside}"'


class Parts(NamedTuple):
    """A model in one number type; {name} and {NAME} are replaced by its name."""

    number: str  # the C type
    includes: tuple[str, ...]
    remarks: tuple[str, ...]
    macros: tuple[tuple[str, str], ...]
    tables: tuple[ConstantTable, ...]
    functions: str  # source of the transfers and programs
    copies: tuple[Sequence[str], ...]  # for each program, expressions of its outputs
    watch_tables: tuple[ConstantTable, ...] = ()  # of the batch test alone
    system: str = ""  # source of routing and novelty, of a PREVAL system
    chooses: str = ""  # source of the function that chooses a class, if it needs no probabilities

    def named(self, name: str) -> "Parts":
        """Return the same with the name inserted."""

        def put(source: str) -> str:
            return source.replace("{name}", name).replace("{NAME}", name.upper())

        return self._replace(
            remarks=tuple(map(put, self.remarks)),
            macros=tuple((key, put(value)) for key, value in self.macros),
            functions=put(self.functions),
            system=put(self.system),
            chooses=put(self.chooses),
            copies=tuple([put(copy) for copy in own] for own in self.copies),
        )


_FRAME = """/* {title}.
 *
 * Made by dirad. C99, no memory but the stack.
 * Flash: {flash} bytes of constants, and the code. RAM: {ram} bytes of scratch.
{remarks} *
 * Usage:
{usage} */
#ifndef {upper}_H
#define {upper}_H

{includes}

{macros}

{tables}

{functions}
{answers}
#endif
"""

_PREDICT = """/* {what}. */
static inline void {name}_predict(const {number} *x, {number} *out)
{{
    {number} v[{upper}_N_SCRATCH] = {{ 0 }};
    {name}_program_0(x, v);
{copies}
}}
"""

_CLASS = """
/* The number of the most probable class; {upper}_CLASSES names them. */
static inline int {name}_predict_class(const {number} *x)
{{
    {number} out[{upper}_N_OUTPUTS];
    int best = 0;
    {name}_predict(x, out);
    for (int i = 1; i < {upper}_N_OUTPUTS; i++)
        if (out[i] > out[best])
            best = i;
    return best;
}}
"""


def size_of(whole: Exported, parts: Parts) -> CSize:
    """Return the size of constants and scratch; a number has 4 bytes."""
    flash = sum(table.n_bytes for table in _tables(whole, parts))
    return CSize(flash, 4 * _n_scratch(whole))


def header(whole: Exported, parts: Parts, name: str) -> str:
    """Return the whole header."""
    upper, parts = name.upper(), parts.named(name)
    size = size_of(whole, parts)
    text_of = {"name": name, "upper": upper, "number": parts.number}
    macros = [*_macros(whole), *parts.macros]
    remarks = [*map(comment, parts.remarks), *_network(whole.equations)]
    answers = parts.system if whole.scored else _only(whole, parts, text_of)
    if whole.classes is not None:
        answers += parts.chooses or _CLASS.format(**text_of)
    return _FRAME.format(
        title=comment(whole.title),
        flash=size.flash,
        ram=size.ram,
        remarks="".join(f" * {line}".rstrip() + "\n" for line in remarks),
        usage="".join(f" * {line}\n" for line in _usage(whole, name, parts.number)),
        upper=upper,
        includes="\n".join(f"#include <{file}>" for file in parts.includes),
        macros="\n".join(f"#define {upper}_{key} {value}" for key, value in macros),
        tables="\n".join(
            table.source(name) for table in (*_tables(whole, parts), *parts.watch_tables)
        ),
        functions=parts.functions,
        answers=answers,
    )


def comment(words: str) -> str:
    """Return words in a form that is safe in a C comment.

    >>> print(comment("a */ b ?? ö"))
    a * / b ? ? \\xf6
    """
    for mark in ("*/", "/*", "??"):
        while mark in words:
            words = words.replace(mark, f"{mark[0]} {mark[1]}")
    return " ".join(words.split()).encode("ascii", "backslashreplace").decode()


def _usage(whole: Exported, name: str, number: str) -> list[str]:
    """Return a comment on how to call the functions, and on the inputs."""
    upper = name.upper()
    calls = [(f"{number} x[{upper}_N_INPUTS];", "the inputs, see below")]
    if number != "float":
        calls.append((f"x[i] = {name}_input(i, value);", "for each i, of a float"))
    if whole.classes is not None:
        calls.append(
            (f"int k = {name}_predict_class(x);", f"the class: its place in {upper}_CLASSES")
        )
    if whole.scored:
        calls.append((f"int m = {name}_route(x);", f"who answers: its place in {upper}_MODELS"))
        calls.append((f"int known = {name}_is_known(x);", "0: no model knows such samples"))
        calls.append((f"{number} z = {name}_novelty(x);", "how unusual the sample is"))
    what = "probability of each class" if whole.classes is not None else "value of each output"
    calls += [
        (f"{number} out[{upper}_N_OUTPUTS];", ""),
        (f"{name}_predict(x, out);", f"the {what}"),
    ]
    width = max(len(call) for call, _ in calls)
    lines = [f"    {call:{width}}   {meaning}".rstrip() for call, meaning in calls]
    inputs = [f"    {comment(one)}" for one in _listed(whole.inputs)]
    gaps = [f"Inputs that may be missing: {', '.join(whole.gaps)}"] if whole.gaps else []
    codes = [comment(remark) for remark in (*gaps, *whole.remarks)]
    return [*lines, f"The inputs, in the order of {upper}_INPUTS:", *inputs, *codes]


def _network(equations: Sequence[str]) -> list[str]:
    """Return a comment that shows the network, if there are equations."""
    lines = [f"    {comment(_in_ascii(one))}" for one in equations]
    return ["", "The network, rounded:", *lines] if lines else []


def _in_ascii(equation: str) -> str:
    """Return an equation without the signs that ASCII lacks.

    >>> _in_ascii("h1 = (2·x0 − 1) · (3 if x1 above −2 ± 0.1 else −1)")
    'h1 = (2*x0 - 1) * (3 if x1 above -2 +- 0.1 else -1)'
    """
    signs = {"·": "*", "−": "-", "±": "+-", "σ₁": "s1", "θ": "t", "“": "'", "”": "'"}
    for sign, plain in signs.items():
        equation = equation.replace(sign, plain)
    return equation


def _listed(names: Sequence[str]) -> list[str]:
    """Return the indices and names of the inputs; of many, the first ones and the last.

    >>> _listed(["a", "b"])
    ['x[0]: a', 'x[1]: b']
    """
    some = [f"x[{i}]: {name}" for i, name in enumerate(names)]
    return some if len(some) <= NAMED_INPUTS else [*some[: NAMED_INPUTS - 1], "...", some[-1]]


def _n_scratch(whole: Exported) -> int:
    return max(m.program.n_values - m.program.n_inputs for m in whole.members)


def _tables(whole: Exported, parts: Parts) -> list[ConstantTable]:
    routing = [unsigned("answered_by", (m.answered_by for m in whole.members))]
    return [*parts.tables, *(routing if whole.scored else [])]


def _macros(whole: Exported) -> list[tuple[str, str]]:
    def names(words: Iterable[str]) -> str:
        return "{ " + ", ".join(map(text, words)) + " }"

    macros = [
        ("N_INPUTS", str(len(whole.inputs))),
        ("N_OUTPUTS", str(len(whole.outputs))),
        ("N_SCRATCH", str(_n_scratch(whole))),
        ("INPUTS", names(whole.inputs)),
        ("CLASSES" if whole.classes is not None else "OUTPUTS", names(whole.outputs)),
    ]
    if whole.scored:
        numbers = ", ".join(str(member.number) for member in whole.members)
        macros += [("N_MODELS", str(len(whole.members))), ("MODELS", f"{{ {numbers} }}")]
    return macros


def _only(whole: Exported, parts: Parts, text_of: dict[str, str]) -> str:
    what = (
        "The probability of each class" if whole.classes is not None else "The value of each output"
    )
    return _PREDICT.format(
        what=what, copies=copies_of(whole.members[0], parts.copies[0], "    "), **text_of
    )


def copies_of(member: Member, values: Sequence[str], indent: str) -> str:
    return "\n".join(
        f"{indent}out[{column}] = {value};"
        for column, value in zip(member.columns, values, strict=True)
    )


def scratch(program: Program, value: int) -> str:
    """Return the expression of a computed value."""
    return f"v[{value - program.n_inputs}]"
