"""Commands on one growing network: the paper's example, conflict, digits, tables, ablations."""

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from dirad.cli.app import (
    DEFAULTS,
    Common,
    Flag,
    NaturalInt,
    Outcome,
    PositiveInt,
    Preset,
    Usage,
    app,
    deliver,
    progress_bar,
    read_numbers,
    stdout,
    warm_up,
    worker_count,
)
from dirad.report.tables import Section

if TYPE_CHECKING:
    pass


@app.command
def xor(*, preset: Preset = "paper", common: Common = DEFAULTS) -> None:
    """Watch a network grow on XOR, the smallest task that no single edge can begin.

    The stages are those of the paper's figure, caught from a real run.

    ```
    dirad xor
    dirad xor --seed 3 --out results/xor-3
    ```

    Parameters
    ----------
    preset
        The paper's settings, or our own.
    """
    from dirad.experiments.xor import stages
    from dirad.report.story import draw_stages, print_stages

    warm_up(common, preset)
    found = stages(common.seed, preset)
    if not (common.quiet or common.json):
        print_stages(stdout(), found)
    rows = [
        {
            "stage": stage.number,
            "title": stage.title,
            "step": stage.step,
            "edges": stage.network.n_edges,
            "hidden": stage.network.n_hidden,
            "error": f"{stage.error:.4f}",
            "what happens": stage.text,
        }
        for stage in found
    ]
    outcome = Outcome(
        "xor",
        {"preset": preset, "seed": common.seed},
        "XOR, step by step",
        [Section("Stages", rows)],
        pictures={"stages": draw_stages(found)},
    )
    deliver(outcome, common, show=False)


@app.command
def parity(
    *,
    bits: str = "2-8",
    seeds: PositiveInt = 20,
    preset: Preset = "default",
    batch_from_stream: Flag = False,
    distractors: NaturalInt = 0,
    common: Common = DEFAULTS,
) -> None:
    """n-bit parity: solved runs and sizes, beside perceptrons of n and 2n hidden units.

    A run is solved if all 2ⁿ patterns are answered right.

    ```
    dirad parity                                   # 2 to 8 bits, 20 seeds
    dirad parity --bits 2-4,8 --seeds 5
    dirad parity --bits 2-10 --batch-from-stream   # random batches of 200
    dirad parity --bits 4 --distractors 4          # and inputs without meaning
    ```

    Parameters
    ----------
    bits
        Numbers of bits: 4, or 2-8, or 2-4,8.
    seeds
        Runs per number of bits and method.
    preset
        Our own settings, or the paper's.
    batch_from_stream
        Show random batches of 200 patterns instead of all patterns at once.
    distractors
        Random inputs beside the bits; implies --batch-from-stream.
    """
    from dirad.experiments import parity as experiment
    from dirad.plot.network import draw_network

    chosen = read_numbers(bits, "--bits", 2, 12)
    stream = batch_from_stream or distractors > 0
    warm_up(common, preset)
    with progress_bar(common, "parity") as progress:
        runs = experiment.measure(
            chosen,
            range(common.seed, common.seed + seeds),
            preset=preset,
            stream=stream,
            distractors=distractors,
            workers=worker_count(common),
            progress=progress,
        )
    task = f"random batches of {experiment.STREAM_BATCH}" if stream else "all 2ⁿ patterns"
    if distractors:
        task += f", {distractors} distractors"
    note = (
        "Solved: every pattern answered right. Edges: all weights, biases apart. Means (and "
        "maxima) over all runs, solved or not. Distinct networks: 1 means that the seed changes "
        "nothing, so that all these runs are one. neat-python is quoted, not measured in this run."
    )
    if stream:
        note += " The MLP sees all patterns at once and no distractors, which is easier."
    variant = "-".join(
        ["paper"] * (preset == "paper")
        + ["stream"] * stream
        + [f"{distractors}-distractors"] * (distractors > 0)
    )
    model = experiment.grow_parity(max(chosen), common.seed, preset, stream, distractors)
    outcome = Outcome(
        "parity",
        {
            "bits": bits,
            "seeds": seeds,
            "preset": preset,
            "batch-from-stream": batch_from_stream,
            "distractors": distractors,
            "seed": common.seed,
        },
        f"n-bit parity: {task}",
        [Section(f"Parity, {task}, preset {preset}", experiment.summarize(runs), note)],
        runs,
        {f"network-{max(chosen)}-bits": draw_network(model.network_)},
        variant,
    )
    deliver(outcome, common)


@app.command
def pairs(
    *,
    pairs: Annotated[int, Parameter(validator=Number(gte=1, lte=45))] = 45,
    edges: str = "5,15,50",
    preset: Preset = "default",
    common: Common = DEFAULTS,
) -> None:
    """Two digits of MNIST at 14 × 14: test accuracy at equal size, or the paper's claim.

    Size is the number of edges, biases apart. Beside DIRAD: logistic regression on greedily chosen
    pixels, on pixels chosen by an L1 penalty, on all pixels; and a decision tree (splits).

    ```
    dirad pairs                  # all 45 pairs
    dirad pairs --pairs 5 --edges 15
    dirad pairs --preset paper   # ten outputs, two active, as in the paper
    ```

    Parameters
    ----------
    pairs
        How many of the 45 pairs, spread evenly.
    edges
        Sizes to compare: 5,15,50.
    preset
        default: at equal size. paper: the paper's own protocol, without a limit on edges.
    """
    from dirad.experiments import pairs as experiment
    from dirad.plot.network import draw_network

    sizes = read_numbers(edges, "--edges", 1, 196)
    chosen = experiment.choose_pairs(pairs)
    experiment.mnist()
    warm_up(common, preset)
    options: dict[str, Any] = {"pairs": pairs, "preset": preset, "seed": common.seed}
    with progress_bar(common, "pairs") as progress:
        settings: dict[str, Any] = {
            "seed": common.seed,
            "workers": worker_count(common),
            "progress": progress,
        }
        if preset == "paper":
            runs = experiment.measure_paper(chosen, **settings)
        else:
            runs = experiment.measure(chosen, sizes, **settings)
    if preset == "paper":
        keys = ("pair", "accuracy", "edges", "hidden", "steps")
        each = [{key: getattr(run, key) for key in keys} for run in runs]
        note = (
            "Test accuracy of the largest of all ten outputs, two of them active. Mean ± standard "
            "deviation over pairs."
        )
        sections = [
            Section("One task as in the paper", experiment.summarize_paper(runs), note),
            Section("Pair by pair", each),
        ]
        network = experiment.grow_paper(chosen[0], common.seed).network
    else:
        options["edges"] = edges
        note = (
            "Mean ± standard error over pairs. Difference: paired, to greedy logistic at the same "
            "size. Edges: weights used, biases apart (tree: splits); size: those allowed."
        )
        title = f"Accuracy at equal size, mean over {pairs} pairs of digits"
        sections = [Section(title, experiment.summarize(runs), note)]
        network = experiment.fit_dirad(chosen[0], sizes[-1], common.seed).network_
    a, b = chosen[0]
    outcome = Outcome(
        "pairs",
        options,
        "MNIST, two digits",
        sections,
        runs,
        {f"network-{a}-{b}": draw_network(network, image_shape=(14, 14))},
        "paper" if preset == "paper" else "",
    )
    deliver(outcome, common)


@app.command
def digits(
    *, edges: str = "500,1000,2000", seeds: PositiveInt = 1, common: Common = DEFAULTS
) -> None:
    """Ten digits of MNIST at 14 × 14, beside a perceptron pruned to the same size.

    ```
    dirad digits                       # 500, 1,000 and 2,000 edges, one seed
    dirad digits --edges 500 --seeds 3
    ```

    Parameters
    ----------
    edges
        Sizes to compare: 500,1000,2000.
    seeds
        Runs per size and method.
    """
    from dirad.experiments import digits as experiment

    sizes = read_numbers(edges, "--edges", 10, 20_000)
    experiment.mnist()
    warm_up(common)
    with progress_bar(common, "digits") as progress:
        runs = experiment.measure(
            sizes,
            range(common.seed, common.seed + seeds),
            workers=worker_count(common),
            progress=progress,
        )
    note = (
        "Test accuracy over 10,000 samples (whose own sampling error is about 0.003 at 0.90 and "
        "0.002 at 0.96); ± standard deviation over seeds, where there are several. Full logistic "
        "regression is the ceiling of networks without hidden nodes. Seconds: of one core, kernels "
        "compiled; the pruned MLP's include the choice of its hidden size, full logistic "
        "regression's that of its penalty."
    )
    outcome = Outcome(
        "digits",
        {"edges": edges, "seeds": seeds, "seed": common.seed},
        "MNIST, ten digits",
        [Section("Ten digits at a given size", experiment.summarize(runs), note)],
        runs,
    )
    deliver(outcome, common)


@app.command
def tabular(*, repeats: PositiveInt = 5, common: Common = DEFAULTS) -> None:
    """Small tables of scikit-learn, by repeated 5-fold cross-validation, beside a linear model.

    The linear model is standardized and its penalty tuned within each training part.

    ```
    dirad tabular
    dirad tabular --repeats 1 --workers 1
    ```

    Parameters
    ----------
    repeats
        Times that the five folds are drawn anew.
    """
    from dirad.experiments import tabular as experiment

    warm_up(common)
    with progress_bar(common, "tabular") as progress:
        runs = experiment.measure(
            repeats, seed=common.seed, workers=worker_count(common), progress=progress
        )
    note = (
        "Accuracy, or R² for diabetes; ± standard error of the mean over folds. Folds of different "
        "repeats share samples, so that the true spread is larger. Difference: paired by fold. "
        "Parameters: of DIRAD edges, biases and Ks; of the linear model coefficients that are not "
        "0, and intercepts."
    )
    outcome = Outcome(
        "tabular",
        {"repeats": repeats, "seed": common.seed},
        "Small tables",
        [Section("DIRAD and a tuned linear model", experiment.summarize(runs), note)],
        runs,
    )
    deliver(outcome, common)


PARTS = ("ladder", "pieces", "sweep")


@app.command
def ablate(
    *,
    parts: str = ",".join(PARTS),
    pairs: Annotated[int, Parameter(validator=Number(gte=1, lte=45))] = 6,
    seeds: PositiveInt = 3,
    full: Flag = False,
    common: Common = DEFAULTS,
) -> None:
    """What each piece is worth: the paper step by step, our default without each of its parts.

    Digits are scored on a held-out sixth of the training set; the test set is not touched.

    ```
    dirad ablate
    dirad ablate --parts sweep --pairs 2 --seeds 1   # δ_min, R₁, R₂, roughly
    dirad ablate --parts pieces --full               # ten digits as well
    ```

    Parameters
    ----------
    parts
        Which parts: ladder (from edge generation to the paper, and other readings of it), pieces
        (our default without each piece), sweep (δ_min, R₁, R₂).
    pairs
        Pairs of digits, spread evenly over the 45.
    seeds
        Runs per variant and task.
    full
        All ten digits at 500 edges as well.
    """
    from dirad.experiments import ablation as experiment
    from dirad.experiments.pairs import choose_pairs

    wanted = [part.strip() for part in parts.split(",")]
    for part in wanted:
        if part not in PARTS:
            raise Usage(f"--parts knows {', '.join(PARTS)}, not {part!r}")
    chosen, many = choose_pairs(pairs), range(common.seed, common.seed + seeds)
    jobs: list[Any] = []
    if "ladder" in wanted:
        jobs += experiment.ladder_jobs(chosen, many)
    if "pieces" in wanted:
        jobs += experiment.piece_jobs(chosen, many, full)
    if "sweep" in wanted:
        jobs += experiment.sweep_jobs(chosen, many)
    experiment.mnist()
    warm_up(common, *(["default"] if "pieces" in wanted else []), "paper")
    with progress_bar(common, "ablate") as progress:
        runs = experiment.measure(jobs, workers=worker_count(common), progress=progress)
    note = (
        f"{pairs} pairs × {seeds} seeds; parity and ten digits: {seeds} seeds. Held-out accuracy "
        "± standard error; difference: paired, to the row without one. Means (and maxima) of "
        "edges, hidden nodes and steps. Without settling, edges on their way out are still there, "
        "so that a network may be larger than its limit."
    )
    outcome = Outcome(
        "ablate",
        {"parts": parts, "pairs": pairs, "seeds": seeds, "full": full, "seed": common.seed},
        "What each piece is worth",
        [Section(title, rows, note) for title, rows in experiment.tables(runs)],
        runs,
    )
    deliver(outcome, common)
