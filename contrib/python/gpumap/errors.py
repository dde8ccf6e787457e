# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""The exceptions: a class for each thing that a program can do something about.

Each is an OSError whose errno is the library's, so that code which catches
OSError, ConnectionError or FileNotFoundError works.  refusal is the agent's own
sentence with the reason and the remedy, or "".
"""

from __future__ import annotations

import errno as _errno

from . import _core


class Error(OSError):
    """The failure of a call of gpumap.

    errno     positive, as errno(3) has it
    refusal   the reason and the remedy in the agent's words, or ""
    call      the function of the C library, "gpumap_layers_publish", or the
              method of Sync
    """

    refusal: str
    call: str

    def __init__(
        self,
        errno: int = 0,
        sentence: str = "",
        refusal: str = "",
        call: str = "",
    ) -> None:
        super().__init__(errno, sentence)
        self.refusal = refusal
        self.call = call

    def __str__(self) -> str:
        text = self.refusal or str(self.strerror)
        name = _errno.errorcode.get(self.errno or 0, str(self.errno))
        return f"{self.call}: {text} [{name}]" if self.call else text

    def __reduce__(self) -> tuple[object, ...]:
        return (
            type(self),
            (self.errno, self.strerror, self.refusal, self.call),
        )


class NotRunning(Error, ConnectionError):
    """No agent answers: start gpumapd, or check the instance's name."""


class Gone(Error, ConnectionResetError):
    """The agent went away, and the session with it: attach again."""


class Stale(Error):
    """The handle is of an earlier time: attach, open or read again."""


class Lost(Error):
    """A gang is lost: a node of it is gone, or this one was cut off."""


class Unreachable(Error, ConnectionError):
    """A node is gone, or the store that the nodes share cannot be reached."""


class Forked(Error):
    """The parent process opened it: attach in this process."""


class Denied(Error, PermissionError):
    """This user may not, or it belongs to another user or session."""


class NotFound(Error, FileNotFoundError):
    """Nothing has this name, or a file is missing."""


class Exists(Error, FileExistsError):
    """The name is taken."""


class Mismatch(Error):
    """The name holds something else than what was expected of it."""


class DoesNotFit(Error):
    """A plan needs more memory than is free and not reserved.

    missing_bytes   by how much, 0: not known
    row             where, or None
    remedies        sentences that say what helps
    """

    missing_bytes: int = 0
    row: int | None = None
    remedies: tuple[str, ...] = ()


class Full(Error):
    """The segment, a table or the agent's disk has no room: release something.
    """


class Quota(Error):
    """This user or session has as much as it may: give something back."""


class NoMemory(Error):
    """A device, the arena or this machine has no memory left."""


class NoDevice(Error):
    """No such row, or its device is gone or out of service."""


class Again(Error, BlockingIOError):
    """The call raced with a change, or queues are full: take completions, and
    call again."""


class Busy(Error):
    """Something else uses it: wait for that."""


class Timeout(Error, TimeoutError):
    """The deadline passed; what was begun goes on."""


class Canceled(Error):
    """The job was cancelled before it had begun."""


class NothingInFlight(Error):
    """There is nothing to wait for; or a file ends too early."""


class WorkerDied(Error):
    """The row's worker ended, or storage failed: submit again, or renew()."""


class Draining(Error):
    """The agent shuts down: attach to the next one."""


class TooLarge(Error):
    """Larger than the administrator, a socket or a store lets through."""


class TooNew(Error):
    """The request is newer than the library or the agent: install a newer one.
    """


class Unsupported(Error, NotImplementedError):
    """The device, the session or the engine cannot do this."""


class OutOfRange(Error):
    """Past the end of a table, a buffer or the arena."""


class Invalid(Error, ValueError):
    """An argument was refused; refusal says which and why."""


class NotSeen(Error):
    """The agent does not see this process: it is in another pid namespace."""


class NoDescriptors(Error):
    """This process or machine has no descriptor left."""


class Protocol(Error):
    """The other side breaks the contract: another layout, or a damaged map."""


_CLASSES: dict[int, type[Error]] = {
    _errno.E2BIG: TooNew,
    _errno.EACCES: Denied,
    _errno.EAGAIN: Again,
    _errno.EALREADY: Busy,
    _errno.EBADF: Invalid,
    _errno.EBUSY: Busy,
    _errno.ECANCELED: Canceled,
    _errno.ECONNREFUSED: NotRunning,
    _errno.ECONNRESET: Gone,
    _errno.EDQUOT: Quota,
    _errno.EEXIST: Exists,
    _errno.EFAULT: OutOfRange,
    _errno.EFBIG: TooLarge,
    _errno.EHOSTUNREACH: Unreachable,
    _errno.EINPROGRESS: Busy,
    _errno.EINVAL: Invalid,
    _errno.EIO: WorkerDied,
    _errno.EKEYREJECTED: Mismatch,
    _errno.EMFILE: NoDescriptors,
    _errno.EMSGSIZE: TooLarge,
    _errno.ENFILE: NoDescriptors,
    _errno.ENOBUFS: Again,
    _errno.ENODATA: NothingInFlight,
    _errno.ENODEV: NoDevice,
    _errno.ENOENT: NotFound,
    _errno.ENOEXEC: Invalid,
    _errno.ENOLINK: Lost,
    _errno.ENOMEM: NoMemory,
    _errno.ENOSPC: Full,
    _errno.EOPNOTSUPP: Unsupported,
    _errno.EOVERFLOW: TooLarge,
    _errno.EOWNERDEAD: Forked,
    _errno.EPERM: Denied,
    _errno.EPROTO: Protocol,
    _errno.ERANGE: OutOfRange,
    _errno.EREMOTEIO: WorkerDied,
    _errno.EROFS: Full,
    _errno.ESHUTDOWN: Draining,
    _errno.ESRCH: NotSeen,
    _errno.ESTALE: Stale,
    _errno.ETIME: Timeout,
    _errno.ETIMEDOUT: Timeout,
    _errno.EUSERS: Quota,
}

# Some calls give an errno another meaning.
_BY_CALL: dict[tuple[str, int], type[Error]] = {
    ("gpumap_attach", _errno.ENOENT): NotRunning,
    ("gpumap_plan_make", _errno.ENOSPC): DoesNotFit,
    ("gpumap_model_load", _errno.EEXIST): Mismatch,
    ("gpumap_model_wait", _errno.EEXIST): Mismatch,
    ("gpumap_model_measure", _errno.E2BIG): TooLarge,
    ("gpumap_model_measure", _errno.ENODATA): Invalid,
    ("gpumap_plan_make", _errno.ETIMEDOUT): DoesNotFit,
    ("Sync.reserve", _errno.ENOSPC): DoesNotFit,
    ("Sync.reserve", _errno.E2BIG): TooLarge,
}


def error_class(errno: int, call: str = "") -> type[Error]:
    """The class for a positive errno, of a call of the C library."""
    default = _CLASSES.get(errno, Error)
    return _BY_CALL.get((call, errno), default)


def make(call: str, errno: int, sentence: str, refusal: str) -> Error:
    """Make the exception for what a call of the C library returned."""
    return error_class(errno, call)(errno, sentence, refusal, call)


def of_status(status: int, call: str) -> Error:
    """Make the exception for the negative status with which a job ended."""
    return make(call, -status, _core.strerror(status), "")


_core._set_errors(make)
