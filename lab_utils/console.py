"""What all commands share: errors as one line, and exit statuses.

Exit status: 0 done, 1 something failed, 2 bad input, 130 interrupted.
"""

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
