"""A model in C with float numbers: tables of weights, and a loop over them."""

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from dirad.export.c_source import ConstantTable, Parts, real, scratch, table, unsigned
from dirad.export.c_system import SystemText, error_places, row_tables, system_source
from dirad.export.c_watch import (
    numbers,
    watch_bytes,
    watch_macros,
    watch_remark,
    watch_source,
    watch_tables,
)
from dirad.export.exported import Exported
from dirad.program import Block, Pooling, Program, Sums, Transfer, stacked

_RUN = """/* Walks the tables; the next value goes to `next`. */
typedef struct {{
    const float *x;
    const float *v;
    float *next;
    unsigned edge, term{constant};
}} {{name}}_cursor;

static inline float {{name}}_sum({{name}}_cursor *c)
{{
    float z = {{name}}_bias[c->term];
    for (unsigned n = {{name}}_count[c->term++]; n > 0; n--, c->edge++) {{
        const unsigned s = {{name}}_source[c->edge];
        z += {{name}}_weight[c->edge] *
             (s < {{NAME}}_N_INPUTS ? c->x[s] : c->v[s - {{NAME}}_N_INPUTS]);
    }}
    return z;
}}
"""

_NODES = """
static inline void {{name}}_{transfer}({{name}}_cursor *c, unsigned n)
{{
    for (; n > 0; n--) {{
{body}
    }}
}}
"""

# The value of a node, from its sums; c->constant is the index of the next constant.
_BODIES = {
    Transfer.LINEAR: """        *c->next++ = {name}_sum(c);""",
    Transfer.LOGISTIC: """        *c->next++ = 1.0f / (1.0f + expf(-{name}_sum(c)));""",
    Transfer.MODULATED: """        const float z = {name}_sum(c);
        *c->next++ = z * (4.0f / (1.0f + expf(-{name}_sum(c))) - 1.0f);""",
    Transfer.CLIPPED: """        const float z = {name}_sum(c);
        const float end = {name}_constant[c->constant++];
        *c->next++ = z > end ? end : z < -end ? -end : z;""",
    Transfer.LOGARITHM: """        const float z = {name}_sum(c);
        const float end = {name}_constant[c->constant++];
        *c->next++ = logf(z > end ? z : end);""",
    Transfer.SQUARE: """        const float z = {name}_sum(c);
        *c->next++ = z * z;""",
    Transfer.EXCEEDS: """        const float z = {name}_sum(c);
        *c->next++ = fabsf(z) > {name}_constant[c->constant++] ? 1.0f : 0.0f;""",
    Transfer.FILLED: """        const float z = {name}_sum(c);
        const float fill = {name}_constant[c->constant++];
        *c->next++ = z == z ? z : fill;""",
    Transfer.MISSING: """        const float z = {name}_sum(c);
        *c->next++ = z == z ? 0.0f : 1.0f;""",
    Transfer.EQUALS: """        const float z = {name}_sum(c);
        *c->next++ = z == {name}_constant[c->constant++] ? 1.0f : 0.0f;""",
}

_POOLINGS = {
    Transfer.SOFTMAX: """
static inline void {name}_softmax({name}_cursor *c, const float *z, int n)
{
    float top = z[0], sum = 0.0f;
    for (int i = 1; i < n; i++)
        top = z[i] > top ? z[i] : top;
    for (int i = 0; i < n; i++)
        sum += c->next[i] = expf(z[i] - top);
    for (int i = 0; i < n; i++)
        *c->next++ /= sum;
}
""",
    Transfer.SHARE: """
static inline void {name}_share({name}_cursor *c, const float *z, int n)
{
    float sum = 0.0f;
    for (int i = 0; i < n; i++)
        sum += z[i];
    for (int i = 0; i < n; i++)
        *c->next++ = z[i] / (sum > 1e-37f ? sum : 1e-37f);
}
""",
    Transfer.POWER_MEAN: """
static inline void {name}_power_mean({name}_cursor *c, const float *z, int n, float exponent)
{
    float least = z[0], sum = 0.0f;
    for (int i = 1; i < n; i++)
        least = z[i] < least ? z[i] : least;
    for (int i = 0; i < n; i++)
        sum += powf(least / z[i], exponent);
    *c->next++ = least * powf(sum / (float)n, -1.0f / exponent);
}
""",
}

_CONSTANTS = (
    Transfer.CLIPPED,
    Transfer.LOGARITHM,
    Transfer.EXCEEDS,
    Transfer.FILLED,
    Transfer.EQUALS,
)
_DEVIATIONS = """
static inline float {name}_deviations(float log_error, unsigned row)
{
    return (log_error - {name}_mean[row]) / {name}_deviation[row];
}
"""
FAST_MATH = "NAN stands for a missing input: compile without -ffast-math, which ignores it."


def float_parts(whole: Exported) -> Parts:
    """Return a model's tables and functions in float."""
    programs = [member.program for member in whole.members]
    copies = tuple([scratch(p, value) for value in p.outputs] for p in programs)
    parts = Parts(
        number="float",
        includes=("math.h", "stdint.h"),
        remarks=("Inputs and outputs are float.", *((FAST_MATH,) if whole.gaps else ())),
        macros=(),
        tables=tuple(_tables(programs)),
        functions=_functions(programs),
        copies=copies,
    )
    return _with_novelty(whole, parts) if whole.scored else parts


def _with_novelty(whole: Exported, parts: Parts) -> Parts:
    """Return the parts of a PREVAL system: with routing, novelty and the batch test."""
    errors = [f"logf({place})" for place in error_places(whole)]
    words = SystemText("float", _DEVIATIONS)
    system = system_source(whole, words, parts.copies, errors)
    if not whole.scales:  # the paper's models have no calibration
        return parts._replace(system=system)
    rows = {
        "mean": np.concatenate([scale.mean for scale in whole.scales]),
        "deviation": np.concatenate([scale.deviation for scale in whole.scales]),
        "limit": np.concatenate([scale.limit for scale in whole.scales]),
    }
    of_rows = [*row_tables(whole), *(numbers(name, own, None) for name, own in rows.items())]
    of_watch = watch_tables(whole, None)
    return parts._replace(
        remarks=(*parts.remarks, watch_remark(*watch_bytes(whole, of_watch, fixed=False))),
        macros=tuple(watch_macros(whole)),
        tables=(*parts.tables, *of_rows),
        watch_tables=tuple(of_watch),
        system=system + watch_source(whole, "float"),
    )


def _sums(program: Program) -> Sums:
    """Return all sums, in the order of their use; the steepness of σ₁ is part of the weights."""
    return stacked(*(_in_order(step) for step in program.steps if isinstance(step, Block)))


def _in_order(block: Block) -> Sums:
    """Return the sums of a block: node by node, both sums of a modulated node in turn."""
    if block.second is None:
        return block.first
    both = stacked(block.first, block.second.times(block.constant))
    return both.take(np.arange(len(both)).reshape(2, -1).T.ravel())


def _constants(program: Program) -> list[float]:
    return [
        constant
        for step in program.steps
        if isinstance(step, Block) and step.transfer in _CONSTANTS
        for constant in step.constant.tolist()
    ]


def _tables(programs: Sequence[Program]) -> Iterator[ConstantTable]:
    sums = stacked(*map(_sums, programs))
    yield table("float", "weight", map(real, sums.weight.tolist()))
    yield unsigned("source", sums.source.tolist())
    yield table("float", "bias", map(real, sums.bias.tolist()))
    yield unsigned("count", np.diff(sums.start).tolist())
    constants = [c for program in programs for c in _constants(program)]
    if constants:
        yield table("float", "constant", map(real, constants))


def _functions(programs: Sequence[Program]) -> str:
    used = set().union(*(program.transfers for program in programs))
    with_constants = any(_constants(program) for program in programs)
    parts = [_RUN.format(constant=", constant" if with_constants else "")]
    for transfer, body in _BODIES.items():
        if transfer in used:
            parts.append(_NODES.format(transfer=transfer, body=body))
    parts += [source for transfer, source in _POOLINGS.items() if transfer in used]
    edge = term = constant = 0
    for i, program in enumerate(programs):
        places = [edge, term, constant] if with_constants else [edge, term]
        parts.append(_program(i, program, places))
        own = _sums(program)
        edge, term = edge + len(own.source), term + len(own)
        constant += len(_constants(program))
    return "".join(parts)


def _program(i: int, program: Program, places: Sequence[int]) -> str:
    """Return the function of one program, whose entries begin at these places of the tables."""
    begin = ", ".join(map(str, places))
    lines = [
        f"\nstatic inline void {{name}}_program_{i}(const float *x, float *v)\n{{",
        f"    {{name}}_cursor c = {{ x, v, v, {begin} }};",
    ]
    for transfer, steps in groupby(program.steps, key=lambda step: step.transfer):
        n_nodes = 0
        for step in steps:
            if isinstance(step, Pooling):
                more = f", {real(step.constant)}" if step.constant else ""
                run = f"v + {step.start - program.n_inputs}, {step.taken}"
                lines.append(f"    {{name}}_{transfer}(&c, {run}{more});")
            else:
                n_nodes += step.width
        if n_nodes:
            lines.append(f"    {{name}}_{transfer}(&c, {n_nodes});")
    return "\n".join([*lines, "}\n"])
