"""A model in C with integers: the same loop, with a shift per sum and no library."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from dirad.export.c_source import ConstantTable, Parts, real, scratch, table, unsigned
from dirad.export.exported import Exported, Member
from dirad.export.fixed_point import (
    MODULATION,
    UNIT,
    Fixed,
    FixedInput,
    FixedNode,
    FixedProgram,
    FixedSoftmax,
    FixedStep,
    FixedTerm,
    Format,
    fixed_program,
)
from dirad.export.fixed_run import exponential, shifted
from dirad.export.fixed_run import logistic as logistic_of
from dirad.program import OF_INPUT, Program, Transfer

_RUN = """/* Inputs beyond their ranges may give sums that do not fit. They are added as unsigned
 * numbers and wrap around, where a sum of signed ones would be undefined. Right shifts of negative
 * numbers must keep the sign, and conversions to signed types the bits, as every common compiler
 * does it. */
static inline int32_t {name}_shifted(int64_t value, int shift)
{
    const uint64_t half = ((uint64_t)1 << shift) >> 1;
    return (int32_t)((int64_t)((uint64_t)value + half) >> shift);
}

/* An input as the model takes it; what is beyond its range is taken as its end. */
static inline int32_t {name}_input(int i, float value)
{
    const float low = {NAME}_LOW(i), high = {NAME}_HIGH(i);
    const float inside = value > low ? (value < high ? value : high) : low;
    const float scaled = inside * (float)((int32_t)1 << {NAME}_FRACTION(i));
    (void)i;{missing}
    return (int32_t)(scaled < 0.0f ? scaled - 0.5f : scaled + 0.5f);
}

/* Walks the tables; the next value goes to `next`. */
typedef struct {
    const int32_t *x;
    const int32_t *v;
    int32_t *next;
    unsigned edge, term;
} {name}_cursor;

static inline int32_t {name}_sum({name}_cursor *c)
{
    const unsigned t = c->term++;
    uint64_t z = 0;
    for (unsigned n = {name}_count[t]; n > 0; n--, c->edge++) {
        const unsigned s = {name}_source[c->edge];
        const int32_t value = s < {NAME}_N_INPUTS ? c->x[s] : c->v[s - {NAME}_N_INPUTS];
        z += (uint64_t)((int64_t){name}_weight[c->edge] * value);
    }
    const int32_t scaled = {name}_shifted((int64_t)z, {name}_shift[t]);
    return (int32_t)((uint32_t)scaled + (uint32_t){name}_bias[t]);
}
"""

_IF_MISSING = """
    if (value != value)
        return {NAME}_MISSING;"""

# e^−t = 2^−(n+f): 2^−f is a polynomial of degree 6, at the Chebyshev nodes of [0, 1].
_EXPONENTIAL = """
/* e^-t with 30 bits behind the point, of t >= 0 with `fraction` bits. */
static inline int32_t {name}_exp(int64_t t, int fraction)
{
    static const int32_t c[7] = {
        1073741823, -744260973, 257938912, -59582935, 10286296, -1369601, 117391
    };
    const int64_t y = (t * 1549082005) >> fraction;
    const int64_t f = y & 0x3fffffff;
    int64_t p = c[6];
    if (y >> 30 > 30)
        return 0;
    for (int i = 5; i >= 0; i--)
        p = c[i] + ((p * f) >> 30);
    return (int32_t)(p >> (y >> 30));
}
"""

_LOGISTIC = """
/* 2^60 / divisor, which is from 2^30 to 2^31 - 1: without a library that divides 64 bits. */
static inline uint32_t {name}_quotient(uint32_t divisor)
{
    uint32_t rest = (uint32_t)1 << 30, quotient = 0;
    for (int i = 0; i < 31; i++) {
        const uint32_t fits = rest >= divisor;
        quotient = 2 * quotient + fits;
        rest = 2 * (fits ? rest - divisor : rest);
    }
    return quotient;
}

static inline int32_t {name}_logistic(int32_t z, int fraction)
{
    const int32_t small = {name}_exp(z < 0 ? -(int64_t)z : z, fraction);
    const int32_t high = (int32_t){name}_quotient(((uint32_t)1 << 30) + (uint32_t)small);
    return z < 0 ? ((int32_t)1 << 30) - high : high;
}
"""

_SOFTMAX = """
static inline void {name}_softmax({name}_cursor *c, const int32_t *z, int n, int fraction)
{
    int32_t top = z[0];
    int64_t sum = 0;
    for (int i = 1; i < n; i++)
        top = z[i] > top ? z[i] : top;
    for (int i = 0; i < n; i++)
        sum += c->next[i] = {name}_exp((int64_t)top - z[i], fraction);
    for (int i = 0; i < n; i++, c->next++)
        *c->next = (int32_t)(((int64_t)*c->next << 30) / sum);
}
"""


_CHOOSES = """
/* The number of the most probable class; {NAME}_CLASSES names them. It is told by sums. */
static inline int {name}_predict_class(const int32_t *x)
{
    int32_t v[{NAME}_N_SCRATCH] = { 0 };
    {name}_cursor c = { x, v, v, 0, 0 };
    {name}_nodes(&c);
{choice}
}
"""

_LARGEST = """    const int32_t *z = v + {start};
    int best = 0;
    for (int i = 1; i < {NAME}_N_OUTPUTS; i++)
        if (z[i] > z[best])
            best = i;
    return best;"""

NEAR_BITS = 14
NEAR = 1 << NEAR_BITS  # sums around 0 whose answers are computed, to find where classes change
LEAST_FRACTION = 22  # bits of outputs; with fewer, sums beyond NEAR may give equal answers

MISSING_INPUT = "{NAME}_MISSING stands for a missing input; {name}_input makes it of NAN."


def fixed_parts(whole: Exported, fixed: Fixed) -> Parts:
    """Return a model's tables and functions in integers."""
    program = whole.members[0].program
    made = fixed_program(program, fixed)
    choice = None if whole.classes is None else _choice(whole.members[0], made)
    n_before = _n_before_answers(made.steps)
    own_input_tables, input_macros = input_ranges(made.inputs)
    return Parts(
        number="int32_t",
        includes=("stdint.h",),
        remarks=(
            "Inputs and outputs are whole numbers: {name}_input makes an input of a float; an "
            f"output is its number / 2^{made.fraction}.",
            f"No output is off by more than {made.error:.3g}, for float inputs within their "
            "ranges; values outside are clipped to them.",
            *((MISSING_INPUT,) if whole.gaps else ()),
        ),
        macros=(
            *input_macros,
            *((("MISSING", "INT32_MIN"),) if whole.gaps else ()),
            ("OUT_FRACTION", str(made.fraction)),
            ("ERROR_BOUND", f"{made.error:.9g}"),
        ),
        tables=(*_tables(made, fixed.bits), *own_input_tables),
        functions=_functions(program, made, n_before, bool(whole.gaps)),
        chooses="" if choice is None else _CHOOSES.replace("{choice}", choice),
        copies=(_copies(program, made),),
    )


def _copies(program: Program, made: FixedProgram) -> list[str]:
    return [
        f"{{name}}_shifted({scratch(program, value)}, {shift})"
        if shift
        else scratch(program, value)
        for value, shift in zip(made.outputs, made.shifts, strict=True)
    ]


def input_ranges(
    inputs: Sequence[Format],
) -> tuple[list[ConstantTable], list[tuple[str, str]]]:
    """Return how a float is converted into an input: by one range for all, or by tables."""
    columns = {
        "FRACTION": [str(own.fraction) for own in inputs],
        "LOW": [real(own.low) for own in inputs],
        "HIGH": [real(own.high) for own in inputs],
    }
    if len(set(inputs)) == 1:
        return [], [(f"{key}(i)", values[0]) for key, values in columns.items()]
    types = {"FRACTION": "uint8_t", "LOW": "float", "HIGH": "float"}
    tables = [table(types[key], key.lower(), values) for key, values in columns.items()]
    return tables, [(f"{key}(i)", f"{{name}}_{key.lower()}[i]") for key in columns]


def _terms(made: FixedProgram) -> list[FixedTerm]:
    return [t for step in made.steps if isinstance(step, FixedNode) for t in step.terms]


def _tables(made: FixedProgram, bits: int) -> Iterator[ConstantTable]:
    terms = _terms(made)
    yield table(f"int{bits}_t", "weight", (w for term in terms for w in term.weights))
    yield unsigned("source", (s for term in terms for s in term.sources))
    yield table("int32_t", "bias", (term.bias for term in terms))
    yield unsigned("count", (len(term.sources) for term in terms))
    yield unsigned("shift", (term.shift for term in terms))


def _functions(program: Program, made: FixedProgram, n_before: int, gaps: bool) -> str:
    used = program.transfers
    parts = [_RUN.replace("{missing}", _IF_MISSING if gaps else "")]
    if used - {Transfer.LINEAR, *OF_INPUT}:
        parts.append(_EXPONENTIAL)
    if used & {Transfer.LOGISTIC, Transfer.MODULATED}:
        parts.append(_LOGISTIC)
    if Transfer.SOFTMAX in used:
        parts.append(_SOFTMAX)
    return "".join([*parts, _program(program, made.steps, n_before)])


def _program(program: Program, steps: Sequence[FixedStep], n_before: int) -> str:
    before = [line for step in steps[:n_before] for line in _of_step(program, step)]
    last = [line for step in steps[n_before:] for line in _of_step(program, step)]
    needs_z = any(isinstance(step, FixedNode) and len(step.terms) == 2 for step in steps)
    lines = [
        "\n/* All that comes before the answers. */",
        "static inline void {name}_nodes({name}_cursor *c)\n{",
        *(["    int32_t z;"] if needs_z else []),
        *(before or ["    (void)c;"]),
        "}\n",
        "static inline void {name}_program_0(const int32_t *x, int32_t *v)\n{",
        "    {name}_cursor own = { x, v, v, 0, 0 }, *c = &own;",
        "    {name}_nodes(c);",
        *last,
    ]
    return "\n".join([*lines, "}\n"])


def _n_before_answers(steps: Sequence[FixedStep]) -> int:
    """Return the number of steps before those that only turn sums into answers."""
    n = len(steps)
    if isinstance(steps[-1], FixedSoftmax):
        return n - 1
    is_logistic = [isinstance(s, FixedNode) and s.transfer == Transfer.LOGISTIC for s in steps]
    return n - 2 if is_logistic[-2:] == [True, False] else n


def _choice(member: Member, made: FixedProgram) -> str | None:
    """Return statements that choose the class by sums, as the first highest probability does.

    None where rounded probabilities may be equal though sums are not, or in another order.
    """
    steps, columns = made.steps, list(member.columns)
    n_before = _n_before_answers(steps)
    n_inputs, n = len(made.inputs), len(columns)
    if columns != list(range(n)) or n_before == len(steps):
        return None
    last = steps[n_before]
    begin = n_inputs + sum(getattr(step, "width", 1) for step in steps[:n_before])
    if isinstance(last, FixedSoftmax):
        in_order = list(made.outputs) == list(range(begin, begin + n)) and last.width == n
        if not in_order or any(made.shifts) or not _tells_apart(last.fraction, n):
            return None
        return _LARGEST.replace("{start}", str(last.start - n_inputs))
    assert isinstance(last, FixedNode)
    threshold = _threshold(made, last, begin)
    return None if threshold is None else f"    return {{name}}_sum(&c) >= {threshold};"


def _tells_apart(fraction: int, n: int) -> bool:
    """Does a softmax of n logits always tell the highest from all that are less?

    Shares e / sum · 2^30 are rounded down, and sum < n · 2^30: powers e that differ by n or more
    differ as shares. The error of a power is at most 16 units, and a power of an argument of more
    than `far` differs by more than that.
    """
    far = 64 * max(n, 32)
    t = np.arange(1, far + 1, dtype=np.int64)
    top = int(exponential(np.zeros(1, np.int64), fraction)[0])
    least = top - int(exponential(t, fraction).max())
    beyond = 2.0**UNIT * -math.expm1(-far * 2.0**-fraction) - 2 * 16
    return min(least, beyond) >= n


def _threshold(made: FixedProgram, logistic: FixedNode, place: int) -> int | None:
    """Return the least sum from which the second class is answered."""
    last = made.steps[-1]
    if not isinstance(last, FixedNode) or last.transfer != Transfer.LINEAR:
        return None
    if last.terms[0].sources != (place,) or set(made.outputs) != {place, place + 1}:
        return None
    if made.fraction < LEAST_FRACTION:
        return None
    near = np.arange(-NEAR, NEAR + 1)
    sums = np.concatenate([[-(2**31)], -(2 ** np.arange(30, NEAR_BITS, -1)), near])
    sums = np.concatenate([sums, 2 ** np.arange(NEAR_BITS + 1, 31), [2**31 - 1]])
    p = logistic_of(sums, logistic.terms[0].format.fraction)
    term = last.terms[0]
    other = shifted(np.array(term.weights) @ p[None], term.shift) + term.bias
    of_place = {place: p, place + 1: other}
    first, second = (
        shifted(of_place[value], shift)
        for value, shift in zip(made.outputs, made.shifts, strict=True)
    )
    is_second = second > first
    begin = int(np.argmax(is_second))
    if is_second[0] or not is_second[begin:].all():
        return None
    return int(sums[begin]) if abs(int(sums[begin])) < NEAR else None


def _of_input(step: FixedInput) -> str:
    """Return the value of an encoded input."""
    x, one = f"c->x[{step.source}]", f"((int32_t)1 << {UNIT})"
    if step.transfer == Transfer.FILLED:
        own = f"{{name}}_shifted({x}, {step.shift})" if step.shift else x
        return f"{x} == {{NAME}}_MISSING ? {step.constant} : {own}"
    what = "{NAME}_MISSING" if step.transfer == Transfer.MISSING else str(step.constant)
    return f"{x} == {what} ? {one} : 0"


def _of_step(program: Program, step: FixedStep) -> list[str]:
    if isinstance(step, FixedInput):
        return [f"    *c->next++ = {_of_input(step)};"]
    if isinstance(step, FixedSoftmax):
        start = step.start - program.n_inputs
        return [f"    {{name}}_softmax(c, c->v + {start}, {step.width}, {step.fraction});"]
    total = "{name}_sum(c)"
    if step.transfer == Transfer.LINEAR:
        return [f"    *c->next++ = {total};"]
    fraction = step.terms[-1].format.fraction
    logistic = f"{{name}}_logistic({total}, {fraction})"
    if step.transfer == Transfer.LOGISTIC:
        return [f"    *c->next++ = {logistic};"]
    one = f"((int32_t)1 << {MODULATION})"
    return [
        f"    z = {total};",
        f"    *c->next++ = {{name}}_shifted((int64_t)z * ({logistic} - {one}), {step.shift});",
    ]
