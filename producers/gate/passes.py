"""Windows of token ids, and forward passes of a model over them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from producers.failures import Failure


@dataclass(frozen=True)
class Windows:
    """A text as a model reads it.

    Attributes:
        inputs: [W, T] int64 token ids; windows are consecutive pieces of the text.
        targets: [W, T] int64: the token that follows each input in the text.
    """

    inputs: torch.Tensor
    targets: torch.Tensor

    @property
    def positions(self) -> int:
        """Decisions: one for each input token."""
        return self.inputs.numel()


def cut(ids: Sequence[int], windows: int, context: int) -> Windows:
    """The first ``windows`` windows of ``context`` tokens of a text.

    Raises:
        Failure: ``text-too-short``.
    """
    needed = windows * context + 1  # the last input has a target too
    if len(ids) < needed:
        raise Failure(
            "text-too-short",
            f"the text has {len(ids)} tokens, and {windows} windows of {context} tokens need {needed}: "
            "give a longer text",
        )
    text = torch.tensor(ids[:needed], dtype=torch.int64)
    return Windows(text[:-1].view(windows, context), text[1:].view(windows, context))


@dataclass(frozen=True)
class Outputs:
    """What a model made of some windows; n positions.

    Attributes:
        rows: which positions of the whole.
        logits: [n, V] in the model's type.
        hidden: [L, n, H] in the model's type: the state after each layer.
    """

    rows: slice
    logits: torch.Tensor
    hidden: torch.Tensor


def forward(model: Any, windows: Windows, batch: int) -> Iterator[Outputs]:
    """Run ``model`` over ``windows``, ``batch`` of them at a time, without a cache.

    Args:
        model: a causal language model of transformers, on its device.
        windows: what it reads.
        batch: windows of one pass.
    """
    context = windows.inputs.shape[1]
    device = next(model.parameters()).device
    for first in range(0, windows.inputs.shape[0], batch):
        ids = windows.inputs[first : first + batch].to(device)
        output = model(input_ids=ids, use_cache=False, output_hidden_states=True)
        # The first state is the embedding's, before any layer.
        hidden = torch.stack([state.flatten(0, 1) for state in output.hidden_states[1:]])
        rows = slice(first * context, first * context + ids.numel())
        yield Outputs(rows, output.logits.flatten(0, 1), hidden)
