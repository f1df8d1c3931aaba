# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Generated bodies, compared with a plain model on top of the standard library's parser."""

import json
import random
from dataclasses import dataclass

import pytest

from truezero.fields import NEMO_GYM_OWNED
from truezero.wire.inspector import Inspector
from truezero.wire.replies import ReplyReader
from truezero.wire.scan import simd_find
from truezero.wire.splice import echo_with

NAMES = [
    "reward", "mask_sample", "failure_kind", "failure_reason", "reward_components",
    "_ng_failure_class", "_ng_failure_", "_ng_no_persist", "_ng_task_index", "_ng_rollout_id",
    "instance_config", "response", "responses_create_params", "verifier_metadata", "status",
    "error", "keep", "rewards", "Reward", "reward ", "", "é", "\U0001f600", "a\\", 'a"reward',
    "mask_sample\x00", "failure", "x,",
]  # fmt: skip
SCALARS = [
    "null", "true", "false", "0", "1", "-0", "-0.0", "1.10", "1e5", "1E+400", "-1e999",
    "123456789012345678901234567890", "NaN", "Infinity", "-Infinity", '""', '"a"', '"failed"',
    '"cancelled"', '"completed"', '"reward"', '"\\"reward\\": 1"', '"\\\\"', '",\\""',
    '"\\u001b[0m"', '"\\u0061"', '"\\ud83d\\ude00"', '"\\ud800"', '"\\udc00x"', '"é"',
    '"\U0001f600"', '"{\\"mask_sample\\":true}"', '"called"', '"}"', '"]"', '"f\\u0061iled"',
    "0.5", "[]", "{}",
]  # fmt: skip
ENCODINGS = ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"]


def spellings():
    """Every name plainly, and with each of its characters escaped in turn."""
    rng = random.Random(0)
    plain = [json.dumps(name, ensure_ascii=only) for name in NAMES for only in (True, False)]
    escaped = [
        json.dumps(name[:at])[:-1]
        + f"\\u{ord(name[at]):04{rng.choice('xX')}}"
        + json.dumps(name[at + 1 :])[1:]
        for name in NAMES
        for at in range(len(name))
        if ord(name[at]) < 0xFFFF
    ]
    structural = [json.dumps(name) for name in ("response", "status", "error", "instance_config")]
    return plain * 5 + structural * 25 + escaped


KEYS = spellings()
BLANKS = ["", "", "", "", "", " ", "\n", "\t ", "\r\n  "]
MEMBERS_OF_A_VERDICT = [
    '"reward":1.0', '"reward": 0.0', '"reward":-0.0', '"reward":NaN', '"reward":null',
    '"reward":"1.0"', '"reward":true', '"reward":1e400', '"mask_sample":false',
    '"mask_sample":true', '"failure_kind":null', '"failure_kind":"judge_failed"',
    '"failure_reason":"why"', '"x":{"reward":1}', '"y":[{"reward":0.5}]', '"z":"\\"reward\\":1"',
    '"instance_config":{"mask_sample":true}', '"_ng_failure_class":"x"', '"rew\\u0061rd":0.25',
    '"x,\\"reward":9',
]  # fmt: skip


class Bodies:
    """A seeded source of bodies: mostly valid, rich in what parsers disagree about."""

    def __init__(self, seed):
        self.chance = random.Random(seed).random

    def pick(self, options):
        return options[int(self.chance() * len(options))]

    def value(self, depth):
        roll = self.chance()
        if depth > 0 and roll < 0.3:
            return self.object(depth - 1)
        if depth > 0 and roll < 0.35:
            items = [self.value(depth - 1) for _ in range(int(self.chance() * 4))]
            return "[" + self.pick(BLANKS) + ",".join(items) + "]"
        return self.pick(SCALARS)

    def object(self, depth):
        members = []
        for _ in range(int(self.chance() * 6)):
            blank = self.pick(BLANKS)
            members.append(f"{blank}{self.pick(KEYS)}{blank}:{self.value(depth)}{blank}")
        return "{" + ",".join(members) + "}"

    def body(self):
        text = self.object(2) if self.chance() < 0.97 else self.value(2)
        return self.coded(self.pick(BLANKS) + text)

    def reply(self):
        front = self.object(1)[1:-1]
        count = 1 + int(self.chance() * 4)
        tail = [self.pick(MEMBERS_OF_A_VERDICT) for _ in range(count)]
        return self.coded(
            "{" + self.pick([",", ", ", ",\n    "]).join([front] * bool(front) + tail) + "}"
        )

    def coded(self, text):
        encoding = "utf-8" if self.chance() < 0.9 else self.pick(ENCODINGS)
        body = text.encode(encoding, "surrogatepass")
        return self.damaged(body) if self.chance() < 0.06 else body

    def damaged(self, body):
        at = int(self.chance() * (len(body) + 1))
        insert = self.pick([b",", b"\xff", b"\0", b'"', b"/**/", b"\x01"])
        ways = [body[:at], body + b"x", body[:at] + insert + body[at:], body[:at] + body[at + 1 :]]
        return self.pick(ways)


class Number(str):
    """A number's text, so that any change of it shows."""

    __slots__ = ()

    def __bool__(self):
        return float(self) != 0


@dataclass
class Pairs:
    """An object with its duplicates."""

    members: list

    def last(self, name):
        found = [value for key, value in self.members if key == name]
        return found[-1] if found else None


def read(body):
    """What the standard library reads in a body, or None when it refuses the body."""
    try:
        return json.loads(
            body,
            object_pairs_hook=Pairs,
            parse_int=Number,
            parse_float=Number,
            parse_constant=lambda text: [text],
        )
    except ValueError:
        return None


def stripped(document):
    """The model of ``inspect_request``."""
    kept = []
    for name, value in document.members:
        if NEMO_GYM_OWNED.owns(name):
            continue
        if name == "instance_config" and isinstance(value, Pairs):
            value = Pairs([pair for pair in value.members if pair[0] != "mask_sample"])  # noqa: PLW2901 -- the member's new value
        kept.append((name, value))
    return Pairs(kept)


def marked(document):
    """The model of the mark of a failed agent."""
    response = document.last("response")
    if not isinstance(response, Pairs):
        return False
    failed = response.last("status") in ("failed", "cancelled")
    return failed or says_something(response.last("error"))


def says_something(error):
    """The model of an error that is one: not null, not blank, not zero, not only such inside."""
    if isinstance(error, Pairs):
        return any(says_something(value) for value in dict(error.members).values())
    if isinstance(error, list):
        return any(says_something(value) for value in error)
    return bool(error) and not (
        type(error) is str and error.strip().lower() in ("", "none", "null")
    )


@pytest.mark.parametrize("part", range(8))
def test_fuzzed_requests_agree_with_the_model(part):
    """Of 100,000 bodies none leaks an owned field, loses anything else, or raises."""
    find = simd_find()
    assert find is not None
    parsing, scanning = (Inspector(NEMO_GYM_OWNED, find=f) for f in (None, find))
    bodies = Bodies(seed=part)
    told = {"cut": 0, "clean": 0, "refused": 0, "marked": 0, "broken": 0}
    for _ in range(12_500):
        body = bodies.body()
        found = parsing.inspect(body)
        assert scanning.inspect(body) == found
        document = read(body)
        if not isinstance(document, Pairs):
            told["broken"] += 1
            told["refused"] += found.refused is not None
            continue
        expected = stripped(document)
        assert read(found.body) == expected, body
        assert found.refused is None
        assert (found.body is body) == (expected == document), body
        assert (found.agent_failure is not None) == marked(document), body
        told["marked"] += found.agent_failure is not None
        told["clean" if found.body is body else "cut"] += 1
        if found.body is not body:
            again = parsing.inspect(found.body)
            assert (again.body, again.removed) == (found.body, ())
    assert all(told.values()), told


def is_utf8(body):
    """Whether any client could read the bytes as text."""
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def model_verdict(document):
    """The model of ``read_reply``: a reward, or None."""
    reward = document.last("reward")
    if isinstance(reward, Number):
        number = float(reward)
        return number if abs(number) != float("inf") else None
    return None


def test_fuzzed_replies_agree_with_the_model():
    """Looking at the end of a reply never gives another verdict than reading all of it."""
    # case L07
    find = simd_find()
    assert find is not None
    parsing, scanning = (ReplyReader(find=f, small=0) for f in (None, find))
    bodies = Bodies(seed=7)
    told = {"reward": 0, "problem": 0, "spoken": 0}
    for _ in range(20_000):
        body = bodies.reply()
        document = read(body)
        if not isinstance(document, Pairs):
            assert parsing.read(body).reward is None or not is_utf8(body)
            continue
        found = parsing.read(body)
        assert scanning.read(body) == found, body
        assert found.reward == model_verdict(document), body
        assert (found.problem is None) == (found.reward is not None)
        told["reward" if found.problem is None else "problem"] += 1
        told["spoken"] += found.spoken is not None
    assert all(count > 100 for count in told.values()), told


def test_fuzzed_echoes_are_strict_json():
    """An echo of any JSON object is strict JSON that keeps its members and ends in the fields."""
    fields = {"reward": 0.0, "mask_sample": True, "failure_kind": "verifier_error"}
    bodies = Bodies(seed=11)
    inspector = Inspector(NEMO_GYM_OWNED, find=None)
    for number in range(8_000):
        body = bodies.body()
        if number % 2:
            body = inspector.inspect(body).body
        echoed = echo_with(body, fields=fields, mask_nested=True)
        document = read(body)
        if not isinstance(document, Pairs):
            assert echoed is None
            continue
        assert echoed is not None, body
        written = json.loads(echoed.decode(), object_pairs_hook=Pairs, parse_constant=pytest.fail)
        names = [name for name, _ in written.members]
        had = [name for name, _ in document.members]
        others = [name for name in names if name not in fields and name != "instance_config"]
        assert len(others) == len([n for n in had if n not in fields and n != "instance_config"])
        assert all(names.count(name) == 1 for name in fields)
        config = written.last("instance_config")
        if isinstance(config, Pairs):
            assert [value for name, value in config.members if name == "mask_sample"] == [True]
        else:
            assert isinstance(document.last("instance_config"), (str, list, bool, Number))
