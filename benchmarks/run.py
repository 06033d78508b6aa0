"""All benchmarks: `python benchmarks/run.py [speed] [timeline]`; both without an argument.

Speeds are ratios of things measured in turns within one run, on whatever machine this is.
"""

import sys

from rich.console import Console


def main(arguments: list[str]) -> int:
    """Print the tables asked for; 1 where a requirement is missed."""
    console = Console()
    wanted = arguments or ["speed", "timeline"]
    unknown = set(wanted) - {"speed", "timeline"}
    if unknown:
        console.print(f"unknown: {', '.join(sorted(unknown))}; known: speed, timeline")
        return 2
    kept = True
    if "speed" in wanted:
        from speed import speed_table

        kept &= speed_table(console)
    if "timeline" in wanted:
        from timeline import timeline_table

        kept &= timeline_table(console)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
