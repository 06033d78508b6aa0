"""Commands as tests call them: in this process, with what they print."""

import sys

from dirad import cli

DIRAD = (sys.executable, "-c", "from dirad.cli import main; main()")  # for a process of its own


def run(capfdbinary, *arguments):
    """Run a command; return its exit code, and what it printed and said."""
    code = cli.run([str(argument) for argument in arguments])
    captured = capfdbinary.readouterr()
    return code, captured.out.decode(), captured.err.decode()
