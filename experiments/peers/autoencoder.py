"""A variational autoencoder per class (van de Ven, Li & Tolias, 2021).

The decoder says how likely inputs x are given a code z of standard normal numbers; the encoder
gives the mean and variance of a normal distribution q(z | x) that approximates that of z given x.
Both have a hidden layer of rectifiers and are trained together, by Adam, on the evidence lower
bound with one draw of z for each sample. Class c scores log p(x | c), estimated by importance
sampling: the mean of p(x | z)·p(z) / q(z | x) over draws of z from q(z | x).

As in the authors' program, pixels in [0, 1] are scored by the cross-entropy, as though they were
probabilities, and other inputs by a normal distribution of a fixed variance. The authors' networks
have two hidden layers of 85 units each, and 10,000 draws: more than a peer can be given here.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp

from dirad.demo.baselines import adam
from experiments.baselines.perceptron import zeros_with_views

DRAW_SEED = 0  # of the draws for a score, which are the same for all samples and classes
MOST_AT_ONCE = 2_500_000  # numbers in one array while samples are scored
LEAST_SHARE = 0.01  # of a pixel's mean and its complement, from which its bias starts


class Design(NamedTuple):
    """Size of an autoencoder, and how it is trained and asked."""

    n_hidden: int = 170
    n_latent: int = 10
    rate: float = 0.005  # of Adam, lowered to zero along a cosine
    minibatch: int = 100
    steps: int = 2000
    draws: int = 30  # of z, for each sample that is scored


DESIGN = Design()


class Net(NamedTuple):
    """An encoder and a decoder; one array holds all, the views share it."""

    values: NDArray[np.float32]
    encoder: NDArray[np.float32]  # (inputs, hidden)
    encoder_bias: NDArray[np.float32]
    code: NDArray[np.float32]  # (hidden, 2 · latent): means of z, then logarithms of its variances
    code_bias: NDArray[np.float32]
    decoder: NDArray[np.float32]  # (latent, hidden)
    decoder_bias: NDArray[np.float32]
    output: NDArray[np.float32]  # (hidden, inputs)
    output_bias: NDArray[np.float32]


class Encoded(NamedTuple):
    """What the encoder says of samples."""

    hidden: NDArray  # (samples, hidden)
    mean: NDArray  # (samples, latent)
    log_variance: NDArray


class Autoencoder(NamedTuple):
    """The autoencoder of one class."""

    net: Net
    variance: float | None  # of inputs given z; None: cross-entropy
    draws: int

    def score(self, X: NDArray) -> NDArray[np.float64]:
        """Return the estimated log-likelihood of samples."""
        n_latent = len(self.net.decoder)
        noise = np.random.default_rng(DRAW_SEED).standard_normal((self.draws, n_latent), np.float32)
        rows = max(1, MOST_AT_ONCE // (self.draws * X.shape[1]))
        parts = [X[start : start + rows].astype(np.float32) for start in range(0, len(X), rows)]
        found = [importance_weights(self.net, part, noise, self.variance) for part in parts]
        return logsumexp(np.concatenate(found), axis=1) - np.log(self.draws)

    @property
    def n_stored(self) -> int:
        return self.net.values.size


def fit_autoencoder(
    X: NDArray,
    rng: np.random.Generator,
    variance: float | None = None,
    design: Design = DESIGN,
) -> Autoencoder:
    """Return an autoencoder of some samples."""
    X = X.astype(np.float32)
    net = random_net(X.shape[1], design.n_hidden, design.n_latent, rng)
    net.output_bias[:] = X.mean(axis=0)
    if variance is None:
        share = np.clip(X.mean(axis=0), LEAST_SHARE, 1 - LEAST_SHARE)
        net.output_bias[:] = np.log(share / (1 - share))
    gradient = blank(X.shape[1], design.n_hidden, design.n_latent)
    moments = np.zeros((2, net.values.size), np.float32)
    for step, rows in enumerate(minibatches(len(X), design, rng), start=1):
        noise = rng.standard_normal((len(rows), design.n_latent), np.float32)
        backward(net, X[rows], noise, variance, gradient)
        rate = design.rate * (1 + np.cos(np.pi * step / design.steps)) / 2
        net.values[:] -= adam(gradient.values, moments, step, rate)
    return Autoencoder(net, variance, design.draws)


def minibatches(n: int, design: Design, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """Yield for each step the rows of its samples; each pass over all has an order of its own."""
    done = 0
    while done < design.steps:
        parts = np.array_split(rng.permutation(n), -(-n // design.minibatch))
        yield from parts[: design.steps - done]
        done += len(parts)


def blank(n_inputs: int, n_hidden: int, n_latent: int) -> Net:
    """Return a network of zeros."""
    shapes = [
        (n_inputs, n_hidden), (n_hidden,), (n_hidden, 2 * n_latent), (2 * n_latent,),
        (n_latent, n_hidden), (n_hidden,), (n_hidden, n_inputs), (n_inputs,),
    ]  # fmt: skip
    values, views = zeros_with_views(shapes)
    return Net(values, *views)


def random_net(n_inputs: int, n_hidden: int, n_latent: int, rng: np.random.Generator) -> Net:
    """Return a network with normal weights that keep the scale of rectified sums (He, 2015)."""
    net = blank(n_inputs, n_hidden, n_latent)
    for weights in (net.encoder, net.code, net.decoder, net.output):
        weights[:] = rng.normal(0, np.sqrt(2 / len(weights)), weights.shape)
    return net


def encode(net: Net, X: NDArray) -> Encoded:
    """Return the distribution of z that the encoder gives each sample."""
    hidden = np.maximum(X @ net.encoder + net.encoder_bias, 0.0)
    mean, log_variance = np.split(hidden @ net.code + net.code_bias, 2, axis=1)
    return Encoded(hidden, mean, log_variance)


def importance_weights(
    net: Net, X: NDArray, noise: NDArray, variance: float | None
) -> NDArray[np.float64]:
    """Return the logarithms of p(x | z)·p(z) / q(z | x): (samples, draws); `noise` draws z."""
    _, mean, log_variance = encode(net, X)
    Z = mean[:, None] + np.exp(0.5 * log_variance)[:, None] * noise  # (samples, draws, latent)
    hidden = np.maximum(Z.reshape(-1, Z.shape[2]) @ net.decoder + net.decoder_bias, 0.0)
    outputs = (hidden @ net.output + net.output_bias).reshape(*Z.shape[:2], -1)
    likelihood = log_likelihood(outputs, X[:, None], variance)
    # The factors 2π of the two normal densities of z cancel.
    prior = -0.5 * (Z**2).sum(axis=2)
    proposal = -0.5 * ((noise**2).sum(axis=1) + log_variance.sum(axis=1)[:, None])
    return likelihood + prior - proposal


def log_likelihood(outputs: NDArray, X: NDArray, variance: float | None) -> NDArray:
    """Return log p(x | z), summed over the last axis; `outputs` are means, or logits of pixels."""
    if variance is None:
        softplus = np.maximum(outputs, 0.0) + np.log1p(np.exp(-np.abs(outputs)))
        return np.einsum("...i,...i->...", X, outputs) - softplus.sum(axis=-1)
    error = outputs - X
    squared = np.einsum("...i,...i->...", error, error)
    return -0.5 * (squared / variance + X.shape[-1] * np.log(2 * np.pi * variance))


def backward(net: Net, X: NDArray, noise: NDArray, variance: float | None, gradient: Net) -> None:
    """Write the gradient of the mean negative evidence lower bound; `noise` draws one z each."""
    hidden, mean, log_variance = encode(net, X)
    deviation = np.exp(0.5 * log_variance)
    Z = mean + deviation * noise
    inner = np.maximum(Z @ net.decoder + net.decoder_bias, 0.0)
    outputs = inner @ net.output + net.output_bias
    d_outputs = expit(outputs) - X if variance is None else (outputs - X) / np.float32(variance)
    d_outputs /= len(X)
    gradient.output[:] = inner.T @ d_outputs
    gradient.output_bias[:] = d_outputs.sum(axis=0)
    d_inner = (d_outputs @ net.output.T) * (inner > 0)
    gradient.decoder[:] = Z.T @ d_inner
    gradient.decoder_bias[:] = d_inner.sum(axis=0)
    d_Z = d_inner @ net.decoder.T
    # The divergence of q from the prior is Σ (mean² + variance − log variance − 1) / 2.
    d_mean = d_Z + mean / len(X)
    d_log_variance = 0.5 * (d_Z * noise * deviation + (deviation**2 - 1) / len(X))
    d_code = np.concatenate([d_mean, d_log_variance], axis=1)
    gradient.code[:] = hidden.T @ d_code
    gradient.code_bias[:] = d_code.sum(axis=0)
    d_hidden = (d_code @ net.code.T) * (hidden > 0)
    gradient.encoder[:] = X.T @ d_hidden
    gradient.encoder_bias[:] = d_hidden.sum(axis=0)
