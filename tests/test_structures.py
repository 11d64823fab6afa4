"""Structures that cross over to C++ refuse names that are none of their fields."""

import ctypes
import importlib
import pkgutil

import pytest

from lab_utils import backends, baselines
from lab_utils.backends.hopper import HopperProblem
from lab_utils.backends.hopper_wgmma import WgmmaProblem
from lab_utils.backends.problem import Problem


def every(kind: type) -> set[type]:
    """Classes that extend one, and those that extend these."""
    return {one for own in kind.__subclasses__() for one in (own, *every(own))}


def test_no_structure_takes_a_misspelt_field() -> None:
    for package in (backends, baselines):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    ours = [one for one in every(ctypes.Structure) if one.__module__.startswith("lab_utils.")]
    assert {Problem, HopperProblem, WgmmaProblem} < set(ours)
    for kind in ours:
        with pytest.raises(AttributeError, match="wrokers"):
            kind(wrokers=9)
        with pytest.raises(AttributeError, match="wrokers"):
            kind().wrokers = 9


@pytest.mark.parametrize("kind", [Problem, HopperProblem, WgmmaProblem])
def test_fields_are_set_by_name_those_of_the_extended_structure_too(kind: type) -> None:
    problem = kind(M=1, workers=9)
    problem.N = 3
    assert (problem.M, problem.workers, problem.N, problem.K) == (1, 9, 3, 0)
