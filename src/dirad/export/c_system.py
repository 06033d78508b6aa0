"""The part of a C header that a PREVAL system has besides its programs: routing and novelty.

Every model is run once per sample (`<name>_evaluate`); who answers, whether the sample is known and
how unusual it is are read off these scores. `{number}` is the type of a number, and `{name}` and
`{NAME}` are the name of the model.
"""

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from dirad.export.c_source import ConstantTable, copies_of, unsigned
from dirad.export.exported import Exported
from dirad.program import ERROR, OWN, SCORE

_MODELS = """static inline void {name}_run(int model, const {number} *x, {number} *v)
{
    switch (model) {
{cases}
    }
}

static inline {number} {name}_score(int model, const {number} *v)
{
    switch (model) {
{scores}
    }
}
"""

_LOG_ERROR = """
/* ln of the prediction error{log_fraction}. */
static inline {number} {name}_log_error(int model, const {number} *v)
{
    switch (model) {
{errors}
    }
}

/* The row of the tables of usual errors: by the most probable class of the model. */
static inline uint16_t {name}_row(int model, const {number} *v)
{
    unsigned best = {name}_own_start[model];
    for (unsigned i = best + 1; i < {name}_own_start[model + 1]; i++)
        if (v[{name}_own[i]] > v[{name}_own[best]])
            best = i;
    return {name}_row_of[best];
}
"""

_SCORES = """
/* What the models say of one sample. */
typedef struct {
    {number} score[{NAME}_N_MODELS]; /* the lowest decides who answers */
{fields}} {name}_scores;

/* Run all models once. */
static inline void {name}_evaluate(const {number} *x, {name}_scores *s)
{
    {number} v[{NAME}_N_SCRATCH] = { 0 };
    for (int model = 0; model < {NAME}_N_MODELS; model++) {
        {name}_run(model, x, v);
        s->score[model] = {name}_score(model, v);
{steps}    }
}

/* The place of the model that answers in {NAME}_MODELS, by scores of the sample. */
static inline int {name}_route_of(const {name}_scores *s)
{
    int best = 0;
    for (int model = 1; model < {NAME}_N_MODELS; model++)
        if (s->score[model] <= s->score[best]) /* of equals the newest */
            best = model;
    return {name}_answered_by[best];
}

static inline int {name}_route(const {number} *x)
{
    {name}_scores s;
    {name}_evaluate(x, &s);
    return {name}_route_of(&s);
}

/* The probability of each class, by one model. */
static inline void {name}_predict_by(int model, const {number} *x, {number} *out)
{
    {number} v[{NAME}_N_SCRATCH] = { 0 };
    {name}_run(model, x, v);
    for (int i = 0; i < {NAME}_N_OUTPUTS; i++)
        out[i] = 0;
    switch (model) {
{copies}
    }
}

/* The probability of each class. */
static inline void {name}_predict(const {number} *x, {number} *out)
{
    {name}_predict_by({route}, x, out);
}
"""

_FIELDS = """    {number} log_error[{NAME}_N_MODELS]; /* ln of the prediction error{log_fraction} */
    uint16_t row[{NAME}_N_MODELS]; /* of the tables of usual errors */
"""

_STEPS = """        s->log_error[model] = {name}_log_error(model, v);
        s->row[model] = {name}_row(model, v);
"""

_KNOWN = """
/* Whether some model knows the sample. Of known samples, a share of {NAME}_FALSE_ALARMS is
 * called unknown. */
static inline int {name}_is_known_of(const {name}_scores *s)
{
    for (int model = 0; model < {NAME}_N_MODELS; model++)
        if (s->log_error[model] <= {name}_limit[s->row[model]])
            return 1;
    return 0;
}

/* How unusual the sample is to the model that knows it best: ln of the prediction error, in
 * standard deviations from the mean{novelty_fraction}. */
static inline {number} {name}_novelty_of(const {name}_scores *s)
{
    {number} least = 0;
    for (int model = 0; model < {NAME}_N_MODELS; model++) {
        const {number} z = {name}_deviations(s->log_error[model], s->row[model]);
        if (model == 0 || z < least)
            least = z;
    }
    return least;
}
"""

_KNOWN_BY_CONFLICTS = """
/* The share of conflicted nodes, by the model for which it is the lowest. */
static inline {number} {name}_novelty_of(const {name}_scores *s)
{
    {number} least = s->score[0];
    for (int model = 1; model < {NAME}_N_MODELS; model++)
        least = s->score[model] < least ? s->score[model] : least;
    return least;
}

/* Whether some model validates the sample: fewer of its nodes are conflicted than T_SV. */
static inline int {name}_is_known_of(const {name}_scores *s)
{
    return {name}_novelty_of(s) < {share};
}
"""

_OF_SAMPLE = """
static inline int {name}_is_known(const {number} *x)
{
    {name}_scores s;
    {name}_evaluate(x, &s);
    return {name}_is_known_of(&s);
}

static inline {number} {name}_novelty(const {number} *x)
{
    {name}_scores s;
    {name}_evaluate(x, &s);
    return {name}_novelty_of(&s);
}
"""


class SystemText:
    """The words in which float and fixed point differ."""

    def __init__(
        self, number: str, deviations: str, log_fraction: str = "", novelty_fraction: str = ""
    ) -> None:
        self.number = number
        self.deviations = deviations  # source of the function that makes novelty of ln(error)
        self.log_fraction = log_fraction  # remarks on the scale of whole numbers
        self.novelty_fraction = novelty_fraction


def system_source(
    whole: Exported, words: SystemText, copies: Sequence[Sequence[str]], errors: Sequence[str]
) -> str:
    """Return the functions of a PREVAL system.

    `copies` are expressions of the outputs, and `errors` of ln(error), for each program.
    """
    end, n_inputs = "\n        break;", whole.members[0].program.n_inputs
    scores = [f"v[{m.program.results[SCORE][0] - n_inputs}]" for m in whole.members]
    filled = [
        copies_of(member, own, "        ") + end
        for member, own in zip(whole.members, copies, strict=True)
    ]
    calibrated = bool(whole.scales)
    parts = [_MODELS, *([_LOG_ERROR] if calibrated else []), _SCORES]
    parts += [words.deviations, _KNOWN] if calibrated else [_KNOWN_BY_CONFLICTS]
    texts = {
        "fields": _FIELDS if calibrated else "",
        "steps": _STEPS if calibrated else "",
        "cases": _cases([f"        {{name}}_program_{i}(x, v);{end}" for i in range(len(scores))]),
        "scores": _cases([f"        return {score};" for score in scores]),
        "errors": _cases([f"        return {error};" for error in errors]),
        "copies": _cases(filled),
        "route": "{name}_route(x)" if whole.routed else "0",
        "share": f"{whole.largest_share}f",
        "log_fraction": words.log_fraction,
        "novelty_fraction": words.novelty_fraction,
        "number": words.number,
    }
    source = "".join([*parts, _OF_SAMPLE])
    for key, text in texts.items():
        source = source.replace(f"{{{key}}}", text)
    return source


def _cases(bodies: Sequence[str]) -> str:
    labels = [f"    case {i}:" for i in range(len(bodies) - 1)] + ["    default:"]
    return "\n".join(f"{label}\n{body}" for label, body in zip(labels, bodies, strict=True))


def error_places(whole: Exported) -> list[str]:
    """Return the expression of the prediction error of each program."""
    return [f"v[{m.program.results[ERROR][0] - m.program.n_inputs}]" for m in whole.members]


def row_tables(whole: Exported) -> list[ConstantTable]:
    """Return the tables that find the row of a sample: by the highest of a model's own outputs."""
    first = row_starts(whole)
    own = [m.program.results[OWN] - m.program.n_inputs for m in whole.members]
    rows = [
        row + begin
        for scale, begin in zip(whole.scales, first[:-1], strict=True)
        for row in scale.row_of
    ]
    return [
        unsigned("own_start", [0, *accumulate(map(len, own))]),
        unsigned("own", np.concatenate(own).tolist()),
        unsigned("row_of", rows),
    ]


def row_starts(whole: Exported) -> list[int]:
    """Return where the rows of each model begin among those of all."""
    return [0, *accumulate(len(scale.mean) for scale in whole.scales)]
