"""What size, fewer samples, each part of ours, and other kinds of streams amount to."""

from collections.abc import Sequence

from dirad.preval.settings import PRESETS
from dirad.report.tables import Section
from dirad.streams.averages import mean, spread, standard_error
from dirad.streams.run import StreamScores
from dirad.streams.summary import NOTICED, answered, noticed, table
from experiments.comparison.curves import BLANK, Row, both, detected, mean_bytes
from experiments.comparison.plan import ABLATIONS, LARGE_ABLATIONS, OURS, SIZED
from experiments.comparison.reused import DETECTING, Reused
from experiments.comparison.run import Result
from experiments.comparison.scenario import standard
from experiments.metrics import final_accuracy

ABLATION_NAMES = (*ABLATIONS, *(name for name in LARGE_ABLATIONS if name not in ABLATIONS))


def size_table(results: Sequence[Result]) -> Section:
    """Return what more modes are worth to ours, smallest first; the ceiling and QDA beside it."""
    names = (*SIZED, OURS, "QDA: Gaussian per class", "joint training, MLP")
    by_method = {
        name: some for name in names if (some := [one for one in results if one.method == name])
    }
    rows: list[Row] = [
        {
            "method": name,
            "final accuracy": both([final_accuracy(one.accuracies) for one in some], digits=4),
            "AUROC": both([one.auroc for one in some]),
            "numbers stored": f"{mean(one.stored for one in some):,.0f}",
            "bytes": f"{mean_bytes(some):,.0f}",
            "samples stored": f"{mean(one.samples for one in some):,.0f}",
            "seconds": f"{mean(one.seconds for one in some):.0f}",
        }
        for name, some in sorted(by_method.items(), key=lambda item: mean_bytes(item[1]))
    ]
    note = (
        f"Five tasks. The preset has up to {PRESETS['default'].modes} modes per class; nothing "
        "else differs. Joint training keeps all samples."
    )
    return Section("Split-MNIST, 14 × 14: size against accuracy", rows, note)


def samples_table(results: Sequence[Result]) -> Section:
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
                "final accuracy": both([final_accuracy(one.accuracies) for one in some], digits=4),
                "before finish": spread((one.before_finish for one in some), 4, BLANK),
                "less than with most": BLANK if n == counts[-1] else lost,
                **missed,
                "false alarms": sum(false_alarms),
                "numbers stored": f"{mean(one.stored for one in some):,.0f}",
                "seconds": f"{mean(one.seconds for one in some):.1f}",
            }
        )
    note = "Five tasks of MNIST, each sample passed once. The difference is paired by order, ± SE."
    return Section("Tasks that are seen briefly", rows, note)


def ablation_table(results: Sequence[Result]) -> Section:
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
    return Section(f"{scenario.name}: what each part is worth", rows, note)


def stream_tables(runs: Sequence[StreamScores]) -> list[Section]:
    """Return how ours fares where tasks change in other ways."""
    return [
        Section("Streams of other kinds: changes", table(runs, noticed), NOTICED),
        Section(
            "Streams of other kinds: answers",
            table(runs, answered),
            "Gradual and early changes should cost no more than 3 points against abrupt ones.",
        ),
    ]


def reused_table(runs: Sequence[Reused]) -> Section:
    """Return how methods fare where labels do not tell the task."""
    rows: list[Row] = []
    for data, kind, method in dict.fromkeys((one.data, one.kind, one.method) for one in runs):
        some = [one for one in runs if (one.data, one.kind, one.method) == (data, kind, method)]
        detects = method in DETECTING
        missed = f"{sum(one.missed for one in some)}/{sum(one.changes for one in some)}"
        rows.append(
            {
                "data": standard(data).name,
                "stream": kind,
                "method": method,
                "final accuracy": both([one.accuracy for one in some]),
                "missed": missed if detects else BLANK,
                "models": both([float(one.models) for one in some if detects], digits=1),
                "purity": both([one.purity for one in some]),
                "NMI": both([one.nmi for one in some]),
                "purity, test": both([one.purity_test for one in some]),
                "NMI, test": both([one.nmi_test for one in some]),
                "bytes": f"{mean(one.n_bytes for one in some):,.0f}",
                "seconds": f"{mean(one.seconds for one in some):.1f}",
            }
        )
    note = (
        "Odd or even: five tasks of an odd and an even class each, two labels. Changing rules: two "
        "classes, then the same with their labels swapped, then two others in the same way, then "
        "the first again; right is the rule in force. No labels: five tasks of two classes, of "
        "which only the inputs are shown. Missed: changes after which most batches went to the "
        "model of the part before. Purity and NMI: of models against tasks, over the batches of "
        "the stream, and over single test samples at the end."
    )
    return Section("Where labels do not tell the task", rows, note)
