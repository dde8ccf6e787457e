# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""The checks of gpumapctl doctor: the agent, its folders and its limits."""

from __future__ import annotations

import errno
import os
import re

from ..enums import State
from . import text
from .doctor_node import Checks, Finding, fail, ok, skip, warn

UNLIMITED = 2**64 - 1


class Agent(Checks):
    """The agent, its folders and its limits."""

    def map(self) -> Finding:
        node = self.node
        found = ok(f"the map of instance {node.instance} is there")
        return node.no_map or found

    def state(self) -> Finding:
        health = self.node.health
        if health is None:
            return skip("there is no map")
        age = f"{health.age_ns / 1e9:.1f} s"
        if health.stale:
            return fail(
                f"the agent has not been seen for {age}",
                "systemctl status gpumapd; journalctl -u gpumapd",
            )
        if health.state != State.READY:
            is_new = health.state == State.STARTING
            return fail(
                "the agent does not take requests: it is"
                f" {'starting' if is_new else 'ending'}",
                "gpumapctl wait; journalctl -u gpumapd",
            )
        return ok(f"the agent was seen {age} ago")

    def version(self) -> Finding:
        health = self.node.health
        if health is None:
            return skip("there is no map")
        from .. import version

        agent = text.release(health.agent_version)
        ours = text.release(version())
        if agent != ours:
            return warn(
                f"the agent is of version {agent}, and this libgpumap of"
                f" {ours}",
                "upgrade the older one, and restart it: its features are those"
                " that both have",
            )
        return ok("the agent and this libgpumap are of one version")

    def socket(self) -> Finding:
        node = self.node
        if node.map is None or node.health is None or node.health.stale:
            return skip("there is no agent")
        try:
            node.map.waiting()
        except OSError as error:
            if error.errno != errno.EACCES:
                return fail(str(error.strerror), "journalctl -u gpumapd")
            return fail(
                "this user may not talk to the agent",
                "usermod -aG gpumap USER and log in again, or group and mode"
                " of [socket] in gpumapd.conf",
            )
        return ok("the agent answers this user")

    def runtime_dir(self) -> Finding:
        folder, remedy = self.node.runtime_dir, "chmod 0711 the folder"
        try:
            mode = os.stat(folder).st_mode & 0o7777
        except OSError as error:
            return warn(
                f"{folder}: {error.strerror}: the agent cannot be asked for"
                " anything",
                "start the agent, or mount the folder into this container",
            )
        if mode & 0o022:
            return fail(
                f"others may write {folder}, and answer in the agent's place",
                remedy,
            )
        if mode & 0o044:
            return warn(f"others may list {folder}, and hold its lock", remedy)
        return ok(f"{folder} has mode {mode:04o}")

    def state_dir(self) -> Finding:
        words = self._file("cmdline")
        option = re.search(r"\0--state-dir[=\0]([^\0]+)", words)
        folder = option[1] if option else "/var/lib/gpumap"
        try:
            space = os.statvfs(folder)
        except OSError as error:
            return skip(f"{folder}: {error.strerror}")
        if space.f_flag & os.ST_RDONLY:
            return fail(
                f"{folder} is read-only: published maps do not outlast the"
                " agent",
                "mount it to be written, or give --state-dir another",
            )
        left = space.f_bavail * space.f_frsize
        has = f"{folder} has {text.size(left)} left"
        if left < 16 << 20:
            return fail(
                f"{has}: publications will be refused", "free some of the disk"
            )
        return ok(has)

    def memlock(self) -> Finding:
        most = self._limit("Max locked memory")
        if most is None:
            return skip("the agent's limits are not seen")
        if most < 64 << 20:
            return warn(
                f"the agent may lock {text.size(most)}: cards copy from locked"
                " memory",
                "LimitMEMLOCK=infinity, ulimit -l unlimited, docker --ulimit"
                " memlock=-1",
            )
        much = "any amount" if most == UNLIMITED else text.size(most)
        return ok(f"the agent may lock {much} of memory")

    def descriptors(self) -> Finding:
        most = self._limit("Max open files")
        if most is None:
            return skip("the agent's limits are not seen")
        has = f"the agent may have {most} descriptors"
        if most < 65536:
            return warn(
                f"{has}: each session and buffer takes some",
                "LimitNOFILE=524288, ulimit -n 524288",
            )
        return ok(has)

    def cgroup_memory(self) -> Finding:
        if not self.node.agent:
            return skip("the agent's control group is not seen")
        most = self._group_limit("memory.max")
        if 0 <= most < self.node.memory("MemTotal") // 4:
            return warn(
                f"the agent's control group may have {text.size(most)}:"
                " buffers of host rows are in it",
                "MemoryMax=infinity, or as much as host rows may hold",
            )
        return ok("no control group keeps memory from the agent")

    def cgroup_pids(self) -> Finding:
        if not self.node.agent:
            return skip("the agent's control group is not seen")
        most = self._group_limit("pids.max")
        if 0 <= most < 256:
            return warn(
                f"the agent's control group may have {most} threads",
                "TasksMax=infinity, docker --pids-limit -1",
            )
        return ok("no control group keeps threads from the agent")

    def oom_score(self) -> Finding:
        score = self._file("oom_score_adj").strip()
        if not re.fullmatch(r"-?\d+", score):
            return skip("the agent's score is not seen")
        if int(score) >= 0:
            return warn(
                "a shortage of memory may end the agent: its oom_score_adj is"
                f" {score}",
                "OOMScoreAdjust=-900, choom -n -900 -p PID",
            )
        return ok(f"the agent's oom_score_adj is {score}")

    def _file(self, name: str) -> str:
        # A file of the agent's process.
        pid = self.node.agent
        return self.node.file(f"/proc/{pid}/{name}") if pid else ""

    def _limit(self, name: str) -> int | None:
        # A soft limit of the agent; None: it is not seen.
        line = rf"^{name} +(unlimited|\d+)"
        found = re.search(line, self._file("limits"), re.MULTILINE)
        if not found:
            return None
        return UNLIMITED if found[1] == "unlimited" else int(found[1])

    def _group_limit(self, file: str) -> int:
        # A limit of the agent's control group; -1: none.
        group = self._file("cgroup").partition("\n")[0]
        if not group.startswith("0::"):
            return -1
        return self.node.number(f"/sys/fs/cgroup{group[3:]}/{file}", -1)
