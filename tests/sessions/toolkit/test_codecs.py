# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Rules of codecs: what comes back is what was kept, and foreign bytes are never run."""

import pickle
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, strategies as st
from itsdangerous import BadSignature
from pydantic import BaseModel, ValidationError

from truezero import ConfigurationError
from truezero.sessions.toolkit import MsgspecCodec, PickleCodec, PydanticCodec


class Board(BaseModel):
    """A model."""

    cells: list[list[int]]
    name: str = ""


class Wider(Board):
    """A model with more."""

    more: int = 0


class Hand(msgspec.Struct):
    """A struct."""

    cards: list[str]


class Longer(Hand):
    """A struct with more."""

    more: int = 0


@dataclass
class Deck:
    """A plain object."""

    cards: list


STATES = [
    (PydanticCodec(Board), Board(cells=[[1, 2], []], name="\u20ac")),
    (MsgspecCodec(Hand), Hand(["\u2660A", ""])),
    (MsgspecCodec(dict[str, int]), {"a": 1}),
    (PickleCodec(secret="of the workers"), Deck([1, {"x": (2, b"\x00.")}])),
    (PickleCodec(secret=b"bytes"), Deck([])),
]


@pytest.mark.parametrize(("codec", "state"), STATES)
def test_a_state_comes_back_as_it_was(codec, state):
    """Encoding and decoding is the same object again."""
    again = codec.decode(codec.encode(state))
    assert again == state
    assert type(again) is type(state)


@pytest.mark.parametrize(
    ("codec", "state"),
    [
        (PydanticCodec(Board), Wider(cells=[], more=1)),
        (PydanticCodec(Board), {"cells": []}),
        (MsgspecCodec(Hand), Longer([], more=1)),
    ],
)
def test_what_would_come_back_as_less_is_refused(codec, state):
    """A subclass has fields that its base does not know: it is not kept in silence."""
    with pytest.raises(TypeError, match="the state is a"):
        codec.encode(state)


@pytest.mark.parametrize(("codec", "state"), STATES)
@given(st.binary(max_size=64), st.integers(0, 200))
def test_foreign_bytes_are_refused(codec, state, junk, cut):
    """Bytes that nobody encoded, or that were cut, decode to nothing else."""
    data = codec.encode(state)
    for foreign in (junk, data[: min(cut, len(data) - 1)]):
        try:
            found = codec.decode(foreign)
        except (ValidationError, msgspec.DecodeError, BadSignature):
            continue
        assert not isinstance(codec, PickleCodec)
        assert codec.decode(codec.encode(found)) == found


class Bomb:
    """What runs code when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.write_text, (self.path, "boom")


def test_a_pickle_that_is_not_signed_with_the_secret_is_never_run(tmp_path):
    """Who can write the store cannot run code: not one byte is unpickled before its signature."""
    marker = tmp_path / "marker"
    bomb = pickle.dumps(Bomb(marker))
    codec = PickleCodec(secret="ours")
    signed = PickleCodec(secret="theirs").encode(Bomb(marker))
    forged = [bomb, signed, bomb + b"." + codec.encode(1).rpartition(b".")[2], b"", b"."]
    for data in forged:
        with pytest.raises(BadSignature):
            codec.decode(data)
    assert not marker.exists()


@pytest.mark.parametrize("secret", ["", b""], ids=repr)
def test_an_empty_secret_is_refused(secret):
    """Anybody could sign with it."""
    with pytest.raises(ConfigurationError, match="empty"):
        PickleCodec(secret=secret)
