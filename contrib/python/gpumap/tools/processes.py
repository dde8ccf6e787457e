# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""The names of users, and of the processes that the agent lists."""

from __future__ import annotations

import os
import pwd
import time
from functools import cached_property

from .. import Map

NAME = 32  # characters of a user's or a command's name


def user(uid: int) -> str:
    """The user's name, or the uid where it has none."""
    try:
        return plain(pwd.getpwuid(uid).pw_name)[:NAME]
    except KeyError:
        return str(uid)


def plain(name: str) -> str:
    """Without what a terminal would obey: a process chooses its own name."""
    return "".join(c if " " < c <= "~" else "?" for c in name)


class Processes:
    """The processes of an agent's clients, as far as this one sees them."""

    def __init__(self, map: Map) -> None:
        self._agent_pid = map.health().agent_pid

    @cached_property
    def _seen(self) -> bool:
        # Pids are those of the agent's pid namespace.  Where this process is in
        # it too, the agent's own pid leads to an agent.
        return "gpumapd" in read("comm", self._agent_pid)

    def _is(self, pid: int, uid: int) -> bool:
        # A pid may have gone to another process: that of the same user may be
        # named, as nothing tells the two apart.
        try:
            owner = os.stat(f"/proc/{pid}").st_uid if pid else None
        except OSError:
            return False
        return owner in (uid, 0) and self._seen

    def command(self, pid: int, uid: int) -> str | None:
        """The name of a user's process, or None where it is not known."""
        name = read("comm", pid).removesuffix("\n") if self._is(pid, uid) else ""
        return plain(name)[:NAME] or None

    def agent_seconds(self) -> int:
        """How long the agent's process has run; 0: it is not seen."""
        stat = read("stat", self._agent_pid)
        fields = stat.partition("(gpumapd) ")[2].split()
        if not fields:
            return 0
        started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return int(time.clock_gettime(time.CLOCK_BOOTTIME) - started)


def read(file: str, pid: int) -> str:
    """A file of a process, or "" where it is gone."""
    try:
        with open(f"/proc/{pid}/{file}", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""
