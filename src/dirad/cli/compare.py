"""The command that sets ours beside its peers."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dirad.cli.app import (
    DEFAULTS,
    Common,
    Flag,
    Outcome,
    PositiveInt,
    Usage,
    app,
    deliver,
    progress_bar,
    spinner,
    tell_changed,
    warm_up,
    worker_count,
)
from dirad.report.tables import Section

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@app.command
def compare(
    *,
    data: str = "mnist,fashion-mnist,digits",
    parts: str = "main,sizes,alarms,samples,ablation,streams",
    orders: PositiveInt = 8,
    recheck: Flag = False,
    common: Common = DEFAULTS,
) -> None:
    """Set our continual learner beside its peers, on the same streams.

    Classes come two by two, five tasks, each sample once, nobody says where a task ends. Peers:
    a Gaussian per task or per class, streaming LDA, nearest mean, random features, a perceptron
    fine-tuned, with EWC (told, and driven by our detection), with replay and GDumb, a Hoeffding
    tree, ADWIN, and joint training as the ceiling. A run that is finished is kept at once: stopped
    at any moment, the next call makes only what is missing.

    All of it takes about two hours on two cores; 28 × 28 another hour.

    ```
    dirad compare --data digits --parts main --orders 2    # a minute
    dirad compare                                          # all but 28 × 28
    dirad compare --data mnist,mnist-28,fashion-mnist,digits
    ```

    Parameters
    ----------
    data
        Of mnist (14 × 14), mnist-28, fashion-mnist (14 × 14), digits (scikit-learn's, 8 × 8).
    parts
        Of main (all methods), sizes (ours, smaller), alarms (false ones, of many models,
        on mnist and fashion-mnist), samples (tasks that are seen briefly), ablation (what each part
        of ours is worth), streams (recurring, gradual, early and other changes). All but main and
        alarms are on mnist; of ablation something is on mnist-28.
    orders
        Random orders of the classes.
    recheck
        Of what other code made, make the first order of each kind again; where it comes out as it
        did, to the last bit, the others count, with the seconds they took then. For changes that
        ought to change nothing.
    """
    from dirad.experiments.comparison import plan, tables
    from dirad.experiments.comparison.alarms import Alarms
    from dirad.experiments.comparison.scenario import DATA
    from dirad.experiments.streams.scoring import Life
    from dirad.report.comparison import draw_sizes, draw_tasks

    chosen, names = split(parts, plan.PARTS, "--parts"), split(data, DATA, "--data")
    jobs = plan.planned(chosen, names, orders, common.seed)
    series = {}
    if "streams" in chosen:
        series["streams"] = plan.streams(orders, common.seed)
    if "alarms" in chosen:
        series["alarms"] = plan.alarms(names, orders, common.seed)
    if not jobs and not any(one.jobs for one in series.values()):
        raise Usage(f"--parts {parts} has nothing to do on --data {data}")
    plan.check(jobs)
    folder = common.out or Path("results") / "compare"
    ledger = folder / "comparison.jsonl"
    warm_up(common, "default", "paper")
    workers = worker_count(common)
    if recheck:
        with progress_bar(common, "recheck") as progress:
            changed = plan.recheck(jobs, ledger, workers=workers, progress=progress)
        for name, one in series.items():
            with progress_bar(common, f"recheck {name}") as progress:
                changed += one.recheck(ledger, workers=workers, progress=progress)
        tell_changed(common, changed)
    with progress_bar(common, "compare") as progress:
        results = plan.execute(jobs, ledger, workers=workers, progress=progress)
    found: dict[str, list[Any]] = {}
    for name, one in series.items():
        with progress_bar(common, name) as progress:
            found[name] = one.made(ledger, workers=workers, progress=progress)
    lives = [Life(**plain) for plain in found.get("streams", ())]
    alarms = [Alarms(**plain) for plain in found.get("alarms", ())]
    pictures: dict[str, Figure] = {}
    with spinner(common, "drawing"):
        for name in names if "main" in chosen else ():
            some = [one for one in results if one.scenario == plan.standard(name)]
            accuracies, stored = tables.curves(some)
            title = plan.standard(name).name
            pictures[f"{name}-tasks"] = draw_tasks(accuracies, title)
            sizes = tables.sized_points(some)
            pictures[f"{name}-sizes"] = draw_sizes(accuracies, stored, title, sizes)
    options: dict[str, Any] = {"data": data, "parts": parts, "orders": orders, "seed": common.seed}
    deliver(
        Outcome(
            "compare",
            options,
            "Continual learning without task labels: ours and its peers",
            [Section(*table) for table in tables.sections(results, lives, alarms)],
            pictures=pictures,
            file="comparison",
        ),
        common,
    )


def split(text: str, known: tuple[str, ...], option: str) -> list[str]:
    """Return the names in a text; an unknown one is an error."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise Usage(f"{option} takes {', '.join(known)}, not {name!r}")
    return names
