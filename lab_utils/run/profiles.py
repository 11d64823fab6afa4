"""Profiles: the parameter values with which a kind of machine runs the notebooks.

`notebooks/profiles/<name>.yaml` holds a `description` and `parameters`, a mapping
notebook → parameter → value. What a profile does not name keeps the notebook's default.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml

from lab_utils.run import parameters


@dataclass(frozen=True)
class Profile:
    """A named set of parameter values: `parameters[notebook stem][name] = value`."""

    name: str
    description: str
    parameters: dict[str, dict[str, Any]]


def fitting() -> str:
    """The name of the profile for this machine: `gpu` where torch sees one, else `laptop`."""
    return "gpu" if torch.cuda.is_available() else "laptop"


def load(name: str, notebooks: Path) -> Profile:
    """Read and check `<notebooks>/profiles/<name>.yaml`; `auto` takes the fitting one.

    Raises ValueError for an unknown profile, and for a profile that names a notebook or a
    parameter that does not exist, or a value of the wrong type.
    """
    name = fitting() if name == "auto" else name
    folder = notebooks / "profiles"
    path = folder / f"{name}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in folder.glob("*.yaml"))) or "none"
        raise ValueError(f"profile {name!r} is unknown; allowed: auto, {known} (in {folder})")
    try:
        return _checked(_profile(name, yaml.load(path.read_text(), _UniqueKeys)), notebooks)
    except (yaml.YAMLError, ValueError) as error:
        raise ValueError(f"profile {path}: {error}") from error


class _UniqueKeys(yaml.SafeLoader):
    """YAML that refuses a repeated key, of which PyYAML would silently keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise ValueError(f"the key {key!r} appears twice; allowed: once")
        return super().construct_mapping(node, deep)


def _profile(name: str, content: Any) -> Profile:
    form = "a mapping with `description` (text) and `parameters` (notebook → parameter → value)"
    if not isinstance(content, dict) or set(content) != {"description", "parameters"}:
        raise ValueError(f"content is {content!r}; allowed: {form}")
    values = content["parameters"] or {}
    if not isinstance(values, dict) or not all(isinstance(v, dict) for v in values.values()):
        raise ValueError(f"parameters is {values!r}; allowed: {form}")
    return Profile(name, str(content["description"]).strip(), values)


def _checked(profile: Profile, notebooks: Path) -> Profile:
    known = {path.stem: path for path in sorted(notebooks.glob("*.ipynb"))}
    for stem, values in profile.parameters.items():
        if stem not in known:
            raise ValueError(f"unknown notebook {stem!r}; allowed: {', '.join(known) or 'none'}")
        parameters.check(known[stem], values)
    return profile
