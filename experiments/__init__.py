"""Experiments: the paper's tables, comparisons with other methods, costs. Runs that return rows.

`python -m experiments --help`, from the root of the repository, lists the commands.
"""
