"""Results as rows of tables."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dirad.experiments.comparison.alarms import SETS, SHOWN, Alarms
from dirad.experiments.comparison.methods import DETECTS, DRIVEN, METHODS, SMALL_BEGIN
from dirad.experiments.comparison.plan import ABLATIONS, LARGE_ABLATIONS, OURS, SAMPLES, SIZED
from dirad.experiments.comparison.run import SIZES, Result, noticed
from dirad.experiments.metrics import (
    average_incremental_accuracy,
    backward_transfer,
    final_accuracy,
    forgetting,
)
from dirad.experiments.reproduce import Table
from dirad.experiments.runner import deviation, mean, standard_error
from dirad.experiments.streams.scoring import Life
from dirad.experiments.streams.summary import NOTICED, answered, table
from dirad.experiments.streams.summary import noticed as noticed_row
from dirad.preval.settings import PRESETS

Row = dict[str, Any]
RATES = (0.05, 0.01)  # promised
RESAMPLED = 2000  # times, for an interval
BLANK = "–"
ABLATION_NAMES = (*ABLATIONS, *(name for name in LARGE_ABLATIONS if name not in ABLATIONS))


def both(values: Sequence[float], digits: int = 3) -> str:
    """Return mean ± standard deviation.

    >>> both([0.5, 0.7])
    '0.600 ± 0.141'
    """
    values = [value for value in values if value == value]
    if not values:
        return BLANK
    text = f"{mean(values):.{digits}f}"
    return text if len(values) == 1 else f"{text} ± {deviation(values):.{digits}f}"


def grouped(results: Sequence[Result]) -> dict[str, list[Result]]:
    """Return results by method, in the order of the registry."""
    order = [*METHODS]
    order.insert(order.index("EWC, told") + 1, DRIVEN)
    return {
        name: found for name in order if (found := [one for one in results if one.method == name])
    }


def after(result: Result, task: int) -> float:
    """Return the accuracy over all classes seen after a task (from 0): tasks count alike."""
    return mean(result.accuracies[task][: task + 1])


def curves(results: Sequence[Result]) -> tuple[dict[str, NDArray], dict[str, float]]:
    """Return by method: accuracies after each task (orders, tasks), and the numbers stored."""
    runs, stored = {}, {}
    for method, some in grouped(results).items():
        found = [one for one in some if one.accuracies]
        if found:
            tasks = range(found[0].scenario.tasks)
            runs[method] = np.array([[after(one, task) for task in tasks] for one in found])
            stored[method] = mean(one.stored for one in found)
    return runs, stored


def detected(results: Sequence[Result]) -> tuple[Row, list[float], list[int]]:
    """Return how many changes were missed, the delays of the others, false alarms per stream."""
    found = [noticed(one) for one in results]
    delays = [delay for one, _ in found for delay in one]
    missed = {"missed": f"{delays.count(-1)}/{len(delays)}"}
    return missed, [float(d) for d in delays if d >= 0], [false for _, false in found]


def accuracy_table(results: Sequence[Result]) -> Table:
    """Return accuracy, what is forgotten and what is stored, by method."""
    name = results[0].scenario.name
    rows: list[Row] = []
    for method, some in grouped(results).items():
        some = [one for one in some if one.accuracies]
        if not some:
            continue
        tasks = some[0].scenario.tasks
        rows.append(
            {
                "method": method,
                "detects": "by ours" if method == DRIVEN else "yes" if method in DETECTS else "no",
                **{
                    f"T{task + 1}": both([after(one, task) for one in some])
                    for task in range(min(3, tasks - 1))
                },
                f"T{tasks}: final": both([final_accuracy(one.accuracies) for one in some]),
                "average incremental": both(
                    [average_incremental_accuracy(one.accuracies) for one in some]
                ),
                "backward transfer": both([backward_transfer(one.accuracies) for one in some]),
                "forgetting": both([forgetting(one.accuracies) for one in some]),
                "numbers stored": f"{mean(one.stored for one in some):,.0f}",
                "samples stored": f"{mean(one.samples for one in some):,.0f}",
                "seconds": f"{mean(one.seconds for one in some):.1f}",
            }
        )
    note = (
        "Test accuracy over all classes seen after the first three tasks and after the last, mean "
        "± standard deviation over orders of the classes. Three tasks are the first three of five. "
        "Each training sample is passed once. 'Detects': finds out by itself where a task is new. "
        "Numbers stored: all that is kept at the end, samples included, and of sparse networks the "
        "weights but not which nodes they join; ours holds up to 10,000 samples of the task at "
        "hand until its model is stable. Seconds: learning alone, one thread, other work beside it "
        "on the same processor, so that they tell the order of magnitude; GDumb and joint training "
        "learn when they are asked, so their time is not in it. 'Ours (paper)' cannot become "
        "stable within one pass: see the reproduction for its own protocol."
    )
    if results[0].scenario.data == "digits":
        note += (
            f" A task has {results[0].scenario.per_task} samples, so ours has an opinion after "
            f"{SMALL_BEGIN} of them, not 200; perceptrons are trained as on MNIST, where their "
            "settings were chosen, which is little for those that see a sample once."
        )
    return Table(f"{name}: five tasks", rows, note)


def detection_table(results: Sequence[Result]) -> Table:
    """Return how changes were noticed and samples were routed."""
    rows: list[Row] = []
    for method, some in grouped(results).items():
        if method not in DETECTS:
            continue
        missed, delays, false_alarms = detected(some)
        rows.append(
            {
                "method": method,
                **missed,
                "delay in batches": both(delays, 1),
                "false alarms per stream": f"{mean(false_alarms):.2f}",
                "models": both([float(one.models) for one in some if one.models], 1),
                "right model": both([one.routed for one in some]),
                "purity": both([one.purity for one in some]),
                "NMI": both([one.nmi for one in some]),
            }
        )
    note = (
        "Changes of task that were not noticed before the next one; batches until they were; "
        "alarms within an unchanged task. Right model: share of test samples of all tasks that "
        "reach the model of their own, at the end."
    )
    return Table(f"{results[0].scenario.name}: detection and routing", rows, note)


def novelty_table(results: Sequence[Result]) -> Table:
    """Return how well new classes are told from known ones."""
    rows = [
        {
            "method": method,
            "AUROC": both([one.auroc for one in some]),
            "FPR95": both([one.fpr95 for one in some]),
        }
        for method, some in grouped(results).items()
        if any(one.auroc == one.auroc for one in some)
    ]
    note = (
        "Of what was learned in the first task: test samples of its two classes against those of "
        "the eight others. FPR95: share of known samples called new "
        "where 95 % of the new ones are found."
    )
    return Table(f"{results[0].scenario.name}: novelty of single samples", rows, note)


def matrix_table(results: Sequence[Result]) -> Table:
    """Return the accuracy matrix of ours, mean over orders."""
    ours = [np.array(one.accuracies) for one in results if one.method == OURS]
    R = np.mean(ours, axis=0)
    rows = [
        {"after": f"T{i + 1}"}
        | {f"on T{j + 1}": f"{R[i, j]:.3f}" if j <= i else "" for j in range(len(R))}
        for i in range(len(R))
    ]
    return Table(f"{results[0].scenario.name}: accuracy matrix of ours", rows)


def size_table(results: Sequence[Result]) -> Table:
    """Return what more modes are worth to ours, smallest first; the ceiling and QDA beside it."""
    names = (*SIZED, OURS, "QDA: Gaussian per class", "joint training, MLP")
    by_method = {
        name: some for name in names if (some := [one for one in results if one.method == name])
    }
    rows: list[Row] = [
        {
            "method": name,
            "final accuracy": both([final_accuracy(one.accuracies) for one in some], 4),
            "AUROC": both([one.auroc for one in some]),
            "numbers stored": f"{_stored(some):,.0f}",
            "samples stored": f"{mean(one.samples for one in some):,.0f}",
            "seconds": f"{mean(one.seconds for one in some):.0f}",
        }
        for name, some in sorted(by_method.items(), key=lambda item: _stored(item[1]))
    ]
    note = (
        f"Five tasks. The preset has up to {PRESETS['default'].modes} modes per class; nothing "
        "else differs. Joint training keeps all samples."
    )
    return Table("Split-MNIST, 14 × 14: size against accuracy", rows, note)


def _stored(results: Sequence[Result]) -> float:
    return mean(one.stored for one in results)


def sized_points(results: Sequence[Result]) -> list[tuple[float, float, int]]:
    """Return of ours in each size the numbers stored, the final accuracy, and its modes."""
    names = {**SIZED, OURS: PRESETS["default"].modes}
    found = []
    for name, modes in names.items():
        some = [one for one in results if one.method == name]
        if some:
            accuracy = mean(final_accuracy(one.accuracies) for one in some)
            found.append((_stored(some), accuracy, modes))
    return sorted(found)


ALARM_NOTE = (
    "Share of disjoint batches of a model's own task, none of whose samples it ever saw, that it "
    "takes for new, at two promised rates: mean over models, in parentheses the 95 % interval by "
    "resampling models. Judged by the inputs alone, without labels."
)


def alarm_table(alarms: Sequence[Alarms]) -> Table:
    """Return measured against promised rates of false alarms."""
    every = list(dict.fromkeys(one.data for one in alarms))
    rows = [
        {"asked": place} | row
        for place in SETS
        for data in ([*every, "all"] if len(every) > 1 else every)
        for row in alarm_rows(
            data, [one.chances[place] for one in alarms if data in (one.data, "all")]
        )
    ]
    note = (
        f"{ALARM_NOTE} Models of two random classes, each shown {SHOWN:,} samples. The rate is "
        "promised for samples from where the model's own came from: training samples that were "
        "left over. Test samples need not be such, and MNIST's are not: other people wrote them. "
        "Models that learned the same classes are not independent, and all share a test set, so "
        "that intervals are rather too narrow."
    )
    return Table("False alarms, promised and measured", rows, note)


def own_alarm_table(results: Sequence[Result]) -> Table:
    """Return the false alarms of the models that the streams left behind."""
    ours = [one for one in results if one.method == OURS and one.chances]
    rows = [
        row
        for data in dict.fromkeys(one.scenario.data for one in ours)
        for row in alarm_rows(
            data, [found for one in ours if one.scenario.data == data for found in one.chances]
        )
    ]
    note = (
        f"{ALARM_NOTE} These models were shown nearly all training samples; most of those they "
        "are asked about are from the test set, which for MNIST other people wrote."
    )
    return Table("False alarms of the models above", rows, note)


def alarm_rows(data: str, models: Sequence[Mapping[str, Sequence[float]]]) -> list[Row]:
    """Return a row for each size of batches of which models judged any."""
    rng = np.random.default_rng(0)
    rows: list[Row] = []
    for size in SIZES:
        own = [np.array(found[str(size)]) for found in models if found[str(size)]]
        if own:
            rows.append({"data": data, "batch": size} | alarm_rates(own, rng))
    return rows


def alarm_rates(chances: Sequence[NDArray], rng: np.random.Generator) -> Row:
    """Return how often models, each with the chances it gave to batches, raised an alarm."""
    row: Row = {"models": len(chances), "batches": sum(map(len, chances))}
    for rate in RATES:
        shares = np.array([np.mean(chance < rate) for chance in chances])
        picks = rng.integers(0, len(shares), (RESAMPLED, len(shares)))
        low, high = np.quantile(shares[picks].mean(axis=1), [0.025, 0.975])
        row[f"promised {rate}"] = f"{shares.mean():.3f} ({low:.3f} to {high:.3f})"
    return row


def samples_table(results: Sequence[Result]) -> Table:
    """Return what fewer samples cost."""
    rows: list[Row] = []
    counts = sorted({one.scenario.per_task for one in results})
    by_count = {n: [one for one in results if one.scenario.per_task == n] for n in counts}
    most = {one.order: final_accuracy(one.accuracies) for one in by_count[counts[-1]]}
    for n, some in by_count.items():
        missed, _, false_alarms = detected(some)
        pairs = [
            most[one.order] - final_accuracy(one.accuracies) for one in some if one.order in most
        ]
        lost = f"{mean(pairs):.4f} ± {standard_error(pairs):.4f}" if len(pairs) > 1 else BLANK
        rows.append(
            {
                "samples of a task": f"{n:,}",
                "batch": some[0].scenario.batch_size,
                "final accuracy": both([final_accuracy(one.accuracies) for one in some], 4),
                "less than with most": BLANK if n == counts[-1] else lost,
                **missed,
                "false alarms": sum(false_alarms),
                "numbers stored": f"{mean(one.stored for one in some):,.0f}",
                "seconds": f"{mean(one.seconds for one in some):.1f}",
            }
        )
    note = "Five tasks of MNIST, each sample passed once. The difference is paired by order, ± SE."
    return Table("Tasks that are seen briefly", rows, note)


def ablation_table(results: Sequence[Result]) -> Table:
    """Return what each part of ours is worth."""
    rows: list[Row] = []
    base = {one.order: final_accuracy(one.accuracies) for one in results if one.method == "default"}
    for name in ABLATION_NAMES:
        some = [one for one in results if one.method == name]
        if not some:
            continue
        missed, _, false_alarms = detected(some)
        change = [
            final_accuracy(one.accuracies) - base[one.order] for one in some if one.order in base
        ]
        models = [model for one in some for model in one.sizes]
        rows.append(
            {
                "changed": name,
                "final accuracy": both([final_accuracy(one.accuracies) for one in some]),
                "difference": BLANK
                if name == "default" or not change
                else f"{mean(change):+.3f}".replace("-", "−"),
                "right model": both([one.routed for one in some]),
                "AUROC": both([one.auroc for one in some]),
                **missed,
                "false alarms": sum(false_alarms),
                "edges of L0": f"{mean(m['L0 edges'] for m in models):,.0f}",
                "steps of L0": f"{mean(m['L0 steps'] for m in models):,.0f}",
                "edges of L1": f"{mean(m['L1 edges'] for m in models):,.0f}",
                "numbers per model": f"{mean(m['numbers'] for m in models):,.0f}",
                "seconds": f"{mean(one.seconds for one in some):.0f}",
            }
        )
    orders = len({one.order for one in results})
    scenario = results[0].scenario
    note = (
        f"Five tasks, {scenario.per_task:,} samples each, {orders} orders. Edges and steps: per "
        "model. "
    )
    if scenario.data == "mnist":
        note += (
            "Linear regression predicts each input from all others; the mean predicts it by its "
            "mean; both with the same calibration. Grown on top, L0 counts all it stands on. "
            "Without detection one model learns from a buffer that holds samples of all tasks at "
            "once."
        )
    else:
        note += "Of more than 200 inputs the most correlated do not predict one another."
    return Table(f"{scenario.name}: what each part is worth", rows, note)


def stream_tables(lives: Sequence[Life]) -> list[Table]:
    """Return how ours fares where tasks change in other ways."""
    return [
        Table("Streams of other kinds: changes", table(lives, noticed_row), NOTICED),
        Table(
            "Streams of other kinds: answers",
            table(lives, answered),
            "Gradual and early changes should cost no more than 3 points against abrupt ones.",
        ),
    ]


def sections(
    results: Sequence[Result], lives: Sequence[Life] = (), alarms: Sequence[Alarms] = ()
) -> list[Table]:
    """Return the whole page."""
    found: list[Table] = []
    ablations = [one for one in results if one.method in ABLATION_NAMES]
    sized = [one for one in results if one.method in SIZED]
    rest = [one for one in results if one.method not in ABLATION_NAMES and one.method not in SIZED]
    main = [one for one in rest if one.scenario.per_task not in SAMPLES]
    samples = [one for one in rest if one.scenario.per_task in SAMPLES]
    by_data = {
        data: [one for one in main if one.scenario.data == data]
        for data in dict.fromkeys(one.scenario.data for one in main)
    }
    makers: list[Callable[[Sequence[Result]], Table]] = [
        accuracy_table,
        detection_table,
        novelty_table,
        matrix_table,
    ]
    for data in ("mnist", "mnist-28", "fashion-mnist", "digits"):
        if by_data.get(data):
            found += [make(by_data[data]) for make in makers]
    if sized:
        found.append(size_table([*by_data.get("mnist", ()), *sized]))
    if alarms:
        found.append(alarm_table(alarms))
    if main:
        found.append(own_alarm_table(main))
    if samples:
        found.append(samples_table(samples))
    if lives:
        found += stream_tables(lives)
    for data in dict.fromkeys(one.scenario.data for one in ablations):
        found.append(ablation_table([one for one in ablations if one.scenario.data == data]))
    return [one for one in found if one.rows]
