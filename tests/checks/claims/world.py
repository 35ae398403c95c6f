"""A small lake with known winners, statements about it, and an oracle that reads its raw samples.

The oracle shares no code with the product: it groups `samples` with pandas, takes medians of rounds, ratios, exact
order-statistic intervals and the A/A noise floor, and says whether a statement is true. It knows statements as
structures, not as sentences, so it cannot be misled by wording.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tests.lakes import Race, run_id, trio, write
from warehouse.build import build

WORKLOAD = "deepseek-moe-16b"
TOKENS = ("1", "16", "128", "512")
PRECISIONS = ("bf16", "int8_w8a8")
ROUTINGS = ("uniform", "zipf")
MODES = ("graph", "eager")
CONTESTANTS = ("dispatch", "vllm", "sglang")
# Who is how fast at which sizes: dispatch wins the small ones, vLLM one, and one is a tie of the two.
TIMES = {
    ("1", "16"): (95.0, 111.0, 124.0),
    ("128",): (123.0, 104.0, 141.0),
    ("512",): (100.0, 100.0, 133.0),
}


def make(folder: Path) -> tuple[Path, Path]:
    """Write the lake into ``folder`` and build it; return lake and database."""
    races = [
        Race(
            entrants=trio(*times),
            run_id=run_id(i),
            cells=tuple(f"{WORKLOAD}/{p}/{r}/{t}" for p in PRECISIONS for r in ROUTINGS for t in tokens),
            modes=MODES,
            noise=0.002,
            drift=0.004,
            seed=i + 1,
        )
        for i, (tokens, times) in enumerate(TIMES.items())
    ]
    lake, db = folder / "lake", folder / "warehouse.db"
    write(lake, *races)
    build([lake], db)
    return lake, db


@dataclass(frozen=True)
class Where:
    """The cells of a statement; an empty tuple is all that the lake has."""

    tokens: tuple[str, ...] = ()
    precision: tuple[str, ...] = ()
    routing: tuple[str, ...] = ()
    mode: tuple[str, ...] = ()

    def cells(self) -> list[tuple[str, str]]:
        """Return (cell_id, mode) of every cell that is meant."""
        return [
            (f"{WORKLOAD}/{p}/{r}/{t}", m)
            for t in self.tokens or TOKENS
            for p in self.precision or PRECISIONS
            for r in self.routing or ROUTINGS
            for m in self.mode or MODES
        ]

    def glob(self) -> str:
        """Return the cells as a macro's arguments."""
        parts = [",".join(v) or "*" for v in (self.precision, self.routing, self.tokens)]
        mode = f", mode := '{self.mode[0]}'" if len(self.mode) == 1 else ""
        return f"'{WORKLOAD}/{'/'.join(parts)}'{mode}"


@dataclass(frozen=True)
class Statement:
    """What a sentence says: ``kind`` is beats, wins, speedup, time, range, count or beats-count.

    ``first`` is ahead of ``second`` (empty: of everyone). ``numbers`` are as printed; ``unit`` as printed.
    ``slower``: the same ratio told of the slower one.
    """

    kind: str
    first: str
    second: str = ""
    where: Where = Where()
    numbers: tuple[str, ...] = ()
    unit: str = ""
    slower: bool = False

    @property
    def query(self) -> str:
        """The typed call that binds it."""
        a, b, cells = self.first, self.second, self.where.glob()
        return {
            "beats": f"beats('{a}', '{b}', {cells})",
            "wins": f"wins('{a}', {cells})",
            "speedup": f"speedup('{a}', '{b}', {cells})",
            "time": f"time_us('{a}', {cells})",
            "range": f"speedup_range('{a}', '{b}', {cells})",
            "count": f"wins_count('{a}', {cells})",
            "beats-count": f"beats_count('{a}', '{b}', {cells})",
        }[self.kind]


class Oracle:
    """Truth from the raw samples."""

    def __init__(self, lake: Path) -> None:
        files = sorted((lake / "samples").glob("*.parquet"))
        samples = pd.concat([pd.read_parquet(f) for f in files], ignore_index=True)
        keys = ["run_id", "cell_id", "timing_mode", "contestant", "round"]
        medians = samples.groupby(keys)["time_us"].median().reset_index()
        latest = medians.groupby(["cell_id", "timing_mode"])["run_id"].transform("max")
        medians = medians[medians["run_id"] == latest]
        self._rounds = {
            key: group.sort_values("round")["time_us"].to_numpy()
            for key, group in medians.groupby(["cell_id", "timing_mode", "contestant"])
        }
        self._runs = {
            (cell, mode): run
            for run, cell, mode in medians[keys[:3]].drop_duplicates().itertuples(index=False)
        }
        self._bands: dict[tuple[str, str], float] = {}

    def band(self, cell: tuple[str, str]) -> float:
        """Return the tie band of the cell's run and mode: the policy's 1 % or the A/A noise floor."""
        key = (self._runs[cell], cell[1])
        if key not in self._bands:
            deviations = np.concatenate(
                [
                    np.abs(self._rounds[(*c, "dispatch-control")] / self._rounds[(*c, "dispatch")] - 1)
                    for c, run in self._runs.items()
                    if (run, c[1]) == key
                ]
            )
            self._bands[key] = max(0.01, float(np.quantile(deviations, 0.95)))
        return self._bands[key]

    def ratios(self, first: str, second: str, cell: tuple[str, str]) -> Any:
        """Return per round the time of ``second`` over that of ``first``, sorted."""
        return np.sort(self._rounds[(*cell, second)] / self._rounds[(*cell, first)])

    def speedup(self, first: str, second: str, cell: tuple[str, str]) -> float:
        """Return the median ratio over rounds."""
        return float(np.median(self.ratios(first, second, cell)))

    def time(self, who: str, cell: tuple[str, str]) -> float:
        """Return the median time in microseconds."""
        return float(np.median(self._rounds[(*cell, who)]))

    def beats(self, first: str, second: str, cells: Sequence[tuple[str, str]]) -> bool:
        """Whether the lower end of the interval clears the band in every cell."""
        confidence = 0.999 if len(cells) > 1 else 0.99
        for cell in cells:
            ratios = self.ratios(first, second, cell)
            n = len(ratios)
            rank = max(
                r
                for r in range(1, n // 2 + 1)
                if 1 - 2 * sum(math.comb(n, k) for k in range(r)) / 2**n >= confidence
            )
            if not ratios[rank - 1] > 1 + self.band(cell):
                return False
        return True

    def true(self, s: Statement) -> bool:  # noqa: PLR0911  (one return a kind of statement)
        """Whether the statement is true."""
        cells = s.where.cells()
        rivals = [c for c in CONTESTANTS if c != s.first] if not s.second else [s.second]
        if {s.first, *rivals} - set(CONTESTANTS) or set(s.where.tokens) - set(TOKENS):
            return False  # nothing is known of it
        if s.kind in {"beats", "wins"}:
            return all(self.beats(s.first, r, cells) for r in rivals)
        if s.kind in {"count", "beats-count"}:
            names = sorted({c for c, _ in cells})
            won = sum(
                all(self.beats(s.first, r, [(c, m)]) for r in rivals for m in s.where.mode or MODES)
                for c in names
            )
            return s.unit == "cells" and s.numbers == (str(won), str(len(names)))
        if s.kind == "time":
            return len(cells) == 1 and self._prints(s.numbers[0], s.unit, self.time(s.first, cells[0]))
        values = sorted(self.speedup(s.first, s.second, c) for c in cells)
        if s.unit != "x" or not self.beats(s.first, s.second, cells[:1] if len(cells) == 1 else cells):
            return False
        if s.kind == "speedup":
            return len(cells) == 1 and self._rounds_to(s.numbers[0], values[0])
        return self._rounds_to(s.numbers[0], values[0]) and self._rounds_to(s.numbers[1], values[-1])

    def _prints(self, number: str, unit: str, time_us: float) -> bool:
        factor = {"us": 1.0, "ms": 1e3, "s": 1e6}.get(unit)
        return factor is not None and self._rounds_to(number, time_us / factor)

    @staticmethod
    def _rounds_to(number: str, value: float) -> bool:
        """Whether ``value`` rounds to the digits of ``number``, half upwards."""
        places = len(number.partition(".")[2])
        half = 0.5 * 10.0**-places
        return float(number) - half <= value < float(number) + half

    @cached_property
    def statements(self) -> list[Statement]:
        """True statements about the lake, of every kind and scope."""
        wheres = [Where()]
        wheres += [Where(tokens=(t,)) for t in TOKENS] + [Where(tokens=("1", "16"))]
        wheres += [Where(tokens=(t,), precision=(p,)) for t in TOKENS for p in PRECISIONS]
        wheres += [Where(tokens=("1", "16"), precision=(p,), mode=(m,)) for p in PRECISIONS for m in MODES]
        wheres += [Where(precision=(p,), routing=(r,)) for p in PRECISIONS for r in ROUTINGS]
        single = [
            Where((t,), (p,), (r,), (m,)) for t in TOKENS for p in PRECISIONS for r in ROUTINGS for m in MODES
        ]
        found: list[Statement] = []
        pairs = [(a, b) for a in CONTESTANTS for b in CONTESTANTS if a != b]
        for where in wheres + single[::3]:
            found += [Statement("beats", a, b, where) for a, b in pairs]
            found += [Statement("wins", a, "", where) for a in CONTESTANTS]
        for where in wheres:
            names = {c for c, _ in where.cells()}
            for a in CONTESTANTS:
                counts = [
                    Statement("count", a, "", where, (str(n), str(len(names))), "cells") for n in range(17)
                ]
                found += [c for c in counts if self.true(c)]
            for a, b in pairs:
                values = [self.speedup(a, b, c) for c in where.cells()]
                found.append(
                    Statement("range", a, b, where, (f"{min(values):.2f}", f"{max(values):.2f}"), "x")
                )
                counts = [
                    Statement("beats-count", a, b, where, (str(n), str(len(names))), "cells")
                    for n in range(17)
                ]
                found += [c for c in counts if self.true(c)]
        for i, where in enumerate(single):
            cell = where.cells()[0]
            digits = (2, 1, 3)[i % 3]
            for a, b in pairs:
                said = Statement("speedup", a, b, where, (f"{self.speedup(a, b, cell):.{digits}f}",), "x")
                found += [said, replace(said, slower=True)]
            for a in CONTESTANTS:
                time = self.time(a, cell)
                found.append(Statement("time", a, "", where, (f"{time:.{digits - 1}f}",), "us"))
                found.append(Statement("time", a, "", where, (f"{time / 1e3:.4f}",), "ms"))
        return [s for s in found if self.true(s)]
