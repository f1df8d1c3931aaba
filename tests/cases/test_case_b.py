# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Reported faults, section B: judges that fail."""

import asyncio
import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from asgi_driver import VERIFY, ask
from legacy_apps import fastapi_server
from pydantic import BaseModel

from truezero import JudgeUnparseableError, coverage, wrap
from truezero.decorators import judge

PROMPT, KEY = "THE PROMPT", "sk-abcdefghijklmnop1234"
asyncio_only = pytest.mark.parametrize("anyio_backend", ["asyncio"])


class Verdict(BaseModel):
    """What a judge answers."""

    score: float


@pytest.fixture(scope="module")
def judge_url():
    """A judge over a real socket; the path says what it does."""

    class Judge(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["content-length"]))
            word = self.path.strip("/")
            if word == "slow":
                released.wait(30)
                return
            status = int(word) if word.isdigit() else 200
            body = b"<html>no</html>" if status != 200 else json.dumps({"score": 0}).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    released = threading.Event()
    with ThreadingHTTPServer(("127.0.0.1", 0), Judge) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        released.set()
        server.shutdown()
        thread.join()


def judged(url):
    """A scorer that asks the judge inside its block, and scores outside of it."""

    async def score(body):
        if body.expected == "no prompt":
            {}["template"]
        patience_s = 0.2 if url.endswith("slow") else 20
        async with judge("rubric"), httpx.AsyncClient(timeout=patience_s) as http:
            headers = {"authorization": f"Bearer {KEY}"}
            reply = await http.post(url, json={"prompt": PROMPT}, headers=headers)
            reply.raise_for_status()
            verdict = Verdict.model_validate_json(reply.content)
        return verdict.score

    return score


def closed_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{held.getsockname()[1]}"


@asyncio_only
@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("429", 503, "429"),
        ("500", 503, "500"),
        ("slow", 503, "ReadTimeout"),
        (None, 503, "ConnectError"),
        ("401", 424, "401"),
    ],
    ids=["429", "500", "timeout", "refused", "401"],
)
async def test_every_way_a_judge_call_fails_is_one_kind(judge_url, path, status, words):
    """All are ``judge_failed``; a wrong key is terminal; the reason has no key and no prompt."""
    # case B01
    url = closed_port() if path is None else f"{judge_url}/{path}"
    got = await ask(wrap(fastapi_server(judged(url)), server="unit", mode="http"))
    assert (got.status, got.json["failure_kind"]) == (status, "judge_failed")
    assert words in got.json["failure_reason"]
    assert KEY not in got.body.decode()
    assert PROMPT not in got.body.decode()


@asyncio_only
async def test_only_the_call_is_the_judges(judge_url):
    """An error page is told by its status, and a bug before the call is the verifier's."""
    # case B02
    app = wrap(fastapi_server(judged(f"{judge_url}/401")), server="unit")
    failed = (await ask(app)).json
    assert failed["failure_kind"] == "judge_failed"
    assert "401" in failed["failure_reason"]
    assert "validation" not in failed["failure_reason"].lower()
    bug = (await ask(app, body={**VERIFY, "expected": "no prompt"})).json
    assert bug["failure_kind"] == "verifier_error"


@asyncio_only
async def test_an_unreadable_verdict_is_told_from_a_zero(judge_url):
    """No verdict in the judge's words masks; a judge that says 0 scores 0."""
    # case B03

    async def score(body):
        async with judge():
            if body.expected in {"I think fine", ""}:
                raise JudgeUnparseableError("no verdict in the judge's answer")
        return await judged(f"{judge_url}/judge")(body)

    app = wrap(fastapi_server(score), server="unit", mode="http")
    for said in ("I think fine", ""):
        got = await ask(app, body={**VERIFY, "expected": said})
        assert (got.status, got.json["failure_kind"]) == (424, "judge_unparseable")
    assert (await ask(app)).json["reward"] == 0.0
    assert coverage(app).scored == 1


@asyncio_only
async def test_three_of_five_failed_judges_make_no_average(judge_url):
    """A required judge call that failed voids the verdict; the reason counts what failed."""
    # case B05

    async def score(body):
        asked = ["judge", "500", "judge", "429", "500"]
        calls = [judged(f"{judge_url}/{path}")(body) for path in asked]
        said = await asyncio.gather(*calls, return_exceptions=True)
        failed = [each for each in said if isinstance(each, Exception)]
        if failed:
            raise ExceptionGroup("judges", failed)
        return sum(said) / len(said)

    got = (await ask(wrap(fastapi_server(score), server="unit"))).json
    assert (got["failure_kind"], got["mask_sample"]) == ("judge_failed", True)
    assert got["failure_reason"].startswith("3 failed: ")
