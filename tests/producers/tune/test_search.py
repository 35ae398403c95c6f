"""A search over made-up times: what it chooses, what it leaves out, and when it stops."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from producers.tune.search import NOISE, Config, Outcome, Search, Trial, key

CELLS = ("uniform", "zipf")
DEFAULT = {"tile": 0}


class Device:
    """Runs configurations: times by cell and tile, with a little noise, and refusals."""

    def __init__(self, times: Mapping[int, Mapping[str, float]], wrong: tuple[int, ...] = ()) -> None:
        self.times = times
        self.wrong = wrong
        self.asked: list[tuple[int, int]] = []
        self._noise = random.Random(1)

    def __call__(self, config: Config, samples: int) -> dict[str, Outcome]:
        tile = config["tile"]
        self.asked.append((tile, samples))
        if tile in self.wrong:
            # A launch that fails looks impossibly fast; its output says so.
            return {CELLS[0]: Outcome(reason_code="wrong-output", fault="contestant", detail="off by 1")}
        return {
            cell: Outcome(
                tuple(self.times[tile][cell] * self._noise.uniform(0.999, 1.001) for _ in range(samples))
            )
            for cell in CELLS
        }


def even(*times: float) -> dict[int, dict[str, float]]:
    return {tile: dict.fromkeys(CELLS, time) for tile, time in enumerate(times)}


def search(device: Device, may_go_on: Callable[[], bool] = lambda: True, **options: Any) -> Search:
    return Search(DEFAULT, device, may_go_on, **options)


def tiles(*numbers: int) -> list[Config]:
    return [{"tile": number} for number in numbers]


def test_the_fastest_is_chosen_after_a_rematch_with_the_default() -> None:
    device = Device(even(100, 90, 70, 95, 80))
    found = search(device)
    found.screen(tiles(1, 2, 3))
    found.refine(tiles(4))
    assert found.confirm() == {"tile": 2}
    assert 0.69 < found.score({"tile": 2}) < 0.71
    last = [trial.config["tile"] for trial in found.trials if trial.stage == "confirm"]
    assert last == [0, 2, 4] * 3


def test_a_neighbour_of_the_best_is_found_in_the_second_pass() -> None:
    found = search(Device(even(100, 90, 60)))
    found.screen(tiles(1))
    assert found.best() == {"tile": 1}
    found.refine(tiles(2))
    assert found.confirm() == {"tile": 2}


def test_what_is_wrong_is_never_chosen_however_fast() -> None:
    device = Device(even(100, 1, 97), wrong=(1,))
    found = search(device)
    found.screen(tiles(1, 2))
    assert found.confirm() == {"tile": 2}
    refused = [trial for trial in found.trials if not trial.passed]
    assert [(trial.config, trial.outcomes["uniform"].reason_code) for trial in refused] == [
        ({"tile": 1}, "wrong-output")
    ]


def test_nothing_faster_leaves_the_default() -> None:
    device = Device(even(100, 100.5, 130))
    found = search(device)
    found.screen(tiles(1, 2))
    assert found.confirm() == DEFAULT


def test_faster_over_all_but_slower_in_one_cell_is_not_chosen() -> None:
    times = even(100, 0, 92)
    times[1] = {"uniform": 60.0, "zipf": 100 * (1 + 3 * NOISE)}
    found = search(Device(times))
    found.screen(tiles(1, 2))
    assert found.best() == {"tile": 1}
    assert found.confirm() == {"tile": 2}


def test_cells_weigh_alike_whatever_their_times_are() -> None:
    times = even(0, 0, 0)
    times[0] = {"uniform": 10.0, "zipf": 1000.0}
    times[1] = {"uniform": 5.0, "zipf": 1005.0}  # sum of ratios 1.505
    times[2] = {"uniform": 9.9, "zipf": 800.0}  # 1.79, although it saves more microseconds
    found = search(Device(times))
    found.screen(tiles(1, 2))
    assert found.confirm() == {"tile": 1}


def test_bad_candidates_are_dropped_and_good_ones_measured_longer() -> None:
    device = Device(even(100, 99, 98, 97, 96, 95, 94, 93, 92, 300))
    found = search(device)
    found.screen(tiles(*range(1, 10)))
    samples = {tile: sum(n for t, n in device.asked if t == tile) for tile in range(10)}
    assert samples[9] == 4
    assert samples[8] >= 12
    assert samples[8] > samples[2] == 4


def test_the_default_is_tried_even_without_time_and_nothing_else_is() -> None:
    device = Device(even(100, 50))
    found = search(device, may_go_on=lambda: False)
    found.screen(tiles(1))
    assert {tile for tile, _ in device.asked} == {0}
    assert found.confirm() == DEFAULT
    assert found.trials[-1].stage == "confirm"


def test_a_refused_default_leaves_the_others_comparable() -> None:
    found = search(Device(even(100, 90, 80), wrong=(0,)))
    found.screen(tiles(1, 2))
    assert found.confirm() == {"tile": 2}


def test_what_there_was_no_time_for_is_known() -> None:
    left = iter([True, False])
    found = search(Device(even(100, 90, 80)), may_go_on=lambda: next(left, False))
    found.screen(tiles(1, 2))
    assert found.untried(tiles(1, 2)) == tiles(2)


def test_an_interrupted_search_tries_nothing_twice() -> None:
    device = Device(even(100, 90, 80))
    first = search(device)
    first.screen(tiles(1))
    again = Device(device.times)
    second = search(again, trials=first.trials)
    numbers = [trial.number for trial in second.trials]
    second.screen(tiles(1, 2))
    assert (1, 4) not in again.asked
    assert (0, 8) not in again.asked
    assert [trial.number for trial in second.trials] == list(range(len(second.trials)))
    assert len(second.trials) > len(numbers)


def test_equal_configurations_have_one_key() -> None:
    assert key({"a": 1, "b": 2}) == key({"b": 2, "a": 1}) == '{"a":1,"b":2}'
    assert not Trial(0, "screen", {}, {"uniform": Outcome(reason_code="crashed")}).passed
