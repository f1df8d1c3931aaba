# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The steps on session records, each one script; knows nothing of what records say.

Arguments of each: the prefix of records, the time or an empty string for the server's own, then
what is its own.

A server that has no memory left refuses the first write of a script, if that one may take memory,
and lets all others pass. So a step that adds something starts with such a write, and one that only
renews does not.
"""

from typing import Final

from truezero.sessions.redis_store.record_lua import (
    ALIASES,
    COMMON,
    INDEX,
    LEAD,
    LINK,
    TAINTS,
    TRIM,
)
from truezero.sessions.redis_store.script import Script

FIND: Final = Script(
    COMMON
    + LEAD
    + INDEX
    + ALIASES
    + """
local name, raw, letter, expires = lead(#KEYS - 1)
if not raw then return false end
local renew = tonumber(ARGV[3])
if renew and letter == 'l' and expires - now < renew * tonumber(ARGV[4]) then
  local born, life = string.sub(raw, 19, 26), milliseconds(renew * 2)
  local claim = claim_of(name, born)
  redis.call('PEXPIRE', name, life)
  for _, alias in ipairs(aliases_of(raw)) do
    if redis.call('GET', alias) == claim then redis.call('PEXPIRE', alias, life) end
  end
  local times = struct.pack('>dd', now + renew, now + renew * 2)
  redis.call('SET', name, 'rl' .. times .. string.sub(raw, 19), 'PX', life)
  touch(KEYS[#KEYS], name, life)
end
return answer(raw, letter)
"""
)
"""KEYS: keys, the index of the live. ARGV: the new time to live or nothing, the share of it below
which it is renewed. Answers a record or nothing."""

PUT: Final = Script(
    COMMON
    + INDEX
    + ALIASES
    + LINK
    + TRIM
    + """
local ttl, letter, keep, born = tonumber(ARGV[3]), ARGV[4], ARGV[5], ARGV[6]
local name, live, ended = KEYS[1], KEYS[#KEYS - 1], KEYS[#KEYS]
local index, other = ended, live
local lasts = ttl
if letter == 'l' then index, other, lasts = live, ended, ttl * 2 end
local key, raw, old = string.sub(name, #prefix + 1), redis.call('GET', name), {}
local stands = false
if raw then
  local reads, _, gone = facts(raw)
  stands = gone >= now
  if stands and string.find(keep, reads, 1, true) then return answer(raw, reads) end
end
touch(index, name, milliseconds(ttl * 2))
redis.call('ZREM', other, key)
if stands then
  born, old = string.sub(raw, 19, 26), aliases_of(raw)
elseif raw then
  forget(key)
end
local life = milliseconds(lasts)
local times = struct.pack('>dd', now + ttl, now + lasts)
local aliases = link(name, born, old, 2, #KEYS - 2, tonumber(ARGV[8]), life)
redis.call('SET', name, 'r' .. letter .. times .. born .. aliases .. ARGV[7], 'PX', life)
trim(index, tonumber(ARGV[letter == 'l' and 9 or 10]), now - ttl * 2)
return false
"""
)
"""KEYS: the primary key, aliases, the indexes of the live and the ended. ARGV: the time to live, the
letter, letters to keep, a new ``born``, the tail, the most aliases, the most live and ended records.
Answers nothing where the record was written, or the one that was kept."""

ADD_KEYS: Final = Script(
    COMMON
    + ALIASES
    + LINK
    + """
local raw = redis.call('GET', KEYS[1])
if not raw then return 0 end
local _, _, gone = facts(raw)
if gone < now then return 0 end
local life = math.max(1, redis.call('PTTL', KEYS[1]))
local aliases = link(
  KEYS[1], string.sub(raw, 19, 26), aliases_of(raw), 2, #KEYS, tonumber(ARGV[3]), life
)
redis.call(
  'SET', KEYS[1], string.sub(raw, 1, 26) .. aliases .. string.sub(raw, tail_at(raw)), 'KEEPTTL'
)
return 1
"""
)
"""KEYS: the primary key, aliases. ARGV: the most aliases. Answers 1 where there is a record."""


TAINT: Final = Script(
    COMMON
    + LEAD
    + TAINTS
    + """
local name, raw, letter = lead(#KEYS)
if not raw or (letter ~= 'l' and letter ~= 'x') then return 0 end
local list, start = taints_of(raw)
for i, taint in ipairs(list) do
  if taint.call == ARGV[3] then
    if not taint.lasting then
      taint.frame = ARGV[4]
      rewrite(name, raw, start, list)
    end
    return 1
  end
end
if #list < tonumber(ARGV[5]) then
  list[#list + 1] = {frame = ARGV[4]}
  rewrite(name, raw, start, list)
end
return 1
"""
)
"""KEYS: keys. ARGV: the call, the taint in its frame, the most taints. Answers 1 where a live record
is there."""

CLEAR: Final = Script(
    COMMON
    + LEAD
    + TAINTS
    + """
local name, raw = lead(#KEYS)
if not raw then return 0 end
local list, start = taints_of(raw)
local kept = {}
for _, taint in ipairs(list) do
  if taint.lasting or taint.call ~= ARGV[3] then kept[#kept + 1] = taint end
end
if #kept == #list then return 0 end
rewrite(name, raw, start, kept)
return 1
"""
)
"""KEYS: keys. ARGV: the call. Answers 1 where a taint was taken."""
