# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""Reservations on several nodes, by way of this node's gpumap-sync(8)."""

from __future__ import annotations

import errno
import json
import os
import socket
import time
from collections.abc import Mapping

from . import errors
from .facts import uuid_bytes

__all__ = ["Sync"]

PATH = "/run/gpumap-sync/node"
RECORD_BYTES = 65536
EXTRA_S = 10.0  # beyond the time that gpumap-sync was told to wait
LEASE_MOST_S = 600.0
TIMEOUT_MOST_S = 1e9


class Sync:
    """A connection to gpumap-sync, which has one gang at most.

    path   of its socket; None: /run/gpumap-sync/node

    The gang ends with the connection.  A child that is forked uses a
    connection of its own.  One thread uses it at a time.
    """

    def __init__(self, path: str | None = None) -> None:
        self._owner = os.getpid()
        self._lost: str | None = None
        self._stream: socket.socket | None = None
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            stream.connect(path or PATH)
        except OSError as error:
            stream.close()
            number = error.errno or errno.EIO
            if number == errno.ENOENT:
                number = errno.ECONNREFUSED
            raise _error(
                "connect",
                number,
                f"no gpumap-sync answers at {path or PATH}: start it, see"
                " gpumap-sync(8)"
                if number == errno.ECONNREFUSED
                else f"{path or PATH}: {error.strerror}: members of the"
                " socket's group may connect",
            ) from None
        self._stream = stream

    def __enter__(self) -> Sync:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    @property
    def closed(self) -> bool:
        """Has close() been called?"""
        return self._stream is None

    def close(self) -> None:
        """End the connection, with its gang."""
        if self._stream is not None:
            self._stream.close()
        self._stream = None

    def fileno(self) -> int:
        """A descriptor that can be read when check() has something to say."""
        return self._use("fileno").fileno()

    def check(self) -> None:
        """Is the gang still there?

        Lost: one of its nodes is gone, or this one is cut off; its
        reservations end on all nodes.  Gone: gpumap-sync has ended, and the
        gang with it.
        """
        stream = self._use("check")
        while True:
            try:
                record = stream.recv(RECORD_BYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
            except OSError as error:
                raise self._gone("check", error) from None
            self._take("check", record)
        if self._lost is not None:
            raise _error("check", errno.ENOLINK, self._lost)

    def reserve(
        self,
        name: str,
        members: Mapping[str, Mapping[str, int]],
        timeout: float | None = None,
    ) -> None:
        """Reserve bytes of devices on several nodes, all or none.

        name      of the map that each node publishes for it
        members   {node: {uuid as Device.uuid: bytes}}
        timeout   seconds; None: the cluster's lease time, which is the most,
                  because nodes hold while others are asked

        The reservations end with release(), with this connection, and with any
        of the nodes: check() raises Lost then.

        DoesNotFit: a node has no room.  Exists: a node has a map of this name.
        NoDevice: a node has no such device, or it is not READY.  Unreachable:
        a node is gone, or etcd cannot be reached.  Timeout: a node did not
        answer.  Lost: a node held it, and gave it up meanwhile.  Denied: a
        node takes no gangs.  Busy: this connection has a gang.  Quota: this
        user has too many gangs.  TooLarge: more than some 240 devices.
        """
        request: dict[str, object] = {
            "op": "reserve",
            "name": name,
            "members": {
                node: {uuid_bytes(one).hex(): n for one, n in parts.items()}
                for node, parts in members.items()
            },
        }
        if timeout is not None:
            request["timeout"] = timeout
        self._ask("reserve", request, timeout)
        self._lost = None

    def release(self) -> None:
        """End the gang's reservations on all nodes.

        NotFound: this connection has no gang, or it was lost.
        """
        self._ask("release", {"op": "release"}, None)

    # ---- records -------------------------------------------------------------

    def _use(self, call: str) -> socket.socket:
        if self._stream is None:
            raise ValueError("the connection is closed")
        if os.getpid() != self._owner:
            raise _error(
                call,
                errno.EOWNERDEAD,
                "the gang is the parent's: connect in this process",
            )
        return self._stream

    def _ask(
        self, call: str, request: dict[str, object], timeout: float | None
    ) -> None:
        stream = self._use(call)
        wait = LEASE_MOST_S if timeout is None else timeout
        if not 0 <= wait < TIMEOUT_MOST_S:
            raise ValueError(f"timeout {timeout}: give a number of seconds")
        until = time.monotonic() + wait + EXTRA_S
        try:
            stream.settimeout(EXTRA_S)
            try:
                stream.send(json.dumps(request).encode(), socket.MSG_NOSIGNAL)
            except (BrokenPipeError, ConnectionResetError):
                pass  # the reason may be there to be read
            while True:
                stream.settimeout(max(until - time.monotonic(), 0.001))
                try:
                    record = stream.recv(RECORD_BYTES)
                except ConnectionResetError:
                    # A record that came before the end is behind it.
                    record = stream.recv(RECORD_BYTES)
                if self._take(call, record):
                    return
        except errors.Error:
            raise
        except TimeoutError:
            # An answer that came later would be taken for another's.
            self.close()
            raise _error(
                call, errno.ETIMEDOUT, "gpumap-sync does not answer"
            ) from None
        except KeyboardInterrupt:
            # An answer that came later would be taken for another's.
            self.close()
            raise
        except OSError as error:
            if error.errno == errno.EMSGSIZE:
                raise _error(
                    call, errno.E2BIG, "the gang has too many devices"
                ) from None
            raise self._gone(call, error) from None
        finally:
            if self._stream is not None:
                self._stream.settimeout(None)

    def _take(self, call: str, record: bytes) -> bool:
        """Take a record.  Returns whether it is a request's answer."""
        if not record:
            raise self._gone(call, None)
        try:
            value = json.loads(record)
            if "lost" in value:
                self._lost = str(value["lost"])
                return False
            if value.get("ok"):
                return True
            number = getattr(errno, str(value["errno"]), errno.EPROTO)
            why = str(value.get("why", ""))
        except (ValueError, KeyError, TypeError, AttributeError):
            number, why = errno.EPROTO, "the answer is none of gpumap-sync"
        raise _error(call, number, why)

    def _gone(self, call: str, error: OSError | None) -> errors.Error:
        why = "gpumap-sync has ended, and the gang with it: connect again"
        if error is not None and error.errno not in (
            errno.EPIPE,
            errno.ECONNRESET,
        ):
            why = f"{error.strerror}: {why}"
        return _error(call, errno.ECONNRESET, why)


def _error(call: str, number: int, why: str) -> errors.Error:
    return errors.make(f"Sync.{call}", number, os.strerror(number), why)
