"""The fused decode step of a model."""

from __future__ import annotations

from typing import Any

import torch
import triton

from dispatch.decode.layers import Experts, Layer, Router, read_layers
from dispatch.device import device_facts
from dispatch.errors import InvalidInputError
from dispatch.kernels.decode import attend_kernel, choose_kernel, linear_kernel
from dispatch.moe import fused_moe

Tensor = torch.Tensor

_OVERLAPPING = (9, 0)
_MOST_STEP = 2048
_TILE = 16384  # weights of a program: 32 KB in bfloat16
_MOST_ROWS = 16
_LEAST_PROGRAMS = 3  # of each multiprocessor, so that none idles while another ends
_INTERPRETED_ROWS = 1024  # the interpreter pays by the program
_KEYS = 64


class FusedStep:
    """Runs one token through a decoder, with transformers' static cache.

    Args:
        model: MixtralForCausalLM or DeepseekForCausalLM in bfloat16 or float16, its experts possibly int8
            (:func:`dispatch.integration.quantize_experts`). Its weights are read as they are now.
        cache: a ``StaticCache`` that a prompt has been read into, of batch one.

    Raises:
        UnsupportedError: the model has something that the kernels do not compute.
        InvalidInputError: the cache is not initialised, or holds more than one sequence.
    """

    def __init__(self, model: Any, cache: Any) -> None:
        self._layers = read_layers(model)
        self._keys = [(layer.keys, layer.values) for layer in cache.layers]
        if any(keys is None or keys.shape[0] != 1 for keys, _ in self._keys):
            raise InvalidInputError(
                "the cache has to hold one sequence: run the model over the prompt with it before."
            )
        config = model.config
        attention = model.model.layers[0].self_attn
        self._heads, self._key_heads = int(config.num_attention_heads), int(config.num_key_value_heads)
        self._half = int(attention.head_dim) // 2
        self._scale = float(attention.scaling)
        self._epsilon = float(config.rms_norm_eps)
        self._embedding: Tensor = model.model.embed_tokens.weight
        self._norm: Tensor = model.model.norm.weight
        self._head: Tensor = model.lm_head.weight
        device, dtype = self._embedding.device, self._embedding.dtype
        facts = device_facts(device)
        self._interpret = facts.interpreted
        self._serial = facts.capability != _OVERLAPPING
        self._sm_count = facts.sm_count
        self._length = int(self._keys[0][0].shape[2])
        places = torch.arange(self._length, device=device)[None]
        self._cos, self._sin = (
            t[0].contiguous() for t in model.model.rotary_emb(self._embedding[:1], places)
        )
        hidden = self._embedding.shape[1]

        def buffer(size: int, kind: torch.dtype = dtype) -> Tensor:
            return torch.zeros(size, dtype=kind, device=device)

        # Two of the residual stream: a launch reads one and writes the other.
        self._streams = (buffer(hidden), buffer(hidden))
        self._qkv = buffer(2 * self._half * (self._heads + 2 * self._key_heads))
        self._attended = buffer(2 * self._half * self._heads)
        self._normed, self._moe = buffer(hidden), buffer(hidden)
        dense = [layer.dense.w2.shape[1] for layer in self._layers if layer.dense is not None]
        self._activated = buffer(max(dense, default=1))
        self._choices = [_choices(layer, device) for layer in self._layers]
        experts = [layer.router.weight.shape[0] for layer in self._layers if layer.router is not None]
        self._router_logits = buffer(max(experts, default=1))

    @property
    def weight_bytes(self) -> int:
        """Bytes of weights that one step reads: of each layer's experts the chosen and the shared ones."""
        read = [self._embedding[0], self._norm, self._head]
        of_experts = 0
        for layer in self._layers:
            read += [layer.norm, layer.mlp_norm, layer.qkv, layer.o]
            if layer.dense is not None:
                read += [layer.dense.w13, layer.dense.w2]
            if layer.router is not None and layer.experts is not None:
                read.append(layer.router.weight)
                held = layer.experts
                stored = [t for t in (held.w13, held.w2, held.w13_scale, held.w2_scale) if t is not None]
                used = layer.router.top_k + held.shared
                of_experts += sum(map(_bytes, stored)) * used // held.w13.shape[0]
        return sum(map(_bytes, read)) + of_experts

    def __call__(self, token: Tensor, position: Tensor, logits: Tensor) -> None:
        """Enqueue the step on the current stream.

        Args:
            token: [1, 1] int64: what is read.
            position: [1, 1] int64: its place, which is how many tokens the cache holds. Not changed.
            logits: [V] in the model's type: written.
        """
        torch.index_select(self._embedding, 0, token.view(1), out=self._streams[0].view(1, -1))
        stream, other = self._streams
        added: Tensor | None = None  # what the experts of the layer before gave, not yet in the stream
        for layer, (keys, values), choices in zip(self._layers, self._keys, self._choices, strict=True):
            self._linear(layer.qkv, stream, self._qkv, norm=layer.norm, added=added, summed=other)
            if added is not None:
                stream, other = other, stream
            self._attend(keys, values, position)
            self._linear(layer.o, self._attended, other, residual=stream)
            stream, other = other, stream
            added = None
            if layer.dense is not None:
                inner = self._activated[: layer.dense.w2.shape[1]]
                self._linear(layer.dense.w13, stream, inner, norm=layer.mlp_norm, gated=True)
                self._linear(layer.dense.w2, inner, other, residual=stream)
                stream, other = other, stream
            elif layer.router is not None and layer.experts is not None:
                scores = self._router_logits[: layer.router.weight.shape[0]]
                self._linear(layer.router.weight, stream, scores, norm=layer.mlp_norm, normed=self._normed)
                self._choose(layer.router, scores, *choices)
                self._run_experts(layer.experts, *choices)
                added = self._moe
        self._linear(self._head, stream, logits, norm=self._norm, added=added, summed=other)

    def _linear(
        self,
        weight: Tensor,
        x: Tensor,
        out: Tensor,
        *,
        norm: Tensor | None = None,
        normed: Tensor | None = None,
        added: Tensor | None = None,
        summed: Tensor | None = None,
        residual: Tensor | None = None,
        gated: bool = False,
    ) -> None:
        rows, size = out.shape[0], weight.shape[1]
        step = (
            triton.next_power_of_2(size)
            if norm is not None
            else min(_MOST_STEP, triton.next_power_of_2(size))
        )
        block = _INTERPRETED_ROWS if self._interpret else rows_of(rows, step, gated, self._sm_count)
        linear_kernel[(triton.cdiv(rows, block),)](
            x,
            added,
            None if added is None else summed,
            norm,
            normed,
            weight,
            residual,
            out,
            rows,
            self._epsilon,
            SIZE=size,
            BLOCK_N=block,
            BLOCK_K=step,
            GATED=gated,
            SERIAL=self._serial,
            INTERPRET=self._interpret,
            num_warps=4,
            **self._overlap,
        )

    def _attend(self, keys: Tensor, values: Tensor, position: Tensor) -> None:
        attend_kernel[(self._heads,)](
            self._qkv,
            self._cos,
            self._sin,
            keys,
            values,
            position,
            self._attended,
            self._length,
            self._scale,
            HEADS=self._heads,
            KEY_HEADS=self._key_heads,
            HALF=self._half,
            BLOCK_T=_KEYS,
            SERIAL=self._serial,
            INTERPRET=self._interpret,
            num_warps=8,
            **self._overlap,
        )

    def _choose(self, router: Router, logits: Tensor, ids: Tensor, weights: Tensor) -> None:
        experts = router.weight.shape[0]
        choose_kernel[(1,)](
            logits,
            ids,
            weights,
            EXPERTS=experts,
            TOP_K=router.top_k,
            RENORMALIZE=router.renormalize,
            EPSILON=router.epsilon,
            BLOCK=triton.next_power_of_2(experts),
            SERIAL=self._serial,
            INTERPRET=self._interpret,
            num_warps=1,
            **self._overlap,
        )

    def _run_experts(self, experts: Experts, ids: Tensor, weights: Tensor) -> None:
        fused_moe(
            self._normed[None],
            experts.w13,
            experts.w2,
            weights[None],
            ids[None],
            precision=experts.precision,
            w13_scale=experts.w13_scale,
            w2_scale=experts.w2_scale,
            out=self._moe[None],
        )

    @property
    def _overlap(self) -> dict[str, Any]:
        return {} if self._serial else {"launch_pdl": True}


def rows_of(rows: int, step: int, gated: bool, sm_count: int) -> int:
    """Rows of weights that a program takes: whole, and few enough that every multiprocessor has some programs.

    Args:
        rows: of the matrix (of gate rows alone, if gated).
        step: columns in flight.
        gated: whether each row comes with one of the up projection.
        sm_count: multiprocessors.

    Returns:
        A power of two.
    """
    most = min(_MOST_ROWS, _TILE // (step * (2 if gated else 1)), rows // (_LEAST_PROGRAMS * sm_count))
    return 1 << max(0, most.bit_length() - 1)


def _choices(layer: Layer, device: torch.device) -> tuple[Tensor, Tensor]:
    """Ids [k + S] int32 and weights [k + S] float32; the shared experts' stay as they are made here."""
    if layer.router is None or layer.experts is None:
        nothing = torch.zeros(0, device=device)
        return nothing.int(), nothing
    experts, shared = layer.experts.w13.shape[0], layer.experts.shared
    size = layer.router.top_k + shared
    ids = torch.arange(experts - size, experts, dtype=torch.int32, device=device)
    return ids, torch.ones(size, device=device)


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
