"""What a request over HTTP costs this process: CPU time, not the server's and not the wire's."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from run_support import child_environment

from gravbench.backends.openai import OpenAIBackend
from gravbench.protocols import Servers
from gravbench.records import DecodeConfig, Request

REQUESTS = 400
LIMIT_S = 0.002
SERVE = """
import sys
from http_servers import chat_server
with chat_server() as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def url() -> Iterator[str]:
    environment = child_environment()
    environment["PYTHONPATH"] += f":{Path(__file__).resolve().parents[1]}"
    with subprocess.Popen(
        [sys.executable, "-c", SERVE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        yield process.stdout.readline().strip()
        process.stdin.close()


@pytest.mark.bench
@pytest.mark.parametrize("stream", [False, True])
def test_a_request_costs_under_two_milliseconds(url: str, tmp_path: Path, stream: bool) -> None:
    from http_servers import picture

    image = tmp_path / "image.png"
    image.write_bytes(picture("several", "a line of text, read"))
    asked = [
        Request(request_id=str(n), sample_id=str(n), task="text", image_path=str(image), max_new_tokens=64)
        for n in range(REQUESTS)
    ]
    backend = OpenAIBackend(Servers(urls=(url,)), stream=stream)
    spent = []
    for _ in range(5):
        before = time.process_time()
        answers = backend.generate_batch(asked, DecodeConfig(strategy="ar:batch=8", max_new_tokens=64))
        spent.append((time.process_time() - before) / REQUESTS)
        assert all(answer.error is None for answer in answers)
    backend.close()
    print(json.dumps({"stream": stream, "cpu_ms_a_request": [round(1000 * s, 3) for s in spent]}))
    assert min(spent) < LIMIT_S
