"""`python -m lab_utils.cli`."""

from lab_utils.cli import main

main(prog_name="lab")
