# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""Sessions: memory, jobs and their completions, buffers and models."""

from __future__ import annotations

import itertools
import struct
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from . import _core, enums, errors
from .enums import DType, Op
from .facts import Done, Fingerprint, Progress, Tile

if TYPE_CHECKING:
    from .comm import Comm
    from .map import DTypeLike, Map, Path
    from .model import File, Model

__all__ = ["Buffer", "Job", "Memory", "Session", "Share", "Source"]

Users = Literal["self", "any"] | Iterable[int]
FingerprintLike = Fingerprint | Mapping[str, object] | None
OnProgress = Callable[[Progress], object] | bool | None


class Memory(_core.Memory):
    """Memory of a session's arena near a row: a writable buffer of bytes.

    memoryview(memory), numpy.frombuffer(memory, "f4") view it without a copy.
    The memory stays as long as a view of it does.  A forked child does not have
    it.
    """

    def __repr__(self) -> str:
        return f"<Memory of {self.nbytes} bytes near row {self.row}>"


class Buffer:
    """Memory outside the arena, which jobs name by a handle.

    Freed by free(), or when the object is collected.
    """

    def __init__(
        self,
        session: Session,
        handle: int,
        nbytes: int,
        row: int | None,
        registered: bool = False,
    ) -> None:
        self.session = session
        self.handle = handle
        self.nbytes = nbytes
        self.row = row
        self._registered = registered
        self._mapping: _core.Mapping | None = None

    def free(self) -> None:
        """Give it back.  No job that names it may be in flight.

        Again: no job fits beside those in flight, take completions first.
        """
        if not self.handle:
            return
        if self._registered:
            self.session._buffer_unregister(self.handle)
        else:
            self.session._buffer_free(self.handle)
        self.handle = 0

    def export(self) -> int:
        """Let other sessions import it, by this number.

        Invalid: it was not allocated with exportable=True.
        """
        return self.session._buffer_export(self.handle)

    def fd(self) -> int:
        """A descriptor of an exportable buffer, for the caller to close."""
        return self.session.map._export_fd(self.export())[0]

    def view(self) -> memoryview:
        """An exportable buffer of a host row, as a writable view of bytes.

        The view stays after the buffer is freed: it is a mapping of its own.
        """
        if self._mapping is None:
            fd, nbytes, _ = self.session.map._export_fd(self.export())
            self._mapping = _core.Mapping(fd, nbytes, False, True)
        what: Any = self._mapping
        return memoryview(what)

    def __enter__(self) -> Buffer:
        return self

    def __exit__(self, *unused: object) -> None:
        self.free()

    def __del__(self) -> None:
        if getattr(self, "handle", 0):
            self.session._buffer_defer(self.handle)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.nbytes} bytes>"


class Source(Buffer):
    """A file that LOAD jobs read from."""


class Share:
    """Buffers under a name that other sessions may open."""

    def __init__(self, session: Session, number: int, name: str) -> None:
        self.session = session
        self.number = number
        self.name = name
        self.buffers: list[Buffer] = []  # that live as long as it does

    @property
    def about(self) -> bytes:
        """The bytes that describe it."""
        data: bytes = self.session._share_info(self.number)["about"]
        return data

    @property
    def fingerprint(self) -> bytes:
        """The hash of its fingerprint; b"": it has none."""
        hash: bytes = self.session._share_info(self.number)["fingerprint"]
        return hash if any(hash) else b""

    @property
    def n_buffers(self) -> int:
        """How many buffers it has."""
        n: int = self.session._share_info(self.number)["n_buffers"]
        return n

    def buffer(self, index: int) -> Buffer:
        """Import one of its buffers, for jobs of this session."""
        handle, nbytes, row = self.session._share_buffer(self.number, index)
        buffer = Buffer(self.session, handle, nbytes, row)
        buffer._share = self  # type: ignore[attr-defined]
        return buffer

    def mapping(self, index: int, *, private: bool = False) -> memoryview:
        """One of its buffers on a host row, mapped.

        private   writable, copy on write; else read-only

        Denied: the row is a GPU, and it is shared read-only.
        """
        fd, nbytes, _ = self.session._share_fd(self.number, index)
        what: Any = _core.Mapping(fd, nbytes, private)
        return memoryview(what)

    def close(self) -> None:
        """Stop holding it."""
        if self.number:
            self.session._share_close(self.number)
        self.number = 0

    def __enter__(self) -> Share:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Share {self.name!r}>"


Operand = Memory | Buffer | tuple[Memory | Buffer, int]


@dataclass(slots=True)
class Job:
    """One operation for submit() or scatter().

    op          "fill", "copy", "scale", "axpy", "cast", "sum", "min", "max",
                "mask_add", "mask_bool", "load", "run" or "nop"
    n           elements, of src where there is one
    dtype       of src and dst, but of dst for "cast" (to) and "sum"
    dst, src    Memory or a Buffer, or (memory, offset in bytes)
    alpha       of scale and axpy
    pattern     of fill: its low bytes
    waits       (row, value) of earlier jobs that must have ended before
    timeout     seconds from submission on; None: none
    """

    op: Op | str
    n: int = 0
    dtype: DTypeLike = DType.U8
    dst: Operand | None = None
    src: Operand | None = None
    alpha: float = 0.0
    pattern: int = 0
    to: DTypeLike | None = None
    mask: Operand | None = None
    mask_n: int = 0
    mask_first: int = 0
    program: int = 0
    src_item_bytes: int = 0
    dst_item_bytes: int = 0
    params: Memory | None = None
    waits: Sequence[tuple[int, int]] = ()
    timeout: float | None = None
    cookie: int = field(default=0, init=False)

    def _fields(self) -> dict[str, Any]:
        from .map import dtype_of

        op = Op[self.op.upper()] if isinstance(self.op, str) else self.op
        fields: dict[str, Any] = {
            "op": int(op),
            "n": self.n,
            "dtype": int(dtype_of(self.dtype)),
            "alpha": self.alpha,
            "pattern": self.pattern,
            "cookie": self.cookie,
        }
        _operand(fields, "dst", self.dst)
        _operand(fields, "src", self.src)
        _operand(fields, "mask", self.mask)
        if self.mask is not None:
            fields |= {"mask_n": self.mask_n, "mask_first": self.mask_first}
        if self.to is not None:
            fields["to"] = int(dtype_of(self.to))
        if op == Op.RUN:
            fields |= {
                "program": self.program,
                "src_item_bytes": self.src_item_bytes,
                "dst_item_bytes": self.dst_item_bytes,
            }
        if self.params is not None:
            fields |= {
                "params": self.params.address,
                "params_bytes": self.params.nbytes,
            }
        if self.waits:
            fields["waits"] = list(self.waits)
        if self.timeout is not None:
            fields["deadline_ns"] = deadline_ns(self.timeout)
        return fields


_FORMATS = {
    DType.U8: "B",
    DType.F16: "e",
    DType.F32: "f",
    DType.I32: "i",
    DType.I64: "q",
    DType.F64: "d",
    DType.U16: "H",
    DType.U32: "I",
    DType.U64: "Q",
}


def _number(job: Job, data: bytes) -> int | float:
    """The element of a reduction's result that the bytes begin with."""
    fields = job._fields()
    dtype = DType(fields["dtype"])
    if fields["op"] == Op.SUM:
        if dtype in (DType.F16, DType.BF16):
            dtype = DType.F32
        elif dtype == DType.I32:
            dtype = DType.I64
        elif dtype in (DType.U8, DType.U16, DType.U32):
            dtype = DType.U64
    if dtype == DType.BF16:  # the upper half of an f32
        dtype, data = DType.F32, b"\0\0" + data
    number: int | float = struct.unpack_from("=" + _FORMATS[dtype], data)[0]
    return number


def deadline_ns(timeout: float) -> int:
    """When that many seconds from now will have passed, as the library counts.
    """
    return max(time.monotonic_ns() + int(timeout * 1e9), 1)


def _operand(
    fields: dict[str, Any], name: str, operand: Operand | None
) -> None:
    if operand is None:
        return
    what, at = operand if isinstance(operand, tuple) else (operand, 0)
    if isinstance(what, Memory):
        fields[name] = what.address + at
    elif isinstance(what, Buffer):
        fields[f"{name}_buffer"] = what.handle
        fields[f"{name}_at"] = at
    else:
        raise TypeError(f"{name} is neither Memory nor a Buffer: {what!r}")


class Session(_core.Session):
    """Queues to the rows and memory for payloads, from Map.session().

    One thread at a time uses it: a call of another waits for its turn.  In a
    child that was forked its calls raise Forked.  close() ends this handle; the
    session itself ends with the last model or view that was made from it.
    """

    map: Map

    def __new__(
        cls,
        map: Map,
        *,
        depth: int = 256,
        arena: int = 64 << 20,
        pollable: bool = False,
        sparse: bool = False,
        programs: bool = False,
    ) -> Session:
        flags = enums.SESSION_POLLABLE if pollable else 0
        flags |= enums.SESSION_SPARSE if sparse else 0
        flags |= enums.SESSION_PROGRAMS if programs else 0
        self = super().__new__(
            cls, map, {"depth": depth, "flags": flags, "arena_bytes": arena}
        )
        self.map = map
        self._cookies = itertools.count(1)
        self._flying = {}
        self._kept = {}
        return self

    _cookies: itertools.count[int]
    _flying: dict[int, Job]  # by cookie: their memory stays until they end
    _kept: dict[int, object]  # likewise of collectives

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self.closed:
            return "<Session, closed>"
        return f"<Session of {self.map!r}, {len(self._flying)} jobs in flight>"

    # ---- memory --------------------------------------------------------------

    def memory(self, row: int, nbytes: int) -> Memory:
        """Allocate memory near a row, which jobs of any row can name.

        NoMemory: the row's range of the arena has no room.  NoDevice: no such
        row.
        """
        return Memory(self, row, nbytes)

    def alloc(
        self,
        row: int,
        nbytes: int,
        exportable: bool = False,
        *,
        timeout: float | None = None,
    ) -> Buffer:
        """Allocate memory of a device.

        exportable   other sessions, other rows and view() may have it

        NoMemory: the device is full.  Quota: this user has as much as it may.
        Again: queues are full, take completions first.
        """
        flags = enums.BUFFER_EXPORTABLE if exportable else 0
        handle = self._buffer_alloc(row, nbytes, flags, timeout)
        return Buffer(self, handle, nbytes, row)

    def register(
        self,
        fd: int,
        nbytes: int,
        at: int = 0,
        *,
        read_only: bool = False,
    ) -> Buffer:
        """Let jobs name memory of this process: a memfd that cannot shrink.

        fd   stays the caller's

        Invalid: it is no memfd, can shrink, or ends before the bytes.
        """
        flags = enums.BUFFER_READ_ONLY if read_only else 0
        handle = self._buffer_register(fd, at, nbytes, flags)
        return Buffer(self, handle, nbytes, None, registered=True)

    def register_file(self, fd: int) -> Source:
        """Let LOAD jobs read from a regular file; fd stays the caller's."""
        handle = self._buffer_register_file(fd)
        return Source(self, handle, 0, None, registered=True)

    def register_mask(self, name: str) -> Buffer:
        """Let jobs name a published mask, as it is now, on any row with it."""
        handle, _ = self._buffer_register_mask(name)
        return Buffer(self, handle, 0, None, registered=True)

    def import_buffer(self, number: int, *, read_only: bool = False) -> Buffer:
        """Import what another session exported.

        NotFound: there is no such export.  Denied: not between these users.
        """
        flags = enums.BUFFER_READ_ONLY if read_only else 0
        handle = self._buffer_import(number, flags)
        got = self._buffer_info(handle)
        return Buffer(self, handle, got["bytes"], got["row"])

    def program(self, row: int, name: str) -> int:
        """Load a program of the agent's directory, for RUN jobs of any row."""
        return self._program_load(row, name)

    # ---- jobs ----------------------------------------------------------------

    def submit(self, row: int, job: Job | Sequence[Job]) -> tuple[int, int]:
        """Submit jobs to one row, in order: all of them or none.

        Each job's cookie becomes the number that its Done carries.  Returns a
        place in time, (row, value), that later jobs may wait for.

        Again: fewer jobs fit beside those in flight, take completions first.
        """
        jobs = [job] if isinstance(job, Job) else list(job)
        for one in jobs:
            one.cookie = next(self._cookies)
        value = self._submit(row, [one._fields() for one in jobs])
        for one in jobs:
            self._flying[one.cookie] = one  # its memory stays until then
        return row, value

    def wait(self, timeout: float | None = None, most: int = 256) -> list[Done]:
        """Take completions, waiting for the first.

        timeout   seconds; None: for ever; 0: do not wait

        Returns at most 256; [] if the time has passed.  NothingInFlight: there
        is nothing to wait for.  Gone: the agent went away, and all completions
        have been taken.  A job's own error is its Done's status.
        """
        done = [Done(*one) for one in self._wait(most, timeout)]
        for one in done:
            self._flying.pop(one.cookie, None)
            self._kept.pop(one.cookie, None)
        return done

    def poll(self, most: int = 256) -> list[Done]:
        """Take completions, without waiting."""
        return self.wait(0, most)

    async def done(self) -> list[Done]:
        """Take completions in asyncio; the session must be pollable."""
        from . import aio

        return await aio.done(self)

    def run(self, row: int, job: Job, timeout: float | None = None) -> None:
        """Submit one job, and wait until it has ended.

        Raises what it ended with.  Completions of other jobs are an error:
        use submit() and wait() for several at a time.
        """
        if self._flying:
            raise errors.make(
                "Session.run", 16, "other jobs are in flight", ""
            )
        self.submit(row, job)
        done = self.wait(timeout)
        if not done:
            raise errors.make("Session.run", 62, "the deadline passed", "")
        done[0].check()

    @property
    def in_flight(self) -> int:
        """Jobs of submit() whose completions were not taken yet."""
        return len(self._flying)

    def credit(self, row: int) -> int:
        """How many jobs fit beside those in flight on a row."""
        return self._credit(row)

    def cancel(self, row: int, job: Job | None = None) -> None:
        """Cancel a job, or all of a row's, that has not begun."""
        if job is None:
            self._cancel(row)
        else:
            self._cancel_job(row, job.cookie)

    def scatter(
        self,
        job: Job,
        *,
        rows: Iterable[int] | None = None,
        weights: Sequence[float] | None = None,
        fallback: bool = False,
        timeout: float | None = None,
    ) -> list[Tile]:
        """Split one job's elements over rows, and wait for all of them.

        rows       None: all hosts and cards that are READY
        weights    of each row; None: their scores
        fallback   do what failed once more, on a host row

        Raises what the first tile ended with that failed.
        """
        tiles, _ = self._scattered(
            job, rows, weights, fallback, timeout, False
        )
        return tiles

    def reduce(
        self,
        job: Job,
        *,
        rows: Iterable[int] | None = None,
        weights: Sequence[float] | None = None,
    ) -> int | float:
        """Scatter a reduction, and combine the tiles' results.

        job   "sum", "min" or "max"; its dst has room for an element a tile

        Returns the result, a float if the job's elements are.
        """
        data = self._scattered(job, rows, weights, False, None, True)[1]
        return _number(job, data)

    def _scattered(
        self,
        job: Job,
        rows: Iterable[int] | None,
        weights: Sequence[float] | None,
        fallback: bool,
        timeout: float | None,
        combined: bool,
    ) -> tuple[list[Tile], bytes]:
        opts: dict[str, Any] = {
            "flags": enums.SCATTER_FALLBACK if fallback else 0
        }
        if rows is not None:
            opts["rows"] = list(rows)
        if weights is not None:
            opts["weights"] = list(weights)
        if timeout is not None:
            opts["deadline_ns"] = deadline_ns(timeout)
        tiles, result = self._scatter([job._fields()], opts, combined)
        return [Tile(**one) for one in tiles], result

    def counts(self) -> dict[str, int]:
        """Counts: submitted, completed, doorbells and parks."""
        return self._counts()

    # ---- models and shares ---------------------------------------------------

    def load(
        self,
        path: Path,
        *,
        name: str | None = None,
        layers: str | None = None,
        rows: Iterable[int] | None = None,
        read_only: bool = True,
        users: Users = "self",
        keep: bool = False,
        any_files: bool = False,
        fingerprint: FingerprintLike = None,
        progress: OnProgress = None,
        timeout: float | None = None,
    ) -> Model:
        """Load a checkpoint into the memory of rows, or open it if it is there.

        path        a directory with safetensors files, one file, or a GGUF file
        name        for other processes; None: for this one only
        layers      the layer map to follow; None: all goes to the first row
        rows        only tensors of these rows; without layers the row
        read_only   processes that open it may not write it
        users       "self", "any", or uids that may have it beside this user
        keep        the agent keeps it when no process has it, until
                    Map.release_share(), charged to this user
        any_files   take what the name holds, whatever it was loaded from
        fingerprint of the model, or settings for one; a name that holds another
                    is a Mismatch
        progress    True: a bar on stderr; or a function of a Progress
        timeout     seconds; None: for ever

        If several processes load one name at the same time, one does, and the
        others wait.  Mismatch: the name holds other files.  NoMemory,
        Quota, NotFound, Denied: refusal names the file or the row, and the
        remedy.
        """
        from .model import load

        return load(
            self,
            path,
            name=name,
            layers=layers,
            rows=rows,
            read_only=read_only,
            users=users,
            keep=keep,
            any_files=any_files,
            fingerprint=fingerprint,
            progress=progress,
            timeout=timeout,
        )

    def open(
        self,
        name: str,
        *,
        read_only: bool = True,
        fingerprint: FingerprintLike = None,
    ) -> Model:
        """Open a model that a process has loaded by this name.

        No file is read; tensors are there at once.  NotFound: no model has
        this name, or a session is still loading it.  Mismatch: it has another
        fingerprint, refusal names the first field that differs.
        """
        from .model import Model

        flags = enums.MODEL_MAPPED
        flags |= enums.SHARE_READ_ONLY if read_only else 0
        return Model(self, name, flags, None, fingerprint)

    def load_file(
        self,
        path: Path,
        *,
        name: str,
        row: int = 0,
        users: Users = "self",
        keep: bool = False,
        any_files: bool = False,
        fingerprint: FingerprintLike = None,
        progress: OnProgress = None,
        timeout: float | None = None,
    ) -> File:
        """Load a file as it is into the memory of a host row, or open it there.

        The memory is a file of the same bytes that cannot be changed, for any
        program that reads or maps files: File.path, File.fd().

        name   for other processes, which open_file() it
        row    a host row

        Errors and the other arguments are those of load().
        """
        from .model import File, load

        model = load(
            self,
            path,
            name=name,
            layers=None,
            rows=[row],
            read_only=True,
            users=users,
            keep=keep,
            any_files=any_files,
            fingerprint=fingerprint,
            progress=progress,
            timeout=timeout,
            as_file=True,
        )
        return File(model)

    def open_file(
        self, name: str, *, fingerprint: FingerprintLike = None
    ) -> File:
        """Open a file that a process has loaded by this name."""
        from .model import File

        return File(self.open(name, fingerprint=fingerprint))

    def share(
        self,
        name: str,
        buffers: Sequence[Buffer],
        *,
        about: bytes = b"",
        read_only: bool = True,
        users: Users = "self",
        keep: bool = False,
        fingerprint: FingerprintLike = None,
    ) -> Share:
        """Give buffers of this session a name, all in one step.

        buffers   allocated here with exportable=True
        about     bytes that describe them, 64 MiB at most
        keep      they stay when no session has them, until
                  Map.release_share(), charged to this user

        Exists: the name is taken.  Denied, Quota: the administrator lets this
        user keep none, or no more.
        """
        request: dict[str, Any] = {
            "name": name,
            "buffers": [one.handle for one in buffers],
            "flags": share_flags(read_only, users, keep),
            "about": about or None,
            "uids": uids_of(users),
        }
        number = self._share_publish(request, pair_of(fingerprint))
        return Share(self, number, name)

    def open_share(
        self,
        name: str,
        *,
        read_only: bool = True,
        fingerprint: FingerprintLike = None,
    ) -> Share:
        """Open a share.

        NotFound: nothing has this name.  Mismatch: it has another fingerprint.
        """
        flags = enums.SHARE_READ_ONLY if read_only else 0
        number = self._share_open(name, flags, pair_of(fingerprint))
        return Share(self, number, name)

    def claim(
        self,
        name: str,
        *,
        users: Users = "self",
        keep: bool = False,
        fingerprint: FingerprintLike = None,
        timeout: float | None = None,
    ) -> bool:
        """Make the share of this name, or wait until it is there.

        One of the sessions that claim a name gets it; the others wait.

        keep    it will be kept, see share()

        True    this session has the claim: make the share, or unclaim()
        False   another session has made it: open it

        Timeout: refusal names the process that has the claim.  Mismatch: it is
        claimed for another fingerprint.
        """
        flags = share_flags(False, users, keep)
        return self._share_claim(name, flags, pair_of(fingerprint), timeout)

    def unclaim(self, name: str) -> None:
        """Give a claim back without having made the share."""
        self._share_unclaim(name)

    def comm(
        self, mesh: str, group: str | None = None, *, nccl: bool = False
    ) -> Comm:
        """Open a communicator for a group of a mesh; None: all ranks.

        nccl   cards may compute among themselves, see gpumap(3)
        """
        from .comm import Comm

        return Comm(self, mesh, group, enums.COMM_NCCL if nccl else 0)


def pair_of(fingerprint: FingerprintLike) -> tuple[bytes, str | None] | None:
    """A fingerprint as the extension takes it."""
    if fingerprint is None:
        return None
    if not isinstance(fingerprint, Fingerprint):
        fingerprint = Fingerprint.of(fingerprint)
    return fingerprint


def share_flags(read_only: bool, users: Users, keep: bool) -> int:
    """The flags of a share."""
    flags = enums.SHARE_READ_ONLY if read_only else 0
    flags |= enums.SHARE_KEEP if keep else 0
    return flags | (enums.SHARE_ANY_USER if users == "any" else 0)


def uids_of(users: Users) -> list[int] | None:
    """The other users that may open a share."""
    return None if isinstance(users, str) else list(users)


