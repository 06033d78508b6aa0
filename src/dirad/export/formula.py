"""A model as formulas: one expression per output in the names of the inputs."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dirad.core.describe import equations
from dirad.core.network import Network
from dirad.estimators import PREVALClassifier
from dirad.estimators.columns import column_names
from dirad.export.exported import (
    Estimator,
    category_names,
    exported,
    of_columns,
    system_model,
)
from dirad.export.extras import needs
from dirad.names import latex_input, latex_word, quoted
from dirad.preval.program import l0_program
from dirad.program import LEAST_SUM, OF_INPUT, Node, Pooling, Program, Term, Transfer

# What formulas call by name: SymPy has no NaN that is not equal to itself.
FUNCTIONS = {
    str(Transfer.FILLED): lambda x, c: np.where(np.isnan(x), c, x),
    str(Transfer.MISSING): lambda x: np.isnan(x) * 1.0,
    str(Transfer.EQUALS): lambda x, c: (x == c) * 1.0,
}
DIGITS = 17  # decimal digits with which SymPy computes; enough to distinguish any two doubles


@dataclass(frozen=True)
class Formula:
    """One SymPy expression per output; nothing is approximated.

    Numbers have the fewest digits that determine the double.
    """

    symbols: tuple[Any, ...]  # one per input
    names: tuple[str, ...]  # one per output
    expressions: tuple[Any, ...]  # one per output
    inputs: tuple[str, ...]  # the names of the inputs, unchanged
    scores: tuple[Any, ...] = ()  # one per output, where the outputs are a softmax of them
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # of inputs, by number

    @property
    def text(self) -> str:
        """The formulas as plain text, one line per output; SymPy reads the right sides."""

        class Printer(needs("sympy.printing.str").StrPrinter):
            def _print_Float(self, expr: Any) -> str:
                return repr(float(expr))

        write = Printer().doprint
        return "\n".join(
            f"{name} = {write(expression)}"
            for name, expression in zip(self.names, self.expressions, strict=True)
        )

    def __str__(self) -> str:
        return self.text

    def latex(self, digits: int | None = None) -> str:
        """Return the formulas in LaTeX, one line per output; `digits` rounds what is shown.

        A softmax is written out once: its scores z come first, a line each.
        """
        named = zip(self.symbols, self.inputs, strict=True)
        words = {symbol: latex_input(name, i) for i, (symbol, name) in enumerate(named)}

        class Printer(needs("sympy.printing.latex").LatexPrinter):
            def _print_Float(self, expr: Any) -> str:
                return _latex_number(float(expr), digits)

            def _print_Symbol(self, expr: Any) -> str:
                return words[expr]

        write = Printer().doprint
        lefts = [_latex_output(name) for name in self.names]
        lines = [f"z_{{{i}}} &= {write(z)}" for i, z in enumerate(self.scores, start=1)]
        if self.scores:
            total = rf"\sum_{{j=1}}^{{{len(self.scores)}}} e^{{z_{{j}}}}"
            for i, left in enumerate(lefts, start=1):
                lines.append(rf"{left} &= \frac{{e^{{z_{{{i}}}}}}}{{{total}}}")
        else:
            rights = [write(expression) for expression in self.expressions]
            if len(rights) == 2 and self.expressions[0] == 1 - self.expressions[1]:
                rights[0] = f"1 - {lefts[1]}"
            lines = [f"{left} &= {right}" for left, right in zip(lefts, rights, strict=True)]
        return "\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}"

    def function(self) -> Any:
        """Return a function of NumPy arrays, one argument per input: a list of answers."""
        sympy = needs("sympy")
        modules = [FUNCTIONS, "numpy"]
        return sympy.lambdify(list(self.symbols), list(self.expressions), modules)


def to_formula(model: Estimator, *, number: int | None = None) -> Formula:
    """Return a model as one expression per output; for a PREVAL system, the L0 of one model.

    The expressions follow the nodes of the network and are not simplified further.
    For classifiers they are the probabilities of the classes; for the L0 of a PREVAL model, by its
    number, the outputs of the network. Symbols have the names of the inputs, with an
    underscore for characters that names cannot contain. Where inputs may be missing or are
    categories, filled(x, c) is x, or c where x is missing; missing(x) is 1 where x is missing, else
    0; equals(x, c) is 1 where x is the category of number c, else 0 (`Formula.categories`).

    >>> from dirad import DIRADRegressor
    >>> X = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]]
    >>> formula = to_formula(DIRADRegressor(random_state=0).fit(X, [1, 3, 5, 7, 9, 11]))
    >>> formula.expressions[0].evalf(3)
    1.99*x0 + 1.01
    """
    names = column_names(model)
    if isinstance(model, PREVALClassifier):
        one = system_model(model, number)
        program = of_columns(model, l0_program(one.parts))
        outputs = tuple(str(model._state.labels[code]) for code in one.classes)
        categories = dict(category_names(model))
    else:
        if number is not None:
            raise ValueError(f"{type(model).__name__} has one network: give no number")
        whole = exported(model)
        program, outputs = whole.members[0].program, whole.outputs
        categories = dict(whole.codes)
    symbols = _symbols(names)
    titles = tuple(f"p_{name}" for name in outputs) if hasattr(model, "classes_") else outputs
    values = _values(program, symbols)
    expressions = tuple(values[value] for value in program.outputs)
    scores = tuple(values[value] for value in _softmax_sources(program))
    return Formula(symbols, titles, expressions, names, scores, categories)


def formula_text(
    network: Network,
    names: Sequence[str] | None = None,
    spread: NDArray[np.float64] | None = None,
) -> str:
    """Return the equations of a network, one line per node, rounded; SymPy is not needed.

    Given the standard deviations of the inputs (`input_spread_` of an estimator), steep gates are
    written as thresholds.

    >>> from dirad.core.network import new_network
    >>> formula_text(new_network(2, 1))
    'y0 = logistic(0)'
    """
    return "\n".join(equations(network, quoted(names), spread))


def _symbols(names: Sequence[str]) -> tuple[Any, ...]:
    """Return one symbol per input; where names would be equal, all get numbers."""
    sympy = needs("sympy")
    clean = [re.sub(r"\W", "_", name) for name in names]
    clean = [name if re.match(r"[^\W\d]", name) else f"x_{name}" for name in clean]
    doubles = len(set(clean)) < len(clean)
    return tuple(
        sympy.Symbol(f"{name}_{i}" if doubles else name, real=True) for i, name in enumerate(clean)
    )


def _latex_output(name: str) -> str:
    """Return the left side of an equation: p_even or y0 as a letter with an index.

    >>> print(_latex_output("p_even"), _latex_output("y0"), _latex_output("y"))
    p_{\\mathrm{even}} y_{0} y
    """
    letter, index = name[0], name[1:].removeprefix("_")
    return f"{letter}_{{{latex_word(index)}}}" if index else letter


def _latex_number(number: float, digits: int | None) -> str:
    r"""Return a number in LaTeX: the shortest form that determines it, or rounded.

    >>> print(_latex_number(0.1, None), _latex_number(2e-07, None), _latex_number(1.25e30, 2))
    0.1 2 \cdot 10^{-7} 1.2 \cdot 10^{30}
    """
    text = repr(number) if digits is None else f"{number:.{digits}g}"
    mantissa, _, exponent = text.partition("e")
    return f"{mantissa} \\cdot 10^{{{int(exponent)}}}" if exponent else mantissa


def _softmax_sources(program: Program) -> Sequence[int]:
    """Return the values whose softmax the outputs are; none if they are no softmax."""
    for first, step in program.numbered:
        if isinstance(step, Pooling) and step.transfer == Transfer.SOFTMAX:
            computed = list(range(first, first + step.width))
            return step.sources if computed == program.outputs else ()
    return ()


def _values(program: Program, symbols: Sequence[Any]) -> list[Any]:
    """Return all values as expressions.

    Factors stay outside brackets: SymPy would round them when it multiplies out.
    """
    distribute = needs("sympy.core.parameters").distribute
    values = list(symbols)
    with distribute(False):
        for _, step in program.nodes:
            values += _of_step(step, values)
    return values


def _of_step(step: Node | Pooling, values: Sequence[Any]) -> list[Any]:
    sympy = needs("sympy")

    def number(x: float) -> Any:
        return sympy.Integer(int(x)) if abs(x) == 1.0 else sympy.Float(x, DIGITS)

    def power(x: Any) -> Any:
        return sympy.exp(x, evaluate=False)  # else SymPy would factor the bias out, and round

    def total(term: Term) -> Any:
        parts = [number(term.bias)] if term.bias else []
        return sympy.Add(*parts, *(number(w) * values[s] for s, w in term.edges))

    if isinstance(step, Pooling):
        own = [values[s] for s in step.sources]
        if step.transfer == Transfer.SOFTMAX:
            return [
                1 / sympy.Add(1, *(power(z - own[k]) for i, z in enumerate(own) if i != k))
                for k in range(len(own))
            ]
        if step.transfer == Transfer.POWER_MEAN:
            c = number(step.constant)
            return [(sympy.Add(*(value**-c for value in own)) / len(own)) ** (-1 / c)]
        return [value / sympy.Max(sympy.Add(*own), number(LEAST_SUM)) for value in own]
    if step.transfer in OF_INPUT:
        own = [] if step.transfer == Transfer.MISSING else [number(step.constant)]
        return [sympy.Function(str(step.transfer))(values[step.source], *own)]
    z, c = total(step.terms[0]), number(step.constant)
    match step.transfer:
        case Transfer.LOGISTIC:
            z = 1 / (1 + power(-z))
        case Transfer.MODULATED:
            z = z * (4 / (1 + power(-c * total(step.terms[1]))) - 1)
        case Transfer.CLIPPED:
            z = sympy.Min(sympy.Max(z, -c), c)
        case Transfer.LOGARITHM:
            z = sympy.log(sympy.Max(z, c))
        case Transfer.SQUARE:
            z = z**2
        case Transfer.EXCEEDS:
            z = sympy.Piecewise((1, sympy.Abs(z) > c), (0, True))
    return [z]
