"""The command `lab`: each subcommand is a thin wrapper over one function of `lab_utils`."""

from lab_utils.cli import measuring as measuring  # registers its commands
from lab_utils.cli.commands import main

__all__ = ["main"]
