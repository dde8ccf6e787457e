# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""The process that holds a reservation on several nodes for a command.

A reservation lives as long as its connection to gpumap-sync.  The command is
to have the caller's process, and no descriptor that its children could keep,
so another process has the connection: no child of the command, without a
terminal, deaf to all signals but SIGKILL.  The process ends with the command,
and the reservation with both.
"""

from __future__ import annotations

import errno
import json
import os
import select
import shutil
import signal
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from .. import Error, Gone, Lost, NotRunning
from ..errors import error_class
from ..sync import Sync
from . import command, text


class Hold(NamedTuple):
    """What is to be held, and for which command."""

    socket: str | None  # of gpumap-sync; None: the usual one
    name: str  # of the map that each node publishes
    members: Mapping[str, Mapping[str, int]]  # as Sync.reserve() has them
    command: str  # its name, in sentences
    stops: bool  # the command, when the reservation is lost

    def start(self) -> str:
        """Start the process, and wait until it has the reservation.

        The command will be this process.  Returns a folder for files of the
        command, which the process removes.  Raises what Sync.reserve() does.
        """
        pidfd = os.pidfd_open(os.getpid())
        answer, out = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                self._detach(pidfd, out)
            finally:
                os._exit(1)
        os.close(pidfd)
        os.close(out)
        os.waitpid(pid, 0)
        with open(answer, "rb") as told:
            line = told.read()
        if not line:
            raise Error(0, "the process that holds the reservation has died")
        facts: dict[str, Any] = json.loads(line)
        if "errno" in facts:
            kind = error_class(facts["errno"])
            raise kind(facts["errno"], facts["why"])
        folder: str = facts["folder"]
        return folder

    def _detach(self, pidfd: int, out: int) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        os.setsid()
        if os.fork():
            os._exit(0)
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        first, second = sorted((pidfd, out))
        os.closerange(3, first)
        os.closerange(first + 1, second)
        # Descriptors may be above a limit that was lowered later.
        os.closerange(second + 1, 2**31 - 1)
        self._be(pidfd, out)

    def _be(self, pidfd: int, out: int) -> None:
        """Hold the reservation until the command has ended."""
        folder = ""
        try:
            with Sync(self.socket) as sync:
                sync.reserve(self.name, self.members)
                folder = make_folder()
                # Where this has no reader, the caller has ended.
                os.write(out, json.dumps({"folder": folder}).encode())
                os.close(out)
                out = -1
                self._watch(pidfd, sync)
        except OSError as error:
            gone = isinstance(error, NotRunning)
            code = errno.ECONNREFUSED if gone else error.errno or errno.EIO
            facts = {"errno": code, "why": reason(error)}
            with suppress(OSError):
                os.write(out, json.dumps(facts).encode())
        finally:
            if folder:
                shutil.rmtree(folder, ignore_errors=True)

    def _watch(self, pidfd: int, sync: Sync) -> None:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        poll.register(sync.fileno(), select.POLLIN)
        is_held = True
        while pidfd not in [fd for fd, _ in poll.poll()]:
            try:
                if is_held:
                    sync.check()
            except (Lost, Gone) as error:
                is_held = False
                poll.unregister(sync.fileno())
                self._tell_lost(pidfd, error)
            except Error:
                continue

    def _tell_lost(self, pidfd: int, error: Error) -> None:
        end = "it goes on without"
        if self.stops:
            try:
                signal.pidfd_send_signal(pidfd, signal.SIGTERM)
                end = "it is sent SIGTERM"
            except OSError as failed:
                end += f", since SIGTERM does not reach it: {failed.strerror}"
        command.tell(
            f"gpumapctl: cluster: the reservation of {self.command} is lost on"
            f" all nodes: {reason(error)}; {end}"
        )


def reason(error: OSError) -> str:
    """Why something failed, in the words of who knows best.

    They may be another node's, so nothing in them controls a terminal.
    """
    refusal = error.refusal if isinstance(error, Error) else ""
    return text.printable(refusal or error.strerror or str(error))


def make_folder() -> str:
    """A folder of this user's own."""
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    if not base.startswith("/"):
        base = "/tmp"
    try:
        return tempfile.mkdtemp(prefix="gpumap-cluster.", dir=base)
    except OSError as error:
        why = f"cannot make a folder in {base}: {error.strerror}"
        raise Error(errno.EIO, why) from None
