# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""The log of gpumap-sync: one line for each event, in the form of gpumapd(8).

A flood of one kind of event, or by one user, hides no other: lines above a
limit are counted, and the next line that is written says how many they were.
"""

from __future__ import annotations

import os
import select
import socket
import time

from . import text

EVENT_RATE = 200  # lines of one event in a second
UID_BURST = 150  # lines that a user causes at once
UID_RATE = 20  # and in each second from there on
LINE_BYTES = 2048
QUOTED = ("by", "gang", "name", "path", "remedy", "why")


class Log:
    """Writes to standard error, and waits for no reader of it."""

    def __init__(self) -> None:
        self.lost = 0
        self.stamped = not _is_journal()
        self._counts: dict[str, tuple[int, int]] = {}
        self._paid: dict[int, float] = {}

    def info(self, event: str, /, **pairs: object) -> None:
        """Tell of something that goes as it should."""
        self._write("info", event, pairs)

    def warning(self, event: str, /, **pairs: object) -> None:
        """Tell of something that goes on by itself, or worse."""
        self._write("warning", event, pairs)

    def error(self, event: str, /, **pairs: object) -> None:
        """Tell of something that an administrator has to mend."""
        self._write("error", event, pairs)

    def warning_of(
        self, uid: int, event: str, /, **pairs: object
    ) -> None:
        """Tell of something that a user has caused."""
        if self._pays(uid):
            self._write("warning", event, pairs)
        else:
            self.lost += 1

    def _pays(self, uid: int) -> bool:
        now = time.monotonic()
        paid = max(self._paid.get(uid, 0), now)
        if paid - now > (UID_BURST - 1) / UID_RATE:
            return False
        self._paid = {one: to for one, to in self._paid.items() if to > now}
        self._paid[uid] = paid + 1 / UID_RATE
        return True

    def _write(
        self, level: str, event: str, pairs: dict[str, object]
    ) -> None:
        second = int(time.monotonic())
        last, n = self._counts.get(event, (second, 0))
        n = n + 1 if last == second else 1
        self._counts[event] = second, n
        if n > EVENT_RATE:
            self.lost += 1
            return
        words = [f"level={level}", f"event={event}"]
        if self.stamped:
            now = time.time()
            stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now))
            words.insert(0, f"time={stamp}.{int(now * 1000) % 1000:03}Z")
        for key, value in pairs.items():
            words.append(f"{key}={_quote(value) if key in QUOTED else value}")
        if self.lost:
            words.append(f"lost={self.lost}")
        line = text.printable(" ".join(words)).encode("utf-8", "replace")
        try:
            if _can_write():
                os.write(2, line[: LINE_BYTES - 1] + b"\n")
                self.lost = 0
                return
        except OSError:
            pass  # the reader has gone
        self.lost += 1


def _quote(value: object) -> str:
    plain = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{plain}"'


def _can_write() -> bool:
    """Does a line find room where standard error leads?"""
    try:
        return bool(select.select([], [2], [], 0)[1])
    except (OSError, ValueError):
        return False


def _is_journal() -> bool:
    """Does systemd's journal read standard error, and know the time itself?"""
    try:
        with socket.socket(fileno=os.dup(2)) as stream:
            return "/systemd/journal/" in str(stream.getpeername())
    except OSError:
        return False


log = Log()
