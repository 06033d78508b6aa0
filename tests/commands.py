"""Commands as tests call them: in this process, with what they print."""

import sys

from dirad import cli
from experiments import commands as experiments

DIRAD = (sys.executable, "-c", "from dirad.cli import main; main()")  # for a process of its own
EXPERIMENTS = (sys.executable, "-m", "experiments")  # the same, from the root of the repository


def run(capfdbinary, *arguments, program=cli):
    """Run a command; return its exit code, and what it printed and said."""
    code = program.run([str(argument) for argument in arguments])
    captured = capfdbinary.readouterr()
    return code, captured.out.decode(), captured.err.decode()


def run_experiment(capfdbinary, *arguments):
    """Run a command of the experiments, in the same way."""
    return run(capfdbinary, *arguments, program=experiments)
