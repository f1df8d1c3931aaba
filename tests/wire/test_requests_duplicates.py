# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Names that come twice or ten thousand times: all go, and the cost grows with the bytes only."""

import tracemalloc

import pytest

from truezero.fields import NEMO_GYM_OWNED
from truezero.wire.inspector import Inspector
from truezero.wire.members import TOP_LEVEL, byte_members, text_members
from truezero.wire.scan import simd_find
from truezero.wire.splice import echo_with

SCANS = {"scan": simd_find(), "parse": None}
VALUES = [
    b"1", b"-1.5e+3", b"true", b"null", b'"a"', b'"\\"}"', b'"\\\\"', b'"' + b"x" * 300 + b'"',
    b'"' + b'\\"' * 300 + b'"', b"[]", b"[ ]", b"{}", b'[1,{"a":"]}"}]', b'{"reward":{"b":[]}}',
    b'"\xc3\xa9"', b'["\xc3\xa9","\\u00e9"]',
]  # fmt: skip


@pytest.fixture(params=SCANS)
def inspect(request):
    """The inspection with and without the SIMD search."""
    return Inspector(NEMO_GYM_OWNED, find=SCANS[request.param]).inspect


@pytest.mark.parametrize("blank", [b"", b" ", b" \n\t"])
@pytest.mark.parametrize("last", VALUES)
@pytest.mark.parametrize("first", VALUES)
def test_a_hidden_value_is_measured_exactly(first, last, blank):
    """Whatever a later duplicate hides is measured without the text walk, and to the byte."""
    parts = (b"{", b'"x":1,"reward":', first, b',"k":2,"reward":', last, b',"reward":', first)
    body = blank.join((*parts, b',"reward":', last, b"}"))
    text = body.decode("latin-1")
    members = byte_members(body, raws=TOP_LEVEL.decode(body))
    assert members == text_members(text, start=0)[0]


@pytest.mark.parametrize(
    ("one", "last"),
    [
        (b'"reward":1,', b'"reward":12'),
        (b'"reward":"\\"",', b'"reward":"b"'),
        (b'"reward":[1],', b'"reward":[1,"' + b"a" * 300_000 + b'"]'),
        (b'"reward":{},', b'"reward":"' + b"a" * 300_000 + b'"'),
        (b'"rew\\u0061rd":"a",', b'"reward":[]'),
    ],
)
def test_ten_thousands_of_duplicates_all_go(inspect, one, last):
    """A request cannot choose a cost beyond its bytes: a second look for each pair takes minutes."""
    # case G08
    found = inspect(b'{"x":1,' + one * 40_000 + last + b',"y":2}')
    assert found.body == b'{"x":1,"y":2}'
    assert found.removed == ("reward",) * 40_001


def test_ten_thousands_of_nested_objects_are_cleaned(inspect):
    """The same holds for duplicates of ``instance_config``, whatever each of them hides."""
    config = b'"instance_config":{"mask_sample":[1],"k":1,"mask_sample":2},'
    clean = b'"instance_config":{"k":1},'
    found = inspect(b"{" + config * 20_000 + b'"x":1}')
    assert found.body == b"{" + clean * 20_000 + b'"x":1}'
    assert len(found.removed) == 40_000


def test_many_duplicates_are_echoed(inspect):
    """An echo replaces every duplicate as well."""
    body = b"{" + b'"reward":[1],' * 40_000 + b'"reward":2,"x":1}'
    assert echo_with(body, fields={"reward": 0.0}, mask_nested=False) == b'{"x":1,"reward":0.0}'


def test_comparing_does_not_copy_for_every_duplicate():
    """A long last value is compared once for its name, so that no copies of it pile up."""
    body = b"{" + b'"reward":[1],' * 20_000 + b'"reward":[1,"' + b"a" * 60_000 + b'"]}'
    raws = TOP_LEVEL.decode(body)
    tracemalloc.start()
    members = byte_members(body, raws=raws)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(members) == 20_001
    assert peak < 20_001 * 400
