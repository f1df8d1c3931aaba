# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Which rollout and session a request's body names."""

import json

import pytest
from hypothesis import given, strategies as st

from truezero.wire.identity import Identity, read_identity


@pytest.mark.parametrize(
    ("body", "session_id", "rollout_id"),
    [
        ({}, None, None),
        ({"resources_session_id": "s1"}, "s1", None),
        ({"resources_session_id": ""}, None, None),
        ({"resources_session_id": "x" * 513}, None, None),
        ({"resources_session_id": 7}, None, None),
        ({"_ng_rollout_id": "r1"}, None, "r1"),
        ({"_ng_rollout_id": "r1", "_ng_attempt_index": 0}, None, "r1"),
        ({"_ng_rollout_id": "r1", "_ng_attempt_index": 2}, None, "r1-a2"),
        ({"_ng_rollout_id": "../etc"}, None, None),
        ({"_ng_task_index": 17, "_ng_rollout_index": 3}, None, "17-3"),
        ({"_ng_task_index": "17", "_ng_rollout_index": 3, "_ng_attempt_index": 1}, None, "17-3-a1"),
        ({"_ng_task_index": 17}, None, None),
        ({"_ng_task_index": True, "_ng_rollout_index": 0}, None, None),
        ({"_ng_task_index": -1, "_ng_rollout_index": 0}, None, None),
        ({"_ng_task_index": 1e3, "_ng_rollout_index": 0}, None, None),
        ({"episode_id": {"rollout_id": "e", "attempt": 1}, "_ng_rollout_id": "r"}, None, "e-a1"),
        ({"episode_id": {"rollout_id": ["e"]}}, None, None),
        ({"episode_id": "e", "_ng_rollout_id": "r"}, None, "r"),
        ({"other": {"_ng_rollout_id": "inside"}}, None, None),
    ],
)
def test_a_body_names_its_rollout_with_the_attempt(body, session_id, rollout_id):
    """The rollout is spelled as NeMo Gym's capture key; names of another shape name nothing."""
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-32"):
        read = read_identity(json.dumps(body).encode(encoding))
        assert read == Identity(session_id, rollout_id)


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b'"x"', b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_object_names_nothing(body):
    """No body raises, whatever it is."""
    assert read_identity(body) == Identity()


@pytest.mark.parametrize(
    ("body", "session_id"),
    [
        (b'{"resources_session_id":"a","resources_session_id":"b"}', "b"),
        (b'{"\\u0072esources_session_id":"a"}', "a"),
        (b'{"resources_session_id":"a","x":NaN}', "a"),
        (b'{"resources_session_id":"a","x":"\\ud800"}', "a"),
        (b'{"resources_session_id":' + b"9" * 6000 + b"}", None),
        (b'{"resources_session_id":"\xff"}', None),
        (b'{"resources_session_id":' + b"[" * 100_000, None),
    ],
)
def test_a_name_is_read_as_generously_as_servers_read_it(body, session_id):
    """Of duplicates the last counts; escapes and what is no strict JSON elsewhere do not matter."""
    assert read_identity(body).session_id == session_id


@given(
    st.dictionaries(
        st.sampled_from(["_ng_rollout_id", "episode_id"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        ),
    )
)
def test_a_name_of_any_shape_is_read_or_ignored(body):
    """A rollout's name is short, of harmless letters, or absent."""
    rollout_id = read_identity(json.dumps(body).encode()).rollout_id
    assert rollout_id is None or (rollout_id.isascii() and len(rollout_id) <= 640)
