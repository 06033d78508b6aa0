"""All benchmarks: `python benchmarks/run.py [PART ...]`; without an argument all of them.

Parts: speed, roofline, timeline, model, continual, drift, size, boards, serve, sizing. Speeds are
ratios of things measured in turns within one run, on whatever machine this is.
"""

import sys

from rich.console import Console

PARTS = (
    "speed", "roofline", "timeline", "model", "continual", "drift", "size", "boards", "serve",
    "sizing",
)  # fmt: skip


def main(arguments: list[str]) -> int:
    """Print the tables asked for; 1 where a requirement is missed."""
    console = Console()
    wanted = arguments or list(PARTS)
    unknown = set(wanted) - set(PARTS)
    if unknown:
        console.print(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(PARTS)}")
        return 2
    kept = True
    if "speed" in wanted:
        from speed import speed_table

        kept &= speed_table(console)
    if "roofline" in wanted:
        from roofline import roofline_table

        kept &= roofline_table(console)
    if "timeline" in wanted:
        from timeline import timeline_table

        kept &= timeline_table(console)
    if "model" in wanted:
        from model import model_table

        kept &= model_table(console)
    if "continual" in wanted:
        from continual import continual_table

        kept &= continual_table(console)
    if "drift" in wanted:
        from friedman_drift import drift_table

        kept &= drift_table(console)
    if "size" in wanted:
        from export_size import main as export_sizes

        export_sizes([])
    if "boards" in wanted:
        from boards import main as board_table

        board_table([])
    if "serve" in wanted:
        from serve import serve_table

        kept &= serve_table(console)
    if "sizing" in wanted:
        from sizing import sizing_table

        sizing_table(console)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
