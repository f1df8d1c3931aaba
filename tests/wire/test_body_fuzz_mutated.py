# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Valid bodies with bytes changed at random: nothing raises, and nothing owned gets through."""

import json
import random

from truezero.fields import NEMO_GYM_OWNED
from truezero.wire.inspector import Inspector
from truezero.wire.replies import read_reply
from truezero.wire.scan import simd_find
from truezero.wire.splice import echo_with

SEEDS = [
    b'{"instance_config":{"mask_sample":true,"k":"v"},"reward":1}',
    b'{"instance_config":{"a":1},"instance_config":{"mask_s\\u0061mple":[1]},"x":1}',
    b'{"x":{"instance_config":{"mask_sample":1}},"instance_config":{"\\ud83d\\ude00":1}}',
    b'{"reward":1,"reward":[1,{"a":"b"}],"response":{"status":"failed","error":{"code":"c"}}}',
    '{"rew\\u0061rd":1,"é":"\U0001f600","instance_config":{"é":1,"é":12}}'.encode(),
    '{"reward":1.5,"instance_config":{"mask_sample":true}}'.encode("utf-16"),
]
BYTES = [bytes([value]) for value in range(256)]
PIECES = [
    *BYTES,
    *(BYTES[0x80:] * 2),
    b"\\ud800",
    b'\\"',
    b"\xed\xa0\x80",
    b'"reward":1,',
    b"\xef\xbb\xbf",
]


def test_mutated_bodies_never_raise():
    """Bytes put into or over valid bodies lead to a finding, an echo and a verdict, or to none."""
    rng = random.Random(3)
    find = simd_find()
    assert find is not None
    parsing, scanning = (Inspector(NEMO_GYM_OWNED, find=f) for f in (None, find))
    fields = {"reward": 0.0, "mask_sample": True}
    for _ in range(12_000):
        body = rng.choice(SEEDS)
        for _ in range(rng.choice((1, 1, 2, 3))):
            at = rng.randrange(len(body) + 1)
            body = body[:at] + rng.choice(PIECES) + body[at + rng.choice((0, 1)) :]
        found = parsing.inspect(body)
        assert scanning.inspect(body) == found, body
        for given in (body, found.body):
            echoed = echo_with(given, fields=fields, mask_nested=True)
            assert echoed is None or isinstance(json.loads(echoed.decode()), dict), given
        read_reply(body)
        if found.refused is None:
            for seen in generously(found.body):
                assert not any(NEMO_GYM_OWNED.owns(name) for name in seen), body


def generously(body):
    """The names of the object that readers which drop or strip more would see."""
    text = body.decode("utf-8", "ignore").strip().lstrip("\ufeff")
    for read_all in (json.loads, lambda text: json.JSONDecoder(strict=False).raw_decode(text)[0]):
        try:
            document = read_all(text)
        except ValueError:
            continue
        yield from [document] if isinstance(document, dict) else []
