"""The batch test of a PREVAL system in C: a few sums, whatever the length of the stream.

The mean normal score of a batch is compared with that of held-out samples, as
`Calibration.p_value` does. The sums are those of `ScoreSum`: a total per model and a count per row.
"""

import math
from itertools import chain

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln

from dirad.export.c_source import ConstantTable, real, table, unsigned
from dirad.export.c_system import row_starts
from dirad.export.exported import Exported
from dirad.export.novelty import judges
from dirad.preval.calibration import N_QUANTILES
from dirad.preval.settings import BATCHES_OF_HALF

NEVER_TIED = 1e9  # marks a quantile that equals no other one

_NORMAL_SCORE = """
/* The quantile of ln(error) among the held-out ones, as a standard normal number{scale}. */
static inline {number} {name}_normal_score(unsigned row, {number} log_error)
{
    const {number} *q = {name}_quantile + {n_quantiles}u * row;
    unsigned low = 0, high = {last};{tied}
    if (!(log_error < q[high])) /* nor NaN */
        return {name}_end[row];
    if (log_error <= q[0])
        return -{name}_end[row];
    while (high - low > 1) {
        const unsigned middle = (low + high) / 2;
        if (q[middle] <= log_error)
            low = middle;
        else
            high = middle;
    }
{between}
}
"""

_TIED = """
    const {number} slack = {slack};
    for (unsigned i = 0; i <= high; i++) {
        const {number} off = log_error < q[i] ? q[i] - log_error : log_error - q[i];
        if ({name}_tied[{n_quantiles}u * row + i] != {never} && off <= slack)
            return {name}_tied[{n_quantiles}u * row + i];
    }"""

_BETWEEN = {
    "float": """    return {name}_end[row] *
           (((float)low + (log_error - q[low]) / (q[high] - q[low])) / {half}.0f - 1.0f);""",
    "int32_t": """    const int64_t gap = (int64_t)q[high] - q[low];
    const int64_t part = (((int64_t)log_error - q[low]) << 16) / gap;
    return (int32_t)({name}_end[row] * (((int64_t)low << 16) + part - ((int64_t){half} << 16)) /
                     ((int64_t){half} << 16));""",
}

_NORMAL_TAIL = """
/* erfc(x) / 2 with a relative error below 2e-6; not every C library has erfcf. The polynomial is a
   Chebyshev fit, as given in Numerical Recipes. */
static inline float {name}_half_erfc(float x)
{
    const float t = 1.0f / (1.0f + 0.5f * fabsf(x));
    const float fit = -1.26551223f + t * (1.00002368f + t * (0.37409196f + t * (0.09678418f +
        t * (-0.18628806f + t * (0.27886807f + t * (-1.13520398f + t * (1.48851587f +
        t * (-0.82215223f + t * 0.17087277f))))))));
    const float tail = 0.5f * t * expf(fit - x * x);
    return x < 0.0f ? 1.0f - tail : tail;
}

/* The probability that a statistic of known samples is higher. */
static inline float {name}_upper_tail(int model, float z)
{
{body}}
"""

_INDEPENDENT = """    return {name}_half_erfc(z * 0.70710678f);
"""

_DEPENDENT = """    const float freedom = {name}_freedom[model];
    const float tail = 0.5f * {name}_beta(freedom, {name}_log_beta[model], z * z);
    if (freedom < 0.0f) /* independent samples */
        return {name}_half_erfc(z * 0.70710678f);
    if (freedom == 0.0f) /* too few to judge by */
        return 1.0f;
    return z > 0.0f ? tail : 1.0f - tail;
"""

_BETA = """
/* The continued fraction of the incomplete beta function (Lentz). */
static inline float {name}_fraction(float a, float b, float x)
{
    float c = 1.0f, d = 1.0f - (a + b) * x / (a + 1.0f), result;
    d = 1.0f / (fabsf(d) < 1e-30f ? 1e-30f : d);
    result = d;
    for (int m = 1; m <= 300; m++) {
        const float k = (float)m;
        const float even = k * (b - k) * x / ((a + 2.0f * k - 1.0f) * (a + 2.0f * k));
        const float odd = -(a + k) * (a + b + k) * x / ((a + 2.0f * k) * (a + 2.0f * k + 1.0f));
        const float before = result;
        for (int i = 0; i < 2; i++) {
            const float step = i == 0 ? even : odd;
            d = 1.0f + step * d;
            c = 1.0f + step / c;
            d = 1.0f / (fabsf(d) < 1e-30f ? 1e-30f : d);
            c = fabsf(c) < 1e-30f ? 1e-30f : c;
            result *= d * c;
        }
        if (result == before)
            break;
    }
    return result;
}

/* P(T*T > square) of Student's T with these degrees of freedom. */
static inline float {name}_beta(float freedom, float log_beta, float square)
{
    const float a = 0.5f * freedom, b = 0.5f;
    const float x = freedom / (freedom + square), y = square / (freedom + square);
    if (!(freedom > 0.0f) || y <= 0.0f)
        return 1.0f;
    if (x <= 0.0f)
        return 0.0f;
    const float front = expf(a * log1pf(-y) + b * logf(y) - log_beta);
    if (square > 3.0f)
        return front * {name}_fraction(a, b, x) / a;
    return 1.0f - front * {name}_fraction(b, a, y) / b;
}
"""

_WATCH = """
/* The sums over a batch of samples. All 0 in the beginning: {name}_watch w = { 0 }; */
typedef struct {
    {total} total[{NAME}_N_MODELS]; /* normal scores{scale} */
    uint32_t count[{n_rows}]; /* samples by row */
    uint32_t n; /* samples in the batch so far */
    uint32_t batches; /* ended */
} {name}_watch;

/* Count a sample, by its scores. */
static inline void {name}_watch_scores({name}_watch *w, const {name}_scores *s)
{
    for (int model = 0; model < {NAME}_N_MODELS; model++) {
        w->total[model] += {name}_normal_score(s->row[model], s->log_error[model]);
        w->count[s->row[model]]++;
    }
    w->n++;
}

/* Count a sample. */
static inline void {name}_watch_add({name}_watch *w, const {number} *x)
{
    {name}_scores s;
    {name}_evaluate(x, &s);
    {name}_watch_scores(w, &s);
}

/* The p-value of the batch so far: the probability that samples of the task of this model
 * (its place in {NAME}_MODELS) are at least as unusual. */
static inline float {name}_watch_p(const {name}_watch *w, int model)
{
    float variance = 0.0f, error, z, fitted, unusual, p;
    const float n = (float)w->n;
    if (w->n == 0)
        return 1.0f;
    for (unsigned row = {name}_row_start[model]; row < {name}_row_start[model + 1]; row++) {
        const float count = (float)w->count[row];
        if (w->count[row] > 0)
            variance += count / n * (count / n) * (1.0f / count + 1.0f / {name}_held_out[row]);
    }
{dependence}    error = sqrtf(variance);
    z = {mean} / n / error;
    fitted = {name}_fitted[model] / error;
    unusual = z > fitted - z ? z : fitted - z; /* samples fitted to may come again */
    p = {name}_upper_tail(model, unusual) + {name}_upper_tail(model, unusual - fitted);
    return p < 1.0f ? p : 1.0f;
}

/* The rate of false alarms that is promised for the batch. */
static inline float {name}_watch_rate(const {name}_watch *w)
{
{rate}}

/* Whether no model knows the batch so far: its task is new. */
static inline int {name}_watch_is_new(const {name}_watch *w)
{
    for (int model = 0; model < {NAME}_N_MODELS; model++)
        if ({name}_watch_p(w, model) >= {name}_watch_rate(w))
            return 0;
    return 1;
}

/* End the batch: begin the next one. */
static inline void {name}_watch_next({name}_watch *w)
{
    const uint32_t batches = w->batches + 1;
    memset(w, 0, sizeof *w);
    w->batches = batches;
}
"""

_DEPENDENCE = """    if ({name}_freedom[model] >= 0.0f) {
        const float time = {name}_error_time[model] / n;
        const float more = (time < 1.0f ? time : 1.0f) + {name}_worth[model];
        variance = more > variance ? more : variance;
    }
"""

_PER_BATCH = """    (void)w;
    return {NAME}_BATCH_FALSE_ALARMS;
"""
_PER_STREAM = """    const float k = (float)w->batches + {before}.0f;
    return {NAME}_BATCH_FALSE_ALARMS * {half_of_alarms}.0f / (k * (k + 1.0f));
"""


def watch_source(whole: Exported, number: str) -> str:
    """Return the functions of the batch test; `number` is float or int32_t."""
    assert whole.promise is not None
    scales, fixed = whole.scales, number != "float"
    dependent = any(scale.freedom is not None for scale in scales)
    ties = any(scale.ties for scale in scales)
    parts = [
        "#include <math.h>\n#include <string.h>\n",
        _NORMAL_SCORE,
        *([_BETA] if dependent else []),
        _NORMAL_TAIL,
        _WATCH,
    ]
    body = _DEPENDENT if dependent else "    (void)model;\n" + _INDEPENDENT
    never = "INT32_MAX" if fixed else real(NEVER_TIED)
    absolute = "(log_error < 0.0f ? -log_error : log_error)"
    texts = {
        "tied": _TIED if ties else "",
        "slack": "16" if fixed else f"1e-5f * (1.0f + {absolute})",
        "never": never,
        "between": _BETWEEN[number],
        "body": body,
        "dependence": _DEPENDENCE if dependent else "",
        "rate": _PER_STREAM if whole.promise.per_stream else _PER_BATCH,
        "before": str(whole.promise.batches_before + BATCHES_OF_HALF),
        "half_of_alarms": str(BATCHES_OF_HALF),
        "total": "int64_t" if fixed else "float",
        "mean": "(float)w->total[model] / 65536.0f" if fixed else "w->total[model]",
        "scale": ", with 16 bits behind the point" if fixed else "",
        "number": number,
        "n_rows": str(row_starts(whole)[-1]),
        "n_quantiles": str(N_QUANTILES),
        "last": str(N_QUANTILES - 1),
        "half": str((N_QUANTILES - 1) // 2),
    }
    source = "".join(parts)
    for key, text in texts.items():
        source = source.replace(f"{{{key}}}", text)
    return source


def watch_tables(whole: Exported, log_fraction: int | None) -> list[ConstantTable]:
    """Return the tables of the batch test; with whole numbers, ln(error) has such a fraction."""
    scales = whole.scales
    quantiles = np.concatenate([scale.quantiles.ravel() for scale in scales])
    ends = np.concatenate([scale.end for scale in scales])
    tied = np.concatenate([scale.tied.ravel() for scale in scales])
    tables = [
        numbers("quantile", quantiles, log_fraction),
        numbers("end", ends, None if log_fraction is None else 16),
        unsigned("row_start", row_starts(whole)),
        table("float", "held_out", (real(n) for s in scales for n in s.samples.tolist())),
        table("float", "fitted", (real(scale.fitted) for scale in scales)),
    ]
    if not np.isnan(tied).all():
        tables.append(_tied(tied, log_fraction is not None))
    if any(scale.freedom is not None for scale in scales):
        tables += _dependence(whole)
    return tables


def numbers(name: str, values: NDArray, fraction: int | None) -> ConstantTable:
    """Return a table of float, or of whole numbers with this many bits behind the point."""
    if fraction is None:
        return table("float", name, map(real, values.tolist()))
    return table("int32_t", name, (round(value * 2**fraction) for value in values.tolist()))


def _tied(scores: NDArray, fixed: bool) -> ConstantTable:
    if not fixed:
        return numbers("tied", np.where(np.isnan(scores), NEVER_TIED, scores), None)
    whole = ("INT32_MAX" if math.isnan(s) else round(s * 2**16) for s in scores.tolist())
    return table("int32_t", "tied", whole)


def _dependence(whole: Exported) -> list[ConstantTable]:
    """Return what the test of dependent samples needs; independent models have freedom -1."""
    scales = whole.scales
    freedom = [
        -1.0 if s.freedom is None else s.freedom if judges(s) else 0.0 for s in scales
    ]  # 0: too few samples to judge by
    columns = {
        "freedom": freedom,
        "log_beta": [float(betaln(0.5 * max(f, 1.0), 0.5)) for f in freedom],
        "error_time": [scale.error_time for scale in scales],
        "worth": [1.0 / scale.n_independent for scale in scales],
    }
    return [table("float", name, map(real, values)) for name, values in columns.items()]


def watch_macros(whole: Exported) -> list[tuple[str, str]]:
    """Return the promised rates."""
    assert whole.promise is not None
    rates = (whole.promise.sample, whole.promise.batch)
    names = ("FALSE_ALARMS", "BATCH_FALSE_ALARMS")
    return list(zip(names, map(real, rates), strict=True))


def watch_remark(flash: int, ram: int) -> str:
    """Return what the batch test costs, for the comment at the top."""
    return f"The batch test ({{name}}_watch) adds {flash} bytes of constants, and {ram} of RAM."


def watch_bytes(whole: Exported, tables: list[ConstantTable], fixed: bool) -> tuple[int, int]:
    """Return the bytes of constants that only the batch test needs, and those of its sums."""
    total = 8 if fixed else 4
    sums = total * len(whole.members) + 4 * row_starts(whole)[-1] + 8
    return sum(own.n_bytes for own in chain(tables)), sums
