# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""Collectives over the rows of a mesh's group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import _core, enums
from .enums import Op, Reduce
from .session import Buffer, Job, Memory, Operand, deadline_ns

if TYPE_CHECKING:
    from .map import DTypeLike
    from .session import Session

__all__ = ["Comm"]


class Comm(_core.Comm):
    """A session's use of a group, from Session.comm().

    A collective is submitted once, for all ranks, and has one completion that
    Session.wait() takes.  One that ends with an error but Invalid breaks the
    communicator: renew() opens its group again.
    """

    session: Session

    def __new__(
        cls,
        session: Session,
        mesh: str,
        group: str | None = None,
        flags: int = 0,
    ) -> Comm:
        self = super().__new__(cls, session, mesh, group, flags)
        self.session = session
        return self

    @property
    def rows(self) -> tuple[int, ...]:
        """The row of each rank."""
        return self._rows()

    @property
    def nccl(self) -> bool:
        """Do cards compute among themselves this time?"""
        return bool(self._flags() & enums.COMM_NCCL)

    def submit(
        self,
        op: Op | str,
        n: int = 0,
        *,
        dtype: DTypeLike = "f32",
        send: Sequence[Operand | None] | None = None,
        recv: Sequence[Operand | None] | None = None,
        reduce: Reduce | str = Reduce.SUM,
        root: int = 0,
        peer: int = 0,
        waits: Sequence[tuple[int, int]] = (),
        timeout: float | None = None,
    ) -> int:
        """Submit a collective of all ranks, and return its cookie.

        op      "barrier", "all_reduce", "all_gather", "reduce_scatter",
                "broadcast" or "send"
        n       elements of each rank
        send    memory of each rank, in their order; recv likewise
        root    the rank that sends, of broadcast and send; peer: that receives
        """
        from .map import dtype_of

        op = Op[op.upper()] if isinstance(op, str) else op
        reduce = Reduce[reduce.upper()] if isinstance(reduce, str) else reduce
        job = Job(op, n, timeout=timeout)
        job.cookie = next(self.session._cookies)
        what: dict[str, Any] = {
            "op": int(op),
            "dtype": int(dtype_of(dtype)),
            "reduce": int(reduce),
            "root": root,
            "peer": peer,
            "n": n,
            "cookie": job.cookie,
        }
        if timeout is not None:
            what["deadline_ns"] = deadline_ns(timeout)
        ranks = None
        if send is not None or recv is not None:
            world = len(self._rows())
            ranks = [
                _rank(_at(send, i, world), _at(recv, i, world))
                for i in range(world)
            ]
        self._submit(what, ranks, list(waits))
        # The session keeps the memory until the completion was taken.
        self.session._flying[job.cookie] = job
        self.session._kept[job.cookie] = (send, recv)
        return job.cookie

    def __enter__(self) -> Comm:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Comm of {len(self.rows)} ranks>"


def _at(
    list_: Sequence[Operand | None] | None, i: int, world: int
) -> Operand | None:
    if list_ is None:
        return None
    if len(list_) != world:
        raise ValueError(f"one of each rank is needed, {world} in all")
    return list_[i]


def _rank(send: Operand | None, recv: Operand | None) -> dict[str, int]:
    fields: dict[str, int] = {}
    for name, operand in (("send", send), ("recv", recv)):
        if operand is None:
            continue
        what, at = operand if isinstance(operand, tuple) else (operand, 0)
        if isinstance(what, Memory):
            fields[name] = what.address + at
        elif isinstance(what, Buffer):
            fields[f"{name}_buffer"] = what.handle
            fields[f"{name}_at"] = at
        else:
            raise TypeError(f"{name} is neither Memory nor a Buffer: {what!r}")
    return fields
