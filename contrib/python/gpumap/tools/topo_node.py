# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""A node as gpumapctl topo writes it: NUMA nodes, rows, and what is on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ..enums import DeviceFlags
from ..facts import Device
from . import text


class Part(NamedTuple):
    """The layers of one map on one row."""

    map: str
    color: int  # the map's place among the maps
    layers: str  # "0-15,20"
    n_layers: int
    bytes: int  # that the map is charged there
    committed: bool

    @property
    def words(self) -> str:
        """ "layers 0-15,20"."""
        if self.n_layers == 0:
            return "no layer"
        return f"{'layer' if self.n_layers == 1 else 'layers'} {self.layers}"


class Rank(NamedTuple):
    """A row's rank in a mesh."""

    mesh: str
    rank: int
    groups: str  # that the rank is in, "tp_0 pp_1"

    @property
    def words(self) -> str:
        """ "rank 1 in tp_0"."""
        return f"rank {self.rank}" + (f" in {self.groups}" * bool(self.groups))


@dataclass
class Row:
    """A row with what is on it."""

    row: int
    kind: str
    name: str
    state: str
    reason: str
    numa_node: int  # -1: none
    pci: str | None
    mig: str | None  # the profile of an instance of a card
    split: bool  # into instances
    units: int
    main_memory: bool
    total: int
    used: int
    promised: int  # to holders, who do not use it yet
    parts: list[Part] = field(default_factory=list)
    ranks: list[Rank] = field(default_factory=list)
    links: str = ""  # to other cards: "NV4 1,2; SYS 3"

    @property
    def left(self) -> int:
        """Bytes that are neither used nor promised."""
        return self.total - self.used - self.promised

    @property
    def ready(self) -> bool:
        """Is it in service?"""
        return self.state == "READY"

    @classmethod
    def of(cls, device: Device) -> Row:
        """The row of a device of the map."""
        return cls(
            row=device.row,
            kind=device.kind.name.lower(),
            name=device.name,
            state=device.state.name,
            reason=device.reason,
            numa_node=device.numa_node,
            pci=text.pci(device),
            mig=device.mig_profile if device.mig_gi >= 0 else None,
            split=bool(device.flags & DeviceFlags.MIG),
            units=device.units,
            main_memory=bool(device.flags & DeviceFlags.MAIN_MEMORY),
            total=device.total_bytes,
            used=device.used,
            promised=device.promised,
        )


class Link(NamedTuple):
    """What is between two cards."""

    a: int
    b: int
    path: str | None  # on the bus, as path_of() has it
    nvlinks: int

    @property
    def text(self) -> str:
        """ "NV4" where there are NVLinks, else the path."""
        return f"NV{self.nvlinks}" if self.nvlinks else self.path or ""


@dataclass
class Node:
    """All of it."""

    name: str
    rows: list[Row]
    cpus: dict[int, str]  # of each NUMA node; -1: rows of none
    links: dict[tuple[int, int], Link] = field(default_factory=dict)

    def on(self, numa_node: int) -> list[Row]:
        """The rows of one NUMA node."""
        return [row for row in self.rows if row.numa_node == numa_node]

    def between(self, a: int, b: int) -> Link | None:
        """The link of two rows, if any is known."""
        return self.links.get((min(a, b), max(a, b)))

    def place_text(self, numa_node: int) -> str:
        """ "NUMA node 0, CPUs 0-3"."""
        if numa_node < 0:
            return "no NUMA node"
        cpus = self.cpus[numa_node]
        return f"NUMA node {numa_node}" + (f", CPUs {cpus}" if cpus else "")
