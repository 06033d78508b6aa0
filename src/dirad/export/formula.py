"""A model as formulas: one expression per output in the names of the inputs."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dirad.core.describe import equations
from dirad.core.network import Network
from dirad.estimators import PREVALClassifier
from dirad.export.exported import Estimator, exported, input_names, system_model
from dirad.export.extras import needs
from dirad.export.program import LEAST_SUM, Mixture, Program, Step, Term, Transfer
from dirad.export.system import l0_program

DIGITS = 17  # decimal digits that tell any two floats apart


@dataclass(frozen=True)
class Formula:
    """One SymPy expression per output; nothing is approximated, numbers keep 17 digits."""

    symbols: tuple[Any, ...]  # one per input
    names: tuple[str, ...]  # one per output
    expressions: tuple[Any, ...]  # one per output
    inputs: tuple[str, ...]  # the names of the inputs as they are

    @property
    def text(self) -> str:
        """The formulas as plain text, one line per output; SymPy reads the right sides."""
        return "\n".join(
            f"{name} = {expression}"
            for name, expression in zip(self.names, self.expressions, strict=True)
        )

    def __str__(self) -> str:
        return self.text

    def latex(self, digits: int | None = None) -> str:
        """Return the formulas in LaTeX, one line per output; `digits` rounds what is shown."""
        sympy = needs("sympy", "formula")

        class Printer(needs("sympy.printing.latex", "formula").LatexPrinter):
            def _print_Float(self, expr: Any) -> str:
                return super()._print_Float(sympy.Float(expr, digits or DIGITS))

        write = Printer().doprint
        lines = [
            f"{write(sympy.Symbol(name))} &= {write(expression)}"
            for name, expression in zip(self.names, self.expressions, strict=True)
        ]
        return "\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}"

    def function(self) -> Any:
        """Return a function of NumPy arrays, one argument per input: a list of answers."""
        sympy = needs("sympy", "formula")
        return sympy.lambdify(list(self.symbols), list(self.expressions), "numpy")


def to_formula(model: Estimator, *, number: int | None = None) -> Formula:
    """Return a model as one expression per output; of a PREVAL system the L0 of one model.

    The expressions are put together from the steps of the network and not simplified further.
    For classifiers they are the probabilities of the classes; for the L0 of a PREVAL model, by its
    number, the outputs of the network. Symbols have the names of the inputs, with an underscore
    for what no name may hold.

    >>> from dirad import DIRADRegressor
    >>> X = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]]
    >>> formula = to_formula(DIRADRegressor(random_state=0).fit(X, [1, 3, 5, 7, 9, 11]))
    >>> formula.expressions[0].evalf(3)
    1.98*x0 + 1.05
    """
    names = input_names(model)
    if isinstance(model, PREVALClassifier):
        one = system_model(model, number)
        program = l0_program(one)
        outputs = tuple(str(model._labels[code]) for code in one.classes)
    else:
        if number is not None:
            raise ValueError(f"{type(model).__name__} has one network: give no number")
        whole = exported(model)
        program, outputs = whole.members[0].program, whole.outputs
    symbols = _symbols(names)
    titles = tuple(f"p_{name}" for name in outputs) if hasattr(model, "classes_") else outputs
    return Formula(symbols, titles, tuple(_expressions(program, symbols)), names)


def formula_text(network: Network, names: Sequence[str] | None = None) -> str:
    """Return the equations of a network, one line per node, rounded; SymPy is not needed.

    >>> from dirad.core.network import new_network
    >>> formula_text(new_network(2, 1))
    'y0 = logistic(0)'
    """
    return "\n".join(equations(network, names))


def _symbols(names: Sequence[str]) -> tuple[Any, ...]:
    """Return one symbol per input; names that would be equal get their numbers."""
    sympy = needs("sympy", "formula")
    clean = [re.sub(r"\W", "_", name) for name in names]
    clean = [name if re.match(r"[^\W\d]", name) else f"x_{name}" for name in clean]
    doubles = len(set(clean)) < len(clean)
    return tuple(
        sympy.Symbol(f"{name}_{i}" if doubles else name, real=True) for i, name in enumerate(clean)
    )


def _expressions(program: Program, symbols: Sequence[Any]) -> list[Any]:
    values = list(symbols)
    for _, step in program.numbered:
        values += _of_step(step, values)
    return [values[value] for value in program.outputs]


def _of_step(step: Step, values: Sequence[Any]) -> list[Any]:
    sympy = needs("sympy", "formula")

    def number(x: float) -> Any:
        return sympy.Float(x, DIGITS)

    def power(x: Any) -> Any:
        return sympy.exp(x, evaluate=False)  # or SymPy would take the bias out of it, and round

    def total(term: Term) -> Any:
        parts = [number(term.bias)] if term.bias else []
        return sympy.Add(*parts, *(number(w) * values[s] for s, w in term.edges))

    if isinstance(step, Mixture):
        own = [values[s] for s in step.sources]
        if step.transfer == Transfer.SOFTMAX:
            return [1 / sympy.Add(*(power(other - value) for other in own)) for value in own]
        return [value / sympy.Max(sympy.Add(*own), number(LEAST_SUM)) for value in own]
    z, c = total(step.first), number(step.constant)
    match step.transfer:
        case Transfer.LOGISTIC:
            z = 1 / (1 + power(-z))
        case Transfer.MODULATED:
            z = z * (4 / (1 + power(-c * total(step.second))) - 1)
        case Transfer.CLIPPED:
            z = sympy.Min(sympy.Max(z, -c), c)
        case Transfer.LOGARITHM:
            z = sympy.log(sympy.Max(z, c))
        case Transfer.SQUARE:
            z = z**2
        case Transfer.EXCEEDS:
            z = sympy.Piecewise((1, sympy.Abs(z) > c), (0, True))
    return [z]
