"""The results of a comparison as tables."""

from collections.abc import Callable, Sequence

import numpy as np

from dirad.preval.settings import PRESETS
from dirad.report.tables import Section
from dirad.streams.averages import mean, spread
from dirad.streams.run import StreamScores
from experiments.comparison.alarm_tables import alarm_table, own_alarm_table
from experiments.comparison.alarms import Alarms
from experiments.comparison.constants import Constants
from experiments.comparison.curves import Row, after, both, detected, grouped, mean_bytes
from experiments.comparison.data_sets import SPLITS
from experiments.comparison.methods import DETECTS, DRIVEN
from experiments.comparison.part_tables import (
    ABLATION_NAMES,
    ablation_table,
    reused_table,
    samples_table,
    size_table,
    stream_tables,
)
from experiments.comparison.plan import BRIEF, OURS, SIZED
from experiments.comparison.reused import Reused
from experiments.comparison.run import Result
from experiments.comparison.scenario import Scenario
from experiments.metrics import (
    average_incremental_accuracy,
    backward_transfer,
    final_accuracy,
    forgetting,
)

IN_WORDS = {5: "five", 10: "ten", 13: "thirteen", 20: "twenty"}
ACCURACY_NOTE = (
    "Test accuracy over all classes seen after each of the first three tasks and after the last, "
    "mean ± standard deviation over orders of the classes. Each training sample is passed once. "
    "Before finish: the final accuracy of ours while its last model is still trained, as users of "
    "a stream have it. 'Detects': finds out by itself where a task is new. Numbers stored: all "
    "that is kept at the end, samples included, and of sparse networks the weights but not which "
    "nodes they join; ours holds up to 10,000 samples of the task at hand until its model is "
    "stable, and so do factor analysers, autoencoders and prototypes of two classes. Bytes: 4 for "
    "each number; of sparse networks also 1, 2 or 4 for the index of each edge's source and for "
    "the number of edges of each sum; {kept} of a sample kept as it came; none for random weights,"
    " which a seed gives again. PEC is told how many samples of a class will come. Seconds: "
    "learning alone, one thread, other work beside it on the same processor, so that they tell the"
    " order of magnitude; GDumb and joint training learn when they are asked, so their time is not"
    " in it, nor that of models per class while these keep their samples. 'Ours (paper)' cannot "
    "become stable within one pass: see the reproduction for its own protocol."
)


def accuracy_table(results: Sequence[Result]) -> Section:
    """Return accuracy, what is forgotten and what is stored, by method."""
    scenario = results[0].scenario
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
                "before finish": spread((one.before_finish for one in some), 3, "–"),
                "average incremental": both(
                    [average_incremental_accuracy(one.accuracies) for one in some]
                ),
                "backward transfer": both([backward_transfer(one.accuracies) for one in some]),
                "forgetting": both([forgetting(one.accuracies) for one in some]),
                "numbers stored": f"{mean(one.stored for one in some):,.0f}",
                "bytes": f"{mean_bytes(some):,.0f}",
                "samples stored": f"{mean(one.samples for one in some):,.0f}",
                "seconds": f"{mean(one.seconds for one in some):.1f}",
            }
        )
    tasks = IN_WORDS.get(scenario.tasks, str(scenario.tasks))
    return Section(f"{scenario.name}: {tasks} tasks", rows, accuracy_note(scenario))


def accuracy_note(scenario: Scenario) -> str:
    """Return what the table of accuracies counts, and how."""
    split = scenario.split
    kept = "one for each input and label"
    if split.input_bytes > 1:
        kept = f"{split.input_bytes} for each input and one for the label"
    note = ACCURACY_NOTE.format(kept=kept)
    if (split.classes, split.tasks) != (10, 5):
        note += f" Each task has {split.classes_per_task} of {split.classes} classes."
    if split.begin is not None:
        note += (
            f" A task has {scenario.per_task} samples, so ours has an opinion after {split.begin} "
            f"of them, not {PRESETS['default'].begin}."
        )
    if split.constants != Constants():
        note += " Constants of peers were chosen for this data set, but for those of EWC."
    elif split.begin is not None:
        note += (
            " Perceptrons are trained as on MNIST, where their settings were chosen, which is "
            "little for those that see a sample once."
        )
    return note


def detection_table(results: Sequence[Result]) -> Section:
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
                "delay in batches": both(delays, digits=1),
                "false alarms per stream": f"{mean(false_alarms):.2f}",
                "models": both([float(one.models) for one in some if one.models], digits=1),
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
    return Section(f"{results[0].scenario.name}: detection and routing", rows, note)


def novelty_table(results: Sequence[Result]) -> Section:
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
        "Of what was learned in the first task: test samples of its classes against those of "
        "all others. FPR95: share of known samples called new "
        "where 95 % of the new ones are found."
    )
    return Section(f"{results[0].scenario.name}: novelty of single samples", rows, note)


def matrix_table(results: Sequence[Result]) -> Section:
    """Return the accuracy matrix of ours, mean over orders; without rows if ours was not run."""
    ours = [np.array(one.accuracies) for one in results if one.method == OURS]
    R = np.mean(ours, axis=0) if ours else np.zeros((0, 0))
    rows = [
        {"after": f"T{i + 1}"}
        | {f"on T{j + 1}": f"{R[i, j]:.3f}" if j <= i else "" for j in range(len(R))}
        for i in range(len(R))
    ]
    return Section(f"{results[0].scenario.name}: accuracy matrix of ours", rows)


def sections(
    results: Sequence[Result],
    streams: Sequence[StreamScores] = (),
    alarms: Sequence[Alarms] = (),
    reused: Sequence[Reused] = (),
) -> list[Section]:
    """Return the whole page."""
    found: list[Section] = []
    ablations = [one for one in results if one.method in ABLATION_NAMES]
    sized = [one for one in results if one.method in SIZED]
    rest = [one for one in results if one.method not in ABLATION_NAMES and one.method not in SIZED]
    main = [one for one in rest if one.scenario not in BRIEF]
    samples = [one for one in rest if one.scenario in BRIEF]
    by_data = {
        data: [one for one in main if one.scenario.data == data]
        for data in dict.fromkeys(one.scenario.data for one in main)
    }
    makers: list[Callable[[Sequence[Result]], Section]] = [
        accuracy_table,
        detection_table,
        novelty_table,
        matrix_table,
    ]
    for data in SPLITS:
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
    if streams:
        found += stream_tables(streams)
    if reused:
        found.append(reused_table(reused))
    for data in dict.fromkeys(one.scenario.data for one in ablations):
        found.append(ablation_table([one for one in ablations if one.scenario.data == data]))
    return [one for one in found if one.rows]
