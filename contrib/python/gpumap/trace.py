# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""Record the jobs of rows for some time."""

from __future__ import annotations

from collections.abc import Iterable

from . import _core
from .facts import TraceJob
from .map import Map

__all__ = ["Trace"]


class Trace(_core.Trace):
    """A recording, from Map.trace(), until close().

    rows   to record, each once; None: all that have a worker

    A row has room for 16384 records: those that are not read in time are lost.
    Jobs that a program of a client does are not recorded.
    """

    map: Map
    lost: int  # records, since it was opened

    def __new__(cls, map: Map, rows: Iterable[int] | None = None) -> Trace:
        opts = {"rows": None if rows is None else list(rows)}
        self = super().__new__(cls, map, opts)
        self.map = map
        self.lost = 0
        return self

    def read(self, most: int = 16384) -> list[TraceJob]:
        """Take records, up to 65536, without waiting for any.

        Those of one row come in the order in which its jobs ended.

        Gone: there are no more, and no more come: the agent has ended.
        """
        jobs, lost = self._read(most)
        self.lost += lost
        return [TraceJob._of(job) for job in jobs]

    def __enter__(self) -> Trace:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()
