"""`python -m experiments`: the command line of the experiments."""

from experiments.commands import main

if __name__ == "__main__":
    main()
