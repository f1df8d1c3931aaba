# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""A judge in a process of its own, healthy or in an outage on demand; knows nothing of rollouts.

``POST /verdict`` answers ``{"verdict": "correct" | "incorrect"}``. ``POST /outage`` with
``{"how": "status_500" | "status_429" | "drop" | null}`` begins an outage or ends it.
Run it with ``python examples/legacy_counter/judge.py --port 8001``; port 0 takes a free one. The
first line on stdout is its URL.
"""

import argparse
import json
import re
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

OUTAGES = {
    "status_500": HTTPStatus.INTERNAL_SERVER_ERROR,
    "status_429": HTTPStatus.TOO_MANY_REQUESTS,
}


class Judge(ThreadingHTTPServer):
    daemon_threads = True
    outage: str | None = None


class JudgeCall(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Judge

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == "/outage":
            self.server.outage = body["how"]
            self.answer(HTTPStatus.OK, {"outage": body["how"]})
        elif self.server.outage == "drop":
            self.close_connection = True  # no reply at all: the caller sees the line go dead
        elif self.server.outage is not None:
            self.answer(OUTAGES[self.server.outage], {"error": self.server.outage})
        else:
            found = body["expected"] in re.findall(r"\d+", body["answer"])
            self.answer(HTTPStatus.OK, {"verdict": "correct" if found else "incorrect"})

    def answer(self, status: HTTPStatus, body: dict[str, str | None]) -> None:
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)


def main() -> None:
    parser = argparse.ArgumentParser(description="A judge that can be told to fail.")
    parser.add_argument("--port", type=int, default=8001)
    server = Judge(("127.0.0.1", parser.parse_args().port), JudgeCall)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
