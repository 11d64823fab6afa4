"""What a run leaves: one Result per notebook, together a RunReport, as JSON for programs."""

import json
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from lab_utils.files import write_whole

Status = Literal["waiting", "running", "passed", "failed", "interrupted", "not run"]


@dataclass
class Result:
    """One notebook of a run; `seconds` is wall-clock time, `error` a plain-text traceback."""

    name: str
    notebook: Path
    parameters: dict[str, Any]
    status: Status = "waiting"
    seconds: float = 0.0
    error: str = ""

    @property
    def reason(self) -> str:
        """The last line of the error, which says what went wrong; empty where nothing did."""
        return self.error.strip().splitlines()[-1] if self.error.strip() else ""


@dataclass
class RunReport:
    """A run: where it is written, under which profile and commit, and its results."""

    folder: Path
    profile: str
    description: str
    commit: str
    machine: dict[str, str]
    started: datetime
    results: list[Result] = field(default_factory=list)
    interrupted: Literal["", "Ctrl-C", "SIGTERM"] = ""

    def count(self, status: Status) -> int:
        """How many notebooks have this status."""
        return sum(result.status == status for result in self.results)

    @property
    def seconds(self) -> float:
        """Time of all notebooks together, in seconds."""
        return sum(result.seconds for result in self.results)

    @property
    def exit_code(self) -> int:
        """0 if every notebook passed, 130 after Ctrl-C, 143 after SIGTERM, else 1."""
        if self.interrupted:
            return 130 if self.interrupted == "Ctrl-C" else 143
        return 0 if self.count("passed") == len(self.results) else 1

    def interrupt(self, by: Literal["Ctrl-C", "SIGTERM"]) -> None:
        """Say the truth after that: what ran was interrupted, what waited did not run."""
        self.interrupted = by
        for result in self.results:
            if result.status == "running":
                result.status = "interrupted"
            elif result.status == "waiting":
                result.status = "not run"

    def save(self) -> None:
        """Write run.json, whole or not at all."""
        text = json.dumps(asdict(self), indent=2, default=str, ensure_ascii=False)
        write_whole(self.folder / "run.json", text + "\n")
