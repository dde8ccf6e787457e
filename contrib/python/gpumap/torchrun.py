# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""A rendezvous for torchrun over the ranks of a mesh.

    torchrun --nnodes 2 --nproc-per-node 1 --rdzv-backend gpumap \\
        --rdzv-endpoint MESH --rdzv-id JOB train.py

One torchrun is one rank of the mesh, or of a group of it: as many as the group
has ranks, all of one machine, and no port is agreed on before.  torchrun finds
the handler by the entry point torchrun.handlers, from torch 2.5 on; before that
a program registers handler() itself.

Keys of --rdzv-conf, all optional: instance and runtime_dir of the agent; group;
rank, of the group: a free one; timeout in seconds for all ranks to come, 600.

When a torchrun dies, the others restart their workers, and wait for another one
to take its rank.  Run with torch 1.13 and 2.13 on CPUs.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import logging
import socket
import time
import zlib
from collections.abc import Callable
from typing import Any

from torch.distributed import PrefixStore, TCPStore
from torch.distributed.elastic.rendezvous import api

from . import errors
from .map import Map, attach
from .mesh import Joined

__all__ = ["MeshRendezvous", "handler"]

_log = logging.getLogger(__name__)
_CLOSED = "gpumap.closed"
_NAP_S = 0.2
_ID_BYTES = 128


def handler() -> Callable[[Any], Any]:
    """The entry point: what makes the handler of a set of parameters."""
    return MeshRendezvous


class MeshRendezvous(api.RendezvousHandler):  # type: ignore[misc]
    """torch's RendezvousHandler by the name gpumap."""

    def __init__(self, params: Any) -> None:
        self.params = params
        self.mesh: str = params.endpoint.strip()
        if not self.mesh:
            raise ValueError("--rdzv-endpoint has to name a mesh")
        self.group: str | None = params.get("group")
        rank = params.get_as_int("rank")
        self.wanted: int | None = rank
        self.timeout = float(params.get("timeout", 600))
        self._map: Map | None = None
        self._joined: Joined | None = None
        self._epoch = 0
        self._rank: int | None = None
        self._server: Any = None
        self._store: Any = None
        self._closed = False

    # ---- what torchrun calls -------------------------------------------------

    def get_backend(self) -> str:
        """The name of --rdzv-backend."""
        return "gpumap"

    @property
    def use_agent_store(self) -> bool:
        """Workers use the store that rank 0 has made."""
        return True

    def get_run_id(self) -> str:
        """The job, of --rdzv-id."""
        return str(self.params.run_id)

    def next_rendezvous(self) -> Any:
        """Join, and wait for all ranks."""
        if self.is_closed():
            raise api.RendezvousClosedError
        self._leave()
        try:
            where = self._join(time.monotonic() + self.timeout)
        except errors.Timeout as error:
            raise api.RendezvousTimeoutError(str(error)) from error
        except errors.Error as error:
            raise api.RendezvousConnectionError(str(error)) from error
        if self._rank == 0:
            self._store = self._server
        else:
            self._store = self._tcp(where["host"], where["port"], False)
        round_ = PrefixStore(
            f"{self.get_run_id()}.{self._epoch}", self._store
        )
        answer = round_, self._rank, where["world"]
        if not hasattr(api, "RendezvousInfo"):
            return answer  # before torch 2.4
        return api.RendezvousInfo(
            *answer, api.RendezvousStoreInfo(where["host"], where["port"])
        )

    def num_nodes_waiting(self) -> int:
        """1 when the ranks have to meet again: one has ended, or a row is not
        in service."""
        if self._map is None or self._joined is None:
            return 0
        try:
            group = self._map.mesh(self.mesh).group(self.group)
        except errors.Error as error:
            _log.warning("gpumap: %s", error)
            return 0
        return int(group.epoch != self._epoch)

    def is_closed(self) -> bool:
        """Has a rank closed the job?"""
        if not self._closed and self._store is not None:
            with contextlib.suppress(RuntimeError):  # its server has ended
                self._closed = self._store.add(_CLOSED, 0) > 0
        return self._closed

    def set_closed(self) -> None:
        """Close the job, for all ranks."""
        self._closed = True
        if self._store is not None:
            with contextlib.suppress(RuntimeError):
                self._store.add(_CLOSED, 1)

    def shutdown(self) -> bool:
        """Leave the mesh."""
        self._leave()
        if self._map is not None:
            self._map.close()
            self._map = None
        return True

    # ---- joining -------------------------------------------------------------

    def _join(self, deadline: float) -> dict[str, Any]:
        """Be a rank; return where the store is."""
        if self._map is None:
            self._map = attach(
                self.params.get("instance", "node"),
                self.params.get("runtime_dir"),
            )
        mesh = self._map.mesh(self.mesh)
        while True:
            group = mesh.group(self.group)
            world = len(group.ranks)
            if not self.params.min_nodes <= world <= self.params.max_nodes:
                raise ValueError(
                    f"{self.mesh} has {world} ranks: say --nnodes {world}"
                )
            left = deadline - time.monotonic()
            why = "other processes are all ranks"
            for rank in self._ranks(world):
                try:
                    self._joined = mesh.join(
                        rank,
                        group=self.group,
                        id=self._id(world) if rank == 0 else None,
                        # A process of another job is refused.
                        version=zlib.crc32(self.get_run_id().encode()) | 1,
                        epoch=group.epoch,
                        timeout=max(left, 0.0),
                    )
                except errors.Busy:
                    continue  # another process is this rank
                except (errors.Stale, errors.Again) as error:
                    why = str(error)
                    break  # read the group again
                except errors.Protocol:
                    why = "another job meets over this mesh"
                    break
                self._rank = rank
                self._epoch = group.epoch
                text = self._joined.id.rstrip(b"\0").decode()
                where: dict[str, Any] = json.loads(text)
                return where
            if left <= 0:
                raise errors.make("next_rendezvous", 62, "time is up", why)
            time.sleep(_NAP_S)

    def _ranks(self, world: int) -> list[int]:
        """The ranks to try, the one that it was before first."""
        if self.wanted is not None:
            return [self.wanted]
        ranks = list(range(world))
        if self._rank is not None:
            ranks.remove(self._rank)
            ranks.insert(0, self._rank)
        return ranks

    def _id(self, world: int) -> bytes:
        """What rank 0 tells the others, with the store that it serves."""
        given = getattr(self.params, "local_addr", None)  # from torch 2.0 on
        host = given or socket.gethostname()
        try:
            socket.getaddrinfo(host, None)
        except OSError:
            host = "127.0.0.1"  # all ranks are of one machine
        if self._server is None:
            self._server = self._tcp(host, 0, True)
        where = {"host": host, "port": self._server.port, "world": world}
        text = json.dumps(where).encode()
        if len(text) > _ID_BYTES:
            raise ValueError(f"{host} is a longer name than a rank can tell")
        return text.ljust(_ID_BYTES, b"\0")

    def _tcp(self, host: str, port: int, serve: bool) -> Any:
        limit = datetime.timedelta(seconds=self.timeout)
        return TCPStore(
            host, port, None, serve, timeout=limit, wait_for_workers=False
        )

    def _leave(self) -> None:
        if self._joined is not None:
            # After the epoch has moved on there is nothing to leave.
            with contextlib.suppress(errors.Error):
                self._joined.leave()
        self._joined = None
