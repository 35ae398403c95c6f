"""One position: what is counted, on numbers that can be checked by hand."""

import math

import numpy as np
import pytest
import torch

from producers.failures import Failure
from producers.gate.compare import compare, shortened, top1
from producers.gate.experts import judge
from producers.gate.passes import cut


def columns(reference: list[list[float]], candidate: list[list[float]], target: int = 0):
    n = len(reference)
    states = torch.ones(2, n, 4, dtype=torch.bfloat16)
    moved = states.clone()
    moved[1] *= 1.5
    targets = torch.full((n,), target)
    return compare(torch.tensor(reference), torch.tensor(candidate), states, moved, targets)


def test_the_gap_is_what_the_reference_thinks_of_the_candidates_choice() -> None:
    found = columns([[3.0, 1.0, 2.5], [0.0, 1.0, 0.0]], [[3.0, 1.0, 4.0], [0.0, 9.0, 0.0]])
    assert found["reference_top1"].tolist() == [0, 1]
    assert found["candidate_top1"].tolist() == [2, 1]
    assert found["agree"].tolist() == [False, True]
    assert found["reference_gap_logits"].tolist() == [0.5, 0.0]
    assert found["reference_margin_logits"].tolist() == [0.5, 1.0]
    assert np.allclose(found["layer_drift"], [[0.0, 0.5], [0.0, 0.5]], rtol=1e-3)
    total = math.log(math.exp(3) + math.exp(1) + math.exp(2.5))
    assert found["reference_nll"][0] == pytest.approx(total - 3.0, abs=1e-6)
    total = math.log(math.exp(3) + math.exp(1) + math.exp(4))
    assert found["candidate_nll"][0] == pytest.approx(total - 3.0, abs=1e-6)


def test_of_equal_logits_the_lowest_id_decides() -> None:
    assert top1(torch.tensor([[1.0, 2.0, 2.0], [5.0, 5.0, 5.0]])).tolist() == [1, 0]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_a_refusal_of_whoever_gave_it(value: float) -> None:
    with pytest.raises(Failure) as refused:
        columns([[1.0, 2.0]], [[value, 2.0]])
    assert (refused.value.reason_code, refused.value.fault) == ("nan-output", "contestant")
    with pytest.raises(Failure) as refused:
        columns([[value, 2.0]], [[1.0, 2.0]])
    assert (refused.value.reason_code, refused.value.fault) == ("reference-not-finite", "environment")


def test_a_drift_keeps_three_digits() -> None:
    values = np.array([0.0, 1.0, 0.012345678, 123.456])
    found = shortened(values)
    assert found[:2].tolist() == [0.0, 1.0]
    assert np.allclose(found, values, rtol=2**-11)
    assert len(set(shortened(np.linspace(1.0, 1.0001, 50)).tolist())) == 1


def test_windows_are_consecutive_and_every_token_has_its_successor() -> None:
    windows = cut(list(range(100, 120)), 3, 5)
    assert windows.inputs.tolist() == [
        [100, 101, 102, 103, 104],
        [105, 106, 107, 108, 109],
        [110, 111, 112, 113, 114],
    ]
    assert torch.equal(windows.targets, windows.inputs + 1)
    assert windows.positions == 15
    assert cut(list(range(16)), 3, 5).positions == 15
    with pytest.raises(Failure, match="has 15 tokens, and 3 windows of 5 tokens need 16"):
        cut(list(range(15)), 3, 5)


def test_an_expert_is_judged_by_its_error_and_its_gain() -> None:
    stock = torch.tensor([[[3.0, 4.0]], [[1.0, 0.0]], [[0.0, 0.0]], [[0.0, 0.0]]])
    candidate = torch.tensor([[[3.3, 4.4]], [[1.0, 0.5]], [[0.0, 0.0]], [[0.0, 1.0]]])
    scaled, turned, silent, noisy = judge(stock, candidate)
    assert scaled == pytest.approx({"relative_error": 0.1, "gain": 1.1}, rel=1e-6)
    assert turned == pytest.approx({"relative_error": 0.5, "gain": 1.0})
    assert silent == {"relative_error": 0.0, "gain": 1.0}
    assert noisy == {"relative_error": 1.0, "gain": 0.0}
    with pytest.raises(Failure, match="an expert gave NaN"):
        judge(stock, candidate * math.nan)


def test_one_token_of_a_hundred_times_the_size_does_not_judge_an_expert_alone() -> None:
    stock = torch.tensor([[[1000.0, 0.0], [0.0, 1.0], [1.0, 0.0]]])
    candidate = torch.tensor([[[1300.0, 0.0], [0.0, 1.1], [1.1, 0.0]]])
    (found,) = judge(stock, candidate)
    assert found["gain"] == pytest.approx(1.1)
    assert found["relative_error"] == pytest.approx(((0.3**2 + 2 * 0.1**2) / 3) ** 0.5)
