"""One token through a mixture-of-experts decoder in few launches, to be captured in a CUDA graph.

At one token a step of a model is its weights' bytes and its launches. transformers' layers launch a kernel for
every operation, most of them over a few kilobytes; here a layer is five launches, plus those of its experts:

    norm + q, k, v    rotate + cache + attention    o + residual    norm + router logits    top k    experts

A layer's experts and its shared experts are one call of :func:`dispatch.fused_moe`: shared ones are experts
that every token chooses with weight one.

    step = FusedStep(model, cache)          # of transformers: Mixtral, DeepSeek-MoE; a StaticCache
    step(token, position, logits)           # nothing on the host depends on a value
"""

from dispatch.decode.step import FusedStep

__all__ = ["FusedStep"]
