# SPDX-FileCopyrightText: Copyright (c) 2026 The truezero authors
# SPDX-License-Identifier: Apache-2.0
"""Plays episodes against workers behind one port, and knows what each verdict has to be.

The worker that answered each call is in its reply, so the truth of an episode is known: its verdict
counts if one life of one worker had all of its calls.
"""

import random
import ssl
from collections import Counter
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import anyio
import httpx
from asgi_driver import VERIFY

ATTEMPTS = 40
_TLS = ssl.create_default_context()  # made once: it costs more than an episode
_PAUSE_S = 0.25


@dataclass
class Episode:
    """One episode as its client saw it.

    Attributes:
        kind: Which server.
        right: Whether its answer is right.
        calls: Path -> the workers that answered its calls, in order.
        retries: Calls whose connection broke, and that were made again.
        verdict: The verify's reply.
        status: And its status.
    """

    kind: str
    right: bool
    calls: list[tuple[str, str]] = field(default_factory=list)
    retries: int = 0
    verdict: dict[str, Any] = field(default_factory=dict)
    status: int = 0
    seed_status: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether one life of one worker had all of it, each call once."""
        return len({worker for _, worker in self.calls}) == 1 and not self.retries

    @property
    def is_typed(self) -> bool:
        """Whether the verdict is a typed failure."""
        typed = bool(self.verdict.get("failure_kind"))
        return typed and (self.status >= 400 or self.verdict.get("mask_sample") is True)

    def fault(self) -> str | None:
        """What is wrong with its verdict, if anything."""
        if self.is_typed:
            kind = self.verdict["failure_kind"]
            return f"false mask: {kind}" if self.is_whole and self.seed_status == 200 else None
        reward = self.verdict.get("reward")
        if self.status != 200 or reward not in {0.0, 1.0}:
            return f"neither a verdict nor typed: {self.status} {self.verdict}"
        if self.is_whole:
            return None if reward == float(self.right) else f"scored {reward}, wrongly"
        if len({worker for _, worker in self.calls}) == 1:
            return (
                None  # a call that was made again on one worker: nobody knows how often it counted
            )
        return f"false {'one' if reward else 'zero'}"


class Player:
    """Plays episodes.

    Args:
        url: The port of the workers.
        seed: Makes the choices repeatable.
        wanders: How likely the client comes on a new connection, and so perhaps to another worker.
        closes: How likely it closes its session.
    """

    def __init__(self, url: str, *, seed: int, wanders: float, closes: float = 0.9) -> None:
        self.url = url
        self._random = random.Random(seed)
        self._wanders = wanders
        self._closes = closes
        self.episodes: list[Episode] = []
        self.newest: list[str] = []
        """The workers of the newest replies, the newest last."""

    async def play(self, kind: str) -> Episode:
        """Seed, a few increments, verify, mostly close."""
        episode = Episode(kind, self._random.random() < 0.5)
        self.episodes.append(episode)
        name = {"resources_session_id": uuid4().hex} if kind == "kit" else {}
        count = self._random.randint(1, 3)
        wanders = self._random.random() < 0.5
        cookies = httpx.Cookies()
        client = self._client(cookies)
        try:
            said = str(count if episode.right else count + 1)
            steps: list[tuple[str, dict[str, Any]]] = [("/seed_session", {"initial_count": 0})]
            steps += [("/increment", {})] * count
            steps += [("/verify", {**VERIFY, "expected": said})]
            for path, body in steps:
                if wanders and self._random.random() < self._wanders:
                    await client.aclose()
                    client = self._client(cookies)
                reply = await self._call(client, episode, path, {**body, **name})
                cookies.update(client.cookies)
                if path == "/seed_session":
                    episode.seed_status = reply.status_code
                elif path == "/verify":
                    episode.verdict, episode.status = reply.json(), reply.status_code
            if self._random.random() < self._closes:
                closed = Episode(kind, right=True)
                await self._call(client, closed, "/close_session", name)
        finally:
            await client.aclose()
        return episode

    async def _call(
        self, client: httpx.AsyncClient, episode: Episode, path: str, body: dict[str, Any]
    ) -> httpx.Response:
        for _ in range(ATTEMPTS):
            try:
                reply = await client.post(f"/{episode.kind}{path}", json=body)
            except httpx.TransportError:
                episode.retries += 1
                await anyio.sleep(_PAUSE_S)
                continue
            worker = reply.headers["x-worker"]
            episode.calls.append((path, worker))
            self.newest = [*(each for each in self.newest if each != worker), worker][-16:]
            return reply
        raise AssertionError(f"{path}: no reply in {ATTEMPTS} attempts")

    def _client(self, cookies: httpx.Cookies) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=self.url, cookies=cookies, timeout=30.0, verify=_TLS, trust_env=False
        )

    def faults(self) -> Counter[str]:
        """What went wrong, by kind; empty where every episode ended right or typed."""
        return Counter(fault for each in self.episodes if (fault := each.fault()))

    def examples(self) -> list[Episode]:
        """Some of the episodes that went wrong."""
        return [each for each in self.episodes if each.fault()][:3]

    def summary(self) -> dict[str, int]:
        """How the episodes ended."""
        ended = Counter(
            "typed" if each.is_typed else "right" if each.right else "wrong"
            for each in self.episodes
        )
        whole = sum(each.is_whole for each in self.episodes)
        return {**ended, "whole": whole, "retries": sum(each.retries for each in self.episodes)}
