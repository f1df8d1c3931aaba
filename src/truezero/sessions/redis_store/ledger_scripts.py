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
    CLOCK,
    FACTS,
    FORGET,
    LEAD,
    LINK,
    TAIL,
    TAINTS,
    TOUCH,
)
from truezero.sessions.redis_store.script import Script

FIND: Final = Script(
    CLOCK
    + LEAD
    + """
if not raw then return false end
local renew = tonumber(ARGV[3])
if renew and letter == 'l' and expires - now < renew * tonumber(ARGV[4]) then
"""
    + TAIL
    + ALIASES
    + """
  local index, lifetime = KEYS[#KEYS], math.max(1, math.ceil(renew / 500))
  local claim = claim_of(name, string.sub(raw, 19, 26))
  redis.call('PEXPIRE', name, lifetime)
  for _, alias in ipairs(aliases_of(raw)) do
    if redis.call('GET', alias) == claim then redis.call('PEXPIRE', alias, lifetime) end
  end
  local times = struct.pack('>dd', now + renew, now + renew * 2)
  redis.call('SET', name, 'rl' .. times .. string.sub(raw, 19), 'PX', lifetime)
"""
    + TOUCH
    + """
end
local a, b = string.byte(raw, 27, 28)
return letter .. string.sub(raw, 29 + a * 256 + b)
"""
)
"""KEYS: keys, the index of the live. ARGV: the new time to live or nothing, the share of it below
which it is renewed. Answers a record or nothing."""

PUT: Final = Script(
    CLOCK
    + FACTS
    + TAIL
    + ALIASES
    + LINK
    + """
local ttl, letter, keep, born = tonumber(ARGV[3]), ARGV[4], ARGV[5], ARGV[6]
local name, live, ended = KEYS[1], KEYS[#KEYS - 1], KEYS[#KEYS]
local index, other, limit, lasts = ended, live, tonumber(ARGV[10]), ttl
if letter == 'l' then index, other, limit, lasts = live, ended, tonumber(ARGV[9]), ttl * 2 end
local key, raw, old = string.sub(name, #prefix + 1), redis.call('GET', name), {}
local stands = false
if raw then
  local reads, _, gone = facts(raw)
  stands = gone >= now
  if stands and string.find(keep, reads, 1, true) then
    return reads .. string.sub(raw, tail_at(raw))
  end
end
local lifetime = math.max(1, math.ceil(ttl / 500))
"""
    + TOUCH
    + """
redis.call('ZREM', other, key)
local extra = redis.call('ZCARD', index) - limit
local over = redis.call(
  'ZRANGEBYSCORE', index, '-inf', now - ttl * 2, 'LIMIT', 0, extra > 0 and 0 or 4
)
if extra > 0 or over[1] or (raw and not stands) then
"""
    + FORGET
    + """
  if raw and not stands then forget(key) end
  local oldest = extra > 0 and redis.call('ZPOPMIN', index, math.min(extra, 4)) or {}
  for i = 1, #oldest, 2 do forget(oldest[i]) end
  for _, each in ipairs(over) do
    local left, gone = redis.call('GET', prefix .. each), 0
    if left then gone = select(3, facts(left)) end
    if gone < now then
      redis.call('ZREM', index, each)
      forget(each)
    end
  end
end
if stands then born, old = string.sub(raw, 19, 26), aliases_of(raw) end
local life = math.max(1, math.ceil(lasts / 1000))
local times = struct.pack('>dd', now + ttl, now + lasts)
local aliases = link(name, born, old, 2, #KEYS - 2, tonumber(ARGV[8]), life)
redis.call('SET', name, 'r' .. letter .. times .. born .. aliases .. ARGV[7], 'PX', life)
return false
"""
)
"""KEYS: the primary key, aliases, the indexes of the live and the ended. ARGV: the time to live, the
letter, letters to keep, a new ``born``, the tail, the most aliases, the most live and ended records.
Answers nothing where the record was written, or the one that was kept. Of what is too much or over,
a few records are cleared away."""

ADD_KEYS: Final = Script(
    CLOCK
    + FACTS
    + TAIL
    + ALIASES
    + LINK
    + """
local name, raw = KEYS[1], redis.call('GET', KEYS[1])
if not raw then return 0 end
local _, _, gone = facts(raw)
if gone < now then return 0 end
local born, life = string.sub(raw, 19, 26), math.max(1, redis.call('PTTL', name))
local aliases = link(name, born, aliases_of(raw), 2, #KEYS, tonumber(ARGV[3]), life)
local rest = string.sub(raw, tail_at(raw))
redis.call('SET', name, string.sub(raw, 1, 26) .. aliases .. rest, 'KEEPTTL')
return 1
"""
)
"""KEYS: the primary key, aliases. ARGV: the most aliases. Answers 1 where there is a record."""

TAINT: Final = Script(
    CLOCK
    + LEAD
    + TAIL
    + TAINTS
    + """
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
"""KEYS: keys, the index of the live. ARGV: the call, the taint in its frame, the most taints. Answers
1 where a live record is there."""

CLEAR: Final = Script(
    CLOCK
    + LEAD
    + TAIL
    + TAINTS
    + """
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
"""KEYS: keys, the index of the live. ARGV: the call. Answers 1 where a taint was taken."""
