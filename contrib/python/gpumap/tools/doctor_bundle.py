# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""The file that gpumapctl doctor --bundle writes, to be given to others.

Nothing in it is a secret: no environment, no command line of a process, and of
the kernel's only the words that are known to hold none.
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import tarfile
import time
from pathlib import Path
from typing import Any

from . import command
from .command import Failed
from .doctor_node import Node

FILES = (
    "/proc/version",
    "/proc/meminfo",
    "/proc/modules",
    "/proc/driver/nvidia/version",
    "/proc/driver/nvidia/params",
    "/sys/devices/system/node/online",
    "/sys/kernel/mm/transparent_hugepage/shmem_enabled",
)
CMDLINE = "/proc/cmdline"
# Words of the kernel's command line that say how it treats memory, CPUs, the
# bus and modules.  Their values are numbers, lists and keywords: a word whose
# value has other characters is left out.
HARMLESS = re.compile(
    r"""(
    iommu | iommu\.\w+ | intel_iommu | amd_iommu | swiotlb
    | pci | pcie_\w+ | vfio[-_]pci\.ids
    | nvidia([-_](drm|modeset|peermem|uvm))?\.\w+ | nouveau\.\w+
    | (module_|modprobe\.|rd\.driver\.)blacklist
    | numa | numa_balancing | mem | cma | hugetlb_cma
    | (default_)?hugepages(z)? | transparent_hugepage\w*
    | cgroup\w* | systemd\.unified_cgroup_hierarchy | swapaccount
    | isolcpus | nohz_full | rcu_nocbs | maxcpus | nr_cpus | nosmt
    | clocksource | tsc | mitigations | ibt | lsm | preempt
    )(=[\w.,:;=@+-]*)?""",
    re.VERBOSE | re.ASCII,
)


def harmless(cmdline: str) -> str:
    """The words of the kernel's command line that are of use, and no secret."""
    # A value within quotes may have blanks.
    words = re.findall(r'(?:"[^"]*"?|[^\s"])+', cmdline)
    kept = [word for word in words if HARMLESS.fullmatch(word)]
    left_out = len(words) - len(kept)
    return f"{' '.join(kept)}\n({left_out} words are left out)\n"


def devices(node: Node) -> list[Any]:
    """The device table, as gpumapctl devices prints it."""
    words = [os.environ.get("GPUMAPCTL", "gpumapctl"), "devices", "--json"]
    words += ["--instance", node.instance, "--runtime-dir", node.runtime_dir]
    try:
        got = subprocess.run(words, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return []
    return list(json.loads(got.stdout)["devices"])


def to_json(value: object) -> str:
    """JSON for people."""
    return json.dumps(value, ensure_ascii=False, indent=1)


def contents(node: Node, checks: list[Any]) -> dict[str, str]:
    """The text of each file.  Names have - in the place of /."""
    etc = f"{command.sysconfdir}/gpumap"
    more = Path(f"{node.root}{etc}/gpumapd.conf.d").glob("*.conf")
    paths = [*FILES, f"{etc}/gpumapd.conf"]
    paths += sorted(f"{etc}/gpumapd.conf.d/{path.name}" for path in more)
    files = {path: node.file(path) for path in paths}
    if words := node.file(CMDLINE):
        files[CMDLINE] = harmless(words)
    return {
        "doctor.json": to_json({"checks": checks}),
        "devices.json": to_json({"devices": devices(node)}),
    } | {
        path[1:].replace("/", "-"): text for path, text in files.items() if text
    }


def write(path: str, node: Node, checks: list[Any]) -> None:
    """Write the bundle, for this user alone to read."""
    files = contents(node, checks)
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.fchmod(fd, 0o600)
        with open(fd, "wb") as to, tarfile.open(fileobj=to, mode="w:gz") as tar:
            for name, text in files.items():
                data = text.encode(errors="replace")
                member = tarfile.TarInfo(f"./{name}")
                member.size, member.mode = len(data), 0o600
                member.mtime = int(time.time())
                tar.addfile(member, io.BytesIO(data))
    except OSError as error:
        raise Failed(f"cannot write {path}: {error.strerror}") from None
