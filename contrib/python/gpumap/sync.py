# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""Several nodes, by way of this node's gpumap-sync(8): values that processes of
a user share, gangs of devices, and cohorts of ranks."""

from __future__ import annotations

import uuid as _uuid
from collections.abc import Mapping

from . import _core, enums

__all__ = ["Member", "Sync"]


def _bytes_of(uuid: str) -> bytes:
    return _uuid.UUID(uuid.removeprefix("GPU-").removeprefix("MIG-")).bytes


class Sync(_core.Sync):
    """A connection; it has one gang at most, and is one rank of one cohort.

    path   of gpumap-sync's socket; None: /run/gpumap-sync/node

    A child that is forked uses a connection of its own.
    """

    def __new__(cls, path: str | None = None) -> Sync:
        return super().__new__(cls, path)

    def __enter__(self) -> Sync:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    # ---- values --------------------------------------------------------------

    def get(self, key: str) -> tuple[bytes, int] | None:
        """A value and its revision, or None."""
        return self._value_get(key)

    def cas(
        self,
        key: str,
        value: bytes | None,
        expected: int = 0,
        *,
        ephemeral: bool = False,
    ) -> tuple[bool, int]:
        """Write a value if it has the revision that is expected, 0: none.

        value       None: delete it
        ephemeral   it ends with this connection

        Returns whether it was written, and the revision that it has.
        Timeout: it was perhaps written; get() it to know.
        """
        flags = enums.VALUE_EPHEMERAL if ephemeral else 0
        return self._value_cas(key, value, expected, flags)

    def list(self, prefix: str) -> list[str]:
        """What follows the prefix in the keys that begin with it."""
        return self._value_list(prefix)

    def wait(
        self, prefix: str, seen: int = 0, timeout: float | None = None
    ) -> int:
        """Wait until a value below the prefix may have changed.

        seen      what the last call returned, 0 at first
        timeout   None: for ever

        Timeout: nothing has changed.
        """
        return self._value_wait(prefix, seen, timeout)

    # ---- gangs ---------------------------------------------------------------

    def reserve(
        self,
        name: str,
        members: Mapping[str, Mapping[str, int]],
        timeout: float | None = None,
    ) -> None:
        """Reserve bytes of devices on several nodes, all or none.

        name      of the map that each node publishes for it
        members   {node: {uuid as Device.uuid: bytes}}
        timeout   None: the cluster's lease time

        The reservations end with release(), with this connection, and with any
        of the nodes: check() raises Lost then.
        """
        self._gang_reserve(
            name,
            [
                (node, [(_bytes_of(uuid), n) for uuid, n in parts.items()])
                for node, parts in members.items()
            ],
            timeout,
        )

    def release(self) -> None:
        """End the gang's reservations on all nodes."""
        self._gang_release()

    # ---- cohorts -------------------------------------------------------------

    def join_cohort(
        self,
        name: str,
        world: int,
        rank: int,
        *,
        id: bytes | None = None,
        version: int = 1,
        timeout: float | None = None,
    ) -> Member:
        """Join as a rank of a cohort, and wait for all others.

        id        from rank 0: 128 bytes that each rank receives
        version   must be the same of all
        timeout   None: for ever

        Timeout: a rank did not come.  Busy: another process is this rank.
        Stale: join again, as rank 0 with another id.
        """
        got, epoch = self._cohort_join(name, world, rank, version, id, timeout)
        return Member(self, got, epoch)


class Member:
    """This connection is a rank of a cohort, until leave().

    id      the 128 bytes that rank 0 has brought
    epoch   of the cohort; when it moves on Sync.check() raises Stale
    """

    def __init__(self, sync: Sync, id: bytes, epoch: int) -> None:
        self.sync = sync
        self.id = id
        self.epoch = epoch
        self._left = False

    def leave(self, *, broken: bool = False) -> None:
        """Stop being that rank; broken: tell the other ranks."""
        if not self._left:
            self._left = True
            flags = enums.COHORT_BROKEN if broken else 0
            self.sync._cohort_leave(flags)

    def __enter__(self) -> Member:
        return self

    def __exit__(self, kind: object, *unused: object) -> None:
        self.leave(broken=kind is not None)
