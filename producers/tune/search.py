"""What is tried for one problem (a shape, a precision, a token count), and which configuration is best.

The cells of a problem differ in their routing alone; a configuration is chosen for all of them together, as
the engines' tables have one for a token count. Its score is the sum over the cells of its time over the
default's, so that no cell outweighs another.

    screen    the default and every candidate, a few executions each
    narrow    the better half again with twice as many, until a few are left (successive halving)
    refine    neighbours of the best, a few executions each
    confirm   the default and the finalists in turn, several times; what is slower than the default in any
              cell, by more than what counts as noise, is not chosen
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

Config = dict[str, Any]

SCREEN_SAMPLES = 4
CONFIRM_SAMPLES = 8
CONFIRM_ROUNDS = 3
FINALISTS = 2
# A candidate that is worse than this times the best is not measured again.
_HOPELESS = 1.25
# Slower than the default by less than this in one cell is noise, if it is faster over all.
NOISE = 0.01


@dataclass(frozen=True)
class Outcome:
    """What a worker says of a configuration in a cell: times, or why there are none."""

    times_us: tuple[float, ...] = ()
    relative_error: float | None = None
    reason_code: str | None = None
    fault: str | None = None
    detail: str | None = None

    @property
    def passed(self) -> bool:
        """Whether its outputs were right, so that its times count."""
        return self.reason_code is None


@dataclass(frozen=True)
class Trial:
    """One configuration, tried once in all cells of the problem."""

    number: int
    stage: str
    config: Config
    outcomes: Mapping[str, Outcome]

    @property
    def passed(self) -> bool:
        """Whether it passed in every cell."""
        return all(outcome.passed for outcome in self.outcomes.values())


Measure = Callable[[Config, int], Mapping[str, Outcome]]


@dataclass
class Search:
    """The search of one problem; its methods are called in the order of the module's stages.

    Args:
        default: what runs as shipped.
        measure: tries a configuration with a number of samples; cell to outcome.
        may_go_on: asked before each trial; False ends a stage early with what there is.
        trials: those of an earlier, interrupted search of the problem.
    """

    default: Config
    measure: Measure
    may_go_on: Callable[[], bool]
    trials: list[Trial] = field(default_factory=list)

    def screen(self, candidates: Iterable[Config]) -> None:
        """Try the default, then candidates that were not tried yet, then the better ones again.

        The default is tried whatever the time: without it nothing has a score.
        """
        if not self._tried(self.default):
            self._try("screen", self.default, 2 * SCREEN_SAMPLES)
        self._try_all("screen", candidates)
        self._narrow()

    def refine(self, candidates: Iterable[Config]) -> None:
        """Try neighbours of the best, then the better ones again."""
        self._try_all("refine", candidates)
        self._narrow()

    def confirm(self) -> Config:
        """Measure the default and the finalists in turn; returns what is chosen.

        A default that was refused wins against nobody: the best finalist is chosen.
        """
        finalists = [c for c in self.ranked()[: FINALISTS + 1] if key(c) != key(self.default)][:FINALISTS]
        first = len(self.trials)
        for _ in range(CONFIRM_ROUNDS if finalists else 1):
            for config in (self.default, *finalists):
                self._try("confirm", config, CONFIRM_SAMPLES)
        rematch = self.trials[first:]
        if finalists and not _times(self.trials, self.default):
            return min(finalists, key=self.score)
        for config in sorted(finalists, key=lambda c: self.score(c, rematch)):
            ratios = self.ratios(config, rematch)
            if ratios and sum(ratios) < len(ratios) and max(ratios) <= 1 + NOISE:
                return config
        return self.default

    def untried(self, candidates: Iterable[Config]) -> list[Config]:
        """Those of ``candidates`` that were not tried yet."""
        return [config for config in candidates if not self._tried(config)]

    def best(self) -> Config:
        """The best so far; the default where nothing beats it."""
        ranked = self.ranked()
        return ranked[0] if ranked else self.default

    def ranked(self) -> list[Config]:
        """Configurations without a refusal, the best first."""
        refused = {key(trial.config) for trial in self.trials if not trial.passed}
        known = {key(trial.config): trial.config for trial in self.trials}
        return sorted((c for k, c in known.items() if k not in refused), key=self.score)

    def score(self, config: Config, trials: Sequence[Trial] | None = None) -> float:
        """Mean over the cells of the time over the default's; infinite where it has no times."""
        ratios = self.ratios(config, trials)
        return sum(ratios) / len(ratios) if ratios else float("inf")

    def ratios(self, config: Config, trials: Sequence[Trial] | None = None) -> list[float]:
        """Time over the default's in each cell, of the medians over ``trials`` (default: all)."""
        trials = self.trials if trials is None else trials
        times, default = _times(trials, config), _times(trials, self.default)
        if not default:  # refused: whoever passed first stands in, so that the others can be compared
            default = next((found for t in trials if (found := _times(trials, t.config))), {})
        if not times or times.keys() != default.keys():
            return []
        return [median(times[cell]) / median(default[cell]) for cell in default]

    def _try_all(self, stage: str, candidates: Iterable[Config]) -> None:
        for config in candidates:
            if not self.may_go_on():
                return
            if not self._tried(config):
                self._try(stage, config, SCREEN_SAMPLES)

    def _narrow(self) -> None:
        samples = SCREEN_SAMPLES
        left = [c for c in self.ranked() if self.score(c) <= _HOPELESS * self.score(self.best())]
        left = left[: (len(left) + 1) // 2]
        while len(left) > FINALISTS and self.may_go_on():
            samples *= 2
            for config in left:
                if self.may_go_on():
                    self._try("narrow", config, samples)
            left = sorted(left, key=self.score)[: len(left) // 2]

    def _try(self, stage: str, config: Config, samples: int) -> None:
        outcomes = self.measure(config, samples)
        number = 1 + max((trial.number for trial in self.trials), default=-1)
        self.trials.append(Trial(number, stage, config, outcomes))

    def _tried(self, config: Config) -> bool:
        return any(key(trial.config) == key(config) for trial in self.trials)


def key(config: Config) -> str:
    """The canonical text of a configuration: equal for equal ones."""
    return json.dumps(config, sort_keys=True, separators=(",", ":"))


def _times(trials: Sequence[Trial], config: Config) -> dict[str, list[float]]:
    """Cell -> all times of a configuration; empty where it was refused in a cell."""
    found: dict[str, list[float]] = {}
    for trial in trials:
        if key(trial.config) == key(config):
            if not trial.passed:
                return {}
            for cell, outcome in trial.outcomes.items():
                found.setdefault(cell, []).extend(outcome.times_us)
    return found
