"""Wide networks: gates feed every output, and the parameters of the outputs are solved for.

The networks of `growth` are compact: each edge is tested, and all parameters adapt together. Where
many weak effects add up, as in most tables, a wide network predicts better. Growth is greedy here
too, one candidate after the other by gain per edge, but after each round the cost is minimized
over the parameters of the outputs alone, which is a convex problem (ridge regression by Newton's
method). A share of the samples is held out to find the number of nodes.
"""

from dirad.growth.wide.costs import Samples, costs_of_answers, zero_one_losses
from dirad.growth.wide.grow import WideFit, finished, fit_alike, fit_linear, fit_wide

__all__ = [
    "Samples",
    "WideFit",
    "costs_of_answers",
    "finished",
    "fit_alike",
    "fit_linear",
    "fit_wide",
    "zero_one_losses",
]
