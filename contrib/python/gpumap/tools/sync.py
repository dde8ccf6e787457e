# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""gpumap-sync: join this node's map with those of other nodes.

One loop and a thread that hears etcd's changes.  The loop makes at most one
request to etcd and one to the agent in a turn, so the lease is renewed in time
whatever others do.
"""

from __future__ import annotations

import ctypes
import errno
import os
import random
import resource
import secrets
import selectors
import signal
import socket
import time
import traceback
from contextlib import suppress

from .. import Error, Map, attach, enums, errors
from ..enums import DeviceState, Setting, State
from ..facts import Holder, uuid_bytes
from . import command, sync_config
from .command import Exit
from .sync_clients import Clients, SocketTaken
from .sync_config import Config, Wrong
from .sync_etcd import Etcd, Listed, Watch, now
from .sync_gangs import Fault, Gangs, Parts, Record
from .sync_log import log
from .sync_nodes import NEVER, Feed, Own, Peers
from .sync_store import AT_ALIVE, Store

NAME = "gpumap-sync"
ANOTHER_RUNS = 3  # exit status
ENDS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
BOOT_ID = "/proc/sys/kernel/random/boot_id"
SLEEP_MOST = 0.5  # seconds
LOOK_S = 1.0  # at the agent
LOOKS_S = 0.05  # from one look at it to the next
HEAR_S = SERVE_S = 0.02  # for etcd's changes, and for clients, in a turn
HEARS_S = 0.00004  # from one time of hearing to the next, for each node
FAULTS = 10  # turns in a row that end with a fault of this program
REQUEST_S = 1  # for an answer of the agent
PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS = 4, 38

USAGE = """\
usage: gpumap-sync [OPTION]...
Join this node's map with those of other nodes.

  --config FILE       configuration, with FILE.d/*.conf (default:
                      {sysconfdir}/gpumap/gpumap-sync.conf)
  --check-config      read it, say what is wrong, and exit
  --instance NAME     of the agent; goes before the configuration
  --runtime-dir DIR   of the agent; goes before the configuration
  --help, --version
"""


# ---- the agent --------------------------------------------------------------


class Agent:
    """The agent of this node: the attachment, as long as there is one.

    A request takes REQUEST_S at most, and none is made while the agent is not
    seen.
    """

    def __init__(self, config: Config) -> None:
        self.map: Map | None = None
        self._config = config
        self._said: int | None = 0
        self._known: tuple[object, bool, int] = (None, False, 0)
        self._holders: dict[str, Holder] | None = None

    def fileno(self) -> int | None:
        """A descriptor that can be read when the map has changed."""
        return None if self.map is None else self.map.fileno()

    def look(self) -> bool:
        """Attach where there is an agent.  Returns whether it is another one,
        or answers no more."""
        self._holders = None
        if self.map is not None and self._is_retired():
            self.map.close()
            self.map = None
        if self.map is None:
            self._attach()
        epoch = 0
        if self.map is not None:
            with suppress(Error):
                epoch = self.map.health().epoch
            self._arm()
        known = self.map, self.answers(), epoch
        if known == self._known:
            return False
        if known[1:] != self._known[1:]:
            event = "agent" if known[1] else "agent_gone"
            log.info(event, epoch=known[2] or self._known[2])
        self._known = known
        return True

    def _arm(self) -> None:
        """Have the next change wake the loop."""
        assert self.map is not None
        with suppress(Error):
            while self.answers() and self.map.arm(self.map.generation) == 1:
                pass

    def _is_retired(self) -> bool:
        assert self.map is not None
        try:
            return self.map.health().state == State.RETIRED
        except Error:
            return True

    def _attach(self) -> None:
        try:
            self.map = attach(
                self._config.instance, self._config.runtime_dir
            )
            self.map.request_limit(REQUEST_S)
            self._said = 0
        except Error as error:
            if error.errno != self._said:
                log.warning("no_agent", why=error.refusal or error.strerror)
            self._said = error.errno

    def answers(self) -> bool:
        """Is there an agent that serves, and was it seen just now?"""
        try:
            return self.map is not None and self.map.health().ok
        except Error:
            return False

    # ---- for gangs -----------------------------------------------------------

    def reserve(self, record: Record, parts: Parts) -> int:
        """Hold the map of a record for its user."""
        assert self.map is not None
        self._holders = None
        rows = [self._row_of(uuid) for uuid in parts]
        try:
            plan = self.map._plan(
                {
                    "name": record.name,
                    "flags": enums.PLAN_PUBLISH
                    | enums.PLAN_COMMIT
                    | enums.PLAN_HELD
                    | enums.PLAN_NEW
                    | enums.PLAN_FOR,
                    "owner_uid": record.uid,
                    "setting": int(Setting.RESERVE),
                    "rows": rows,
                    "layer_bytes": list(parts.values()),
                }
            )
        except Error as error:
            why = error.refusal or str(error.strerror)
            raise Fault(_name_of(error), why) from None
        return plan.version

    def _row_of(self, uuid: str) -> int:
        assert self.map is not None
        for row in range(len(self.map.devices)):
            try:
                device = self.map.devices[row]
            except Error:
                continue
            if uuid_bytes(device.uuid).hex() != uuid:
                continue
            if device.state != DeviceState.READY:
                raise Fault(
                    "ENODEV",
                    f"row {row}, {device.name}, is not ready: {device.reason}",
                )
            return row
        raise Fault(
            "ENODEV",
            f"it has no device {uuid[:8]}-{uuid[8:12]}-...: gpumapctl cluster"
            " devices lists them",
        )

    def holders(self) -> dict[str, Holder]:
        """The committed maps of this node."""
        if self._holders is None:
            assert self.map is not None
            self._holders = {one.name: one for one in self.map.holders()}
        return self._holders

    def release(self, name: str) -> str | None:
        """End a map."""
        assert self.map is not None
        self._holders = None
        try:
            self.map.release(name)
        except Error as error:
            return errno.errorcode.get(error.errno or 0, "EIO")
        return None


# The agent's errors as the process that asks has them.
ERRORS: dict[int, str] = {
    errno.ENOSPC: "ENOSPC",
    errno.EEXIST: "EEXIST",
    errno.ENODEV: "ENODEV",
    errno.EINVAL: "EINVAL",
    errno.ENOMEM: "ENOMEM",
    errno.ETIMEDOUT: "ETIMEDOUT",
    errno.ECONNREFUSED: "EAGAIN",
    errno.ECONNRESET: "EAGAIN",
    errno.ESHUTDOWN: "EAGAIN",
    errno.ESTALE: "EAGAIN",
    errno.EBUSY: "ENOSPC",
    errno.EDQUOT: "ENOSPC",
    errno.EPERM: "EEXIST",  # another user has the name
    errno.EAGAIN: "ENODEV",  # the row was given to another device
}


def _name_of(error: errors.Error) -> str:
    return ERRORS.get(error.errno or 0, "EHOSTUNREACH")


# ---- the service manager ----------------------------------------------------


class Manager:
    """Tells systemd, or whatever started this process, how it is."""

    def __init__(self) -> None:
        self._to = os.environ.get("NOTIFY_SOCKET", "")
        self._fed = 0.0
        self._period = 0.0
        with suppress(ValueError):
            if int(os.environ.get("WATCHDOG_PID", os.getpid())) == os.getpid():
                self._period = int(os.environ.get("WATCHDOG_USEC", 0)) / 1e6

    def tell(self, state: str) -> None:
        """Send a state."""
        if self._to[:1] not in ("/", "@"):
            return
        to = self._to
        if to.startswith("@"):
            to = f"\0{to[1:]}"
        with (
            suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stream,
        ):
            stream.setblocking(False)
            stream.sendto(state.encode(), to)

    def feed(self, at: float) -> None:
        """Say that the loop turns."""
        if self._period and at >= self._fed + self._period / 4:
            self._fed = at
            self.tell("WATCHDOG=1")


# ---- the loop ---------------------------------------------------------------


class Sync:
    """All parts, and the loop that runs them until a signal."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.selector = selectors.DefaultSelector()
        self.instance = secrets.token_hex(8)
        with open(BOOT_ID) as file:
            boot = file.read().strip()
        timeout = min(config.timeout, config.ttl / 4)
        self._wake_in, self._wake_out = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        addresses: dict[str, str] = {}
        self.etcd = Etcd(config, timeout, addresses)
        self.watch = Watch(
            Etcd(config, timeout, addresses, resolves=True),
            f"/gpumap/v1/{config.cluster}/",
            self._wake,
        )
        self.store = Store(config, self.etcd, self.instance, boot, now)
        self.agent = Agent(config)
        self.own = Own(config, self.store, self.instance, boot)
        self.peers = Peers(config, self.store)
        self.feed = Feed(config, self.store, self.peers)
        self.gangs = Gangs(config, self.store, self.agent, self.instance)
        self.clients = Clients(config, self.gangs, self.selector, now)
        self.manager = Manager()
        self._ends = False
        self._look_at = 0.0
        self._looked = 0.0
        self._hear_at = 0.0
        self._faults = 0
        self._has_asked = False  # the agent for gangs, in the last turn
        self._sweep_at = 0.0
        self._agent_fd: int | None = None

    def _wake(self) -> None:
        with suppress(BlockingIOError):
            os.write(self._wake_out, b"w")

    def _awake(self) -> None:
        os.read(self._wake_in, 4096)

    def run(self) -> None:
        """Serve until a signal."""
        self.clients.open()
        for number in ENDS:
            signal.signal(number, self._end)
        signal.set_wakeup_fd(self._wake_out, warn_on_full_buffer=False)
        self.selector.register(
            self._wake_in, selectors.EVENT_READ, self._awake
        )
        self.watch.start()
        log.info(
            "ready",
            cluster=self.config.cluster,
            node=self.config.node,
            instance=self.instance,
            pid=os.getpid(),
        )
        self.manager.tell("READY=1")
        while not self._ends:
            self.manager.feed(now())
            self._try_turn()
        self.manager.tell("STOPPING=1")
        self.watch.stop()
        self.store.leave()
        self.clients.close()

    def _end(self, number: int, frame: object) -> None:
        log.info("ending", signal=number)
        self._ends = True

    def _try_turn(self) -> None:
        """Turn.  One fault of this program is not to end all gangs."""
        try:
            self._turn()
            self._faults = 0
        except Exception as error:
            self._faults += 1
            last = traceback.extract_tb(error.__traceback__)[-1]
            log.error("fault", why=f"{error!r} in {last.name}()")
            if self._faults == FAULTS:
                raise OSError(errno.EIO, f"{FAULTS} faults in a row") from None
            time.sleep(0.05)

    def _turn(self) -> None:
        """Sleep until something is to do, and do it."""
        wait = min(max(self._due() - now(), 0), SLEEP_MOST)
        ready = [key.data for key, _ in self.selector.select(wait)]
        if ready == [self._awake]:  # those of many nodes come together
            time.sleep(min(max(self._hear_at - now(), 0), wait))
        random.shuffle(ready)
        until = time.monotonic() + SERVE_S
        for serve in ready:
            serve()
            if time.monotonic() > until:
                break  # the rest is ready in the next turn
        if not self.watch.is_alive():
            raise OSError(errno.EIO, "the thread of the watch has ended")
        self._hear()
        at = now()
        if at >= self._sweep_at:
            self._sweep(at)
        self.store.run(at)
        self._take_changes()
        at = now()
        self.peers.look(at)
        answers = self.agent.answers()
        publishes = answers and at >= self.feed.due()
        # Gangs and what is published have the agent in turn.
        may_ask = not (publishes and self._has_asked)
        self._has_asked = self.gangs.tick(at, may_ask)
        if self.agent.map is not None and publishes and not self._has_asked:
            self.feed.tick(self.agent.map, now())
            self._agent_changed()
        if at >= self._look_at:
            self._look_at_agent(at)
            answers = self.agent.answers()
        self.own.tick(self.agent.map, answers, now())
        if self.store.deaf_at is not None and now() > self.store.deaf_at:
            self.store.deaf_at = None
            self.watch.begin_again()

    def _due(self) -> float:
        due = min(
            self._look_at,
            self._sweep_at,
            self.store.due(),
            self.gangs.due(),
            self.own.due(self.agent.map),
            self.peers.due(),
            self.store.deaf_at or NEVER,
        )
        if self.watch.queue:
            return 0.0
        feed_due = self.feed.due()
        return feed_due if feed_due < due and self.agent.answers() else due

    def _look_at_agent(self, at: float) -> None:
        self._look_at, self._looked = at + LOOK_S, at
        self._leave_agent()
        if self.agent.look():
            self.own.agent_changed()
            self.feed.agent_changed()
            self.gangs.wake_all()
        self._agent_fd = self.agent.fileno()
        if self._agent_fd is not None:
            self.selector.register(
                self._agent_fd, selectors.EVENT_READ, self._agent_changed
            )

    def _leave_agent(self) -> None:
        if self._agent_fd is not None:
            with suppress(KeyError, ValueError, OSError):
                self.selector.unregister(self._agent_fd)
        self._agent_fd = None

    def _agent_changed(self) -> None:
        """The map has changed: look soon, and not at each of many changes."""
        self._leave_agent()
        self._look_at = min(self._look_at, self._looked + LOOKS_S)

    def _hear(self) -> None:
        """Take what the watch has heard, for HEAR_S at most."""
        until = time.monotonic() + HEAR_S
        while self.watch.queue and time.monotonic() < until:
            heard = self.watch.queue.popleft()
            self._hear_at = now() + HEARS_S * self.store.n_there()
            were_there = self.store.n_there()
            self.store.take(heard)
            changed = any(
                key.startswith(AT_ALIVE) for key in self.store.changed
            )
            if isinstance(heard, Listed) or (
                changed and self.store.n_there() != were_there
            ):
                self._sweep_at = 0.0
            self._take_changes()

    def _take_changes(self) -> None:
        changed, self.store.changed = self.store.changed, set()
        if changed:
            self.gangs.changed(changed)
            self.peers.changed(changed)

    def _sweep(self, at: float) -> None:
        """See who has died, and forget who is long gone."""
        self._sweep_at = at + min(1.0, self.config.ttl / 4)
        self.peers.sweep(at)
        self.gangs.wake_all()
        self._take_changes()


# ---- the command line -------------------------------------------------------


class Parser(command.Options):
    """The options of gpumap-sync."""

    def __init__(self) -> None:
        super().__init__(NAME, NAME, "")
        self.set_defaults(instance=None, runtime_dir=None)
        self.add_argument("--config", type=command.utf8)
        self.add_argument("--check-config", action="store_true")
        self.add_argument("operands", nargs="*")

    def format_help(self) -> str:
        """The summary that --help prints."""
        return USAGE.format(sysconfdir=command.sysconfdir)


def confine() -> None:
    """Neither this process nor a successor of it gets privileges, and no
    process of its user reads its memory, which may have a password.
    """
    # The unit's filter refuses it, and has set the limit already.
    with suppress(OSError, ValueError):
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    for option, value in ((PR_SET_NO_NEW_PRIVS, 1), (PR_SET_DUMPABLE, 0)):
        if prctl(option, value, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl")


def main(words: list[str]) -> int:
    """Serve, or check the configuration."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # connections may end
    options = Parser().parse_args(words)
    if options.operands:
        raise command.Failed(
            f"{options.operands[0]} is no option, and nothing else is taken:"
            " see gpumap-sync --help",
            Exit.USAGE,
        )
    path = options.config or f"{command.sysconfdir}/gpumap/{NAME}.conf"
    try:
        config, n_files = sync_config.read(path, options.config is not None)
        config.instance = options.instance or config.instance
        config.runtime_dir = options.runtime_dir or config.runtime_dir
        if options.check_config:
            Etcd(config, config.timeout, {})
            return Exit.OK
        log.info("config", path=path, files=n_files)
        confine()
        sync = Sync(config)
    except Wrong as wrong:
        log.error("config", why=wrong)
        return Exit.USAGE
    except OSError as error:
        log.error("start", why=error.strerror or error)
        return Exit.FAILED
    try:
        sync.run()
    except SocketTaken:
        return ANOTHER_RUNS
    except OSError as error:
        log.error("loop", why=error.strerror or error)
        return Exit.FAILED
    return Exit.OK


