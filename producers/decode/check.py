"""A configuration's decisions beside the reference's, on the reference's own tokens.

Free decoding is no comparison: after one other token the two write different texts. So a candidate is given
the reference's token at every step (teacher forcing), through the path that is timed, and each decision is
compared. Up to the first disagreement this is also what free decoding gives.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from producers.decode.decoders import Decoder
from producers.failures import Failure


@dataclass(frozen=True)
class Reference:
    """Greedy decoding of the stock model.

    Attributes:
        tokens: [N] int64: the decisions.
        logits: [N, V]: those that each was taken from.
    """

    tokens: torch.Tensor
    logits: torch.Tensor


@dataclass(frozen=True)
class Agreement:
    """Decisions of a candidate beside the reference's; columns of ``decode_configs``.

    Attributes:
        positions: how many were compared.
        disagreements: at how many it chose another token.
        first_disagreement: the first such position.
        first_gap_logits: there, the reference's logit of its own choice minus that of the candidate's.
        largest_gap_logits: the largest such gap.
        large_gaps: how many are over the policy's ``large_gap_logits``.
    """

    positions: int
    disagreements: int
    first_disagreement: int | None
    first_gap_logits: float | None
    largest_gap_logits: float | None
    large_gaps: int


def decode_reference(decoder: Decoder, prompt: torch.Tensor, positions: int) -> Reference:
    """Decode ``positions`` tokens greedily and keep the logits.

    Raises:
        Failure: ``reference-not-finite``.
    """
    decoder.start(prompt)
    logits, tokens = [decoder.logits.float().clone()], [decoder.token.flatten().clone()]
    for _ in range(positions - 1):
        decoder.step()
        logits.append(decoder.logits.float().clone())
        tokens.append(decoder.token.flatten().clone())
    reference = Reference(torch.cat(tokens), torch.stack(logits))
    if not bool(torch.isfinite(reference.logits).all()):
        raise Failure("reference-not-finite", "the stock model's logits hold NaN or infinity")
    return reference


def compare(
    decoder: Decoder, prompt: torch.Tensor, reference: Reference, large_gap_logits: float
) -> tuple[Agreement, torch.Tensor]:
    """Give a candidate the reference's tokens, and compare each of its decisions.

    Returns:
        The agreement, and the candidate's decisions [N] int64.

    Raises:
        Failure: ``nan-output``.
    """
    decoder.start(prompt)
    logits, decisions = [decoder.logits.float().clone()], [decoder.token.flatten().clone()]
    for token in reference.tokens[:-1]:
        decoder.token.copy_(token.view(1, 1))
        decoder.step()
        logits.append(decoder.logits.float().clone())
        decisions.append(decoder.token.flatten().clone())
    found = torch.stack(logits)
    if not bool(torch.isfinite(found).all()):
        position = int((~torch.isfinite(found).all(dim=-1)).nonzero()[0])
        raise Failure("nan-output", f"the logits of position {position} hold NaN or infinity")
    # The decoder's own choices: of equal logits, which bfloat16 often has, another argmax may take another.
    chosen = torch.cat(decisions)
    return _agreement(chosen, reference, large_gap_logits), chosen


def _agreement(chosen: torch.Tensor, reference: Reference, large_gap_logits: float) -> Agreement:
    own = reference.logits.gather(1, reference.tokens[:, None])
    gaps = (own - reference.logits.gather(1, chosen[:, None])).flatten()
    places = (chosen != reference.tokens).nonzero().flatten().tolist()
    differing = [float(gaps[place]) for place in places]
    return Agreement(
        positions=len(chosen),
        disagreements=len(places),
        first_disagreement=places[0] if places else None,
        first_gap_logits=differing[0] if places else None,
        largest_gap_logits=max(differing, default=None),
        large_gaps=sum(gap > large_gap_logits for gap in differing),
    )


def judge(agreement: Agreement, *, large_gap_logits: float, max_large_gap_share: float) -> None:
    """Refuse what disagrees by more than rounding.

    The text is that of the reference up to the first disagreement, so that one must be a near tie. Of the
    others as many may be large as the gate allows its share of, rounded up.

    Raises:
        Failure: ``wrong-output``.
    """
    first, gap = agreement.first_disagreement, agreement.first_gap_logits
    if first is not None and gap is not None and gap > large_gap_logits:
        raise Failure(
            "wrong-output",
            f"at position {first} it leaves the stock model's text where that is sure by {gap:.2f} logits "
            f"(the policy allows {large_gap_logits:g})",
        )
    allowed = math.ceil(max_large_gap_share * agreement.positions)
    if agreement.large_gaps > allowed:
        raise Failure(
            "wrong-output",
            f"{agreement.large_gaps} of {agreement.positions} decisions differ by more than "
            f"{large_gap_logits:g} logits (the policy allows {allowed}), the widest by "
            f"{agreement.largest_gap_logits:.2f}",
        )


def check_repeat(tokens: torch.Tensor, chosen: torch.Tensor, reference: Reference) -> None:
    """A timed repeat decodes what was checked: the same tokens up to the first disagreement and with it.

    Args:
        tokens: [N] what the repeat decoded.
        chosen: [N] decisions on the reference's tokens.
        reference: whose.

    Raises:
        Failure: ``not-repeatable``.
    """
    differs = (chosen != reference.tokens).nonzero().flatten().tolist()
    known = (differs[0] + 1) if differs else len(chosen)
    wrong = (tokens[:known] != chosen[:known]).nonzero().flatten().tolist()
    if wrong:
        raise Failure(
            "not-repeatable",
            f"a timed repeat decoded another token at position {wrong[0]} than the check did",
        )
