"""An OpenAI-compatible server that misbehaves on purpose: ``python bad_server.py --port N --mode MODE``.

Standard library only. Modes: see MODES; ``ok`` streams as many words as are asked for, one a chunk.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MODES = {
    "ok": "streams as many tokens as are asked for",
    "slow-start": "says 503 for a second, then is well",
    "never-healthy": "says 503 for ever",
    "exits": "ends while it starts",
    "out-of-memory": "ends while it starts, with what an engine says then",
    "503": "is healthy and refuses every request",
    "in-band": "answers 200 and puts an error into the stream",
    "zero-tokens": "answers 200 with no token",
    "dropped": "closes the connection in the middle of a stream",
    "cut": "ends the stream before the counts",
    "one-in-three": "refuses every third request",
    "crash": "ends at once at its sixth request",
    "hang": "takes a request and says nothing",
    "short": "gives one token fewer than it was asked for",
    "chunky": "puts two tokens into a chunk",
    "buffered": "sends all tokens in one chunk",
    "family": "has a child in a session of its own, and both ignore SIGTERM",
}


class Handler(BaseHTTPRequestHandler):
    """Answers by the server's mode."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        age = time.monotonic() - self.server.began
        mode = self.server.mode
        well = mode != "never-healthy" and not (mode == "slow-start" and age < 1.0)
        self.plain(200 if well else 503)

    def do_POST(self) -> None:
        mode = self.server.mode
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.requests += 1
            number = self.server.requests
        if mode == "crash" and number == 6:
            print("fatal: the sixth request", flush=True)
            os._exit(9)
        if mode == "503" or (mode == "one-in-three" and number % 3 == 0):
            self.plain(503)
            return
        if mode == "hang":
            time.sleep(600)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if mode == "in-band":
            self.event({"error": {"message": "the scheduler is full", "code": 503}})
            self.done()
            return
        tokens = int(body["max_tokens"]) - (mode == "short")
        tokens = 0 if mode == "zero-tokens" else tokens
        step = {"chunky": 2, "buffered": tokens}.get(mode, 1)
        for sent in range(0, tokens, max(step, 1)):
            if mode == "dropped" and sent == 2:
                self.wfile.flush()
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            time.sleep(self.server.token_s)
            self.event({"choices": [{"text": " word" * step, "finish_reason": None}]})
        if mode != "cut":
            counts = {"prompt_tokens": len(body["prompt"].split()), "completion_tokens": tokens}
            self.event({"choices": [{"text": "", "finish_reason": "length"}], "usage": counts})
        self.done()

    def plain(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def event(self, content: object) -> None:
        self.chunk(f"data: {json.dumps(content)}\n\n".encode())

    def chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def done(self) -> None:
        self.chunk(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, form: str, *arguments: object) -> None:
        print(form % arguments, file=sys.stderr)


class Server(ThreadingHTTPServer):
    """A server with a mode."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, mode: str, token_s: float) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.mode, self.token_s = mode, token_s
        self.began = time.monotonic()
        self.requests = 0
        self.lock = threading.Lock()

    def handle_error(self, *_: object) -> None:
        """A connection that this server closed on purpose is no news."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--mode", choices=MODES, required=True)
    parser.add_argument("--token-s", type=float, default=0.002)
    options = parser.parse_args()
    if options.mode == "exits":
        sys.exit("cannot: no such architecture")
    if options.mode == "out-of-memory":
        sys.exit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB")
    if options.mode == "family":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    print("listening", flush=True)
    Server(options.port, options.mode, options.token_s).serve_forever()


if __name__ == "__main__":
    main()
