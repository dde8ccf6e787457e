# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""A node as gpumapctl doctor sees it, and what its checks find."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ..facts import Cluster, Device, Health

if TYPE_CHECKING:
    from .. import Map


class Finding(NamedTuple):
    """What a check has found."""

    state: str
    text: str
    remedy: str | None = None  # of WARN and FAIL


ok = partial(Finding, "PASS")
warn = partial(Finding, "WARN")  # it works, and could be better
fail = partial(Finding, "FAIL")
skip = partial(Finding, "SKIP")  # it does not apply, or cannot be seen


@dataclass
class Node:
    """Files below a root, and what the map says, if there is one."""

    root: str = ""  # "": of this machine
    instance: str = "node"
    runtime_dir: str = "/run/gpumap"
    map: Map | None = None
    no_map: Finding | None = None  # why there is none
    health: Health | None = None  # None: there is no map
    agent: int = 0  # its pid here; 0: not seen
    rows: list[Device] = field(default_factory=list)
    cluster: Cluster | None = None  # None: the node is in none

    def exists(self, path: str) -> bool:
        """Is there such a file?"""
        return os.path.exists(self.root + path)

    def file(self, path: str) -> str:
        """The text of a file; "" where it cannot be read."""
        try:
            with open(self.root + path, errors="replace") as stream:
                return stream.read()
        except OSError:
            return ""

    def line(self, path: str) -> str:
        """The first line of a file; "" where there is none."""
        return self.file(path).partition("\n")[0]

    def number(self, path: str, missing: int) -> int:
        """The number that begins a file."""
        found = re.match(r"\s*(-?\d+)", self.line(path))
        return int(found[1]) if found else missing

    def link(self, path: str) -> str:
        """The target of a symbolic link; "" where there is none."""
        try:
            return os.readlink(self.root + path)
        except OSError:
            return ""

    def memory(self, name: str) -> int:
        """The bytes that /proc/meminfo has under a name; 0 without it."""
        text = self.file("/proc/meminfo")
        found = re.search(rf"^{name}:\s*(\d+)", text, re.MULTILINE)
        return int(found[1]) << 10 if found else 0

    @property
    def has_numa_nodes(self) -> bool:
        """Has the machine more than one?"""
        return self.exists("/sys/devices/system/node/node1")


class Checks:
    """The checks of a subject, which is the class: each public method is one.

    A check changes nothing.  Its id is the class's name and the method's, as
    "memory.swap", and keeps its meaning.
    """

    def __init__(self, node: Node) -> None:
        self.node = node

    def _unseen(self, check: str) -> str:
        # Why a check does not apply, or cannot see what it needs.
        return ""

    def __iter__(self) -> Iterator[tuple[str, Finding]]:
        """The id of each check, and what it finds."""
        for name in vars(type(self)):
            if not name.startswith("_"):
                why = self._unseen(name)
                found = skip(why) if why else getattr(self, name)()
                yield f"{type(self).__name__.lower()}.{name}", found
