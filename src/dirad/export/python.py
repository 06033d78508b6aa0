"""A model as a stand-alone Python module, which needs nothing but `math`."""

from collections.abc import Callable

from dirad.export.exported import NOT_LISTED, Estimator, Exported, exported
from dirad.export.novelty import FALSE_ALARMS
from dirad.program import ERROR, LEAST_SUM, OF_INPUT, OWN, Node, Pooling, Program, Term, Transfer

_HEAD = '''"""{title}.

Made by dirad. Every function takes one sample: a sequence of {n} numbers, in the order of `INPUTS`.
{remarks}"""

import math

INPUTS = {inputs!r}
{constants}'''

_FUNCTIONS = {
    Transfer.LOGISTIC: """
def _logistic(z):
    if z >= 0.0:
        return 1.0 / (1.0 + math.exp(-z))
    small = math.exp(z) if z > -700.0 else 0.0
    return small / (1.0 + small)
""",
    Transfer.MODULATED: """
def _sigma(z):
    return 2.0 * math.tanh(0.5 * z) + 1.0
""",
    Transfer.SOFTMAX: """
def _softmax(values):
    top = max(values)
    powers = [math.exp(value - top) for value in values]
    total = sum(powers)
    return [power / total for power in powers]
""",
    Transfer.SHARE: f"""
def _share(values):
    total = max(sum(values), {LEAST_SUM!r})
    return [value / total for value in values]
""",
    Transfer.POWER_MEAN: """
def _power_mean(values, exponent):
    least = min(values)
    mean = sum((least / value) ** exponent for value in values) / len(values)
    return [least * mean ** (-1.0 / exponent)]
""",
}

_CLASSIFIER = '''
CLASSES = {classes!r}


def predict_proba(x):
    """Return the probability of each class, in the order of `CLASSES`."""
{body}

def predict(x):
    """Return the most probable class."""
    answers = predict_proba(x)
    return CLASSES[answers.index(max(answers))]
'''

_REGRESSOR = '''

def predict(x):
    """Return {what}."""
    return _model_0(x)[0]{which}
'''

_ROUTING = '''
MODELS = {functions}
NUMBERS = {numbers!r}
COLUMNS = {columns!r}  # of the classes that each model knows
ANSWERED_BY = {answered_by!r}  # of models of the same inputs the one last in use


def _answer(x):
    """Return which model knows the sample best, and what the one that answers says."""
    found = [model(x) for model in MODELS]
    best = 0
    for i, (_, score, *_) in enumerate(found):
        if score <= found[best][1]:  # of equals the newest
            best = i
    return ANSWERED_BY[best], found[ANSWERED_BY[best]][0]


def route(x):
    """Return the number of the model that answers."""
    return NUMBERS[_answer(x)[0]]
'''

_NOVELTY = '''

_SCORED = {functions}
_ROWS = {rows!r}  # of each model: its calibration by its most probable class
# Usual mean and deviation of ln(error), and the largest of a known sample, by model and row.
_MEAN = {mean!r}
_DEVIATION = {deviation!r}
_LIMIT = {limit!r}
FALSE_ALARMS = {rate!r}  # the share of known samples that are called unknown


def _log_errors(x):
    """Return for each model ln(error) of the sample, and the row of its calibration."""
    for model, rows in zip(_SCORED, _ROWS):
        _, _, error, own = model(x)
        yield math.log(error), rows[own.index(max(own))]


def novelty(x):
    """Return how unusual the sample is to the model that knows it best, in deviations."""
    found = enumerate(_log_errors(x))
    return min((log - _MEAN[i][row]) / _DEVIATION[i][row] for i, (log, row) in found)


def is_known(x):
    """Return whether some model knows the sample; of known ones, `FALSE_ALARMS` are not."""
    return any(log <= _LIMIT[i][row] for i, (log, row) in enumerate(_log_errors(x)))
'''

_CONFLICTS = '''

_SCORED = {functions}


def novelty(x):
    """Return the share of conflicted nodes, by the model for which it is the lowest."""
    return min(model(x)[1] for model in _SCORED)


def is_known(x):
    """Return whether some model validates the sample."""
    return novelty(x) < {share!r}
'''

_ONE = """    return _model_0(x)[0]
"""
_SCATTERED = """    answer = [0.0] * len(CLASSES)
    model, known = _answer(x)
    for column, share in zip(COLUMNS[model], known):
        answer[column] = share
    return answer
"""


def to_python(model: Estimator, *, false_alarms: float = FALSE_ALARMS) -> str:
    """Return a model as the source of a module that imports nothing but `math`.

    It has `predict(x)`, for classifiers `predict_proba(x)`, for PREVAL systems `novelty(x)` and
    `is_known(x)`, at this rate of `false_alarms`, and for those of several models `route(x)`, each
    for one sample. Answers differ from the model's by rounding only.

    >>> from dirad import DIRADRegressor
    >>> X = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]]
    >>> source = to_python(DIRADRegressor(random_state=0).fit(X, [1, 3, 5, 7, 9, 11]))
    >>> module = {}
    >>> exec(source, module)
    >>> round(module["predict"]([1.5]), 1)
    4.0
    """
    whole = exported(model, false_alarms)
    used = set().union(*(member.program.transfers for member in whole.members))
    parts = [
        _head(whole),
        *(text for transfer, text in _FUNCTIONS.items() if transfer in used),
        *(_function(i, member.program) for i, member in enumerate(whole.members)),
        _answers(whole),
    ]
    return "\n".join(parts) + (_novelty(whole) if whole.scored else "")


def _head(whole: Exported) -> str:
    """Return the beginning of the module; names of categories stand in a constant, as literals."""
    codes = f"CATEGORIES = {dict(whole.codes)!r}\n" if whole.codes else ""
    gaps = f"MAY_BE_MISSING = {whole.gaps!r}\n" if whole.gaps else ""
    remarks = ["An input in `MAY_BE_MISSING` is float('nan') if it is missing."] if gaps else []
    if whole.codes:
        remarks.append("An input that is a category is the place of the category in `CATEGORIES`.")
        remarks.append(NOT_LISTED)
    return _HEAD.format(
        title=whole.title,
        n=len(whole.inputs),
        inputs=whole.inputs,
        remarks="".join(f"{remark}\n" for remark in remarks),
        constants=gaps + codes,
    )


def _model_names(whole: Exported) -> str:
    return "(" + "".join(f"_model_{i}, " for i in range(len(whole.members))).rstrip() + ")"


def _novelty(whole: Exported) -> str:
    functions, scales = _model_names(whole), whole.scales
    if whole.promise is None:
        return _CONFLICTS.format(functions=functions, share=whole.largest_share)
    return _NOVELTY.format(
        functions=functions,
        rows=[scale.row_of for scale in scales],
        mean=[scale.mean.tolist() for scale in scales],
        deviation=[scale.deviation.tolist() for scale in scales],
        limit=[scale.limit.tolist() for scale in scales],
        rate=whole.promise.sample,
    )


def _answers(whole: Exported) -> str:
    if whole.classes is None:
        what = "the value" if whole.single else "the values, one per column"
        return _REGRESSOR.format(what=what, which="[0]" if whole.single else "")
    if not whole.routed:
        return _CLASSIFIER.format(classes=whole.classes, body=_ONE)
    routing = _ROUTING.format(
        functions=_model_names(whole),
        numbers=tuple(member.number for member in whole.members),
        columns=tuple(member.columns for member in whole.members),
        answered_by=tuple(member.answered_by for member in whole.members),
    )
    return routing + "\n" + _CLASSIFIER.format(classes=whole.classes, body=_SCATTERED)


def _function(i: int, program: Program) -> str:
    """Return the source of a function of inputs; it returns outputs, score, error and own outputs.

    A single network has no score: it returns a tuple of its outputs alone.
    """

    def name(value: int) -> str:
        return f"x[{value}]" if value < program.n_inputs else f"v{value - program.n_inputs}"

    def total(term: Term) -> str:
        parts = [repr(term.bias)] if term.bias or not term.edges else []
        return " + ".join([*parts, *(f"{w!r} * {name(s)}" for s, w in term.edges)])

    def expression(step: Node | Pooling) -> str:
        if isinstance(step, Pooling):
            more = f", {step.constant!r}" if step.constant else ""
            return f"_{step.transfer}([{', '.join(map(name, step.sources))}]{more})"
        if step.transfer in OF_INPUT:
            return _OF_INPUT[step.transfer].format(x=name(step.source), c=step.constant)
        return _OF_NODE[step.transfer](step, total)

    lines = [f"def _model_{i}(x):"]
    for first, step in program.nodes:
        left = name(first)
        if isinstance(step, Pooling):
            left = f"[{', '.join(name(first + k) for k in range(step.width))}]"
        lines.append(f"    {left} = {expression(step)}")
    answers = ", ".join(map(name, program.outputs))
    more = ""
    if program.score is not None:
        own = ", ".join(name(value) for value in program.results[OWN].tolist())
        more = f"{name(program.score)}, {name(int(program.results[ERROR][0]))}, [{own}]"
    return "\n" + "\n".join([*lines, f"    return [{answers}], {more}".rstrip()]) + "\n"


Total = Callable[[Term], str]

_OF_INPUT = {
    Transfer.FILLED: "{x} if {x} == {x} else {c!r}",
    Transfer.MISSING: "float({x} != {x})",
    Transfer.EQUALS: "float({x} == {c!r})",
}

_OF_NODE: dict[Transfer, Callable[[Node, Total], str]] = {
    Transfer.LINEAR: lambda node, total: total(node.terms[0]),
    Transfer.LOGISTIC: lambda node, total: f"_logistic({total(node.terms[0])})",
    Transfer.MODULATED: lambda node, total: (
        f"({total(node.terms[0])}) * _sigma({node.constant!r} * ({total(node.terms[1])}))"
    ),
    Transfer.CLIPPED: lambda node, total: (
        f"min(max({total(node.terms[0])}, {-node.constant!r}), {node.constant!r})"
    ),
    Transfer.LOGARITHM: lambda node, total: (
        f"math.log(max({total(node.terms[0])}, {node.constant!r}))"
    ),
    Transfer.SQUARE: lambda node, total: f"({total(node.terms[0])}) ** 2",
    Transfer.EXCEEDS: lambda node, total: f"float(abs({total(node.terms[0])}) > {node.constant!r})",
}
