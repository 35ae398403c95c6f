"""What a race shows while it runs, on standard error: a bar on a terminal, else a line a session."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar


class Progress:
    """Shows units done, the time left, and notes; a context manager.

    Args:
        console: where to show it (default: standard error).
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task("race", total=None)

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def begin(self, units: int) -> None:
        """Tell how many units (a cell in a session) there are to do."""
        self._bar.update(self._task, total=units)
        self.note(f"{units} units (a cell in a session) to measure")

    def note(self, text: str) -> None:
        """Show a line."""
        self._console.print(text, markup=False, soft_wrap=True)

    def unit_done(self, session: int, cell_id: str) -> None:
        """Count a unit."""
        self._bar.update(self._task, advance=1, description=f"session {session + 1} {cell_id}")
