"""Serves the engines of a run one after the other, and records every point before the next begins."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from producers.budget import Budget
from producers.environment import ROOT, Environment
from producers.errors import PeerError, RefusedError
from producers.recorder import Row, scrub
from producers.serve import prompts
from producers.serve.clients import MAX_STARTS, Clients
from producers.serve.engines import Engine, Served
from producers.serve.plan import Plan, Point
from producers.serve.recorder import ServeRecorder, Setting
from producers.serve.server import EngineError, Server, environment, find_program, free_port

_DEATH_S = 1.0  # requests fail before their server's end is known
_MARGIN = 1.5
_VERSIONS_S = 120.0
_FREE_WITHIN_S = 60.0
_MEMORY_SLACK_BYTES = 256 << 20

_VERSIONS = (
    "import json,sys\n"
    "from importlib.metadata import PackageNotFoundError, version\n"
    "found = {}\n"
    "for name in sys.argv[1:]:\n"
    "    try:\n"
    "        found[name] = version(name)\n"
    "    except PackageNotFoundError:\n"
    "        found[name] = None\n"
    "print(json.dumps(found))\n"
)


@dataclass(frozen=True)
class Place:
    """Where things are on this machine, and how long they may take: nothing of it is part of the plan.

    Attributes:
        model: what the engines are pointed at.
        config_sha256: of its ``config.json``.
        vocabulary: of its tokenizer.
        interpreters: engine (or ``client``) -> Python.
        import_paths: engine (or ``client``) -> folders first on its import path.
        logs: folder of the servers' logs and of the prompts.
        work: a neutral working folder.
        health_timeout_s: how long a server may take to be ready.
        request_timeout_s: longest silence of a server within a request.
        point_timeout_s: longest a point may take.
        stop_timeout_s: how long a server may take to end when asked to, before it is killed.
    """

    model: Served
    config_sha256: str
    vocabulary: prompts.Vocabulary
    interpreters: Mapping[str, str]
    import_paths: Mapping[str, tuple[str, ...]]
    logs: Path
    work: Path
    health_timeout_s: float
    request_timeout_s: float
    point_timeout_s: float
    stop_timeout_s: float


@dataclass
class Session:
    """One invocation: all its engines, one client.

    Args:
        plan: what is measured.
        place: where.
        device: the machine.
        recorder: writes to the lake.
        budget: when to stop.
        clients: make the load.
        say: shows a line.
    """

    plan: Plan
    place: Place
    device: Environment
    recorder: ServeRecorder
    budget: Budget
    clients: Clients
    say: Callable[[str], None]
    refused: list[Point] = field(default_factory=list)
    _lasted_s: dict[tuple[str, int], float] = field(default_factory=dict)

    def run(self, engines: Sequence[Engine], done: set[Point]) -> None:
        """Measure every point of ``engines`` that is not ``done``.

        Raises:
            StoppedError: the budget is spent or a signal came.
            RefusedError: a server left memory of the card in use.
            WarehouseError: the lake cannot be written.
        """
        try:
            for engine in engines:
                pending = [point for point in self.plan.points(engine.name) if point not in done]
                if pending:
                    self._engine(engine, pending)
        finally:
            self.clients.close()

    def epitaph(self) -> dict[str, Any]:
        """Command, env and cwd of what marks the run as interrupted, should this process vanish."""
        words = [sys.executable, "-m", "producers.serve.epitaph", str(self.recorder.lake.resolve())]
        words += [self.recorder.run_id, str(self.recorder.invocation)]
        return {"command": words, "env": dict(os.environ), "cwd": str(ROOT)}

    # ---- one engine ----

    def _engine(self, engine: Engine, pending: list[Point]) -> None:
        setting = self._setting(engine, {})
        for start in range(MAX_STARTS):
            if not pending:
                return
            used = self._memory_used()
            try:
                self._connect()
                setting = self._setting(engine, self._versions(engine))
                server = self._start(engine, start)
            except EngineError as error:
                self._refuse(pending, setting, error)
                return
            try:
                ready_s = server.wait_healthy(engine.health, self.place.health_timeout_s, self.say)
                self.say(f"{engine.name}: ready after {ready_s:.0f} s")
                setting = Setting(
                    setting.columns, {**setting.extra, "ready_s": round(ready_s, 1), "start": start}
                )
                pending = self._points(engine, server, setting, pending)
            except EngineError as error:
                self._refuse(pending, setting, error)
                pending = []
            finally:
                killed = server.stop()
                self.say(f"{engine.name}: stopped" + (f", {killed} processes by force" if killed else ""))
            self._await_memory(engine, used)
        self._refuse(pending, setting, EngineError("server-died", f"{MAX_STARTS} times under load"))

    def _points(self, engine: Engine, server: Server, setting: Setting, pending: list[Point]) -> list[Point]:
        """Measure points until none is left, or the server is gone; returns those that are left."""
        for place, point in enumerate(pending):
            self.budget.check(self._lasted_s.get((point.engine, point.concurrency), 0.0) * _MARGIN)
            began = time.monotonic()
            row = self._point(engine, server, setting, point)
            self._lasted_s[point.engine, point.concurrency] = time.monotonic() - began
            self._tell(point, row)
            if not server.alive():
                return pending[place + 1 :]
        return []

    def _point(self, engine: Engine, server: Server, setting: Setting, point: Point) -> Row:
        plan = self.plan
        count = plan.requests_of(point.concurrency)
        label = f"c{point.concurrency}/r{point.repeat}"
        drawn = prompts.draw(self.place.vocabulary, plan.seed, label, count, plan.input_tokens)
        warm = prompts.draw(
            self.place.vocabulary, plan.seed, f"{label}/warm-up", point.concurrency, plan.input_tokens
        )
        hashed = prompts.sha256(drawn)
        (self.place.logs / f"prompts-c{point.concurrency}-r{point.repeat}.jsonl").write_bytes(
            prompts.encode(drawn)
        )
        starts = prompts.arrivals(plan.seed, label, count, plan.request_rate)
        setting = Setting({**setting.columns, **self.clients.columns}, setting.extra)
        try:
            self._connect()
            self._ask(engine, server, point, warm, [0.0] * len(warm))
            answer = self._ask(engine, server, point, drawn, starts)
        except EngineError as error:
            self.refused.append(point)
            return self.recorder.point(plan, point, setting, hashed, {}, (error.code, error.detail))
        failure = None
        broken = any(result["error"] for result in answer["results"])
        if not server.alive(_DEATH_S if broken else 0.0):
            died = server.died("under load")
            failure = (died.code, died.detail)
        row = self.recorder.point(plan, point, setting, hashed, answer, failure)
        if row["status"] != "passed":
            self.refused.append(point)
        return row

    def _ask(
        self,
        engine: Engine,
        server: Server,
        point: Point,
        asked: Sequence[prompts.Prompt],
        starts: Sequence[float],
    ) -> Mapping[str, Any]:
        served = self.place.model
        deadline = max(1.0, min(self.place.point_timeout_s, self.budget.left_s()))
        requests = [
            {"body": engine.body(served, prompt, self.plan.output_tokens), "start_s": start}
            for prompt, start in zip(asked, starts, strict=True)
        ]
        try:
            return self.clients.point(
                requests,
                concurrency=point.concurrency,
                deadline_s=deadline,
                target=server.target,
                model=served.name,
                silence_s=self.place.request_timeout_s,
            )
        except PeerError as error:
            detail = f"{error}; log of the server: {server.last_lines()}"
            raise EngineError("client-crashed", detail) from error

    # ---- what an engine is ----

    def _command(self, engine: Engine) -> list[str]:
        if engine.program is not None:
            return [find_program(engine.program)]
        return [find_program(self.place.interpreters.get(engine.name, sys.executable))]

    def _paths(self, engine: Engine) -> tuple[str, ...]:
        return self.place.import_paths.get(engine.name, ())

    def _versions(self, engine: Engine) -> dict[str, str | None]:
        """Versions of an engine's packages, asked of its own interpreter.

        Raises:
            EngineError: ``not-installed``.
        """
        if not engine.packages:
            return {}
        python = self._command(engine)[0]
        env = environment(engine.environment, python, self._paths(engine))
        try:
            done = subprocess.run(
                [python, "-c", _VERSIONS, *engine.packages],
                env=env,
                cwd=self.place.work,
                capture_output=True,
                text=True,
                check=True,
                timeout=_VERSIONS_S,
            )
            found: dict[str, str | None] = json.loads(done.stdout)
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            raise EngineError(
                "not-installed", f"{Path(python).name} cannot say its packages: {error}"
            ) from error
        if found[engine.packages[0]] is None:
            raise EngineError(
                "not-installed",
                f"{Path(python).name} has no package '{engine.packages[0]}'; name another interpreter or a "
                f"folder with --interpreter or --import-path {engine.name}=...",
            )
        return found

    def _start(self, engine: Engine, start: int) -> Server:
        if engine.needs_weights and self.place.model.weightless:
            raise EngineError("unsupported", f"{engine.name} cannot make up the weights of {self.plan.model}")
        command = self._command(engine)
        port = free_port()
        extra = self.plan.arguments.get(engine.name, ())
        self.say(f"{engine.name}: starting on port {port}")
        return Server(
            engine.name,
            [*command, *engine.arguments(self.place.model, port), *extra],
            env=environment(engine.environment, command[0], self._paths(engine)),
            cwd=self.place.work,
            log=self.place.logs / f"{engine.name}-{self.recorder.invocation}-{start}.log",
            port=port,
            epitaph=self.epitaph(),
            poll=self.budget.check,
            grace_s=self.place.stop_timeout_s,
        )

    def _setting(self, engine: Engine, versions: Mapping[str, str | None]) -> Setting:
        """What the rows say of an engine; its arguments without the paths and the port of this machine."""
        extra = self.plan.arguments.get(engine.name, ())
        shown = Served(self.plan.model, self.plan.model, self.place.model.weightless)
        words = [
            "PORT" if word == "0" and before == "--port" else word for before, word in _pairs(engine, shown)
        ]
        device = self.device.device
        arguments = {
            "arguments": [*words, *(scrub(word) for word in extra)],
            "environment": dict(engine.environment),
        }
        columns = {
            "engine_version": versions.get(engine.packages[0]) if engine.packages else None,
            "device": device.device if device.is_cuda else "cpu",
            "device_uuid": device.device_uuid,
            "prefix_cache": engine.cache_state(extra),
            "server_args_json": json.dumps(arguments, sort_keys=True),
        }
        extra_json = {
            "versions": dict(versions),
            "config_sha256": self.place.config_sha256,
            "client_processes": self.clients.count,
        }
        return Setting(columns, extra_json)

    # ---- the client ----

    def _connect(self) -> None:
        """Have a client that answers.

        Raises:
            EngineError: ``client-crashed``.
        """
        try:
            self.clients.connect()
        except PeerError as error:
            detail = f"{error}; it needs guidellm: see docs/serving.md, or --interpreter client=..."
            raise EngineError("client-crashed", detail) from error

    # ---- what is told, and what is left behind ----

    def _refuse(self, points: Sequence[Point], setting: Setting, error: EngineError) -> None:
        if points:
            self.refused += points
            columns = {**setting.columns, **self.clients.columns}
            self.recorder.refusals(
                self.plan, points, Setting(columns, setting.extra), error.code, error.detail
            )
            self.say(f"{points[0].engine}: {len(points)} points refused, {error}")

    def _tell(self, point: Point, row: Row) -> None:
        if row["status"] != "passed":
            self.say(f"{point}: refused, {row['reason']}")
            return
        self.say(
            f"{point}: {row['output_tokens_per_s'] or 0:.1f} output tokens/s, TTFT p50 "
            f"{row['ttft_p50_ms'] or 0:.1f} ms, {row['requests_failed']} of {row['requests_asked']} failed"
        )

    def _memory_used(self) -> int | None:
        return None if self.device.card is None else self.device.card.memory_used_bytes()

    def _await_memory(self, engine: Engine, before: int | None) -> None:
        """Wait until a stopped server's memory of the card is free again.

        Raises:
            RefusedError: it is not; what is measured next would share the card.
        """
        if before is None:
            return
        deadline = time.monotonic() + _FREE_WITHIN_S
        while (now := self._memory_used()) is not None and now > before + _MEMORY_SLACK_BYTES:
            if time.monotonic() > deadline:
                raise RefusedError(
                    f"{engine.name} was stopped and {(now - before) / 2**20:.0f} MB of the card are still in "
                    "use; see nvidia-smi before anything else is measured there."
                )
            time.sleep(1.0)


def _pairs(engine: Engine, served: Served) -> list[tuple[str, str]]:
    words = engine.arguments(served, 0)
    return list(zip(["", *words], words, strict=False))
