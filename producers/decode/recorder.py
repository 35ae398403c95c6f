"""What a decode run writes to the lake, beside what every run writes.

A configuration's row comes before its steps; a refusal while it is timed is a second row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from producers.decode.plan import DecodeConfig
from producers.failures import Failure
from producers.recorder import Recorder, scrub

Row = dict[str, Any]

CHECK, TIMING = "check", "timing"


class DecodeRecorder(Recorder):
    """Appends the rows of one decode run to one lake.

    Args:
        lake: the lake's folder.
        run_id: identifier of the run.
        subject: columns of ``decode_configs`` that all configurations share: model, prompt, versions.
    """

    def __init__(self, lake: Path, run_id: str, subject: Mapping[str, Any]) -> None:
        super().__init__(lake, run_id, producer="decode")
        self._subject = dict(subject)

    def passed(self, config: DecodeConfig, found: Mapping[str, Any]) -> None:
        """A configuration that decides as the stock model does; ``found`` has what was measured of it."""
        self._append("decode_configs", [{**self._row(config, CHECK), "status": "passed", **found}])

    def refused(
        self, config: DecodeConfig, failure: Failure, found: Mapping[str, Any], stage: str = CHECK
    ) -> None:
        """A configuration that is not timed, or not any longer."""
        verdict = failure.verdict() | {"detail": scrub(failure.detail)}
        self._append("decode_configs", [{**self._row(config, stage), **found, **verdict}])

    def steps(
        self,
        config: DecodeConfig,
        repeat: int,
        times_us: Sequence[float],
        first: int,
        output_sha256: str,
        weight_bytes: int,
    ) -> None:
        """The steps of one repeat in one file; ``first`` is the number of the first timed step."""
        common = {
            "run_id": self.run_id,
            "config": config.name,
            "repeat": repeat,
            "model": self._subject["model"],
            "precision": config.precision,
            "graph": config.graph,
            "prompt_sha256": self._subject["prompt_sha256"],
            "output_sha256": output_sha256,
            "weight_bytes": weight_bytes,
        }
        rows = [{**common, "step": first + i, "time_us": time} for i, time in enumerate(times_us)]
        self._append("decode_steps", rows)

    def _row(self, config: DecodeConfig, stage: str) -> Row:
        return {
            "run_id": self.run_id,
            "config": config.name,
            "stage": stage,
            "recorded_at": datetime.now(UTC),
            **self._subject,
            "experts": config.experts,
            "layers": config.layers,
            "precision": config.precision,
            "graph": config.graph,
            "cache": config.cache,
        }
