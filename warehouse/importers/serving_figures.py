"""Figures of a served run: from its requests where the file lists them all, else from the client's own summary.

The client's summary stands in ``serving_runs`` only where it can be believed. vLLM's counts an answer without
tokens as completed, with a TTFT of 0; SGLang's writes 0.0 for times that it lost; a client that does not stream
reports the whole latency as TTFT.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from warehouse import serving
from warehouse.importers.base import Row
from warehouse.importers.serving_detail import Detail
from warehouse.importers.values import Fields

_QUANTITIES = ("ttft", "tpot", "e2e")
_RATES = ("output_tokens_per_s", "requests_per_s", "total_tokens_per_s")
_DIFFERS = 1e-3  # relative: a figure of the client that is further from its requests' is kept beside it


@dataclass
class Client:
    """What a client's own summary says.

    Attributes:
        figures: columns of ``serving_runs``: tokens, rates, latencies.
        completed: the client's count of successes, answers without tokens included.
        asked: requests that were sent; None unknown.
        failed: the client's count of failures; None: it has none.
        tokenless: answers have no tokens by nature (embeddings).
    """

    figures: Row = field(default_factory=dict)
    completed: int | None = None
    asked: int | None = None
    failed: int | None = None
    tokenless: bool = False

    @property
    def unstreamed(self) -> bool:
        """Whether the client saw whole answers only: several tokens each, and no time between them."""
        tokens, completed = self.figures.get("output_tokens"), self.completed
        ttft, e2e = self.figures.get("ttft_mean_ms"), self.figures.get("e2e_mean_ms")
        several = bool(tokens and completed and tokens > completed)
        return several and (self.figures.get("itl_mean_ms") == 0 or (ttft is not None and ttft == e2e))


def figures(client: Client, detail: Detail, duration_s: float | None, reasons: list[str]) -> tuple[Row, Row]:
    """Choose between the requests and the client's summary, quantity by quantity.

    Args:
        client: the client's summary.
        detail: the requests; empty where the file lists none.
        duration_s: of the run.
        reasons: takes why a figure is NULL or not the client's.

    Returns:
        Columns of ``serving_runs``, and the client's figures that do not stand there.
    """
    whole = detail.listed > 0 and not detail.refused and detail.listed == _sent(client, detail)
    errors = detail.errors if whole else None
    asked = client.asked if client.asked is not None else (detail.listed if whole else None)
    made = _of_requests(client, detail, duration_s, reasons) if whole else _of_client(client, detail, reasons)
    made["requests_asked"] = asked
    made["requests_failed"] = serving.failed_requests(
        failed=client.failed, asked=asked, completed=client.completed, errors=errors
    )
    if made["requests_failed"] is None:
        reasons.append("how many requests failed is not in the file")
    if not made.get("itl_mean_ms"):
        made["itl_mean_ms"] = None
    return made, _unused(client, made)


def _of_requests(client: Client, detail: Detail, duration_s: float | None, reasons: list[str]) -> Row:
    made = detail.summary(duration_s)
    for name in _RATES:
        if made[name] is None:
            made[name] = client.figures.get(name)
    usable = [row for row in detail.rows if row["ok"]]
    if client.completed is not None and client.completed > len(usable):
        reasons.append(
            f"{client.completed - len(usable)} of {client.completed} completed are no usable successes"
        )
    for quantity in _QUANTITIES:
        due = [row for row in usable if quantity != "tpot" or row["output_tokens"] != 1]
        without = sum(row[f"{quantity}_ms"] is None for row in due)
        if not without:
            continue
        which = "those of the others"
        own = _latencies(client, quantity)
        if (
            client.completed == len(usable)
            and any(own.values())
            and not (client.unstreamed and quantity != "e2e")
        ):
            made.update(own)
            which = "the client's"
        elif without == len(due):
            which = "NULL"
        reasons.append(f"{quantity}: {without} of {len(due)} requests have none, the figures are {which}")
    return made


def _of_client(client: Client, detail: Detail, reasons: list[str]) -> Row:
    made = dict(client.figures)
    if detail.listed:
        why = f"{detail.refused} are refused" if detail.refused else f"{detail.listed} are listed"
        reasons.append(f"the figures are the client's: of {_sent(client, detail)} requests {why}")
    empty = sum(row["error"] == serving.NO_TOKENS for row in detail.rows)
    made["requests_completed"] = client.completed
    if client.completed and not client.tokenless and made.get("output_tokens") == 0:
        made["requests_completed"] = 0
        reasons.append(f"{client.completed} completed without output tokens")
    elif empty:
        made["requests_completed"] = None
        reasons.append(
            f"{empty} of the {detail.listed} requests that are listed completed without output tokens"
        )
    if not made["requests_completed"]:
        made.update({name: None for name in made if name.endswith("_ms") or name == "requests_per_s"})
        if client.completed:
            reasons.append("no latency and no request rate: the client's count answers that are none")
    elif client.unstreamed:
        made.update({name: None for name in made if name.startswith(("ttft_", "tpot_", "itl_"))})
        reasons.append("no TTFT and no time per token: the client did not see tokens one by one")
    return made


def _sent(client: Client, detail: Detail) -> int:
    """How many requests there were at least: as many as completed, where the client does not say."""
    return client.asked if client.asked is not None else max(detail.listed, client.completed or 0)


def _latencies(client: Client, quantity: str) -> Row:
    return {name: value for name, value in client.figures.items() if name.startswith(f"{quantity}_")}


def _unused(client: Client, made: Row) -> Row:
    """The client's figures that the row lacks, or has otherwise by more than rounding."""

    def stands(name: str, value: float) -> bool:
        here = made.get(name)
        return here is not None and abs(value - here) <= _DIFFERS * max(abs(value), abs(here))

    return {n: value for n, value in client.figures.items() if value is not None and not stands(n, value)}


def aggregates(fields: Fields, e2e: str) -> Row:
    """The latency summary of a client, in the columns of ``serving_runs``; a time of 0 is a missing one.

    Args:
        fields: the run's record.
        e2e: how the client spells end-to-end latency (``e2el``, ``e2e_latency``).
    """
    made: Row = {}
    for column, name in (("ttft", "ttft"), ("tpot", "tpot"), ("e2e", e2e)):
        made[f"{column}_mean_ms"] = fields.positive(f"mean_{name}_ms")
        made[f"{column}_p50_ms"] = fields.positive(f"median_{name}_ms", f"p50_{name}_ms")
        if column != "tpot":
            made[f"{column}_p99_ms"] = fields.positive(f"p99_{name}_ms")
    made["itl_mean_ms"] = fields.real("mean_itl_ms")  # 0 here says that nothing was streamed
    return made
