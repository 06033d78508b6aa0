"""How much each input matters to a fitted network."""

import numpy as np
from numpy.typing import NDArray

from dirad.core.network import LINEAR, TRANSFER, Network
from dirad.inference import Builder, evaluate
from dirad.program import OUTPUTS, Block, Program, Transfer


def input_importances(network: Network, X: NDArray, limit: int = 1000) -> NDArray[np.float64]:
    """Return the mean |∂z/∂x| of the outputs' activations z over (scaled) samples, summing to 1."""
    linear = network.copy()
    linear.counts[TRANSFER] = LINEAR
    builder = Builder(linear.n_inputs)
    outputs = builder.attach(linear, builder.inputs).outputs.value
    program = builder.whole({})
    every = Program(program.n_inputs, program.steps, {OUTPUTS: np.arange(program.n_values)})
    values = evaluate(every, X[:limit])[OUTPUTS].T
    total = np.zeros(linear.n_inputs)
    for output in outputs:
        total += np.abs(_slopes(program, values, output)).mean(axis=1)
    return total / total.sum() if total.sum() > 0 else total


def _slopes(program: Program, values: NDArray, output: int) -> NDArray[np.float64]:
    """Return the derivatives of one value by the inputs: (inputs, samples)."""
    slope = np.zeros_like(values)
    slope[output] = 1.0
    for first, step, matrices in reversed(program.with_weights):
        assert isinstance(step, Block)  # outputs are linear here: no softmax
        own = slope[first : first + step.width]
        if step.transfer == Transfer.MODULATED:  # z · σ₁(m), with σ₁(m) = 2 · tanh(c·m/2) + 1
            z, m = (
                matrix @ values[:first] + sums.bias[:, None]
                for matrix, sums in zip(matrices, step.sums, strict=True)
            )
            steepness = step.constant[:, None]
            half = np.tanh(0.5 * steepness * m)
            slope[:first] += matrices[1].T @ (own * z * steepness * (1.0 - half * half))
            own = own * (2.0 * half + 1.0)
        slope[:first] += matrices[0].T @ own
    return slope[: program.n_inputs]
