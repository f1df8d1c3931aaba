# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""How session records lie in the server, as pieces of Lua; knows nothing of what records say.

Under ``<prefix>s:<key>`` stands a record (``r``) or an alias that leads to one (``a``)::

    r  status  expires  gone   born  aliases                    tail
    1  1       8        8      8     2 + each 1 + its length    see packing.py
    a  born    key of the record
    1  8

Times are microseconds since 1970, as doubles. A live record reads as expired (``x``) from
``expires`` on and stands until ``gone``. ``born`` is random: an alias leads only to the very record
that it was made for, not to a later one of the same key.

``<prefix>live`` and ``<prefix>ended`` are sorted sets of the records' keys by their last use. Their
scores strictly rise, even if the server's clock goes back.

A record that is missing behind its alias was taken by something else, and that is no proof of
anything: aliases are written before their record, so that none outlives it.

To make a function costs Lua more than to call one. So functions are made only on the branches that
need them, and what each look-up does is written out.
"""

from typing import Final

CLOCK: Final = """
local prefix, now = ARGV[1], tonumber(ARGV[2])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
"""
"""``now``, in microseconds."""

LEAD: Final = """
local name, raw, letter, expires
local torn = false
for i = 1, #KEYS - 1 do
  name = KEYS[i]
  raw = redis.call('GET', name)
  if raw and string.byte(raw) == 97 then
    local born = string.sub(raw, 2, 9)
    name = prefix .. string.sub(raw, 10)
    raw = redis.call('GET', name)
    if not raw then
      torn = true
    elseif string.sub(raw, 19, 26) ~= born then
      raw = false
    end
  end
  if raw then
    if #raw < 32 or string.byte(raw) ~= 114 then
      error('truezero: a key of this namespace holds what truezero did not write')
    end
    local gone
    expires, gone = struct.unpack('>dd', raw, 3)
    letter = string.sub(raw, 2, 2)
    if letter == 'l' and expires < now then letter = 'x' end
    if gone >= now then break end
    raw = false
  end
end
if torn and not raw then error('truezero: a record is gone before its time') end
"""
"""``name``, ``raw``, ``letter`` and ``expires`` of the record that the first key leads to that leads
to one, of all keys but the last; ``CLOCK`` before it."""

FACTS: Final = """
-- The letter and the times of a record.
local function facts(raw)
  if #raw < 32 or string.byte(raw) ~= 114 then
    error('truezero: a key of this namespace holds what truezero did not write')
  end
  local expires, gone = struct.unpack('>dd', raw, 3)
  local letter = string.sub(raw, 2, 2)
  if letter == 'l' and expires < now then letter = 'x' end
  return letter, expires, gone
end
"""
"""``facts``; ``CLOCK`` before it."""

TAIL: Final = """
local function tail_at(raw)
  local a, b = string.byte(raw, 27, 28)
  return 29 + a * 256 + b
end
"""
"""``tail_at``: where a record's tail starts."""

TOUCH: Final = """
-- Notes that a record was used now.
do
  local last = redis.call('ZRANGE', index, -1, -1, 'WITHSCORES')[2]
  local score = now
  if last and tonumber(last) >= now then score = tonumber(last) + 1 end
  redis.call('ZADD', index, score, string.sub(name, #prefix + 1))
  if redis.call('PTTL', index) < lifetime then redis.call('PEXPIRE', index, lifetime * 2) end
end
"""
"""Puts ``name`` at the end of ``index``, which lives ``lifetime`` milliseconds at least."""

ALIASES: Final = """
local function aliases_of(raw)
  local list, at, stop = {}, 29, tail_at(raw)
  while at < stop do
    local size = string.byte(raw, at)
    list[#list + 1] = prefix .. string.sub(raw, at + 1, at + size)
    at = at + 1 + size
  end
  return list
end

-- What an alias of this record holds.
local function claim_of(name, born)
  return 'a' .. born .. string.sub(name, #prefix + 1)
end
"""
"""``aliases_of`` and ``claim_of``; ``TAIL`` before it."""

LINK: Final = """
-- Gives a record its aliases: those of the old ones that are its own still, then the new ones.
local function link(name, born, old, first, last, limit, life)
  local claim, place, kept = claim_of(name, born), {}, {}
  for i = first, last do place[KEYS[i]] = i end
  place[name] = 0
  for _, alias in ipairs(old) do
    if not place[alias] and redis.call('GET', alias) == claim then kept[#kept + 1] = alias end
  end
  for i = first, last do
    if place[KEYS[i]] == i then kept[#kept + 1] = KEYS[i] end
  end
  local frames, first_kept = {}, math.max(1, #kept - limit + 1)
  for i = first_kept, #kept do
    redis.call('SET', kept[i], claim, 'PX', life)
    local key = string.sub(kept[i], #prefix + 1)
    frames[#frames + 1] = string.char(#key) .. key
  end
  for i = 1, first_kept - 1 do
    if redis.call('GET', kept[i]) == claim then redis.call('DEL', kept[i]) end
  end
  local all = table.concat(frames)
  return struct.pack('>I2', #all) .. all
end
"""
"""``link``; ``ALIASES`` before it."""

FORGET: Final = """
local function forget(key)
  local name = prefix .. key
  local raw = redis.call('GET', name)
  if raw then
    facts(raw)
    local claim = claim_of(name, string.sub(raw, 19, 26))
    for _, alias in ipairs(aliases_of(raw)) do
      if redis.call('GET', alias) == claim then redis.call('DEL', alias) end
    end
    redis.call('DEL', name)
  end
end
"""
"""``forget``; ``FACTS`` and ``ALIASES`` before it."""

TAINTS: Final = """
-- The taints of a record, and where they start.
local function taints_of(raw)
  local at = tail_at(raw)
  at = at + 4 + struct.unpack('>I4', raw, at)
  local list, start = {}, at
  while at <= #raw do
    local from, call, lasting = at
    call, lasting, at = struct.unpack('>I2c0B', raw, at)
    at = at + 4 + struct.unpack('>I4', raw, at)
    list[#list + 1] = {call = call, lasting = lasting == 1, frame = string.sub(raw, from, at - 1)}
  end
  return list, start
end

local function rewrite(name, raw, start, list)
  local frames = {}
  for i, taint in ipairs(list) do frames[i] = taint.frame end
  redis.call('SET', name, string.sub(raw, 1, start - 1) .. table.concat(frames), 'KEEPTTL')
end
"""
"""``taints_of`` and ``rewrite``; ``TAIL`` before it."""
