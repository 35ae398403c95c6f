"""Bytes of weights that one decode step must read."""

from __future__ import annotations

from typing import Any

import torch

from dispatch.integration.layers import experts_layers


def step_bytes(model: Any) -> int:
    """What a step of one token cannot do without, from the parameters of the model as they are stored.

    Everything but the experts and the embedding is read whole; of the experts the top k of each layer with
    their scales (a single token's choices are different experts), of the embedding one row. A head that
    shares the embedding's weights is read whole. The key-value cache is not counted.

    Raises:
        InvalidInputError: the model has no experts on transformers' interface.
    """
    layers = experts_layers(model)
    top_k = int(model.config.num_experts_per_tok)
    counted = 0
    in_experts: set[int] = set()
    for layer in layers.values():
        held = [*layer.parameters(), *layer.buffers()]
        in_experts |= {id(tensor) for tensor in held}
        counted += sum(map(_bytes, held)) * top_k // int(layer.num_experts)
    embedding, head = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    for parameter in model.parameters():
        if id(parameter) in in_experts:
            continue
        looked_up = parameter is embedding and parameter is not head
        counted += _bytes(parameter[0]) if looked_up else _bytes(parameter)
    return counted


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
