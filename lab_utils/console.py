"""What all commands share: errors as one line, exit statuses, options of a kind, last lines.

Exit status: 0 done, 1 something failed, 2 bad input, 130 interrupted, 143 ended by SIGTERM.
"""

import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

Option = Callable[[Callable], Callable]  # as `click.option` returns it
KINDS = {int: "whole numbers", float: "numbers", str: "names"}  # that an option takes several of


class OneMessage(click.Group):
    """Errors that name an argument, its value and what is allowed need no traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, click.Abort):  # both are RuntimeErrors
            raise
        except KeyboardInterrupt as interrupt:
            click.echo("interrupted", err=True)
            raise click.exceptions.Exit(130) from interrupt
        except ValueError as error:
            raise _failure(error, 2) from error
        except (RuntimeError, OSError) as error:
            raise _failure(error, 1) from error


def _failure(error: Exception, exit_code: int) -> click.ClickException:
    failure = click.ClickException(str(error) or type(error).__name__)
    failure.exit_code = exit_code
    return failure


def many(name: str, parameter: str, kind: type, metavar: str, help: str, **options: Any) -> Option:
    """An option that takes several values of a `kind` in KINDS; see `list_of`."""
    return click.option(name, parameter, multiple=True, metavar=metavar, callback=list_of(kind),
                        help=help, **options)  # fmt: skip


def list_of(kind: type) -> Callable[[click.Context, click.Parameter, tuple[str, ...]], list]:
    """Reads the values of an option, with commas between them or each with the option, as a list.

    It is empty where the option is not given. Nothing is measured twice: a value that is given
    again has its first place alone. An empty item, as in "8,,16", is refused like any other that
    is not of the `kind`.
    """
    allowed = f"allowed: {KINDS[kind]}, commas between them"

    def read(ctx: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> list:
        values = {}
        for text in texts:
            for part in map(str.strip, text.split(",")):
                if not part:
                    raise click.BadParameter(f"{text!r} has an empty item; {allowed}", ctx, option)
                try:
                    values[kind(part)] = None
                except ValueError as error:
                    raise click.BadParameter(f"{part!r}; {allowed}", ctx, option) from error
        return list(values)

    return read


class Folder(click.Path):
    """An option's folder, as a Path; "" is refused, which Path takes for the current folder."""

    def __init__(self, **options: Any) -> None:
        super().__init__(path_type=Path, file_okay=False, **options)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        if value == "":
            self.fail("'' is no folder; allowed: a path, such as . for the current one", param, ctx)
        return super().convert(value, param, ctx)


def together(*options: Option) -> Option:
    """Several options as one decorator; the help lists them in this order."""

    def decorate(command: Callable) -> Callable:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def tell_added(files: Iterable[Path]) -> None:
    """Say at the end where rows went: a line for each of the `files`, after an empty one."""
    for file in sorted(files):
        click.echo(f"\nrows added to {file}")


@contextmanager
def ended_in_order() -> Iterator[None]:
    """SIGTERM ends what is inside as Ctrl-C would: what is half-written is removed.

    It becomes a SystemExit(143). For work of one process: one that waits for other ranks in a
    library would not hear it.
    """
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
