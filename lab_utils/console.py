"""What all commands share: errors as one line, and exit statuses.

Exit status: 0 done, 1 something failed, 2 bad input, 130 interrupted, 143 ended by SIGTERM.
"""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click


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


@contextmanager
def ended_in_order() -> Iterator[None]:
    """SIGTERM ends what is inside as Ctrl-C would: what is half-written is removed."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
