"""A PREVAL system in C with integers: programs, routing, novelty and the batch test."""

from collections.abc import Iterator, Sequence

import numpy as np

from dirad.export.c_fixed import _EXPONENTIAL, _LOGISTIC, _SOFTMAX, input_ranges
from dirad.export.c_source import ConstantTable, Parts, table, unsigned
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
from dirad.export.fixed_point import MODULATION, UNIT, Fixed
from dirad.export.fixed_system import (
    LARGEST_INTEGER,
    LEAST_LOG,
    LOG,
    NOVELTY,
    FixedModel,
    Log,
    LogCopy,
    Logistic,
    LogShares,
    MeanSquare,
    Modulated,
    PowerMean,
    Softmax,
    Step,
    Sums,
    log_integer,
)

_RUN = """/* Right shifts of negative numbers must keep the sign, as with every common compiler. */
static inline int64_t {name}_shifted(int64_t value, int shift)
{
    return (value + (((int64_t)1 << shift) >> 1)) >> shift;
}

static inline int32_t {name}_clipped(int64_t value, int32_t limit)
{
    return value > limit ? limit : value < -limit ? -limit : (int32_t)value;
}

/* An input as the models take it; what is beyond its range is taken as its end. */
static inline int32_t {name}_input(int i, float value)
{
    const float low = {NAME}_LOW(i), high = {NAME}_HIGH(i);
    const float inside = value > low ? (value < high ? value : high) : low;
    const float scaled = inside * (float)((int32_t)1 << {NAME}_FRACTION(i));
    (void)i;
    return (int32_t)(scaled < 0.0f ? scaled - 0.5f : scaled + 0.5f);
}

/* Walks the tables; the next value goes to `next`. */
typedef struct {
    const int32_t *x;
    const int32_t *v;
    int32_t *next;
    unsigned edge, term;
} {name}_cursor;

static inline int32_t {name}_sum({name}_cursor *c, int32_t limit)
{
    const unsigned t = c->term++, end = c->edge + {name}_count[t];
    int64_t z = 0;
    for (; c->edge < end; c->edge++) {
        const unsigned s = {name}_source[c->edge];
        z += (int64_t){name}_weight[c->edge] *
             (s < {NAME}_N_INPUTS ? c->x[s] : c->v[s - {NAME}_N_INPUTS]);
    }
    return {name}_clipped({name}_shifted(z, {name}_shift[t]) + {name}_bias[t], limit);
}

static inline void {name}_linear({name}_cursor *c, unsigned n, int32_t limit)
{
    for (; n > 0; n--)
        *c->next++ = {name}_sum(c, limit);
}
"""

_LN = """
/* ln with {log} bits behind the point, of a whole number; of 0, that of 1. */
static inline int32_t {name}_ln(uint64_t value)
{
    int64_t log = 63;
    uint64_t y;
    if (value == 0)
        return 0;
    for (; !(value >> 63); log--)
        value <<= 1;
    y = value >> 33;
    for (int i = 0; i < {log}; i++) { /* log2, bit by bit */
        y = (y * y) >> 30;
        log = 2 * log + (int64_t)(y >> 31);
        y >>= y >> 31;
    }
    return (int32_t)((log * 186065279) >> 28);
}
"""

_MEAN_SQUARE = """
/* ln of the mean of squares: ln of their sum, + offset. */
static inline void {name}_mean_square({name}_cursor *c, const int32_t *z, int n, int32_t offset)
{
    uint64_t sum = 0;
    int32_t log;
    for (int i = 0; i < n; i++)
        sum += (uint64_t)((int64_t)z[i] * z[i]);
    log = {name}_ln(sum) + offset;
    *c->next++ = log > {least} ? log : {least};
}
"""

_POWER_MEAN = """
/* ln of the power mean of numbers whose logarithms are given. */
static inline void {name}_power_mean({name}_cursor *c, const int32_t *z, int n, int64_t exponent,
                                     int64_t inverse, int32_t log_n)
{
    int32_t least = z[0];
    uint64_t sum = 0;
    for (int i = 1; i < n; i++)
        least = z[i] < least ? z[i] : least;
    for (int i = 0; i < n; i++) {
        const int64_t t = (((int64_t)z[i] - least) * exponent) >> 16;
        sum += (uint64_t){name}_exp(t < {longest} ? t : {longest}, {log});
    }
    *c->next++ =
        least - (int32_t)((((int64_t){name}_ln(sum) - {log_unit} - log_n) * inverse) >> 30);
}
"""

_LOG_SHARES = """
/* ln of sums of shares, of which the logits z are given; `moved` is from a share to its logit. */
static inline void {name}_log_shares({name}_cursor *c, unsigned rows, const int32_t *z, int n,
                                     int moved, int fraction, int32_t floor)
{
    int32_t top = z[0], everything;
    uint64_t sum = 0;
    for (int i = 1; i < n; i++)
        top = z[i] > top ? z[i] : top;
    for (int i = 0; i < n; i++)
        sum += (uint64_t){name}_exp((int64_t)top - z[i], fraction);
    everything = {name}_ln(sum) - {log_unit};
    for (; rows > 0; rows--) {
        const unsigned count = {name}_count[c->term++], begin = c->edge;
        int32_t best = 0;
        int64_t log = floor;
        sum = 0;
        c->edge += count;
        for (unsigned e = begin; e < c->edge; e++) {
            const int32_t own = c->v[(int)({name}_source[e] - {NAME}_N_INPUTS) + moved];
            best = e == begin || own > best ? own : best;
        }
        for (unsigned e = begin; e < c->edge; e++) {
            const int32_t own = c->v[(int)({name}_source[e] - {NAME}_N_INPUTS) + moved];
            sum += (uint64_t){name}_exp((int64_t)best - own, fraction);
        }
        if (count > 0) {
            log = (int64_t)best - top;
            log = fraction < {log} ? log * ((int64_t)1 << ({log} - fraction))
                                   : log >> (fraction - {log});
            log += {name}_ln(sum) - {log_unit} - everything;
        }
        *c->next++ = log > floor ? (int32_t)log : floor;
    }
}
"""

_LOG_OF_SUM = """
/* ln of a sum. */
static inline void {name}_log({name}_cursor *c, int fraction, int32_t floor)
{
    const int32_t z = {name}_sum(c, {largest});
    const int64_t scale = ((int64_t)fraction * ((int64_t)1 << {log}) * 186065279) >> 28;
    const int64_t log = z > 0 ? {name}_ln((uint64_t)z) - scale : floor;
    *c->next++ = log > floor ? (int32_t)log : floor;
}
"""

_DEVIATIONS = """
static inline int32_t {name}_deviations(int32_t log_error, unsigned row)
{
    const int64_t off = (int64_t)log_error - {name}_mean[row];
    return {name}_clipped((off * {name}_inverse[row]) >> {log}, {largest});
}
"""

_FUNCTIONS: dict[type, str] = {
    MeanSquare: _MEAN_SQUARE,
    PowerMean: _POWER_MEAN,
    LogShares: _LOG_SHARES,
    Log: _LOG_OF_SUM,
}

REMARKS = (
    "Inputs and outputs are whole numbers: {name}_input makes an input of a float; a probability "
    f"is its number / 2^{UNIT}, a novelty its number / 2^{NOVELTY}.",
    "Samples about which two models are nearly tied may go to the other one than in float.",
    "Define {NAME}_WATCH for the batch test, which computes p-values in float, with math.h.",
)


def fixed_system_parts(whole: Exported, models: Sequence[FixedModel], fixed: Fixed) -> Parts:
    """Return the tables and functions of a PREVAL system in integers."""
    input_tables, input_macros = input_ranges(models[0].inputs)
    copies = tuple([f"v[{o - model.n_inputs}]" for o in model.outputs] for model in models)
    words = SystemText(
        "int32_t",
        _DEVIATIONS,
        f", with {LOG} bits behind the point",
        f", with {NOVELTY} bits behind the point",
    )
    of_watch = watch_tables(whole, LOG)
    watch = f"#ifdef {{NAME}}_WATCH\n{watch_source(whole, 'int32_t')}#endif\n"
    parts = Parts(
        number="int32_t",
        includes=("stdint.h",),
        remarks=(*REMARKS, watch_remark(*watch_bytes(whole, of_watch, fixed=True))),
        macros=(
            *input_macros,
            ("OUT_FRACTION", str(UNIT)),
            ("NOVELTY_FRACTION", str(NOVELTY)),
            *watch_macros(whole),
        ),
        tables=(*_tables(models, fixed.bits), *input_tables, *_row_tables(whole)),
        watch_tables=tuple(of_watch),
        functions=_functions(models),
        copies=copies,
        system=system_source(whole, words, copies, error_places(whole)) + watch,
    )
    return parts._replace(system=_with_constants(parts.system))


def _row_tables(whole: Exported) -> list[ConstantTable]:
    def rows(column: str) -> np.ndarray:
        return np.concatenate([getattr(scale, column) for scale in whole.scales])

    limit = np.floor(rows("limit") * 2**LOG) / 2**LOG
    return [
        *row_tables(whole),
        numbers("mean", rows("mean"), LOG),
        numbers("inverse", 1.0 / rows("deviation"), NOVELTY),
        numbers("limit", limit, LOG),
    ]


def _tables(models: Sequence[FixedModel], bits: int) -> Iterator[ConstantTable]:
    terms = [term for model in models for term in model.terms]
    yield table(f"int{bits}_t", "weight", (w for term in terms for w in term.weights))
    yield unsigned("source", (s for term in terms for s in term.sources))
    yield table("int32_t", "bias", (term.bias for term in terms))
    yield unsigned("count", (len(term.sources) for term in terms))
    yield unsigned("shift", (term.shift for term in terms))


def _functions(models: Sequence[FixedModel]) -> str:
    kinds = {type(step) for model in models for step in model.steps}
    parts = [_RUN, _EXPONENTIAL, _LN]
    if kinds & {Logistic, Modulated}:
        parts.append(_LOGISTIC)
    if any(isinstance(step, Softmax) and step.used for model in models for step in model.steps):
        parts.append(_SOFTMAX)
    parts += [source for kind, source in _FUNCTIONS.items() if kind in kinds]
    edge = term = 0
    for i, model in enumerate(models):
        parts.append(_program(i, model, edge, term))
        own = list(model.terms)
        edge, term = edge + sum(len(t.sources) for t in own), term + len(own)
    return _with_constants("".join(parts))


def _with_constants(source: str) -> str:
    longest, unit = 64 << LOG, ((UNIT << LOG) * 186065279) >> 28
    texts = {
        "largest": str(LARGEST_INTEGER),
        "least": f"({log_integer(LEAST_LOG)})",
        "longest": str(longest),
        "log_unit": str(unit),
        "log": str(LOG),
    }
    for key, text in texts.items():
        source = source.replace(f"{{{key}}}", text)
    return source


def _program(i: int, model: FixedModel, edge: int, term: int) -> str:
    lines = [
        f"\nstatic inline void {{name}}_program_{i}(const int32_t *x, int32_t *v)\n{{",
        f"    {{name}}_cursor c = {{ x, v, v, {edge}, {term} }};",
    ]
    if any(isinstance(step, Modulated) for step in model.steps):
        lines.append("    int32_t z;")
    for step in model.steps:
        lines += [f"    {line}" for line in _lines(step, model.n_inputs)]
    return "\n".join([*lines, "}\n"])


def _lines(step: Step, n_inputs: int) -> list[str]:
    total = "{name}_sum(&c, {largest})"
    match step:
        case Sums(terms, limit):
            return [f"{{name}}_linear(&c, {len(terms)}, {limit});"]
        case Logistic(term):
            return [f"*c.next++ = {{name}}_logistic({total}, {term.format.fraction});"]
        case Modulated(_, m, shift):
            one = f"((int32_t)1 << {MODULATION})"
            sigma = f"{{name}}_logistic({total}, {m.format.fraction}) - {one}"
            product = f"{{name}}_shifted((int64_t)z * ({sigma}), {shift})"
            return [f"z = {total};", f"*c.next++ = {{name}}_clipped({product}, {{largest}});"]
        case MeanSquare(start, n, offset):
            return [f"{{name}}_mean_square(&c, v + {start - n_inputs}, {n}, {offset});"]
        case Log(term, floor):
            return [f"{{name}}_log(&c, {term.format.fraction}, {floor});"]
        case LogCopy(source, floor):
            own = f"v[{source - n_inputs}]"
            return [f"*c.next++ = {own} > {floor} ? {own} : {floor};"]
        case LogShares(terms, start, n, moved, fraction, floor):
            run = f"{len(terms)}, v + {start - n_inputs}, {n}"
            return [f"{{name}}_log_shares(&c, {run}, {moved}, {fraction}, {floor});"]
        case Softmax(start, n, fraction, used):
            if not used:
                return [f"c.next += {n}; /* only logarithms of these are used */"]
            return [f"{{name}}_softmax(&c, v + {start - n_inputs}, {n}, {fraction});"]
        case PowerMean(start, n, exponent, inverse, log_n):
            run = f"v + {start - n_inputs}, {n}, {exponent}, {inverse}, {log_n}"
            return [f"{{name}}_power_mean(&c, {run});"]
    raise TypeError(f"unknown step {step!r}")
