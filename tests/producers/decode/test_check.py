"""Comparison with the reference, on decoders that say what they are told to say."""

from __future__ import annotations

import pytest
import torch

from producers.decode.check import Reference, check_repeat, compare, decode_reference, judge
from producers.failures import Failure

PROMPT = torch.tensor([[1, 2]])
# Logits of four tokens at four positions; the reference chooses 3, 0, 1, 2.
REFERENCE = torch.tensor(
    [[0.0, 1.0, 2.0, 3.0], [9.0, 8.5, 0.0, 0.0], [0.0, 5.0, 1.0, 2.0], [1.0, 1.0, 4.0, 0.0]]
)


class Told:
    """Gives prepared logits one after the other, and remembers the tokens that it read."""

    forwards = 0
    weight_bytes = 1

    def __init__(self, logits: torch.Tensor) -> None:
        self.prepared, self.read = logits, list[int]()
        self.token = torch.zeros((1, 1), dtype=torch.int64)
        self.logits = logits[0]

    def start(self, prompt: torch.Tensor) -> None:
        assert torch.equal(prompt, PROMPT)
        self.place, self.read = 0, []
        self._choose()

    def step(self) -> None:
        self.read.append(int(self.token))
        self.place += 1
        self._choose()

    def _choose(self) -> None:
        self.logits = self.prepared[self.place]
        self.token = self.logits.argmax().view(1, 1)


def reference() -> Reference:
    return decode_reference(Told(REFERENCE), PROMPT, 4)


def candidate(**changes: tuple[float, ...]) -> torch.Tensor:
    logits = REFERENCE.clone()
    for position, values in changes.items():
        logits[int(position[1:])] = torch.tensor(values)
    return logits


def test_the_reference_is_what_the_stock_model_decodes() -> None:
    assert reference().tokens.tolist() == [3, 0, 1, 2]
    assert torch.equal(reference().logits, REFERENCE)


def test_a_candidate_reads_the_references_tokens_whatever_it_chose() -> None:
    told = Told(candidate(p1=(0.0, 1.0, 0.0, 0.0), p2=(0.0, 0.0, 0.0, 1.0)))
    agreement, chosen = compare(told, PROMPT, reference(), large_gap_logits=1.0)
    assert told.read == [3, 0, 1]
    assert chosen.tolist() == [3, 1, 3, 2]
    assert (agreement.positions, agreement.disagreements, agreement.first_disagreement) == (4, 2, 1)
    # The reference's own logits say how sure it was: 9 - 8.5 and 5 - 2.
    assert (agreement.first_gap_logits, agreement.largest_gap_logits) == (0.5, 3.0)
    assert agreement.large_gaps == 1


class TakesTheLast(Told):
    """Of equal logits chooses the last, where ``argmax`` of a stack of them takes the first."""

    def _choose(self) -> None:
        super()._choose()
        self.token = (self.logits == self.logits.max()).nonzero().max().view(1, 1)


def test_of_equal_logits_the_decoders_own_choice_counts() -> None:
    """bfloat16 logits tie, and which of two equal ones is taken depends on the reduction's shape."""
    told = TakesTheLast(candidate(p1=(9.0, 9.0, 0.0, 0.0)))
    agreement, chosen = compare(told, PROMPT, reference(), large_gap_logits=1.0)
    assert chosen.tolist() == [3, 1, 1, 2]
    assert (agreement.disagreements, agreement.first_gap_logits) == (1, 0.5)
    check_repeat(torch.tensor([3, 1, 0, 0]), chosen, reference())


def test_equal_decisions_have_no_gap() -> None:
    agreement, _ = compare(Told(REFERENCE + 7), PROMPT, reference(), large_gap_logits=1.0)
    assert (agreement.disagreements, agreement.first_disagreement, agreement.large_gaps) == (0, None, 0)
    assert (agreement.first_gap_logits, agreement.largest_gap_logits) == (None, None)
    judge(agreement, large_gap_logits=1.0, max_large_gap_share=0.0)


def test_a_near_tie_may_go_the_other_way() -> None:
    agreement, _ = compare(Told(candidate(p1=(0.0, 1.0, 0.0, 0.0))), PROMPT, reference(), 1.0)
    judge(agreement, large_gap_logits=1.0, max_large_gap_share=0.0)
    with pytest.raises(Failure, match=r"leaves the stock model's text where that is sure by 0\.50"):
        judge(agreement, large_gap_logits=0.4, max_large_gap_share=1.0)


def test_large_gaps_are_allowed_up_to_the_policys_share_rounded_up() -> None:
    near_then_far = candidate(p1=(0.0, 1.0, 0.0, 0.0), p2=(0.0, 0.0, 0.0, 1.0), p3=(9.0, 0.0, 0.0, 0.0))
    agreement, _ = compare(Told(near_then_far), PROMPT, reference(), 1.0)
    assert agreement.large_gaps == 2
    judge(agreement, large_gap_logits=1.0, max_large_gap_share=0.5)
    with pytest.raises(
        Failure, match=r"2 of 4 decisions differ by more than 1 logits \(the policy allows 1\)"
    ) as caught:
        judge(agreement, large_gap_logits=1.0, max_large_gap_share=0.002)
    assert caught.value.reason_code == "wrong-output"


def test_what_is_not_finite_is_refused() -> None:
    with pytest.raises(Failure, match="logits of position 2") as caught:
        compare(Told(candidate(p2=(0.0, float("nan"), 0.0, 0.0))), PROMPT, reference(), 1.0)
    assert caught.value.reason_code == "nan-output"
    with pytest.raises(Failure) as stock:
        decode_reference(Told(candidate(p0=(0.0, 0.0, float("inf"), 0.0))), PROMPT, 4)
    assert stock.value.reason_code == "reference-not-finite"


def test_a_repeat_decodes_what_was_checked_and_may_go_its_way_after_a_disagreement() -> None:
    chosen = torch.tensor([3, 1, 1, 2])  # leaves the reference at position 1
    check_repeat(torch.tensor([3, 1, 0, 0]), chosen, reference())
    with pytest.raises(Failure, match="another token at position 1") as caught:
        check_repeat(torch.tensor([3, 0, 1, 2]), chosen, reference())
    assert caught.value.reason_code == "not-repeatable"
    with pytest.raises(Failure, match="position 3"):
        check_repeat(torch.tensor([3, 0, 1, 1]), reference().tokens, reference())
