"""A small perceptron in PyTorch, for scale. PyTorch is optional."""

from collections.abc import Callable

import numpy as np
from cases import BATCH, INPUTS, OUTPUTS
from numpy.typing import NDArray

HIDDEN = 16


def torch_steps() -> Callable[[NDArray], None] | None:
    """Return a function that takes as many steps of SGD as its argument has places."""
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(INPUTS, HIDDEN), torch.nn.Tanh(), torch.nn.Linear(HIDDEN, OUTPUTS)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    cost = torch.nn.CrossEntropyLoss()
    rng = np.random.default_rng(0)
    X = torch.from_numpy(rng.normal(size=(BATCH, INPUTS)).astype(np.float32))
    y = torch.from_numpy(rng.integers(OUTPUTS, size=BATCH))

    def steps(error: NDArray) -> None:
        for i in range(len(error)):
            optimizer.zero_grad()
            loss = cost(model(X), y)
            loss.backward()
            optimizer.step()
            error[i] = loss.item()

    return steps
