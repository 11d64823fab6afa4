"""A notebook from its file, or one clear error: nbformat fails in many ways on what is none."""

from pathlib import Path

import nbformat
from nbformat.reader import NotJSONError


def read(notebook: Path) -> nbformat.NotebookNode:
    """The notebook as nbformat 4; raises ValueError, naming the file, where it is no valid one."""
    try:
        text = notebook.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ValueError(f"{notebook}: there is no such notebook") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{notebook}: is not a notebook (not UTF-8: {error})") from error
    try:
        content = nbformat.convert(nbformat.reader.reads(text), 4)
        nbformat.validate(content)
    except NotJSONError as error:
        raise ValueError(f"{notebook}: is not a notebook (not JSON)") from error
    except nbformat.ValidationError as error:  # whose text holds the whole schema
        where = "/".join(map(str, error.absolute_path))
        why = f"{where}: {error.message:.200}" if where else f"{error.message:.200}"
        raise ValueError(f"{notebook}: is not a notebook ({why})") from error
    except Exception as error:  # of many types, for JSON of another form
        why = f"{error!s:.200}" or type(error).__name__
        raise ValueError(f"{notebook}: is not a notebook ({why})") from error
    return content
