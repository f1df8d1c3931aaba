# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""The steps on cells, as Lua that runs in the server; knows nothing of what cells hold.

Under ``<prefix>c:<key>`` stands a hash: the token (``k``), when the cell expires (``x``,
microseconds since 1970) and the value (``v``). ``<prefix>written`` is a sorted set of the cells'
keys by their last write. ``<prefix>expiring`` is one of their sizes and keys by their expiry, so
that a cell that expired by itself is still counted off, and ``<prefix>bytes`` is the sum of these
sizes.

``<prefix>d:<key>`` stands for a minute after a removal and holds which call removed the cell: that
call may come twice, if its first reply was lost, and then it is done all the same. A write that
comes twice finds its own token.

A server that has no memory left refuses the first write of a script, if that one may take memory,
and lets all others pass. So a cell is written before anything else.
"""

from typing import Final

from truezero.sessions.redis_store.record_lua import CLOCK
from truezero.sessions.redis_store.script import Script

_STANDING: Final = """
local name = KEYS[1]
local head = redis.call('HMGET', name, 'k', 'x')
local left, expires = head[1], tonumber(head[2])
if not (left and expires) and redis.call('EXISTS', name) == 1 then
  error('truezero: a key of this namespace holds what truezero did not write')
end
local found = left
if left and expires < now then found = false end
"""
"""``found``: the token of the cell that stands; ``left``: that of what is left of one past its time."""

READ: Final = Script(
    CLOCK
    + _STANDING
    + """
return found and {found, redis.call('HGET', name, 'v')}
"""
)
"""KEYS: the cell. Answers its token and value, or nothing."""

_BOOKS: Final = """
local written, expiring, bytes = KEYS[#KEYS - 2], KEYS[#KEYS - 1], KEYS[#KEYS]
local overhead, limit = tonumber(ARGV[3]), tonumber(ARGV[4])
"""

_TRIM: Final = """
local function count(size)
  -- What a server that evicts took of the sum must not turn it negative.
  if redis.call('INCRBY', bytes, size) < 0 then redis.call('SET', bytes, 0, 'KEEPTTL') end
end

local function over()
  local sum = tonumber(redis.call('GET', bytes) or 0)
  return sum > limit and redis.call('ZCARD', written) > 1
end

-- Takes a cell, or what is left of it, out of the server and out of the sum.
local function drop(key)
  local cell = prefix .. key
  if redis.call('EXISTS', cell) == 1 then
    local size = redis.call('HSTRLEN', cell, 'v') + overhead
    if redis.call('ZREM', expiring, struct.pack('>I4', size) .. key) == 1 then count(-size) end
    redis.call('UNLINK', cell)
  end
  redis.call('ZREM', written, key)
end

-- Clears away what has expired, then what was longest not written while there is too much.
local function trim(most)
  local past = '(' .. string.format('%.0f', now)
  for _, member in ipairs(
    redis.call('ZRANGEBYSCORE', expiring, '-inf', past, 'LIMIT', 0, most)
  ) do
    redis.call('ZREM', expiring, member)
    count(-struct.unpack('>I4', member))
    local key = string.sub(member, 5)
    local until_then = tonumber(redis.call('HGET', prefix .. key, 'x') or 0)
    if until_then < now then drop(key) end
  end
  for _ = 1, most do
    if not over() then return 0 end
    drop(redis.call('ZRANGE', written, 0, 0)[1])
  end
  return over() and 1 or 0
end
"""

SWAP: Final = Script(
    CLOCK
    + _STANDING
    + """
local expected, token, value, ttl, call = ARGV[5], ARGV[6], ARGV[7], tonumber(ARGV[8]), ARGV[9]
if (found or '') ~= expected then
  if found and found == token then return {1, 0} end
  if token == '' and not found and redis.call('GET', KEYS[2]) == call then return {1, 0} end
  if found then return {0, found, redis.call('HGET', name, 'v')} end
  return {0}
end
"""
    + _BOOKS
    + """
local key = string.sub(name, #prefix + 1)
if token == '' then
"""
    + _TRIM
    + """
  if left then drop(key) end
  if found then redis.call('SET', KEYS[2], call, 'PX', 60000) end
  return {1, trim(4)}
end
local old = left and redis.call('HSTRLEN', name, 'v') + overhead
local size, life = #value + overhead, math.max(1, math.ceil(ttl / 1000))
local member = struct.pack('>I4', size) .. key
redis.call('HSET', name, 'k', token, 'x', string.format('%.0f', now + ttl), 'v', value)
redis.call('PEXPIRE', name, life)
local last = redis.call('ZRANGE', written, -1, -1, 'WITHSCORES')[2]
local score = now
if last and tonumber(last) >= now then score = tonumber(last) + 1 end
redis.call('ZADD', written, score, key)
local more = size
if old and redis.call('ZREM', expiring, struct.pack('>I4', old) .. key) == 1 then
  more = size - old
end
redis.call('ZADD', expiring, now + ttl, member)
local sum = redis.call('INCRBY', bytes, more)
for i = #KEYS - 2, #KEYS do
  if redis.call('PTTL', KEYS[i]) < life then redis.call('PEXPIRE', KEYS[i], life * 2) end
end
local first = redis.call('ZRANGE', expiring, 0, 0, 'WITHSCORES')[2]
if sum <= limit and tonumber(first) >= now then return {1, 0} end
"""
    + _TRIM
    + """
return {1, trim(sum > limit and 1000 or 4)}
"""
)
"""KEYS: the cell, what remembers its removal, ``written``, ``expiring``, ``bytes``. ARGV: the bytes
that an entry counts beside its value, the most bytes, the expected token, the new token or nothing,
the value, the time to live, a name of this very call. Answers 1 and whether there is still too much,
or 0 and the token and value that stand, if any do."""

TRIM: Final = Script(CLOCK + _BOOKS + _TRIM + "return trim(1000)")
"""KEYS: ``written``, ``expiring``, ``bytes``. ARGV: as in ``SWAP``. Answers 1 where there is still
too much."""
