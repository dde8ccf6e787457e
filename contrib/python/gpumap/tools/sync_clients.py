# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""The socket of gpumap-sync, by which processes of this node ask for gangs.

Each record is one object of JSON:

	{"op": "reserve", "name": NAME, "members": {NODE: {UUID: BYTES}},
	 "timeout": SECONDS}
	{"op": "release"}

The answer is {"ok": true}, or {"errno": NAME, "why": TEXT}.  Unasked comes
{"lost": TEXT}.  A connection has one gang, which ends with it.
"""

from __future__ import annotations

import fcntl
import errno
import json
import os
import re
import queue
import selectors
import socket
import stat
import struct
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from .sync_config import Config
from .sync_gangs import Asked, Fault, Gangs, Record
from .sync_log import log
from .sync_summary import U64, Fields, Refused

REQUEST_BYTES = 32768
CLIENTS = 1024
OF_USER = 256
BACKLOG = 128
SO_PASSRIGHTS = 83
UUID = re.compile("[0-9a-f]{32}")
REMEDY = "see the directory of [socket] path"


class SocketTaken(Exception):
    """Another gpumap-sync has the socket."""


class Client:
    """A connection of a process."""

    def __init__(self, stream: socket.socket, pid: int, uid: int) -> None:
        self.stream = stream
        self.pid = pid
        self.uid = uid
        self.gang: Asked | None = None


class Clients:
    """Accepts connections, and takes their requests.

    clock   seconds, as the gangs' times
    """

    def __init__(
        self,
        config: Config,
        gangs: Gangs,
        selector: selectors.BaseSelector,
        clock: Callable[[], float],
    ) -> None:
        self._config = config
        self._gangs = gangs
        self._selector = selector
        self._clock = clock
        self._clients: set[Client] = set()
        self._listener: socket.socket | None = None
        self._lock = -1
        self._keeps_fds_out = False
        self._closer: queue.SimpleQueue[tuple[socket.socket, int]] | None = (
            None
        )
        self._closing: Counter[int] = Counter()  # connections, by user

    # ---- the socket ----------------------------------------------------------

    def open(self) -> None:
        """Listen.  SocketTaken, OSError: the log says why."""
        path = self._config.path
        remedy = "make the directory of [socket] path, for the user of"
        remedy += " gpumap-sync"
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._lock = os.open(f"{path}.lock", flags, 0o600)
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                remedy = "another gpumap-sync has this socket: end it, or give"
                remedy += " this one another [socket] path"
                log.error(
                    "socket", path=path, why=error.strerror, remedy=remedy
                )
                raise SocketTaken from None
            remedy = REMEDY
            self._listen(path)
        except OSError as error:
            log.error("socket", path=path, why=error.strerror, remedy=remedy)
            raise

    def _listen(self, path: str) -> None:
        kind = socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK
        listener = socket.socket(socket.AF_UNIX, kind)
        with suppress(FileNotFoundError):
            if not stat.S_ISSOCK(os.lstat(path).st_mode):
                raise FileExistsError(
                    errno.EEXIST, "another file is there, and no socket"
                )
            os.unlink(path)
        # Before Linux 6.16 each record is looked at first.
        with suppress(OSError):
            listener.setsockopt(socket.SOL_SOCKET, SO_PASSRIGHTS, 0)
            self._keeps_fds_out = True
        if not self._keeps_fds_out:
            self._closer = queue.SimpleQueue()
            threading.Thread(target=self._close_all, daemon=True).start()
        mask = os.umask(0o777)
        try:
            listener.bind(path)
        finally:
            os.umask(mask)
        group = self._config.group
        if group is not None and group != os.getegid():
            try:
                os.chown(path, -1, group)
            except OSError as error:
                log.warning(
                    "socket_group",
                    why=error.strerror,
                    remedy="add the user of gpumap-sync to the group, or name"
                    " one of its own as [socket] group",
                )
        os.chmod(path, self._config.mode)
        listener.listen(BACKLOG)
        self._selector.register(
            listener, selectors.EVENT_READ, self._accept
        )
        self._listener = listener

    def close(self) -> None:
        """End all connections, and the socket."""
        for client in list(self._clients):
            self._end(client, None)
        if self._listener is not None:
            with suppress(OSError):
                os.unlink(self._config.path)
            self._listener.close()
        if self._lock >= 0:
            os.close(self._lock)

    def _accept(self) -> None:
        assert self._listener is not None
        for _ in range(BACKLOG):
            try:
                stream, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                log.warning("accept", why=error.strerror)
                return
            self._admit(stream)

    def _admit(self, stream: socket.socket) -> None:
        stream.setblocking(False)
        credentials = stream.getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, 12
        )
        pid, uid, _ = struct.unpack("iII", credentials)
        of_user = sum(1 for one in self._clients if one.uid == uid)
        of_user += self._closing[uid]
        if len(self._clients) >= CLIENTS or of_user >= OF_USER:
            why = "too many processes are connected to gpumap-sync: end some"
            why += " of this user's"
            with suppress(OSError):
                _send(stream, {"errno": "EUSERS", "why": why})
            self._close(stream, uid)
            return
        client = Client(stream, pid, uid)
        self._clients.add(client)
        self._selector.register(
            stream, selectors.EVENT_READ, lambda: self._receive(client)
        )

    # ---- requests ------------------------------------------------------------

    def _receive(self, client: Client) -> None:
        try:
            if not self._keeps_fds_out:
                _, _, flags, _ = client.stream.recvmsg(1, 0, socket.MSG_PEEK)
                if flags & socket.MSG_CTRUNC:
                    self._end(client, "no request carries a descriptor")
                    return
            record = client.stream.recv(REQUEST_BYTES + 1)
        except BlockingIOError:
            return
        except OSError:
            record = b""
        if not record:
            self._end(client, None)
        elif len(record) > REQUEST_BYTES:
            self._end(client, "longer than any request is")
        else:
            self._take(client, record)

    def _take(self, client: Client, record: bytes) -> None:
        try:
            fields = Fields(json.loads(record))
            op = fields.text("op", ("reserve", "release").__contains__)
            if op == "release":
                self._release(client)
            else:
                self._reserve(client, fields)
        except Fault as fault:
            self._say(client, {"errno": fault.name, "why": str(fault)})
        except Refused as refused:
            self._say(client, {"errno": "EINVAL", "why": str(refused)})
        except (ValueError, RecursionError):
            self._end(client, "a record that is no object of JSON")

    def _reserve(self, client: Client, fields: Fields) -> None:
        if client.gang is not None:
            raise Fault(
                "EALREADY",
                "this connection has a gang: release it first, or open another"
                " connection",
            )
        now = self._clock()
        timeout = self._config.ttl
        if fields.has("timeout"):
            timeout = min(fields.seconds("timeout"), timeout)
        asked = Asked(
            record=Record(
                fields.text("name", bool), client.uid, _members_of(fields)
            ),
            tell=lambda fault: self._told(client, fault),
            lose=lambda why: self._lost(client, why),
            deadline=now + timeout,
        )
        self._gangs.ask(asked, now)
        client.gang = asked

    def _release(self, client: Client) -> None:
        asked = client.gang
        if asked is None or not asked.told or asked.done is not None:
            raise Fault("ENOENT", "this connection has no gang")
        now = self._clock()
        self._gangs.release(asked, lambda: self._released(client), now)

    def _told(self, client: Client, fault: Fault | None) -> None:
        if fault is None:
            self._say(client, {"ok": True})
        else:
            client.gang = None
            self._say(client, {"errno": fault.name, "why": str(fault)})

    def _lost(self, client: Client, why: str) -> None:
        client.gang = None
        self._say(client, {"lost": why})

    def _released(self, client: Client) -> None:
        client.gang = None
        self._say(client, {"ok": True})

    # ---- the end of one ------------------------------------------------------

    def _say(self, client: Client, value: dict[str, object]) -> None:
        if client not in self._clients:
            return
        try:
            _send(client.stream, value)
        except BlockingIOError:
            self._end(client, "it does not read its answers")
        except OSError:  # it has closed
            self._end(client, None)

    def _end(self, client: Client, why: str | None) -> None:
        if client not in self._clients:
            return
        if why is not None:
            log.warning_of(
                client.uid,
                "client_ended",
                pid=client.pid,
                uid=client.uid,
                why=why,
            )
        self._clients.discard(client)
        if client.gang is not None:
            self._gangs.leave(client.gang)
            client.gang = None
        self._selector.unregister(client.stream)
        self._close(client.stream, client.uid)

    def _close(self, stream: socket.socket, uid: int) -> None:
        """The last close of a descriptor that a client has sent may take as
        long as the client likes: a thread makes it."""
        if self._closer is None:
            stream.close()
            return
        with suppress(OSError):
            stream.shutdown(socket.SHUT_RDWR)
        self._closing[uid] += 1
        self._closer.put((stream, uid))

    def _close_all(self) -> None:
        assert self._closer is not None
        while True:
            stream, uid = self._closer.get()
            stream.close()
            self._closing[uid] -= 1


def _members_of(fields: Fields) -> dict[str, dict[str, int]]:
    members = {}
    nodes = fields.object("members")
    for node in nodes.names():
        parts = nodes.object(node)
        for uuid in parts.names():
            if not UUID.fullmatch(uuid):
                raise Refused(f"node {node}: {uuid[:40]} is no device's UUID")
        members[node] = {one: parts.number(one, U64) for one in parts.names()}
    return members


def _send(stream: socket.socket, value: dict[str, object]) -> None:
    stream.send(json.dumps(value).encode(), socket.MSG_NOSIGNAL)
