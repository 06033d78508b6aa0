"""A compact network as one C99 header: a table of bytes and a loop, or straight-line code."""

from dirad.export.c_source import check_name, comment, real, text
from dirad.export.compact.encode import Encoded, encoded
from dirad.export.compact.form import (
    BYTE,
    LIMIT,
    NODE_MOST,
    ONE,
    POWERS,
    SQUARE_SHIFT,
    CompactNetwork,
    bounds,
    check_bounds,
    check_ranges,
    in_float,
)
from dirad.export.compact.straight import straight_lines

BYTES_PER_LINE = 20
NEEDS = "Flash: {flash} bytes of constants, and the code. RAM: {ram} bytes, on the stack."
FAST = "Constants are part of the code, which has no loop. RAM: on the stack."
NAMED_INPUTS = 8  # that the comment at the top lists

_FRAME = """/* {title}.
 *
 * Made by dirad. C99, integers of 32 bits, no library, no memory but the stack.
 * {needs}
 * Inputs are bytes: {name}_input(i, value) makes one of a number.{inputs}
 * Right shifts of negative numbers must keep the sign, as with every common compiler.
 */
#ifndef {NAME}_H
#define {NAME}_H

#include <stdint.h>

#define {NAME}_N_INPUTS {n_inputs}
#define {NAME}_N_OUTPUTS {n_outputs}
{macros}
{run}
{answer}
{input}
#endif
"""

_TABLE = """static const uint8_t {{name}}_bytes[{n_bytes}] = {{
{table}
}};

"""

_RUN = """/* {what} */
static inline void {name}_predict(const uint8_t *x, int32_t *out)
{
{nodes}    const uint8_t *p = {name}_bytes;
    unsigned at = {first}, n = {NAME}_N_INPUTS;
{before}    for (unsigned row = 0; row < {rows}; row++) {
        int32_t sum = {bias};
{begin}        while (at < n) {
{code}
        }
        at -= n;
{after}
    }
}
"""

_EDGE = """            const unsigned code = *p++, gap = {gap};
            if (gap == {escape}) {{
                at += gap;{skip}
                continue;
            }}
            const int32_t v = {value};
{add}
            at += gap + 1;"""

_GATE = """        if (row >= {hidden_rows}) {{
            *out++ = sum;
        }} else if (row & 1) {{
            const unsigned shifts = *p++;
            int32_t t = (sum * {one}) >> (shifts >> 4);
            t = t < -{limit} ? -{limit} : t > {limit} ? {limit} : t;
            t += {one} - ((t * (t < 0 ? -t : t)) >> {square});
            z = (z * t) >> (shifts & 15);
{state}
        }} else {{
            z = sum;
        }}"""

_CLASS = """/* The number of the class, from 0: its place in {NAME}_CLASSES. */
static inline int {name}_predict_class(const uint8_t *x)
{
    int32_t out[{NAME}_N_OUTPUTS];
    {name}_predict(x, out);
{choice}
}
"""

_LARGEST = """    int best = 0;
    for (int i = 1; i < {NAME}_N_OUTPUTS; i++)
        if (out[i] > out[best])
            best = i;
    return best;"""

_VALUE = """/* An output in the unit of the target. */
static inline float {name}_value(int i, int32_t out)
{
    (void)i;
    return {NAME}_OFFSET(i) + {NAME}_SCALE(i) * (float)out;
}
"""

_INPUT = """/* A number as the byte of input i; what is beyond its range is taken as its end. */
static inline uint8_t {name}_input(int i, float value)
{
    const float low = {NAME}_LOW(i), high = {NAME}_HIGH(i);
    (void)i;
    if (!(value > low))
        return 0;
    if (value >= high)
        return 255;
    /* volatile: rounded to float before the sum, also where one instruction does both. */
    const volatile float steps = (value - low) / (high - low) * 255.0f;
    return (uint8_t)(steps + 0.5f);
}
"""


def compact_source(net: CompactNetwork, name: str = "model", *, fast: bool = False) -> str:
    """Return the header: a table of bytes and a loop, or if `fast` a statement per sum.

    The second takes several times as many bytes and a fraction of the instructions.

    It defines ``<name>_predict(x, out)``, which writes the output rows for bytes x, and for
    classifiers ``<name>_predict_class(x)``, for regressors ``<name>_value(i, out)``.
    """
    check_name(name)
    check_bounds(net)
    check_ranges(net.low, net.high)
    if fast:
        needs, run = FAST, straight_lines(net)
    else:
        data = encoded(net)
        n_bytes = len(data.stream)
        needs = NEEDS.format(flash=n_bytes, ram=_ram(net))
        run = _TABLE.format(n_bytes=n_bytes, table=_table(data.stream)) + _run(net, data)

    def named(source: str) -> str:
        return source.replace("{name}", name).replace("{NAME}", name.upper())

    return _FRAME.format(
        title=_title(net),
        needs=needs,
        inputs=_named_inputs(net),
        name=name,
        NAME=name.upper(),
        n_inputs=net.n_inputs,
        n_outputs=net.n_outputs,
        macros=_macros(net, name),
        run=named(run),
        answer=named(_VALUE if net.classes is None else _class(net)),
        input=named(_INPUT),
    )


def _title(net: CompactNetwork) -> str:
    kind = "regressor" if net.classes is None else f"classifier of {len(net.classes)} classes"
    return f"A {kind}: {net.n_edges} edges, {net.n_hidden} hidden nodes"


def _named_inputs(net: CompactNetwork) -> str:
    if not 0 < len(net.names) <= NAMED_INPUTS:
        return ""
    named = ", ".join(comment(name) for name in net.names)
    return f"\n * They are: {named}."


def _ram(net: CompactNetwork) -> int:
    return 2 * net.n_hidden + 4 * net.n_outputs


def _state(net: CompactNetwork) -> str:
    """Return the statements that store the state of a hidden node, limited where need be."""
    limit = ""
    if bounds(net).nodes.max(initial=0) > NODE_MOST:
        most = NODE_MOST
        limit = f"            z = z < -{most} ? -{most} : z > {most} ? {most} : z;\n"
    return f"{limit}            node[n++ - {{NAME}}_N_INPUTS] = (int16_t)z;"


def _macros(net: CompactNetwork, name: str) -> str:
    upper = name.upper()
    pairs = [("LOW", in_float(net.low)), ("HIGH", in_float(net.high))]
    lines = []
    if net.classes is None:
        pairs += [("SCALE", net.scale), ("OFFSET", net.offset)]
    else:
        lines.append(f"#define {upper}_N_CLASSES {len(net.classes)}")
        listed = ", ".join(text(str(label)) for label in net.classes)
        lines.append(f"#define {upper}_CLASSES {{ {listed} }}")
        lines.append(f"#define {upper}_SCALE {real(float(net.scale[0]))} /* logits per unit */")
    tables = []
    for key, values in pairs:
        numbers = [real(float(value)) for value in values]
        if len(set(numbers)) == 1:
            lines.append(f"#define {upper}_{key}(i) {numbers[0]}")
        else:
            lines.append(f"#define {upper}_{key}(i) {name}_{key.lower()}[i]")
            body = ",\n".join(
                "    " + ", ".join(numbers[i : i + 8]) for i in range(0, len(numbers), 8)
            )
            tables.append(
                f"static const float {name}_{key.lower()}[{len(numbers)}] = {{\n{body}\n}};"
            )
    return "\n".join([*lines, "", *tables, ""] if tables else [*lines, ""])


def _table(stream: bytes) -> str:
    lines = [stream[i : i + BYTES_PER_LINE] for i in range(0, len(stream), BYTES_PER_LINE)]
    return ",\n".join("    " + ", ".join(map(str, line)) for line in lines)


def _run(net: CompactNetwork, data: Encoded) -> str:
    """Return the function that computes the outputs."""
    what = "The outputs in the units of integers: {NAME}_SCALE of one is 1."
    hidden_rows, mixed = 2 * net.n_hidden, net.formats[0] != net.formats[1] and net.n_hidden > 0
    own = net.formats[1]
    before = "    int32_t z = 0;\n" if net.n_hidden else ""
    begin = ""
    bits = str(own.bits)
    if mixed:
        before += f"    unsigned bits = {net.formats[0].bits};\n"
        begin = (
            f"        if (row == {hidden_rows}) {{\n            bits = {own.bits};\n"
            f"            at = {data.first[1]};\n        }}\n"
        )
        bits = "bits"
    middle = 1 << (8 * net.bias_bytes - 1)
    taken = "p[0]" if net.bias_bytes == 1 else "(int32_t)p[0] * 256 + p[1]"
    begin = f"        p += {net.bias_bytes};\n" + begin
    value = "x[at]"
    if net.n_hidden:
        value = "at < {NAME}_N_INPUTS ? x[at] : node[at - {NAME}_N_INPUTS]"
    parts = {
        "{what}": what,
        "{nodes}": _nodes(net.n_hidden),
        "{first}": str(data.first[0] if net.n_hidden else data.first[1]),
        "{before}": before,
        "{rows}": str(net.n_rows),
        "{bias}": f"((int32_t)({taken}) - {middle}) * {1 << net.bias_shift}",
        "{begin}": begin,
        "{code}": _edge(net, bits, value),
        "{after}": _GATE.format(
            hidden_rows=hidden_rows,
            one=ONE,
            limit=LIMIT,
            square=SQUARE_SHIFT,
            state=_state(net),
        )
        if net.n_hidden
        else "        *out++ = sum;",
    }
    source = _RUN
    for key, part in parts.items():
        source = source.replace(key, part)
    return source


def _nodes(n: int) -> str:
    """Return the declaration; of a single node, compilers cannot see that it is written first."""
    return f"    int16_t node[{n}]{' = { 0 }' if n == 1 else ''};\n" if n else ""


def _edge(net: CompactNetwork, bits: str, value: str) -> str:
    own = net.formats[1]
    if own.is_wide:
        add = "            sum += ((int32_t)*p++ - 128) * v;"
        return _EDGE.format(
            gap="code", escape=BYTE, skip="\n                p++;", value=value, add=add
        )
    mask = f"((1u << {bits}) - 1)"
    if own.kind == POWERS:
        add = (
            f"            const int32_t product = v * ((int32_t)1 << (code & ({mask} >> 1)));\n"
            f"            sum += code >> ({bits} - 1) & 1 ? -product : product;"
        )
    else:
        add = f"            sum += (2 * (int32_t)(code & {mask}) - (int32_t){mask}) * v;"
    return _EDGE.format(
        gap=f"code >> {bits}", escape=f"255u >> {bits}", skip="", value=value, add=add
    )


def _class(net: CompactNetwork) -> str:
    choice = "    return out[0] > 0;" if net.n_outputs == 1 else _LARGEST
    return _CLASS.replace("{choice}", choice)
