"""Top-k routing."""

from __future__ import annotations

import pytest
import torch

from dispatch import InvalidInputError, route_topk


def test_weights_are_those_of_the_softmax_and_may_be_renormalised():
    logits = torch.log(torch.tensor([[0.1, 0.4, 0.2, 0.3]]))
    weights, ids = route_topk(logits, 2, renormalize=False)
    assert ids.tolist() == [[1, 3]]
    torch.testing.assert_close(weights, torch.tensor([[0.4, 0.3]]))
    weights, _ = route_topk(logits, 2)
    torch.testing.assert_close(weights, torch.tensor([[4 / 7, 3 / 7]]))
    assert (weights.dtype, ids.dtype) == (torch.float32, torch.int32)


def test_equal_logits_go_to_the_lower_expert():
    _, ids = route_topk(torch.zeros(3, 65), 6)
    assert ids.tolist() == [[0, 1, 2, 3, 4, 5]] * 3


@pytest.mark.parametrize("k", [0, 5])
def test_k_out_of_range_is_refused(k):
    with pytest.raises(InvalidInputError, match=f"k is {k}; a token can go to 1 to 4 experts"):
        route_topk(torch.zeros(2, 4), k)


def test_no_matrix_is_refused():
    with pytest.raises(InvalidInputError, match=r"\(4,\); they must be \[M, E\]"):
        route_topk(torch.zeros(4), 1)
