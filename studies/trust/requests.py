"""Requests made from the server's own OpenAPI document: by schemathesis, and a small form without it."""

import json
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

from trust.counters import Counters
from trust.soak import ask_server, serving

VALUES = [
    "",
    "0",
    "-1",
    "1e400",
    "nan",
    "true",
    "null",
    "[]",
    "a" * 500,
    "%",
    "\u202e",
    "1;2",
    "9" * 30,
    "../..",
]


def run_schemathesis(base: Path, work: Path, counters: Counters, examples: int, seed: int) -> None:
    """Let schemathesis check the whole document: no server error, statuses and content as the
    document says.
    """
    with serving(base, work) as (port, _):
        command = [
            sys.executable,
            "-m",
            "schemathesis.cli",
            "run",
            f"http://127.0.0.1:{port}/openapi.json",
        ]
        command = [
            *command,
            "--max-examples",
            str(examples),
            "--seed",
            str(seed),
            "--no-color",
            "--suppress-health-check",
            "all",
        ]
        command += [
            "--checks",
            "not_a_server_error,status_code_conformance,content_type_conformance",
        ]
        command += ["--checks", "response_schema_conformance,response_headers_conformance"]
        ended = subprocess.run(command, capture_output=True, text=True, cwd=work, check=False)
    found = re.search(r"([\d,]+) generated", ended.stdout)
    counters.add("schemathesis", "tried", int(found[1].replace(",", "")) if found else 0)
    (work / "schemathesis.txt").write_text(ended.stdout + ended.stderr)
    if ended.returncode or not found:
        counters.fail(
            "schemathesis", f"exit {ended.returncode}: {(ended.stdout + ended.stderr)[-3000:]}"
        )
    counters.save()


def run_document(
    base: Path, work: Path, counters: Counters, requests: int, served: str = "big-map"
) -> None:
    """Call every address of the document with random parameters and bodies; each status must be a
    documented one.
    """
    with serving(base, work, served) as (port, _):
        document = json.loads(ask_server(port, "GET", "/openapi.json")[1])
        calls = [
            (path, method, call)
            for path, of in document["paths"].items()
            for method, call in of.items()
        ]
        for number in range(counters.get("document", "tried"), requests):
            path, method, call = calls[number % len(calls)]
            draw = random.Random(f"document {number}")
            status, body = _call(port, path, method, call, draw, _session(port, path, draw))
            counters.add("document", "tried")
            if status >= 500 and status != 503:
                counters.fail(
                    "document", f"request {number}, {method} {path}: {status} {body[:200]!r}"
                )
            elif (
                str(status) not in call["responses"]
                and "default" not in call["responses"]
                and status not in (404, 405)
            ):
                counters.fail(
                    "document",
                    f"request {number}, {method} {path}: {status} is not in the document",
                )
    counters.save()


def _session(port: int, path: str, draw: random.Random) -> str | None:
    """The id of a new session, for most calls of a session; a stream of events would last for
    seconds.
    """
    if not path.startswith("/sessions/{") or path.endswith("/events") or draw.random() < 0.2:
        return None
    status, body = ask_server(port, "POST", "/sessions", b"", {})
    return str(json.loads(body)["id"]) if status == 200 else None  # there may be too many


def _call(
    port: int,
    path: str,
    method: str,
    call: dict[str, Any],
    draw: random.Random,
    session: str | None,
) -> tuple[int, bytes]:
    query = []
    for parameter in call.get("parameters", []):
        if parameter["in"] == "path":
            given = (
                session
                if parameter["name"] == "session" and session
                else draw.choice(VALUES) or "x"
            )
            path = path.replace(f"{{{parameter['name']}}}", quote(given))
        elif draw.random() < 0.5 or (session and parameter["required"]):
            value = draw.choice([*VALUES, "12.5", "0"]) if session else draw.choice(VALUES)
            query.append(f"{parameter['name']}={quote(value)}")
    body, headers = None, {}
    if "requestBody" in call:
        headers["Content-Type"] = draw.choice([*call["requestBody"]["content"], "text/plain", ""])
        body = draw.randbytes(draw.choice([0, 10, 1000]))
    return ask_server(
        port, method.upper(), path + ("?" + "&".join(query) if query else ""), body, headers
    )
