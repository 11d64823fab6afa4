"""The commands of `python -m lab_utils.llm`: each is a thin wrapper over `lab_utils.llm`."""

from lab_utils.llm.cli import measuring as measuring  # registers its commands
from lab_utils.llm.cli.commands import main

__all__ = ["main"]
