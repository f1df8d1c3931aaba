# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""What a request says of its agent run, by explicit marks only."""

import pytest

from truezero.fields import NEMO_GYM_OWNED
from truezero.wire.inspector import Inspector
from truezero.wire.requests import AgentFailure
from truezero.wire.scan import simd_find

SCANS = {"scan": simd_find(), "parse": None}


@pytest.fixture(params=SCANS)
def inspect(request):
    """The inspection with and without the SIMD search."""
    return Inspector(NEMO_GYM_OWNED, find=SCANS[request.param]).inspect


MARKS = [
    (b'{"status":"failed"}', AgentFailure("failed", None)),
    (b'{"status":"cancelled","error":null}', AgentFailure("cancelled", None)),
    (b'{"status":"f\\u0061iled"}', AgentFailure("failed", None)),
    (b'{"status":"completed","status":"failed"}', AgentFailure("failed", None)),
    (b'{"st\\u0061tus":"failed","x":NaN}', AgentFailure("failed", None)),
    (b'{"error":{"code":"server_error","message":"m"}}', AgentFailure(None, "server_error")),
    (b'{"error":{"type":"a.B","code":null}}', AgentFailure(None, "a.B")),
    (b'{"error":{"message":"reward the model"}}', AgentFailure(None, None)),
    (b'{"error" : "rate_limited"}', AgentFailure(None, "rate_limited")),
    (b'{"error":"free text of a model"}', AgentFailure(None, None)),
    (b'{"error":{"code":"' + b"x" * 65 + b'"}}', AgentFailure(None, None)),
    (b'{"error":true,"x":NaN}', AgentFailure(None, None)),
    (b'{"status":"failed","error":{"code":"c"}}', AgentFailure("failed", "c")),
    (b'{"error":' + b"9" * 6000 + b"}", AgentFailure(None, None)),
    (b'{"error":null,"error":{"code":"c"}}', AgentFailure(None, "c")),
    (b'{"error":{"code":null,"message":"m"}}', AgentFailure(None, None)),
    (b'{"error":[null,"m"]}', AgentFailure(None, None)),
    (b'{"error":"none of the tools"}', AgentFailure(None, None)),
    (b'{"status":"failed","error":{"code":"none"}}', AgentFailure("failed", None)),
]


@pytest.mark.parametrize(("response", "failure"), MARKS)
@pytest.mark.parametrize("form", ["plain", "stripped", "utf-16", "duplicate"])
def test_an_explicit_mark_of_a_failed_agent_is_read(inspect, response, failure, form):
    """A failed or cancelled status and an error at the top of ``response`` are marks."""
    body = b'{"x":1,"response":' + response + b"}"
    if form == "stripped":
        body = b'{"reward":1,"reward":12,' + body[1:]
    elif form == "duplicate":
        body = b'{"response":{"status":"completed"},' + body[1:]
    elif form == "utf-16":
        body = body.decode().encode("utf-16")
    found = inspect(body)
    assert found.agent_failure == failure
    assert found.removed == (("reward", "reward") if form == "stripped" else ())


@pytest.mark.parametrize(
    "body",
    [
        b'{"response":{"status":"completed","error":null,"output":[]}}',
        b'{"response":{"status":"incomplete","incomplete_details":{"reason":"x"}}}',
        b'{"response":{"status":"in_progress"}}',
        b'{"response":{}}',
        b'{"response":{"output":[],"output_text":""}}',
        b'{"response":null}',
        b'{"response":"failed"}',
        b'{"response":["failed",{"error":1}]}',
        b'{"response":{"output":[{"status":"failed","error":{"code":"x"}}]}}',
        b'{"response":{"response":{"status":"failed"}}}',
        b'{"status":"failed","error":{"code":"x"}}',
        b'{"x":{"status":"failed"},"response":{"status":"completed"}}',
        b'{"response":{"status":"failed"},"response":{"status":"completed"}}',
        b'{"response":{"status":"failed","status":"completed"}}',
        b'{"response":{"error":{"code":"x"},"error":null}}',
        b'{"response":{"output_text":"\\"status\\": \\"failed\\", \\"error\\": 1"}}',
        b'{"response":{"error":"","x":1}}',
        b'{"response":{"error":{}}}',
        b'{"response":{"error":false}}',
        b'{"response":{"error":{"code":null,"message":null}}}',
        b'{"response":{"error":{"code":"none","message":" ","x":[{}]}}}',
        b'{"response":{"error":[null]}}',
        b'{"response":{"error":[]}}',
        b'{"response":{"error":" \\n"}}',
        b'{"response":{"error":"none"}}',
        b'{"response":{"error":"None"}}',
        b'{"response":{"error":"NULL"}}',
        b'{"response":{"error":' + b"[" * 900 + b"]" * 900 + b"}}",
        b'{"response":{"status":"FAILED"}}',
        b'{"response":{"status":["failed"]}}',
        b'{"response":{"status":"called","x":"filled"}}',
        b'{"response":{"x":[' + b'"led",' * 40 + b'1],"y":[' + b'{"error" : null},' * 40 + b"1]}}",
    ],
)
def test_nothing_else_marks_a_failed_agent(inspect, body):
    """Emptiness, other statuses, nested objects, texts and a replaced mark say nothing."""
    found = inspect(body)
    assert found.agent_failure is None
    assert found.body is body


def test_many_harmless_words_do_not_hide_a_mark(inspect):
    """A mark behind any number of words that look like it is found."""
    for mark in (b'"status":"failed"', b'"status":"cancelled"', b'"error":{"code":"c"}'):
        body = (
            b'{"response":{"x":["'
            + b'led","error","' * 60
            + b'"],"y":{"error":null},'
            + mark
            + b"}}"
        )
        assert inspect(body).agent_failure is not None
