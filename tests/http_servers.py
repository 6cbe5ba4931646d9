"""Small servers on this machine that speak OpenAI's chat endpoint, well or badly, as the image says."""

from __future__ import annotations

import base64
import json
import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "reader"
PNG = b"\x89PNG\r\n\x1a\n"
"""What a picture begins with here; the rest is `fault|text`."""
HANG_S = 30.0


def picture(fault: str, text: str) -> bytes:
    """An image file that asks the server for a fault and a text."""
    return PNG + f"{fault}|{text}".encode()


class ChatServer(ThreadingHTTPServer):
    """Counts what it was asked, and keeps the headers of the last request."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: Counter[str] = Counter()
        self.running = threading.Lock()
        self.under_way = self.most = 0
        self.headers: dict[str, str] = {}
        self.bodies: list[dict[str, Any]] = []
        self.stopped = threading.Event()
        self.info: dict[str, Any] = {"version": "0.5.23", "model_path": "m", "speculative_algorithm": None}
        """What `/server_info` of SGLang tells."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up are what is tested."""


def _wanted(url: str) -> tuple[str, str, str]:
    """What a picture asks for."""
    return base64.b64decode(url.partition(",")[2])[len(PNG) :].decode().partition("|")


def generated(fault: str, text: str, info: dict[str, Any]) -> dict[str, Any]:
    """SGLang's reply: a token a character and an end. A server that drafts accepts three of four a verify."""
    ids = [*map(ord, text), 0]
    told: dict[str, Any] = {
        "finish_reason": {"type": "abort" if fault == "abort" else "stop", "matched": 0},
        "prompt_tokens": 20,
        "completion_tokens": len(ids) + (fault == "count"),
        "cached_tokens": 5 if fault == "cached" else 0,
        "image_tokens": 12,
        "num_retractions": 0,
        "e2e_latency": 1e-6 if fault == "clock" else 3e-3,
    }
    if info.get("enable_metrics"):
        told["first_token_latency"] = 1e-3
    if info["speculative_algorithm"]:
        rounds = 1 if fault == "rounds" else -(-(len(ids) - 1) // 5)
        told |= {
            "spec_verify_ct": rounds,
            "spec_num_proposed_drafts": 4 * rounds,
            "spec_num_correct_drafts": 3 * rounds,
        }
    return {"text": text, "output_ids": ids, "meta_info": told}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    server: ChatServer

    def log_message(self, format: str, *args: object) -> None: ...

    def do_GET(self) -> None:
        if self.path == "/server_info":
            self._send(200, json.dumps(self.server.info).encode())
            return
        self._send(200, json.dumps({"data": [{"id": MODEL, "owned_by": "test"}]}).encode())

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == "/flush_cache":
            self.server.asked["/flush_cache"] += 1
            self._send(200, b"Cache flushed.")
            return
        if self.path == "/generate":
            self.server.bodies = [*self.server.bodies[-9:], body]
            fault, _, text = _wanted(body["image_data"])
            self._send(200, json.dumps(generated(fault, text, self.server.info)).encode())
            return
        url = body["messages"][0]["content"][0]["image_url"]["url"]
        fault, _, text = _wanted(url)
        server = self.server
        with server.running:
            server.asked[text] += 1
            server.headers, server.bodies = dict(self.headers), [*server.bodies[-9:], body]
            server.under_way += 1
            server.most = max(server.most, server.under_way)
        try:
            self._answer(body, fault, text)
        finally:
            with server.running:
                server.under_way -= 1

    def _answer(self, body: dict[str, Any], fault: str, text: str) -> None:
        if fault.isdigit():
            key = self.headers.get("authorization", "")
            self._send(int(fault), f"no, {key}".encode())
        elif fault == "hang":
            self.server.stopped.wait(HANG_S)
            self.close_connection = True
        elif fault == "once" and self.server.asked[text] == 1:
            self._reset()
        elif body["stream"]:
            self._stream(fault, text, body["max_tokens"])
        else:
            document = {"model": MODEL, "usage": self._usage(fault, text, body["max_tokens"])}
            document["choices"] = [{"message": {"content": text}, "finish_reason": "stop"}]
            data = json.dumps(document).encode()
            self._send(200, data[:-20] if fault == "truncated" else data)

    def _stream(self, fault: str, text: str, budget: int) -> None:
        step = 5 if fault == "several" else 1
        pieces = [text[at : at + step] for at in range(0, len(text), step)]
        if fault == "cumulative":
            pieces = [text[: at + 1] for at in range(len(text))]
        self.send_response(200)
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        for number, piece in enumerate(pieces):
            if fault == "reset" and number == 3:
                self.wfile.flush()
                self._reset()
                return
            self._event({"choices": [{"delta": {"content": piece}, "finish_reason": None}]}, fault)
        if fault == "truncated":
            self.wfile.write(b'data: {"choices": [{"del\n\n')
        finish = "tool_calls" if fault == "finish" else "stop"
        self._event({"choices": [{"delta": {}, "finish_reason": finish}]}, fault)
        if fault != "nousage":
            self._event({"choices": [], "usage": self._usage(fault, text, budget)}, fault)
        if fault != "short":
            self.wfile.write(b"data: [DONE]\n\n")

    def _event(self, document: dict[str, Any], fault: str) -> None:
        document["model"] = "other" if fault == "model" else MODEL
        self.wfile.write(b"data: " + json.dumps(document).encode() + b"\n\n")

    @staticmethod
    def _usage(fault: str, text: str, budget: int) -> dict[str, Any]:
        out = {"many": budget + 1, "none": 0, "minus": -1}.get(fault, len(text) + 1)
        cached = (
            {"prompt_tokens_details": {"cached_tokens": 4, "image_tokens": 6}} if fault == "cached" else {}
        )
        return {"completion_tokens": out, "prompt_tokens": 9, **cached}

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def _send(self, status: int, data: bytes) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def chat_server() -> Iterator[ChatServer]:
    """A server under way, ended with all of its answers."""
    server = ChatServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.stopped.set()
        server.shutdown()
        server.server_close()
        thread.join()
