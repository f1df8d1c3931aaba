# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The signed marker cookie."""

import subprocess
import sys

import pytest
from hypothesis import given, strategies as st
from itsdangerous import TimestampSigner

from truezero.errors import ConfigurationError
from truezero.sessions.cookies import read_cookies
from truezero.sessions.keys import Keys, bounded_id
from truezero.sessions.marker import Binding, Marker, MarkerSigner

SECRET = "a secret of the workers"


def signer(server="counter", secret=SECRET, **kwargs):
    return MarkerSigner(server=server, secret=secret, ttl_s=60, **kwargs)


def value_of(header):
    name, _, rest = header[1].decode("latin-1").partition("=")
    return name, rest.split(";")[0]


def written(made, session_id="s1", binding=Binding.NONE):
    return value_of(made.header(Marker(session_id, "e1", binding)))[1]


@given(
    st.text(max_size=700).map(bounded_id),
    st.sampled_from(list(Binding)),
    st.lists(st.text(st.characters(codec="latin-1"), max_size=32), max_size=8).map(tuple),
)
def test_a_marker_reads_as_it_was_written(session_id, binding, names):
    """Any session id goes through a marker unharmed, and never as raw text of the header."""
    made = signer(clock=lambda: 1000.0)
    marker = Marker(session_id, "e1", binding, names)
    name, value = made.header(marker)
    assert name == b"set-cookie"
    assert not {b"\n", b"\r", b"\0"} & {value[n : n + 1] for n in range(len(value))}
    pair = value.split(b";")[0]
    assert made.read(read_cookies([(b"cookie", pair)])[made.cookie_name]) == marker


def test_a_marker_tells_its_age():
    """The age counts from the seed, by the wall clock, so that it survives a restart."""
    value = written(signer(clock=lambda: 1000.0))
    assert signer(clock=lambda: 1042.0).read(value).age_s == 42


def test_the_cookie_is_bounded_in_time_and_hidden_from_scripts():
    """The marker goes back on every path, to nobody else's site, and ends with the session."""
    text = signer().header(Marker("s1", "e1", Binding.NONE))[1].decode()
    attributes = text.split("; ")[1:]
    assert attributes == ["Path=/", "Max-Age=60", "HttpOnly", "SameSite=Lax"]


@given(st.data())
def test_a_marker_with_any_change_reads_as_none(data):
    """One character more, less or other, and the marker is none."""
    value = written(signer())
    at = data.draw(st.integers(0, len(value) - 1))
    other = data.draw(st.characters(codec="latin-1").filter(lambda c: c != value[at]))
    made = signer()
    assert made.read(value[:at]) is None
    # The last character of base64 holds bits that nobody reads: it alone may have twins.
    if at < len(value) - 1:
        assert made.read(value[:at] + other + value[at + 1 :]) is None
    assert made.read(value[:at] + other + value[at:]) is None


@given(st.text(max_size=200))
def test_no_text_is_refused_loudly(value):
    """What this server did not sign reads as none and raises nothing."""
    assert signer().read(value) is None


@pytest.mark.parametrize("payload", [b"", b"gA==", b"aGVsbG8=", b"\xff\xff", b"kgEC"])
def test_a_signed_payload_of_another_form_reads_as_none(payload):
    """A signature of ours over something else is no marker."""
    forged = TimestampSigner(SECRET, salt="truezero.sessions.marker").sign(payload)
    assert signer().read(forged.decode("latin-1")) is None


def test_a_marker_signed_for_another_purpose_reads_as_none():
    """The same key under another salt signs no markers."""
    payload = written(signer()).rsplit(".", 2)[0]
    assert signer().read(TimestampSigner(SECRET).sign(payload).decode()) is None


def test_a_huge_marker_is_not_looked_at():
    """Past the bound nothing is verified, even what would verify."""
    huge = TimestampSigner(SECRET, salt="truezero.sessions.marker").sign(b"A" * 5000)
    assert signer().read(huge.decode()) is None


@pytest.mark.parametrize(
    "reader",
    [
        signer(server="other"),
        signer(secret="another key"),
        signer(secret=None),
    ],
    ids=["server", "key", "random key"],
)
def test_a_marker_of_another_server_or_key_reads_as_none(reader):
    """Only the server that a marker was made for reads it, and only with its key."""
    assert reader.read(written(signer())) is None


def test_without_a_secret_a_process_reads_its_own_markers():
    """The random key serves for as long as the process lives."""
    made = signer(secret=None)
    assert made.read(written(made)).session_id == "s1"


@pytest.mark.parametrize(
    ("one", "other"), [("mcqa", "counter"), ("my-server", "my_server"), ("A", "a"), ("é", "\ud800")]
)
def test_servers_of_one_host_have_cookies_of_their_own(one, other):
    """Cookie jars ignore ports, so the cookie's name tells servers apart."""
    names = {signer(server=name).cookie_name for name in (one, other)}
    assert len(names) == 2
    assert all(name.isascii() and name.startswith("truezero_session_") for name in names)


def test_a_plain_server_name_stays_readable():
    """A name that is a slug is the cookie's ending."""
    assert signer(server="mcqa").cookie_name == "truezero_session_mcqa"


@pytest.mark.parametrize(
    ("where", "wrong"),
    [("secret", {"secret": ""}), ("secret", {"secret": "x\udcff"}), ("ttl_s", {"ttl_s": 0})],
)
def test_a_setting_that_guards_nothing_is_refused(where, wrong):
    """An empty key or no time to live is a mistake in the configuration."""
    given_settings = {"server": "s", "secret": SECRET, "ttl_s": 60.0} | wrong
    with pytest.raises(ConfigurationError, match=where):
        MarkerSigner(**given_settings)


def test_a_forked_worker_has_an_epoch_of_its_own():
    """A worker that was forked after the import is another process to the ledger."""
    script = """
import os
from truezero.sessions.marker import process_epoch
before = process_epoch()
child = os.fork()
if child:
    os.waitpid(child, 0)
print(before, process_epoch(), flush=True)
os._exit(0)
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    (inherited, renewed), (before, after) = map(str.split, ran.stdout.splitlines())
    assert inherited == before == after
    assert renewed != before


@given(st.text(max_size=30), st.text(max_size=2000))
def test_session_ids_are_bounded_and_stay_apart(start, tail):
    """Any id becomes valid text of 512 characters at most; two long ids stay two."""
    one, other = bounded_id(start + "x" * 600 + tail), bounded_id(start + "x" * 600 + tail + "y")
    assert len(one) <= 512
    assert one != other
    assert one.encode().decode() == one
    assert bounded_id(one) == one


def test_the_keys_of_two_servers_or_purposes_never_meet():
    """The same text gives another key for another server, name or purpose."""
    one, other = Keys(server="a"), Keys(server="ab")
    keys = [
        *(k.session("s") for k in (one, other)),
        *(k.cookie(n, "s") for k in (one, other) for n in ("", "s", "ss")),
        *(k.named(n, "s") for k in (one, other) for n in ("", "s", "ss")),
    ]
    assert len(set(keys)) == len(keys)


def test_the_longest_marker_can_be_read():
    """The longest id and the most names still make a cookie that browsers keep and we read."""
    names = tuple("\xff" * 32 for _ in range(8))
    value = value_of(signer().header(Marker("\U0001f600" * 512, "e" * 16, Binding.ID, names)))[1]
    assert signer().read(value).names == names
