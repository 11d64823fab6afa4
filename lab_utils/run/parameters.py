"""The parameters cell of a notebook: what it declares, and which values it accepts.

A notebook has exactly one code cell tagged `parameters`. It holds typed literals, one per
line, each with a comment as help; it alone defines the defaults:

    batch: int = 8  # sequences decoded together

Papermill only warns about names that the cell does not have. Here everything that does not
fit is a ValueError before a kernel starts.
"""

import ast
import io
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nbformat import NotebookNode

from lab_utils.run.reading import read

SCALARS = {"int": int, "float": float, "str": str, "bool": bool, "None": type(None)}
NO_LITERAL = (ValueError, TypeError, SyntaxError, MemoryError, RecursionError)  # of literal_eval
ALLOWED_TYPES = "int, float, str, bool, None, list[...], dict[..., ...] and unions of them with |"


class Written(str):
    """A value as typed on a command line: read as the parameter's annotation asks."""


@dataclass(frozen=True)
class Parameter:
    """One line of the parameters cell: `name: annotation = default  # help`."""

    name: str
    annotation: str
    default: Any
    help: str

    def accept(self, value: Any) -> Any:
        """The value as this parameter's type; raises ValueError saying what is allowed."""
        kind = ast.parse(self.annotation, mode="eval").body
        if isinstance(value, Written):
            value = _read(value, kind)
        if not _fits(value, kind):
            raise ValueError(
                f"parameter {self.name!r} = {value!r} is {type(value).__name__}; "
                f"allowed: {self.annotation}, for example {self.default!r} ({self.help})"
            )
        return float(value) if self.annotation == "float" else value


def declared(notebook: Path) -> dict[str, Parameter]:
    """The parameters that a notebook's parameters cell declares, by name.

    Raises ValueError when the file is no notebook, the cell is missing, there is more than one,
    or a line of it is not `name: type = literal`.
    """
    cells = [cell for cell in read(notebook).cells if _is_parameters(cell)]
    if len(cells) != 1:
        raise ValueError(
            f"{notebook}: {len(cells)} cells are tagged 'parameters'; allowed: exactly one"
        )
    try:
        return _parse(cells[0].source)
    except ValueError as error:
        raise ValueError(f"{notebook}: {error}") from error


def check(notebook: Path, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values converted to the types that the notebook declares, or a ValueError."""
    parameters = declared(notebook)
    checked = {}
    for name, value in values.items():
        if name not in parameters:
            known = ", ".join(parameters) or "none, its parameters cell is empty"
            raise ValueError(
                f"{notebook}: unknown parameter {name!r} = {str(value)!r}; allowed: {known}"
            )
        try:
            checked[name] = parameters[name].accept(value)
        except ValueError as error:
            raise ValueError(f"{notebook}: {error}") from error
    return checked


def _is_parameters(cell: NotebookNode) -> bool:
    return cell.cell_type == "code" and "parameters" in cell.metadata.get("tags", [])


def _parse(source: str) -> dict[str, Parameter]:
    try:
        statements = ast.parse(source).body
    except SyntaxError as error:
        raise ValueError(f"the parameters cell is not Python: {error}") from error
    comments = _comments(source)
    parameters: dict[str, Parameter] = {}
    for statement in statements:
        parameter = _parameter(statement, comments.get(statement.end_lineno, ""))
        if parameter.name in parameters:
            raise ValueError(f"parameter {parameter.name!r} is declared twice; allowed: once")
        parameters[parameter.name] = parameter
    return parameters


def _comments(source: str) -> dict[int, str]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {t.start[0]: t.string.lstrip("# ") for t in tokens if t.type == tokenize.COMMENT}


def _parameter(statement: ast.stmt, help: str) -> Parameter:
    text = ast.unparse(statement)
    form = "`name: type = literal  # help`"
    if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
        raise ValueError(f"the parameters cell has the line `{text}`; allowed: {form}")
    name, annotation = statement.target.id, ast.unparse(statement.annotation)
    if not _known(statement.annotation):
        raise ValueError(
            f"parameter {name!r} has the type `{annotation}`; allowed: {ALLOWED_TYPES}"
        )
    try:
        default = ast.literal_eval(statement.value)
    except NO_LITERAL as error:
        raise ValueError(f"the default in `{text}` is not a literal; allowed: {form}") from error
    if not _fits(default, statement.annotation):
        raise ValueError(
            f"parameter {name!r} has the default {default!r}, "
            f"{type(default).__name__}; allowed: {annotation}"
        )
    return Parameter(name, annotation, default, help)


def _known(kind: ast.expr) -> bool:
    """Whether an annotation is one of ALLOWED_TYPES."""
    match kind:
        case ast.Name(id=name):
            return name in SCALARS
        case ast.Constant(value=None):
            return True
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _known(left) and _known(right)
        case ast.Subscript(value=ast.Name(id="list"), slice=item):
            return _known(item)
        case ast.Subscript(value=ast.Name(id="dict"), slice=ast.Tuple(elts=[key, item])):
            return _known(key) and _known(item)
    return False


def _fits(value: Any, kind: ast.expr) -> bool:
    """Whether a value has the annotated type; an int is a float, a bool is not an int."""
    match kind:
        case ast.Name(id="float"):
            return type(value) in (int, float)
        case ast.Name(id=name):
            return type(value) is SCALARS[name]
        case ast.Constant():
            return value is None
        case ast.BinOp(left=left, right=right):
            return _fits(value, left) or _fits(value, right)
        case ast.Subscript(value=ast.Name(id="list"), slice=item):
            return isinstance(value, list) and all(_fits(v, item) for v in value)
        case ast.Subscript(slice=ast.Tuple(elts=[key, item])):
            return isinstance(value, dict) and all(
                _fits(k, key) and _fits(v, item) for k, v in value.items()
            )
    raise AssertionError(f"annotation {ast.unparse(kind)} was not checked by _known")


def _read(text: Written, kind: ast.expr) -> Any:
    """Text of a command line as a value: itself for a str parameter, else a Python literal."""
    if isinstance(kind, ast.Name) and kind.id == "str":
        return str(text)
    try:
        return ast.literal_eval(text)
    except NO_LITERAL:
        return str(text)
