from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from producers.decode.decoders import Decoder, EagerDecoder, StaticDecoder, cache_argument
from tests.producers.decode.conftest import DEVICE

STEPS = 5


class SynchronisedError(Exception):
    """The host asked for a value."""


class NoValues(TorchDispatchMode):
    """Raises where a value or a size that depends on values goes to the host: neither can be captured."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket in {torch.ops.aten._local_scalar_dense, torch.ops.aten.nonzero}:
            raise SynchronisedError(str(func))
        return func(*args, **(kwargs or {}))


def decode(decoder: Decoder, prompt: torch.Tensor, steps: int = STEPS) -> tuple[list[int], torch.Tensor]:
    decoder.start(prompt)
    tokens, logits = [int(decoder.token)], [decoder.logits.float().clone()]
    for _ in range(steps):
        decoder.step()
        tokens.append(int(decoder.token))
        logits.append(decoder.logits.float().clone())
    return tokens, torch.stack(logits)


def test_fixed_addresses_change_nothing(tiny: Any, prompt: torch.Tensor) -> None:
    model = tiny.float()
    tokens, logits = decode(EagerDecoder(model, DEVICE), prompt)
    static = StaticDecoder(model, DEVICE, prompt.shape[1] + STEPS)
    again, close = decode(static, prompt)
    assert again == tokens
    torch.testing.assert_close(close, logits, rtol=1e-4, atol=1e-4)
    # What it decodes is what the model says of the whole text at once.
    whole = model(input_ids=torch.tensor([[*prompt[0].tolist(), *tokens[:-1]]], device=DEVICE)).logits[
        0, -len(tokens) :
    ]
    torch.testing.assert_close(logits, whole, rtol=1e-4, atol=1e-4)


def test_a_start_forgets_what_was_decoded(tiny: Any, prompt: torch.Tensor) -> None:
    decoder = StaticDecoder(tiny, DEVICE, 16)
    first = decode(decoder, prompt)
    other = decode(decoder, prompt.flip(1))
    again = decode(decoder, prompt)
    assert first[0] == again[0]
    assert torch.equal(first[1], again[1])
    assert not torch.equal(first[1], other[1])


def test_a_caller_may_say_what_the_next_step_reads(tiny: Any, prompt: torch.Tensor) -> None:
    for decoder in (EagerDecoder(tiny, DEVICE), StaticDecoder(tiny, DEVICE, 16)):
        decoder.start(prompt)
        decoder.token.fill_(200)
        decoder.step()
        whole = tiny(input_ids=torch.cat([prompt, decoder.token.new_full((1, 1), 200)], dim=1)).logits[0, -1]
        torch.testing.assert_close(decoder.logits, whole, rtol=0.05, atol=0.05)


def test_a_step_with_fixed_addresses_asks_for_no_value(tiny: Any, prompt: torch.Tensor) -> None:
    tiny.set_experts_implementation("batched_mm")  # transformers' own that can be captured
    decoder = StaticDecoder(tiny, DEVICE, 16)
    decoder.start(prompt)
    decoder.step()
    before = [t.data_ptr() for t in (decoder.token, decoder.logits, decoder._cache.layers[0].keys)]
    with NoValues():
        decoder.step()
    assert [t.data_ptr() for t in (decoder.token, decoder.logits, decoder._cache.layers[0].keys)] == before
    tiny.set_experts_implementation("eager")  # its loop over experts asks which were hit
    with pytest.raises(SynchronisedError), NoValues():
        decoder.step()


def test_forwards_are_counted(tiny: Any, prompt: torch.Tensor) -> None:
    for decoder in (EagerDecoder(tiny, DEVICE), StaticDecoder(tiny, DEVICE, 16)):
        decode(decoder, prompt, steps=3)
        assert decoder.forwards == 4


def test_both_names_of_the_cache_are_known() -> None:
    class Old:
        def forward(self, input_ids: int, past_key_values: int) -> None: ...

    class New:
        def forward(self, input_ids: int, cache: int) -> None: ...

    assert (cache_argument(Old()), cache_argument(New())) == ("past_key_values", "cache")
