"""Chromium without a window: opens the web page in tests, and takes its pictures."""

import base64
import itertools
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = """headless=new no-sandbox disable-gpu disable-dev-shm-usage no-first-run disable-background-networking
    disable-component-update disable-sync disable-quic remote-debugging-pipe"""
DROP = """
(name, data) => {
  const bytes = Uint8Array.from(atob(data), (one) => one.charCodeAt(0)), moved = new DataTransfer();
  moved.items.add(new File([bytes], name, { type: "image/png" }));
  document.querySelector("#zone").dispatchEvent(new DragEvent("drop", { dataTransfer: moved, bubbles: true }));
}"""


class BrowserError(Exception):
    """The browser is missing, has ended, or does not show what it should."""


class Browser:
    """Chromium, controlled by its DevTools protocol over a pipe."""

    def __init__(self, home: Path) -> None:
        found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
        if found is None:
            raise BrowserError(
                f"no browser: install one of {', '.join(BROWSERS)} (make test does so as root)"
            )
        (theirs, to_it), (from_it, its) = os.pipe(), os.pipe()
        command = [
            found,
            *(f"--{option}" for option in OPTIONS.split()),
            f"--user-data-dir={home}",
            "about:blank",
        ]
        # Which it expects there.
        plumbing = ["bash", "-c", f'exec "$@" 3<&{theirs} 4>&{its}', "bash"]
        self.process = subprocess.Popen(
            [*plumbing, *command],
            pass_fds=(theirs, its),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs)
        os.close(its)
        self.sending, self.receiving = open(to_it, "wb", 0), open(from_it, "rb")  # noqa: SIM115, PTH123
        self.numbers, self.events, self.session = itertools.count(), [], {}
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = {
            "sessionId": self.call("Target.attachToTarget", targetId=target, flatten=True)[
                "sessionId"
            ]
        }
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    numbers: Iterator[int]
    events: list[dict[str, Any]]
    session: dict[str, str]

    def call(self, method: str, **parameters: Any) -> Any:
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": parameters, **self.session}
        self.sending.write(json.dumps(message).encode() + b"\0")
        while (answer := json.loads(self._message())).get("id") != number:
            self.events.append(answer)
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error']}")
        return answer["result"]

    def _message(self) -> bytes:
        received = bytearray()
        while (byte := self.receiving.read(1)) != b"\0":
            if not byte:
                raise BrowserError("the browser has ended")
            received += byte
        return bytes(received)

    def open(self, address: str, width: int = 1280) -> None:
        """Show a page, and wait until it has all that it wants to show."""
        self.events.clear()
        self.size(width)
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=address)

    def size(self, width: int) -> None:
        """Make the window this wide; narrow windows are those of a phone."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=800,
            deviceScaleFactor=1,
            mobile=width < 500,
        )

    def ready(self) -> None:
        self.until("document.body?.dataset.ready")

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        found = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in found:
            raise BrowserError(f"{script}: {found}")
        return found["result"].get("value")

    def until(self, condition: str) -> Any:
        end = time.monotonic() + 20
        while not (value := self.run(condition)):
            if time.monotonic() > end:
                raise BrowserError(
                    f"waited in vain for {condition}; the page said {self.complaints()}"
                )
            time.sleep(0.02)
        return value

    def text(self, selector: str) -> str:
        return str(self.until(f"document.querySelector({selector!r})?.innerText"))

    def key(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def drop(self, name: str, data: bytes) -> None:
        self.run(f"({DROP})({name!r}, {base64.b64encode(data).decode()!r})")

    def complaints(self) -> list[Any]:
        kinds = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [event["params"] for event in self.events if event["method"] in kinds]

    def hosts(self) -> set[str]:
        """Where the page asked for anything."""
        sent = [
            one["params"]["request"]["url"]
            for one in self.events
            if one["method"] == "Network.requestWillBeSent"
        ]
        return {
            url.split("/")[2] for url in sent if not url.startswith(("blob:", "data:", "about:"))
        }

    def close(self) -> None:
        self.call("Browser.close")
        self.process.wait(20)
        self.sending.close()
        self.receiving.close()
