"""When a page becomes usable in headless Chromium, over its own debugging pipe: no driver, no socket."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from report_support import CHROMIUM_FLAGS, chromium

READ_FD, WRITE_FD = 3, 4
"""Where Chromium reads its commands and writes its answers."""

WATCH = """
window.whenReady = new Promise((done) => {
  const seen = new MutationObserver(() => {
    if (document.documentElement.dataset.ready) {
      seen.disconnect();
      setTimeout(() => done(performance.now()), 0);
    }
  });
  seen.observe(document, { attributes: true, subtree: true, attributeFilter: ["data-ready"] });
});
"""
"""Resolves once the page has said it is ready and its thread is free again; milliseconds from navigation."""


class Browser:
    """Commands to one Chromium, one at a time."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers, self._rest, self._last = commands, answers, b"", 0

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """The result of a command; events are skipped."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._last:
            pass
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            data = os.read(self._answers, 1 << 16)
            assert data, "Chromium has gone"
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """A Chromium that ends with the block."""
    read_commands, commands = os.pipe()
    answers, write_answers = os.pipe()
    shell = f'exec "$@" {READ_FD}<&{read_commands} {WRITE_FD}>&{write_answers}'
    flags = [*CHROMIUM_FLAGS, "--remote-debugging-pipe", f"--user-data-dir={profile}"]
    process = subprocess.Popen(
        ["bash", "-c", shell, "chromium", str(chromium()), *flags, "about:blank"],
        pass_fds=(read_commands, write_answers),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(read_commands)
    os.close(write_answers)
    try:
        yield Browser(commands, answers)
    finally:
        process.kill()
        process.wait()
        os.close(commands)
        os.close(answers)


def seen_in(page: Path, profile: Path, look: str, *, fragment: str = "", width: int = 1280) -> Any:
    """What the script `look` (an async function's body) returns in the page once it is ready, as JSON.

    `width` is that of the window in pixels.
    """
    with browser(profile) as chrome:
        tab = chrome.call("Target.createTarget", url="about:blank")["targetId"]
        session = chrome.call("Target.attachToTarget", targetId=tab, flatten=True)["sessionId"]
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
        chrome.call("Emulation.setDeviceMetricsOverride", session, **size)
        chrome.call("Page.enable", session)
        chrome.call("Page.addScriptToEvaluateOnNewDocument", session, source=WATCH)
        chrome.call("Page.navigate", session, url=page.as_uri() + fragment)
        script = f"whenReady.then(async () => JSON.stringify(await (async () => {{ {look} }})()))"
        answer = chrome.call(
            "Runtime.evaluate", session, expression=script, awaitPromise=True, returnByValue=True
        )
        assert "value" in answer["result"], answer
        return json.loads(answer["result"]["value"])


def interactive_ms(page: Path, profile: Path, *, loads: int) -> list[float]:
    """Milliseconds from navigation to a page that is ready and idle, once a fresh tab."""
    found = []
    with browser(profile) as chrome:
        for _ in range(loads):
            tab = chrome.call("Target.createTarget", url="about:blank")["targetId"]
            session = chrome.call("Target.attachToTarget", targetId=tab, flatten=True)["sessionId"]
            chrome.call("Page.enable", session)
            chrome.call("Page.addScriptToEvaluateOnNewDocument", session, source=WATCH)
            chrome.call("Page.navigate", session, url=page.as_uri())
            answer = chrome.call(
                "Runtime.evaluate", session, expression="whenReady", awaitPromise=True, returnByValue=True
            )
            found.append(float(answer["result"]["value"]))
            chrome.call("Target.closeTarget", targetId=tab)
    return found
