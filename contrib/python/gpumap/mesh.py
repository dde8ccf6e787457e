# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""Meshes, whose groups of ranks let processes find each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from . import _core, enums
from .enums import MeshBackend, MeshTopology
from .facts import Group, MeshInfo

if TYPE_CHECKING:
    from .map import Map

__all__ = ["Joined", "Mesh"]


class Joined:
    """This process is a rank of a group, until leave().

    id   the 128 bytes that rank 0 has brought
    """

    def __init__(self, map: Map, id: bytes, ticket: int) -> None:
        self.map = map
        self.id = id
        self._ticket = ticket

    def leave(self, *, broken: bool = False) -> None:
        """Stop being that rank; broken: tell the other ranks."""
        if self._ticket:
            flags = enums.MESH_BROKEN if broken else 0
            self.map._mesh_leave(self._ticket, flags)
        self._ticket = 0

    def __enter__(self) -> Joined:
        return self

    def __exit__(self, *unused: object) -> None:
        self.leave()


class Mesh:
    """A mesh by its name, from Map.mesh()."""

    def __init__(self, map: Map, name: str) -> None:
        self.map = map
        self.name = name
        self.read()  # NotFound now, not later

    def read(self) -> MeshInfo:
        """Read one publication, with the row of each rank."""
        got, rows = self.map._mesh_read(self.name)
        got["topology"] = MeshTopology(got["topology"])
        return MeshInfo(**got, rows=rows)

    def __len__(self) -> int:
        return self.read().world

    @property
    def rows(self) -> tuple[int, ...]:
        """The row of each rank."""
        return self.read().rows

    def group(self, name: str | None = None) -> Group:
        """A group with its ranks and their rows; None: "world"."""
        got, ranks, rows = self.map._mesh_group(self.name, name)
        return _group(got, ranks, rows)

    def groups(self, rank: int | None = None) -> list[Group]:
        """The groups, or those that a rank is in, without ranks and rows."""
        number = enums.MESH_ANY if rank is None else rank
        return [_group(one) for one in self.map._mesh_groups(self.name, number)]

    def __iter__(self) -> Iterator[Group]:
        return iter(self.groups())

    def place(self, rank: int) -> tuple[int, int, int]:
        """A rank's (part of a layer, stage, replica).

        OutOfRange: the world has no such rank.
        """
        return self.map._mesh_place(self.name, rank)

    def stats(self) -> dict[str, int]:
        """Sums over its devices: total_bytes, units, n_ready, ..."""
        return self.map._mesh_stats(self.name)

    def view(self, group: str | None = None, *, ranks: bool = False) -> Rows:
        """The row, or the mesh's rank, of each rank of a group, to look up."""
        return Rows(self.map, self.name, group, 2 if ranks else 1)

    def join(
        self,
        rank: int,
        *,
        group: str | None = None,
        id: bytes | None = None,
        version: int = 1,
        epoch: int | None = None,
        timeout: float | None = None,
    ) -> Joined:
        """Join as a rank of a group, and wait for all others.

        id        from rank 0: 128 bytes that each rank receives
        version   must be the same of all
        epoch     of the group; None: that of this moment

        Timeout: a rank did not come.  Stale: the epoch has moved on.  Busy:
        another process is this rank.
        """
        if epoch is None:
            epoch = self.group(group).epoch
        got, ticket = self.map._mesh_join(
            self.name, group, epoch, rank, version, id, timeout
        )
        return Joined(self.map, got, ticket)

    def __repr__(self) -> str:
        return f"<Mesh {self.name!r}>"


class Rows(_core.View):
    """A table of a group: rows[i] is that of its rank i, and follows the mesh.
    """

    def __new__(
        cls, map: Map, name: str, group: str | None, table: int
    ) -> Rows:
        return super().__new__(cls, map, name, group, table)


def _group(
    got: dict[str, Any],
    ranks: tuple[int, ...] = (),
    rows: tuple[int, ...] = (),
) -> Group:
    got["backend"] = MeshBackend(got["backend"])
    got["whole"] = bool(got["whole"])
    return Group(**got, ranks=ranks, rows=rows)
