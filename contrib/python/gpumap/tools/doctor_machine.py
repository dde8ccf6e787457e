# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""The checks of gpumapctl doctor: kernel, memory, time and containers."""

from __future__ import annotations

import ctypes
import os
import re

from . import text
from .doctor_node import Checks, Finding, fail, ok, skip, warn

IO_URING_SETUP = 425  # the system call
IO_URING_PARAMS = 120  # bytes
TMPFS = 0x01021994  # the type of a file system, in statfs(2)
INITIAL_PID_NAMESPACE = 0xEFFFFFFC  # inode of the one the kernel begins with
HUGE_PAGES = "/sys/kernel/mm/transparent_hugepage/shmem_enabled"
CLOCK = "/sys/devices/system/clocksource/clocksource0/current_clocksource"

libc = ctypes.CDLL(None, use_errno=True)


class Kernel(Checks):
    """What the agent asks of the kernel."""

    def version(self) -> Finding:
        release = self.node.line("/proc/sys/kernel/osrelease")
        found = re.match(r"(\d+)\.(\d+)", release)
        if not found:
            return skip("the kernel does not tell its version")
        number = int(found[1]), int(found[2])
        if number < (5, 12):
            return fail(
                f"Linux {release} is older than 5.12",
                "run Linux 5.12 or newer",
            )
        if number < (6, 1):
            return warn(
                f"Linux {release} has no huge pages for memory that is shared",
                "run Linux 6.1 or newer",
            )
        return ok(f"Linux {release}")

    def io_uring(self) -> Finding:
        disabled = self.node.number("/proc/sys/kernel/io_uring_disabled", 0)
        if disabled:
            return fail(
                f"kernel.io_uring_disabled is {disabled}: workers cannot start",
                "sysctl kernel.io_uring_disabled=0",
            )
        if not self.node.root:
            params = ctypes.create_string_buffer(IO_URING_PARAMS)
            fd = libc.syscall(IO_URING_SETUP, 1, params)
            if fd < 0:
                return warn(
                    "this process is refused an io_uring:"
                    f" {os.strerror(ctypes.get_errno())}",
                    "a client needs none; for an agent in this container allow"
                    " it in the seccomp profile",
                )
            os.close(fd)
        return ok("io_uring is there")

    def pidfd(self) -> Finding:
        try:
            os.close(os.pidfd_open(os.getpid()))
        except OSError as error:
            return warn(
                f"this process is refused a pidfd: {error.strerror}",
                "allow pidfd_open in the container's seccomp profile",
            )
        return ok("processes can be watched by pidfd")


class Memory(Checks):
    """Main memory, and how the kernel gives it."""

    def shm(self) -> Finding:
        if self.node.root:
            return skip("the file system is not that of the root")
        facts = ctypes.create_string_buffer(256)
        error = libc.statfs(b"/dev/shm", facts)
        if error or ctypes.c_long.from_buffer(facts).value != TMPFS:
            return fail(
                "/dev/shm is no tmpfs: the map cannot be there",
                "mount -t tmpfs -o mode=1777 tmpfs /dev/shm",
            )
        space = os.statvfs("/dev/shm")
        if space.f_blocks == 0:
            return ok("/dev/shm has no limit")
        left, total = space.f_bavail, space.f_blocks * space.f_frsize
        left *= space.f_frsize
        has = f"/dev/shm has {text.size(left)} left of {text.size(total)}"
        if left < 32 << 20:
            return warn(
                f"{has}: a new map takes 16 MiB",
                "mount -o remount,size=1G /dev/shm, or docker --shm-size; a"
                " client needs none of it",
            )
        return ok(has)

    def available(self) -> Finding:
        left, total = map(self.node.memory, ("MemAvailable", "MemTotal"))
        if total == 0:
            return skip("the kernel does not tell its memory")
        room = f"{text.size(left)} of {text.size(total)}"
        has = f"{room} of main memory are available"
        if left < total // 20:
            return warn(
                has, "end what needs it: gpumapctl who, ps aux --sort -rss"
            )
        return ok(has)

    def swap(self) -> Finding:
        used = self.node.memory("SwapTotal") - self.node.memory("SwapFree")
        has = f"{text.size(used)} are swapped out"
        if used > self.node.memory("MemTotal") // 10:
            return warn(
                f"{has}: weights of host rows may be among them",
                "give the machine more memory, or fewer models; swapoff -a"
                " once there is room",
            )
        return ok(has)

    def overcommit(self) -> Finding:
        mode = self.node.number("/proc/sys/vm/overcommit_memory", 0)
        has = f"vm.overcommit_memory is {mode}"
        if mode == 2:
            return warn(
                f"{has}: CUDA and arenas map more than they use, and may be"
                " refused",
                "sysctl vm.overcommit_memory=0",
            )
        return ok(has)

    def memfd_noexec(self) -> Finding:
        mode = self.node.number("/proc/sys/vm/memfd_noexec", 0)
        has = f"vm.memfd_noexec is {mode}"
        if mode >= 2:
            return fail(
                f"{has}: the kernel refuses memory files that may be executed,"
                " such as CUDA's",
                "sysctl vm.memfd_noexec=1",
            )
        return ok(has)

    def huge_pages(self) -> Finding:
        modes = self.node.line(HUGE_PAGES)
        if not modes:
            return skip("the kernel has no huge pages")
        mode = re.search(r"\[(\w+)\]", modes)
        if not mode or mode[1] in ("never", "deny"):
            return warn(
                f"shared memory gets no huge pages: {modes}",
                f"echo advise >{HUGE_PAGES}",
            )
        return ok(f"shared memory can have huge pages: {modes}")

    def numa_balancing(self) -> Finding:
        if not self.node.has_numa_nodes:
            return skip("the machine has one NUMA node")
        if self.node.number("/proc/sys/kernel/numa_balancing", 0):
            return warn(
                "the kernel moves pages between NUMA nodes, which stalls reads"
                " of weights",
                "sysctl kernel.numa_balancing=0",
            )
        return ok("the kernel leaves pages where they are")


class Time(Checks):
    """The clock."""

    def clocksource(self) -> Finding:
        name = self.node.line(CLOCK)
        if not name:
            return skip("the kernel does not tell its clock")
        if name in ("hpet", "acpi_pm"):
            return warn(
                f"the clock is {name}: each look at it takes a system call",
                "look in dmesg why tsc is unstable; in a virtual machine use"
                " kvm-clock",
            )
        return ok(f"the clock is {name}")


class Container(Checks):
    """What the container that doctor runs in keeps from it."""

    def pid_namespace(self) -> Finding:
        link = self.node.link("/proc/self/ns/pid")
        if not link.startswith("pid:["):
            return skip("/proc does not tell")
        if link != f"pid:[{INITIAL_PID_NAMESPACE}]":
            return warn(
                "this process is in a pid namespace: an agent here is not told"
                " what memory processes have, and a client elsewhere cannot"
                " hold a map or a pin",
                "for these run the container with the host's pids: docker"
                " --pid host, hostPID",
            )
        return ok("pids are the machine's")

    def user_namespace(self) -> Finding:
        words = self.node.line("/proc/self/uid_map").split()
        if len(words) != 3:
            return skip("/proc does not tell")
        if words != ["0", "0", str(2**32 - 1)]:
            return warn(
                "this process is in a user namespace: files of users that it"
                " does not have are not believed",
                "map the agent's user into the namespace, or mount the runtime"
                " directory, so that clients ask the agent",
            )
        return ok("users are the machine's")
