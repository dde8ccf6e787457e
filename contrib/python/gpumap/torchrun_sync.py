# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""A rendezvous for torchrun on several nodes, by way of gpumap-sync.

    torchrun --nnodes 1:4 --nproc-per-node 8 --rdzv-backend gpumap-sync \\
        --rdzv-id JOB train.py

As c10d, with torch's own DynamicRendezvousHandler, but no node is the host of
it: the state and the store are values of this user (gpumap.Sync), so any node
may end, also the first.  --rdzv-endpoint is the path of gpumap-sync's socket, if
it is not /run/gpumap-sync/node.  torchrun finds the handler by the entry point
torchrun.handlers, from torch 2.5 on; before that a program registers handler()
itself.

Keys of --rdzv-conf are those of c10d: join_timeout, last_call_timeout,
close_timeout.  Run with torch 1.13 and 2.15 on CPUs, on one machine.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import secrets
import threading
import time
import zlib
from collections.abc import Callable
from typing import Any, TypeVar

from torch.distributed import Store
from torch.distributed.elastic.rendezvous import api, dynamic_rendezvous

from . import errors
from .sync import Sync

__all__ = ["SyncBackend", "SyncStore", "handler"]

_NAP_S = 0.2
_PATIENCE_S = 30.0  # while gpumap-sync starts anew, or the store is away

_T = TypeVar("_T")


def handler() -> Callable[[Any], Any]:
    """The entry point: what makes the handler of a set of parameters."""
    return _create


def _create(params: Any) -> Any:
    run = _Run(params.endpoint.strip() or None, params.run_id)
    run.begin()
    made = dynamic_rendezvous.create_handler(
        SyncStore(run), SyncBackend(run), params
    )
    shutdown = made.shutdown

    def end() -> bool:
        try:
            return bool(shutdown())
        finally:
            run.end()

    made.shutdown = end
    return made


def _name(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class _Run:
    """The values of a run, and this node among those that take part."""

    def __init__(self, path: str | None, run_id: str) -> None:
        self.path = path
        self.root = f"torchrun/{_name(run_id)}/"
        self.me = secrets.token_hex(8)
        self._sync: Sync | None = None
        self._is_told = False
        self._lock = threading.Lock()  # of these two

    def call(self, act: Callable[[Sync], _T]) -> _T:
        """Do it, again where gpumap-sync or the store has been away."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                return act(self._connect())
            except (errors.Gone, errors.NotRunning, errors.Unreachable) as e:
                if isinstance(e, errors.Gone):
                    self._disconnect()
                if time.monotonic() > deadline:
                    raise api.RendezvousConnectionError(str(e)) from e
            except errors.Timeout:
                raise
            except errors.Error as e:
                raise api.RendezvousConnectionError(str(e)) from e
            time.sleep(_NAP_S)

    def _connect(self) -> Sync:
        """The connection of all threads; this node is told of by it, anew where
        the lease was lost."""
        with self._lock:
            if self._sync is None:
                sync = Sync(self.path)
                self._announce(sync)
                self._sync = sync
            else:
                try:
                    self._sync.check()
                except errors.Stale:
                    self._is_told = False
                if not self._is_told:
                    self._announce(self._sync)
            return self._sync

    def _disconnect(self) -> None:
        """It has ended, unless another thread has made another already."""
        with self._lock, contextlib.suppress(errors.Error):
            try:
                if self._sync is not None:
                    self._sync.check()
            except errors.Gone:
                self._sync = None

    def _announce(self, sync: Sync) -> None:
        sync.cas(f"{self.root}nodes/{self.me}", b"", ephemeral=True)
        self._is_told = True

    def begin(self) -> None:
        """Take part.  A node that is alone clears what an earlier run of this
        id has left, unless another node comes meanwhile and writes it."""

        def act(sync: Sync) -> None:
            left = self._all(sync)
            if sync.list(f"{self.root}nodes/") == [self.me]:
                self._delete(sync, left)

        self.call(act)

    def end(self) -> None:
        """Take part no more.  The last node leaves nothing behind."""

        def act(sync: Sync) -> None:
            mine = f"{self.root}nodes/{self.me}"
            got = sync.get(mine)
            if got is not None:
                sync.cas(mine, None, got[1])
            left = self._all(sync)
            if not sync.list(f"{self.root}nodes/"):
                self._delete(sync, left)

        with contextlib.suppress(api.RendezvousError, errors.Error):
            self.call(act)
        with self._lock:
            if self._sync is not None:
                self._sync.close()
            self._sync = None

    def _all(self, sync: Sync) -> dict[str, int]:
        found = {}
        for end in sync.list(self.root):
            got = sync.get(self.root + end)
            if got is not None and not end.startswith("nodes/"):
                found[self.root + end] = got[1]
        return found

    def _delete(self, sync: Sync, left: dict[str, int]) -> None:
        for key, revision in left.items():
            sync.cas(key, None, revision)


class SyncBackend(dynamic_rendezvous.RendezvousBackend):  # type: ignore[misc]
    """The state of a rendezvous as a value, its token the revision."""

    def __init__(self, run: _Run) -> None:
        self._run = run
        self._key = run.root + "state"

    @property
    def name(self) -> str:
        """The name of --rdzv-backend."""
        return "gpumap-sync"

    def get_state(self) -> tuple[bytes, int] | None:
        """The state and its token."""
        try:
            got = self._run.call(lambda sync: sync.get(self._key))
        except errors.Timeout as error:
            raise api.RendezvousConnectionError(str(error)) from error
        return None if got is None else (_unpack(got[0]), got[1])

    def set_state(
        self, state: bytes, token: Any = None
    ) -> tuple[bytes, int, bool] | None:
        """Write it if it has not changed since the token."""
        value = zlib.compress(state)
        expected = 0 if token is None else token
        if isinstance(expected, int):
            try:
                written, revision = self._run.call(
                    lambda sync: sync.cas(self._key, value, expected)
                )
                if written:
                    return state, revision, True
            except errors.Timeout:
                pass  # the state tells whether it was written
        got = self.get_state()
        if got is None:
            return None
        return *got, isinstance(expected, int) and got[0] == state


def _unpack(value: bytes) -> bytes:
    try:
        return zlib.decompress(value)
    except zlib.error as error:
        raise api.RendezvousStateError(
            "the state of the rendezvous is none: give the run another id"
        ) from error


class SyncStore(Store):  # type: ignore[misc]
    """A store of torch's whose keys are values.

    Keep a reference to it: torch calls the methods of an object that is there.
    """

    def __init__(self, run: _Run) -> None:
        super().__init__()
        self._run = run
        self._limit = datetime.timedelta(seconds=300)

    def _key(self, key: str) -> str:
        return f"{self._run.root}store/{_name(key)}"

    def _change(
        self, key: str, change: Callable[[bytes | None], bytes | None]
    ) -> bytes:
        """Replace what a key has; change() returns None to leave it."""

        def act(sync: Sync) -> bytes:
            while True:
                got = sync.get(self._key(key))
                old, revision = got if got is not None else (None, 0)
                new = change(old)
                if new is None:
                    return old or b""
                with contextlib.suppress(errors.Timeout):
                    if sync.cas(self._key(key), new, revision)[0]:
                        return new

        return self._run.call(act)

    def set(self, key: str, value: str | bytes) -> None:
        """Write a key."""
        self._change(key, lambda old: _bytes(value))

    def compare_set(self, key: str, expected: Any, desired: Any) -> bytes:
        """Write a key that has the value, or none and "" is expected."""

        def change(old: bytes | None) -> bytes | None:
            if (old or b"") == _bytes(expected):
                return _bytes(desired)
            return None

        return self._change(key, change) or _bytes(expected)

    def add(self, key: str, amount: int) -> int:
        """Add to a number."""
        tag = secrets.token_hex(8)  # of this call: it is made once

        def change(old: bytes | None) -> bytes | None:
            number, _, last = (old or b"0").partition(b" ")
            if last == tag.encode():
                return None
            return b"%d %s" % (int(number) + amount, tag.encode())

        return int(self._change(key, change).partition(b" ")[0])

    def get(self, key: str) -> bytes:
        """Wait for a key, and read it."""
        self.wait([key])
        return self._read(key) or b""

    def check(self, keys: list[str]) -> bool:
        """Are all of them there?"""
        return all(self._read(key) is not None for key in keys)

    def _read(self, key: str) -> bytes | None:
        got = self._run.call(lambda sync: sync.get(self._key(key)))
        return None if got is None else got[0]

    def wait(
        self, keys: list[str], timeout: datetime.timedelta | None = None
    ) -> None:
        """Wait until all of them are there."""
        limit = self._limit if timeout is None else timeout
        deadline = time.monotonic() + limit.total_seconds()
        prefix = f"{self._run.root}store/"
        seen = 0

        def change(sync: Sync) -> int:
            left = deadline - time.monotonic()
            return sync.wait(prefix, seen, max(0.0, min(left, 1.0)))

        while True:
            with contextlib.suppress(errors.Timeout):
                seen = self._run.call(change)
            if self.check(keys):
                return
            if time.monotonic() >= deadline:
                raise RuntimeError(f"Timeout: no values of {keys}")

    def delete_key(self, key: str) -> bool:
        """Delete a key; was it there?"""

        def act(sync: Sync) -> bool:
            while True:
                got = sync.get(self._key(key))
                if got is None:
                    return False
                if sync.cas(self._key(key), None, got[1])[0]:
                    return True

        return self._run.call(act)

    def num_keys(self) -> int:
        """How many keys there are."""
        prefix = f"{self._run.root}store/"
        return len(self._run.call(lambda sync: sync.list(prefix)))

    def set_timeout(self, timeout: datetime.timedelta) -> None:
        """For how long get() and wait() wait."""
        self._limit = timeout

    @property
    def timeout(self) -> datetime.timedelta:
        """For how long get() and wait() wait."""
        return self._limit

    def clone(self) -> SyncStore:
        """The same keys."""
        return SyncStore(self._run)


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)
