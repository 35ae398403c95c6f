"""How one decode step runs: the model called as it is, or with fixed addresses and captured in a CUDA graph."""

from __future__ import annotations

import inspect
from typing import Any, Protocol

import torch

from dispatch.decode import FusedStep
from producers.decode.traffic import step_bytes
from producers.models.loaded import transformers

_CAPTURE_WARM_UPS = 3


class Decoder(Protocol):
    """Decodes one sequence greedily; all buffers lie on the model's device.

    Attributes:
        token: [1, 1] int64: the last token chosen, which the next step reads. A caller may overwrite it.
        logits: [V]: those that ``token`` was chosen from.
        forwards: how often Python has run the model so far; the replays of a graph do not.
    """

    token: torch.Tensor
    logits: torch.Tensor

    @property
    def forwards(self) -> int:
        """See the class."""
        ...

    @property
    def weight_bytes(self) -> int:
        """What one step must read of the weights."""
        ...

    def start(self, prompt: torch.Tensor) -> None:
        """Forget everything, read ``prompt`` [1, P] int64, choose the first token."""
        ...

    def step(self) -> None:
        """Read ``token``, choose the next one. The host waits for nothing that it need not."""
        ...


class EagerDecoder:
    """The model called as a user calls it, with transformers' growing cache."""

    def __init__(self, model: Any, device: torch.device) -> None:
        self._model = model
        self._cache_name = cache_argument(model)
        self._cache: Any = None
        self.forwards = 0
        self.token = torch.zeros((1, 1), dtype=torch.int64, device=device)
        self.logits = torch.empty(0, device=device)

    @property
    def weight_bytes(self) -> int:
        """See :class:`Decoder`."""
        return step_bytes(self._model)

    def start(self, prompt: torch.Tensor) -> None:
        """See :class:`Decoder`."""
        self._cache = transformers().DynamicCache()
        self._forward(prompt)

    def step(self) -> None:
        """See :class:`Decoder`."""
        self._forward(self.token)

    def _forward(self, ids: torch.Tensor) -> None:
        self.forwards += 1
        cache = {self._cache_name: self._cache}
        output = self._model(input_ids=ids, use_cache=True, logits_to_keep=1, **cache)
        self.logits = output.logits[0, -1]
        self.token = self.logits.argmax().view(1, 1)


class StaticDecoder:
    """The model with transformers' static cache: no address and no shape depends on the step.

    Args:
        model: of transformers.
        device: where it is.
        length: tokens that the cache holds: prompt and all that is decoded.

    The mask of keys is made from the position on the device, so that transformers builds none on the host.
    """

    def __init__(self, model: Any, device: torch.device, length: int) -> None:
        self._model = model
        self._cache_name = cache_argument(model)
        self._cache = transformers().StaticCache(config=model.config, max_cache_len=length)
        self._keys = torch.arange(length, device=device)
        self._position = torch.zeros((1, 1), dtype=torch.int64, device=device)
        self.token = torch.zeros((1, 1), dtype=torch.int64, device=device)
        dtype = next(model.parameters()).dtype
        self.logits = torch.zeros(int(model.config.vocab_size), dtype=dtype, device=device)
        self.forwards = 0

    @property
    def weight_bytes(self) -> int:
        """See :class:`Decoder`."""
        return step_bytes(self._model)

    def start(self, prompt: torch.Tensor) -> None:
        """See :class:`Decoder`."""
        self._cache.reset()
        positions = self._keys[None, : prompt.shape[1]]
        self._forward(prompt, positions)
        self._position.fill_(prompt.shape[1])

    def step(self) -> None:
        """See :class:`Decoder`."""
        self._forward(self.token, self._position)
        self._position.add_(1)

    def _forward(self, ids: torch.Tensor, positions: torch.Tensor) -> None:
        self.forwards += 1
        visible = self._keys[None, :] <= positions[0][:, None]  # [queries, length]
        output = self._model(
            input_ids=ids,
            attention_mask=visible[None, None],
            position_ids=positions,
            use_cache=True,
            logits_to_keep=1,
            **{self._cache_name: self._cache},
        )
        self.logits.copy_(output.logits[0, -1])
        self.token.copy_(self.logits.argmax().view(1, 1))


class FusedDecoder(StaticDecoder):
    """The prompt is read by the model; a step is dispatch's fused one, on the same cache.

    Args:
        model, device, length: as for :class:`StaticDecoder`.

    Raises:
        UnsupportedError: at the first start: the model has no fused step.
    """

    def __init__(self, model: Any, device: torch.device, length: int) -> None:
        super().__init__(model, device, length)
        self._fused: FusedStep | None = None

    @property
    def weight_bytes(self) -> int:
        """See :class:`Decoder`; before the first start that of the model."""
        return super().weight_bytes if self._fused is None else self._fused.weight_bytes

    def start(self, prompt: torch.Tensor) -> None:
        """See :class:`Decoder`."""
        super().start(prompt)
        if self._fused is None:
            self._fused = FusedStep(self._model, self._cache)

    def step(self) -> None:
        """See :class:`Decoder`."""
        assert self._fused is not None  # noqa: S101 - a decoder is started before it steps
        self.forwards += 1
        self._fused(self.token, self._position, self.logits)
        self.token.copy_(self.logits.argmax().view(1, 1))
        self._position.add_(1)


class GraphDecoder:
    """A decoder with fixed addresses, its step captured once in a CUDA graph and replayed.

    Args:
        static: the decoder that is captured.
        prompt: [1, P] that the warm-up reads; it is forgotten.

    Raises:
        RuntimeError: the step cannot be captured.
    """

    def __init__(self, static: Decoder, prompt: torch.Tensor) -> None:
        self._static = static
        self._graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream(prompt.device)  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream(prompt.device))
        with torch.cuda.stream(stream):  # libraries keep workspaces per stream
            static.start(prompt)
            for _ in range(_CAPTURE_WARM_UPS):
                static.step()
        torch.cuda.current_stream(prompt.device).wait_stream(stream)
        with torch.cuda.graph(self._graph, stream=stream):
            static.step()
        self.token, self.logits = static.token, static.logits

    @property
    def forwards(self) -> int:
        """See :class:`Decoder`."""
        return self._static.forwards

    @property
    def weight_bytes(self) -> int:
        """See :class:`Decoder`."""
        return self._static.weight_bytes

    def start(self, prompt: torch.Tensor) -> None:
        """See :class:`Decoder`."""
        self._static.start(prompt)

    def step(self) -> None:
        """One replay."""
        self._graph.replay()


def cache_argument(model: Any) -> str:
    """What the model's forward calls its cache: transformers renamed ``past_key_values``."""
    parameters = inspect.signature(model.forward).parameters
    return "cache" if "cache" in parameters else "past_key_values"
