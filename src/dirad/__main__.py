"""`dirad`, or `python -m dirad`: the command line."""

import sys


def main() -> None:
    """Run a command; Ctrl-C while its modules are loaded ends it as Ctrl-C later does."""
    try:
        from dirad.cli import main as command_line
    except KeyboardInterrupt:
        print("dirad: stopped", file=sys.stderr)
        sys.exit(130)
    command_line()


if __name__ == "__main__":
    main()
