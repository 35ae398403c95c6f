"""The client of all engines: guidellm's OpenAI backend under a bounded number of requests in flight.

``python -m producers.serve.client`` speaks JSON lines (:mod:`producers.jsonlines`) and lives for all points of
all engines. Several of these processes may share a load (:mod:`producers.serve.clients`). It imports guidellm and nothing of torch or of the data side. guidellm sends, parses the stream
and finds errors (an HTTP status, an error in a stream that began with 200, an empty answer); what is added
here is the time of every chunk, which it does not keep.

    hello  {}                                                -> client, client_version, python_version, pid
    point  {target, model, requests: [{body, start_s}],      -> results, duration_s, cpu_s
            concurrency, begin_at, silence_s, deadline_s}

A result is {error, input_tokens, output_tokens, cached_tokens, ttft_s, chunk_gaps_s, latency_s, start_s}. Times
are differences of one monotonic clock from just before a request is sent; latency ends at the last chunk;
``start_s`` counts from the point's start, as the ``start_s`` that is asked for (0: as soon as there is room).
The point starts at ``begin_at`` (Unix time), so that processes which share it start together.
"""

from __future__ import annotations

import asyncio
import os
import platform
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from itertools import pairwise
from typing import Any

from producers.jsonlines import Request, Wire

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # that uvloop is not installed
    from guidellm.backends.openai.http import OpenAIHTTPBackend
    from guidellm.backends.openai.request_handlers import (
        OpenAIRequestHandlerFactory,
        TextCompletionsRequestHandler,
    )
    from guidellm.schemas import GenerationRequest, GenerationRequestArguments, RequestInfo
    from guidellm.schemas.backends import OpenAIHTTPBackendArgs

Result = dict[str, Any]

_ENDPOINT = "/v1/completions"
_SHOWN_ERROR = 300


class TimedCompletions(TextCompletionsRequestHandler):  # type: ignore[misc]
    """Sends the body as it was drawn, and keeps when each chunk of tokens came."""

    def __init__(self) -> None:
        super().__init__()
        self.chunk_times: list[float] = []
        self.last_time: float | None = None

    def format(self, data: Any, *_: Any, **__: Any) -> Any:
        """The request's own body: prompt, lengths and sampling are the coordinator's."""
        return GenerationRequestArguments(stream=True, body=dict(data.columns["body"][0]))

    def extract_choices_and_usage(self, response: dict[str, Any]) -> Any:
        """Called once a data line, so the place to take the time."""
        choices, usage = super().extract_choices_and_usage(response)
        if choices:
            self.last_time = time.perf_counter()
            # A chunk may hold a token and no text (half a character); the last may hold the reason alone.
            if choices[0].get("text") or choices[0].get("finish_reason") is None:
                self.chunk_times.append(self.last_time)
        return choices, usage

    def compile_streaming(self, request: Any, arguments: Any) -> Any:
        """The answer, with the times where guidellm puts what a backend measured itself."""
        if self.streaming_usage is None:
            raise ValueError("the stream ended without the token counts: it was cut")
        response = super().compile_streaming(request, arguments)
        response.response_metrics = {"chunk_times": self.chunk_times, "last_time": self.last_time}
        return response


# guidellm finds handlers by endpoint and refuses to register a second one.
OpenAIRequestHandlerFactory.registry[_ENDPOINT] = TimedCompletions


def hello(_request: Request) -> Mapping[str, Any]:
    """Which program this is."""
    return {
        "client": "guidellm",
        "client_version": version("guidellm"),
        "python_version": platform.python_version(),
        "pid": os.getpid(),
    }


def point(request: Request) -> Mapping[str, Any]:
    """Send a point's requests; what goes wrong with one of them is its result's error."""
    return asyncio.run(
        drive(
            request["target"],
            request["model"],
            request["requests"],
            concurrency=request["concurrency"],
            begin_at=request["begin_at"],
            silence_s=request["silence_s"],
            deadline_s=request["deadline_s"],
        )
    )


async def drive(
    target: str,
    model: str,
    requests: Sequence[Mapping[str, Any]],
    *,
    concurrency: int,
    begin_at: float,
    silence_s: float,
    deadline_s: float,
) -> Mapping[str, Any]:
    """Send ``requests`` in order with at most ``concurrency`` in flight.

    Args:
        target: ``http://host:port``.
        model: the name that the server knows.
        requests: each with the JSON body of a streamed completion, and when to send it at the earliest.
        concurrency: requests in flight.
        begin_at: Unix time to start at; the past is now.
        silence_s: longest silence of the server within one request.
        deadline_s: after this time whatever is not done is an error.
    """
    arguments = OpenAIHTTPBackendArgs(
        target=target,
        model=model,
        request_format=_ENDPOINT,
        http2=False,
        timeout=silence_s,
        validate_backend=False,
    )
    backend = OpenAIHTTPBackend(arguments)
    results: list[Result] = [
        {"error": f"not done within {deadline_s:g} s", "start_s": None} for _ in requests
    ]
    waiting = iter(enumerate(requests))
    over = asyncio.Event()
    await backend.process_startup()
    await asyncio.sleep(max(0.0, begin_at - time.time()))
    began, cpu = time.perf_counter(), time.process_time()

    async def lane() -> None:
        for number, request in waiting:
            if over.is_set():
                return
            early = request["start_s"] - (time.perf_counter() - began)
            if early > 0:
                await asyncio.sleep(early)
            results[number]["start_s"] = time.perf_counter() - began
            results[number] |= await _one(backend, request["body"])

    lanes = [asyncio.create_task(lane()) for _ in range(min(concurrency, len(requests)))]
    _, late = await asyncio.wait(lanes, timeout=deadline_s)
    duration = time.perf_counter() - began
    # Taken now: a request that is cancelled may still come to some end of its own.
    results = [dict(result) for result in results]
    over.set()
    for task in late:
        task.cancel()
    await asyncio.gather(*lanes, return_exceptions=True)
    used = time.process_time() - cpu
    await backend.process_shutdown()
    return {"results": results, "duration_s": duration, "cpu_s": used}


async def _one(backend: Any, body: Mapping[str, Any]) -> Result:
    """One request from just before it is sent to its last chunk."""
    request = GenerationRequest(columns={"body": [dict(body)]})
    response = None
    began = time.perf_counter()
    try:
        async for answer, _ in backend.resolve(request, RequestInfo()):
            response = answer or response
    except Exception as error:  # whatever httpx, JSON or guidellm raise is this request's failure
        text = " ".join(f"{type(error).__name__}: {error}".split())
        return {"error": text[:_SHOWN_ERROR]}
    if response is None:
        return {"error": "no answer"}
    times = response.response_metrics["chunk_times"]
    last = response.response_metrics["last_time"]
    return {
        "error": None,
        "input_tokens": response.input_metrics.text_tokens,
        "output_tokens": response.output_metrics.text_tokens,
        "cached_tokens": response.input_metrics.cached_tokens,
        "ttft_s": times[0] - began if times else None,
        "chunk_gaps_s": [after - before for before, after in pairwise(times)],
        "latency_s": None if last is None else last - began,
    }


if __name__ == "__main__":
    os.environ["NO_PROXY"] = "*"  # the servers are on this machine
    Wire.take_over().serve({"hello": hello, "point": point})
    sys.exit(0)
