# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Session records and cells in a Redis server, for many hosts; needs the extra ``redis``.

Works with Redis 6.2 or newer and with Valkey: one server, replicas under Sentinel, or a cluster.
"""

from truezero.sessions.redis_store.cells import RedisCells
from truezero.sessions.redis_store.client import RedisClient
from truezero.sessions.redis_store.ledger import RedisLedgerStore
from truezero.sessions.store import UnreadableError

__all__ = ["RedisCells", "RedisClient", "RedisLedgerStore", "UnreadableError"]
