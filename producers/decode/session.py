"""A decode run on one loaded model: reference, checks, then the timed repeats."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from dispatch.integration import Calls, count_calls
from dispatch.moe import observe
from producers.decode import clock
from producers.decode.check import (
    Reference,
    check_repeat,
    compare,
    decode_reference,
    judge,
)
from producers.decode.decoders import Decoder, EagerDecoder, FusedDecoder, GraphDecoder, StaticDecoder
from producers.decode.plan import WARM_UP_STEPS, DecodeConfig, DecodePlan
from producers.decode.recorder import TIMING, DecodeRecorder
from producers.decode.variants import Variants
from producers.device import synchronise
from producers.failures import Failure, failure_of
from producers.models.texts import tokens_sha256

_US_PER_S = 1e6


@dataclass(frozen=True)
class Bounds:
    """What the policy allows a candidate.

    Attributes:
        large_gap_logits: a disagreement beyond this is large.
        max_large_gap_share: precision -> share of large ones.
    """

    large_gap_logits: float
    max_large_gap_share: Mapping[str, float]


@dataclass
class Timed:
    """A configuration that passed its check.

    Attributes:
        config: what it is.
        decoder: ready to start.
        chosen: [N] int64: its decisions on the reference's tokens.
        weight_bytes: that a step must read.
        rates: tokens a second of each repeat so far.
    """

    config: DecodeConfig
    decoder: Decoder
    chosen: torch.Tensor
    weight_bytes: int
    rates: list[float] = field(default_factory=list)


class Session:
    """Decodes with every configuration of a plan.

    Args:
        plan: what was asked for.
        model: the stock model in bfloat16, on its device.
        prompt: [1, P] int64 on the device.
        bounds: of the policy.
        recorder: gets every row.
        poll: called between repeats; may raise to stop.
        note: shows a line.
        least_repeats: so many are timed, whatever time is left.
        left_s: how many seconds more may be used; a repeat that may not fit is not begun.

    Attributes:
        timed: what passed its check and was not refused since, by name.
    """

    def __init__(
        self,
        plan: DecodePlan,
        model: Any,
        prompt: torch.Tensor,
        bounds: Bounds,
        recorder: DecodeRecorder,
        poll: Callable[[], None],
        note: Callable[[str], None],
        least_repeats: int = 1,
        left_s: Callable[[], float] = lambda: float("inf"),
    ) -> None:
        self._plan = plan
        self._variants = Variants(model)
        self._prompt = prompt
        self._bounds = bounds
        self._recorder = recorder
        self._poll = poll
        self._note = note
        self._least_repeats = least_repeats
        self._left_s = left_s
        # The choice after the prompt, the warm-up's and those of the timed steps.
        self._positions = 1 + WARM_UP_STEPS + plan.steps
        self.timed: dict[str, Timed] = {}

    @torch.no_grad()
    def run(self) -> list[str]:
        """Check and time everything.

        Returns:
            The configurations that were refused.

        Raises:
            Failure: the stock model itself cannot decode; nothing was timed.
        """
        reference = self._reference()
        for config in self._plan.configs:
            self._poll()
            self._check(config, reference)
        orders = random.Random(self._plan.seed)  # noqa: S311 - an order, not a secret
        longest_s = 0.0
        for repeat in range(self._plan.repeats):
            if repeat >= self._least_repeats and self._left_s() < longest_s:
                self._note(f"the time is used up: {repeat} of {self._plan.repeats} repeats")
                break
            started = time.monotonic()
            for name in orders.sample(list(self.timed), len(self.timed)):
                self._poll()
                self._time(self.timed[name], repeat, reference)
            longest_s = max(longest_s, time.monotonic() - started)
            self._note(f"repeat {repeat}: {time.monotonic() - started:.1f} s")
        return [config.name for config in self._plan.configs if config.name not in self.timed]

    def _reference(self) -> Reference:
        config = self._plan.configs[0]
        try:
            decoder = EagerDecoder(self._variants.ready(config), self._prompt.device)
            return decode_reference(decoder, self._prompt, self._positions)
        except Exception as error:
            failure = failure_of(error, self._probe)
            self._recorder.refused(config, failure, {})
            raise failure from error

    def _check(self, config: DecodeConfig, reference: Reference) -> None:
        """Compare a configuration with the reference; what passes is timed later."""
        found: dict[str, Any] = {
            "reference": self._plan.configs[0].name,
            "reference_sha256": tokens_sha256(reference.tokens.tolist()),
            "clock": clock.clock_of(self._prompt.device),
        }
        started = time.monotonic()
        try:
            model = self._variants.ready(config)
            families: set[str] = set()
            with count_calls(model) as calls, observe(lambda plan: families.add(plan.kernel)):
                decoder = self._decoder(config, model)
                agreement, chosen = compare(decoder, self._prompt, reference, self._bounds.large_gap_logits)
            found |= asdict(agreement) | self._cost(decoder.weight_bytes)
            if config.on_dispatch:
                found |= {"kernel_calls": _least_calls(calls, decoder.forwards)}
                found |= {"kernels": ", ".join(sorted(families))}
            judge(
                agreement,
                large_gap_logits=self._bounds.large_gap_logits,
                max_large_gap_share=self._bounds.max_large_gap_share[config.precision],
            )
        except Exception as error:  # one configuration's fault never ends the run
            failure = failure_of(error, self._probe)
            self._recorder.refused(config, failure, found)
            self._note(f"{config.name}: refused, {failure.detail}")
            return
        self._recorder.passed(config, found)
        self.timed[config.name] = Timed(config, decoder, chosen, decoder.weight_bytes)
        self._note(
            f"{config.name}: {agreement.disagreements} of {agreement.positions} decisions differ from "
            f"{found['reference']} ({time.monotonic() - started:.1f} s)"
        )

    def _time(self, timed: Timed, repeat: int, reference: Reference) -> None:
        config = timed.config
        try:
            self._variants.ready(config)
            times, tokens = clock.decode(
                timed.decoder, self._prompt, warm_up=WARM_UP_STEPS, steps=self._plan.steps
            )
            check_repeat(tokens, timed.chosen, reference)
        except Exception as error:  # see _check
            failure = failure_of(error, self._probe)
            self._recorder.refused(config, failure, {}, TIMING)
            self._note(f"{config.name}: refused in repeat {repeat}, {failure.detail}")
            del self.timed[config.name]
            return
        timed.rates.append(len(times) * _US_PER_S / sum(times))
        self._recorder.steps(
            config, repeat, times, WARM_UP_STEPS, tokens_sha256(tokens.tolist()), timed.weight_bytes
        )

    def _decoder(self, config: DecodeConfig, model: Any) -> Decoder:
        device, length = self._prompt.device, self._prompt.shape[1] + self._positions
        if not config.graph:
            return EagerDecoder(model, device)
        if device.type != "cuda":
            raise Failure("unsupported", "a CUDA graph needs a CUDA device")
        kind = FusedDecoder if config.layers == "fused" else StaticDecoder
        return GraphDecoder(kind(model, device, length), self._prompt)

    def _cost(self, weight_bytes: int) -> dict[str, int | None]:
        device = self._prompt.device
        peak = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None
        return {"weight_bytes": weight_bytes, "peak_memory_bytes": peak}

    def _probe(self) -> None:
        synchronise(self._prompt.device)


def _least_calls(calls: Calls, forwards: int) -> int:
    """Calls of dispatch in the layer that has fewest; a fused step's calls are outside of the model's layers.

    Raises:
        Failure: ``kernel-not-called``: some forward of some layer ran without dispatch.
    """
    least = calls.least() + calls.outside // len(calls.by_layer)
    if least < forwards:
        raise Failure(
            "kernel-not-called", f"dispatch ran {least} times in some layer, for {forwards} forwards"
        )
    return least
