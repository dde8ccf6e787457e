# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""gpumapctl doctor: a node that is well, and each fault by its own check."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import gpumap
import pytest
from agent import BUILD, ENV, GPUMAPCTL
from gpumap import Cluster, ClusterFlags, ClusterNode, ClusterState, Device
from gpumap import DeviceFlags, DeviceKind, DeviceState, Health, State
from gpumap.tools import doctor, doctor_bundle
from gpumap.tools.doctor_node import Finding, Node

CARD = "/sys/bus/pci/devices/0000:17:00.0"
OTHER = "/sys/bus/pci/devices/0000:65:00.0"
SOUND = "/sys/bus/pci/devices/0000:17:00.1"
HUGE = "/sys/kernel/mm/transparent_hugepage/shmem_enabled"
CLOCK = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
GROUP = "/sys/fs/cgroup/system.slice/gpumapd.service"
MODULE = "/proc/driver/nvidia/version"
SYNC = "/run/gpumap-sync/node"
LSM = "/sys/kernel/security/lsm"
GIB = 1 << 30
SECOND = 10**9


def memory(available: int, swap_free: int) -> str:
    return (
        f"MemTotal:       32768000 kB\nMemFree:  1000000 kB\n"
        f"MemAvailable: {available} kB\nSwapTotal: 8000000 kB\n"
        f"SwapFree: {swap_free} kB\n"
    )


def limits(files: object, locked: object) -> str:
    return (
        "Limit                     Soft Limit           Hard Limit\n"
        f"Max open files            {files}               524288\n"
        f"Max locked memory         {locked}            unlimited\n"
    )


# A text that begins with "->" is the target of a link.
WELL = {
    "/proc/sys/kernel/osrelease": "6.1.0-56-amd64\n",
    "/proc/sys/kernel/io_uring_disabled": "0\n",
    "/proc/sys/kernel/numa_balancing": "0\n",
    "/proc/sys/vm/overcommit_memory": "0\n",
    "/proc/sys/vm/memfd_noexec": "1\n",
    "/proc/meminfo": memory(20000000, 8000000),
    "/proc/self/uid_map": "         0          0 4294967295\n",
    "/proc/self/ns/pid": "->pid:[4026531836]",
    "/proc/4242/limits": limits(524288, "unlimited"),
    "/proc/4242/cgroup": "0::/system.slice/gpumapd.service\n",
    "/proc/4242/oom_score_adj": "-900\n",
    f"{GROUP}/memory.max": "max\n",
    f"{GROUP}/pids.max": "4915\n",
    "/sys/devices/system/node/node1/cpulist": "1\n",
    HUGE: "always within_size [advise] never deny force\n",
    CLOCK: "tsc\n",
    f"{CARD}/vendor": "0x10de\n",
    f"{CARD}/class": "0x030200\n",
    f"{CARD}/driver": "->../../../../bus/pci/drivers/nvidia",
    f"{CARD}/iommu_group/type": "identity\n",
    f"{CARD}/current_link_width": "16\n",
    f"{CARD}/max_link_width": "16\n",
    f"{OTHER}/vendor": "0x10de\n",
    f"{OTHER}/class": "0x030000\n",
    f"{OTHER}/driver": "->drivers/nvidia",
    # The first card's sound, and a network card.
    f"{SOUND}/vendor": "0x10de\n",
    f"{SOUND}/class": "0x040300\n",
    "/sys/bus/pci/devices/0000:01:00.0/vendor": "0x8086\n",
    "/sys/bus/pci/devices/0000:01:00.0/class": "0x020000\n",
    MODULE: "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.261.03  Thu\n",
    "/usr/lib64/libcuda.so.1": "->libcuda.so.535.261.03",
    "/usr/lib64/libcuda.so.535.261.03": "",
    "/usr/lib64/libcuda.so.550.1": "",  # of an upgrade
    "/usr/lib64/libnvidia-ml.so.1": "->libnvidia-ml.so.535.261.03",
    "/usr/lib64/libnvidia-ml.so.535.261.03": "",
    "/dev/nvidiactl": "",
    "/dev/nvidia-uvm": "",
    "/dev/nvidia0": "",
    "/run/nvidia-persistenced/socket": "",
    SYNC: "",
}


def put(node: Node, path: str, text: str | None) -> None:
    """Make a file, or remove it."""
    file = Path(node.root + path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    if text is not None and text.startswith("->"):
        file.symlink_to(text[2:])
    elif text is not None:
        file.write_text(text)


def zeros(of: Any) -> dict[str, Any]:
    return dict.fromkeys(of._fields, 0)


def row(number: int) -> Device:
    facts = zeros(Device)
    facts |= {
        "row": number,
        "kind": DeviceKind.HOST if number == 3 else DeviceKind.CUDA,
        "state": DeviceState.READY,
        "flags": DeviceFlags.ECC
        | (DeviceFlags(0) if number == 3 else DeviceFlags.CARD),
        "name": "Card",
        "reason": "",
        "mig_gi": -1,
        "figures": 1,
        "free_bytes": 10 * GIB,
        "reserved_bytes": 30 * GIB,
        "used_by_holders": 20 * GIB,
    }
    return Device(**facts)


def other(name: str) -> ClusterNode:
    facts = zeros(ClusterNode)
    facts |= {
        "name": name,
        "state": ClusterState.LIVE,
        "flags": ClusterFlags.SELF if name == "b" else ClusterFlags(0),
        "agent_version": gpumap.version(),
        "age_ns": 100 * SECOND,
    }
    return ClusterNode(**facts)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node with two cards, four rows and two other nodes, which is well."""
    rows = [row(number) for number in range(4)]
    # None of this is a fault.
    rows[0] = rows[0]._replace(restarts=2)
    rows[1] = rows[1]._replace(recovery=2**32 - 1)
    rows[2] = rows[2]._replace(name="Another", flags=DeviceFlags(0))
    rows[3] = rows[3]._replace(numa_node=-1, figures=0)
    nodes = tuple(other(name) for name in "abc")
    health = zeros(Health)
    health |= {"state": State.READY, "agent_version": gpumap.version()}
    cluster = zeros(Cluster)
    cluster |= {"name": "c", "node": "b", "nodes": nodes}
    cluster |= {"age_ns": 6 * SECOND, "limit_ns": 6 * SECOND}
    made = Node(
        root=str(tmp_path),
        runtime_dir=str(tmp_path),
        health=Health(**health),
        agent=4242,
        rows=rows,
        cluster=Cluster(**cluster),
    )
    for path, text in WELL.items():
        put(made, path, text)
    tmp_path.chmod(0o711)
    return made


def look(node: Node) -> dict[str, Finding]:
    return dict(doctor.look(node))


def differ(node: Node, well: dict[str, Finding]) -> list[str]:
    """The checks that have another result than they had."""
    return [
        id for id, found in look(node).items() if found.state != well[id].state
    ]


def check(node: Node, id: str, state: str, text: str, remedy: str) -> None:
    """Has the check this result now?"""
    found = look(node)[id]
    assert found.state == state, found
    assert text in found.text
    assert remedy in (found.remedy or "")
    assert (found.remedy is not None) == (state in ("WARN", "FAIL"))


def test_a_node_that_is_well(node: Node) -> None:
    unseen = {"memory.shm", "agent.socket", "agent.state_dir"}
    bad = {id for id, found in look(node).items() if found.state != "PASS"}
    assert bad <= unseen
    assert len(look(node)) == 50


@pytest.mark.parametrize(
    ("path", "content", "id", "state", "text", "remedy"),
    [
        ("/proc/sys/kernel/osrelease", "5.4.0-1\n", "kernel.version", "FAIL",
         "5.4.0-1 is older than 5.12", "5.12 or newer"),
        ("/proc/sys/kernel/osrelease", "5.15.0\n", "kernel.version", "WARN",
         "huge pages", "6.1"),
        ("/proc/sys/kernel/osrelease", None, "kernel.version", "SKIP", "", ""),
        ("/proc/sys/kernel/io_uring_disabled", "2\n", "kernel.io_uring",
         "FAIL", "io_uring_disabled is 2", "kernel.io_uring_disabled=0"),
        ("/proc/meminfo", memory(1600000, 8000000), "memory.available",
         "WARN", "1.5 GiB of 31.2 GiB", "gpumapctl who"),
        ("/proc/meminfo", memory(20000000, 4000000), "memory.swap", "WARN",
         "3.8 GiB are swapped out", "swapoff"),
        ("/proc/sys/vm/overcommit_memory", "2\n", "memory.overcommit", "WARN",
         "overcommit_memory is 2", "sysctl vm.overcommit_memory=0"),
        ("/proc/sys/vm/memfd_noexec", "2\n", "memory.memfd_noexec", "FAIL",
         "memfd_noexec is 2", "sysctl vm.memfd_noexec=1"),
        (HUGE, "always advise [never] deny\n", "memory.huge_pages", "WARN",
         "no huge pages", "echo advise"),
        (HUGE, "always advise never [deny]\n", "memory.huge_pages", "WARN",
         "no huge pages", "echo advise"),
        ("/proc/sys/kernel/numa_balancing", "1\n", "memory.numa_balancing",
         "WARN", "moves pages", "sysctl kernel.numa_balancing=0"),
        (CLOCK, "hpet\n", "time.clocksource", "WARN", "the clock is hpet",
         "kvm-clock"),
        ("/proc/self/ns/pid", "->pid:[4026532205]", "container.pid_namespace",
         "WARN", "pid namespace", "hostPID"),
        ("/proc/self/uid_map", "  0   1000   1\n", "container.user_namespace",
         "WARN", "user namespace", "mount the runtime directory"),
        ("/proc/4242/limits", limits(524288, 8388608), "agent.memlock",
         "WARN", "may lock 8.0 MiB", "LimitMEMLOCK=infinity"),
        ("/proc/4242/limits", limits(1024, "unlimited"), "agent.descriptors",
         "WARN", "1024 descriptors", "LimitNOFILE=524288"),
        (f"{GROUP}/memory.max", "4294967296\n", "agent.cgroup_memory", "WARN",
         "may have 4.0 GiB", "MemoryMax=infinity"),
        (f"{GROUP}/pids.max", "100\n", "agent.cgroup_pids", "WARN",
         "may have 100 threads", "TasksMax=infinity"),
        ("/proc/4242/oom_score_adj", "0\n", "agent.oom_score", "WARN",
         "oom_score_adj is 0", "OOMScoreAdjust=-900"),
        (f"{CARD}/driver", "->../drivers/nouveau", "cards.driver", "FAIL",
         "0000:17:00.0 belongs to nouveau", "blacklist nouveau"),
        (f"{CARD}/driver", None, "cards.driver", "FAIL",
         "0000:17:00.0 has no driver", "modprobe nvidia"),
        (f"{CARD}/driver", "->../drivers/vfio-pci", "cards.driver", "WARN",
         "vfio-pci", "virtual machine"),
        ("/usr/lib64/libnvidia-ml.so.1", None, "cards.libraries", "FAIL",
         "there is no libnvidia-ml.so.1", "libnvidia-ml1"),
        ("/usr/lib64/libcuda.so.1", "->libcuda.so.550.1", "cards.versions",
         "FAIL", "driver is 535.261.03 and libcuda.so.1 is 550.1",
         "restart the machine"),
        ("/dev/nvidia-uvm", None, "cards.device_nodes", "FAIL",
         "there is no /dev/nvidia-uvm", "nvidia-modprobe"),
        ("/run/nvidia-persistenced/socket", None, "cards.persistence", "WARN",
         "does not run", "nvidia-persistenced"),
        ("/tmp/nvidia-mps/control", "", "cards.mps", "WARN", "MPS runs",
         "mps = yes"),
        ("/run/nvidia-mps/control", "", "cards.mps", "WARN", "MPS runs",
         "mps = yes"),
        (f"{CARD}/iommu_group/type", "DMA-FQ\n", "cards.iommu", "WARN",
         "card 0000:17:00.0", "iommu=pt"),
        (f"{CARD}/current_link_width", "8\n", "cards.link_width", "WARN",
         "card 0000:17:00.0 uses 8 of 16 lanes", "seat the card"),
    ],
)  # fmt: skip
def test_a_file(
    node: Node,
    path: str,
    content: str | None,
    id: str,
    state: str,
    text: str,
    remedy: str,
) -> None:
    well = look(node)
    put(node, path, content)
    check(node, id, state, text, remedy)
    assert differ(node, well) == [id]


def test_a_machine_without_the_module(node: Node) -> None:
    well = look(node)
    put(node, MODULE, None)
    assert differ(node, well) == ["cards.module", "cards.versions"]
    check(node, "cards.module", "FAIL", "not loaded", "modprobe nvidia")


def test_the_open_module(node: Node) -> None:
    put(node, MODULE, "Open Kernel Module for x86_64  550.54.14  Release\n")
    check(node, "cards.module", "PASS", "driver is 550.54.14", "")


def test_a_machine_without_cards(node: Node) -> None:
    for card in CARD, OTHER:
        put(node, f"{card}/vendor", "0x8086\n")
    cards = {id: f for id, f in look(node).items() if id.startswith("cards.")}
    passed = [id for id, found in cards.items() if found.state != "SKIP"]
    assert passed == ["cards.versions"]


@pytest.mark.parametrize(
    ("modules", "state"),
    [("capability,landlock,bpf", "PASS"), ("yama", "WARN"), (None, "WARN")],
)
def test_a_card_that_reaches_its_process(
    node: Node, modules: str | None, state: str
) -> None:
    node.rows[0] = node.rows[0]._replace(flags=DeviceFlags.PAGEABLE)
    put(node, LSM, modules)
    remedy = "" if state == "PASS" else "lsm=landlock"
    check(node, "cards.reach", state, "(HMM or ATS)", remedy)


@pytest.mark.parametrize(
    ("mode", "state", "text"),
    [(0o755, "WARN", "others may list"), (0o733, "FAIL", "others may write")],
)
def test_the_runtime_folder(
    node: Node, mode: int, state: str, text: str
) -> None:
    os.chmod(node.runtime_dir, mode)
    check(node, "agent.runtime_dir", state, text, "chmod 0711")
    node.runtime_dir = "/nowhere/at/all"
    remedy = "mount the folder"
    check(node, "agent.runtime_dir", "WARN", "No such file", remedy)


CORDONED, MIG = DeviceFlags.CORDONED, DeviceFlags.MIG
FAILED, LOST = DeviceState.FAILED, DeviceState.LOST


@pytest.mark.parametrize(
    ("number", "change", "id", "state", "text", "remedy"),
    [
        (3, {"state": FAILED, "reason": "Xid 79"}, "rows.state", "FAIL",
         "out of service: 3 (FAILED: Xid 79)", "gpumapctl devices"),
        (3, {"state": DeviceState.DRAINING}, "rows.state", "WARN",
         "3 (DRAINING)", "undrain"),
        (3, {"restarts": 3}, "rows.restarts", "WARN", "3 (3 times)",
         "worker_ended"),
        (2, {"flags": CORDONED}, "rows.cordoned", "WARN", ": 2", "uncordon"),
        (1, {"free_bytes": 9 * GIB}, "rows.promised", "WARN",
         "1 (9.0 GiB free, 10.0 GiB promised)", "gpumapctl who"),
        (1, {"numa_node": -1}, "rows.numa_node", "WARN", "rows 1", "BIOS"),
        (0, {"figures": 2}, "rows.figures", "WARN",
         "0 (not of every process)", "vGPU"),
        (0, {"figures": 3}, "rows.figures", "WARN", "0 (the driver refuses)",
         "vGPU"),
        (0, {"figures": 4}, "rows.figures", "WARN", "pid namespace", "pids"),
        (1, {"xids": 2, "last_xid": 31}, "rows.xid", "WARN",
         "1 (2, the last 31)", "dmesg"),
        (0, {"recovery": 1}, "rows.recovery", "FAIL", ": 0",
         "gpumapctl drain"),
        (1, {"flags": DeviceFlags.CARD}, "rows.ecc", "WARN", ": 1",
         "nvidia-smi -e 1"),
    ],
)  # fmt: skip
def test_a_row(
    node: Node,
    number: int,
    change: dict[str, Any],
    id: str,
    state: str,
    text: str,
    remedy: str,
) -> None:
    well = look(node)
    node.rows[number] = node.rows[number]._replace(**change)
    check(node, id, state, text, remedy)
    assert differ(node, well) == [id]


def test_a_card_that_is_split_is_failed_and_well(node: Node) -> None:
    well = look(node)
    flags = MIG | DeviceFlags.ECC
    node.rows[1] = node.rows[1]._replace(state=FAILED, flags=flags)
    assert differ(node, well) == []


def test_a_card_that_is_missing(node: Node) -> None:
    well = look(node)
    missing = "the bus has 2 cards, and the map 1"
    node.rows[1] = node.rows[1]._replace(state=LOST)
    node.rows[2] = node.rows[2]._replace(mig_gi=1)
    check(node, "cards.rows", "WARN", missing, "[cuda]")
    assert differ(node, well) == ["rows.state", "cards.rows"]
    node.rows.clear()
    check(node, "rows.state", "FAIL", "no row", "[host]")


@pytest.mark.parametrize(
    ("number", "change", "id", "state", "text", "remedy"),
    [
        (1, {"flags": ClusterFlags(0)}, "cluster.self", "FAIL",
         "do not see this one, b", "gpumap-sync.conf"),
        (1, {"state": ClusterState.GONE}, "cluster.self", "FAIL",
         "as gone or refused", "journalctl"),
        (0, {"state": ClusterState.GONE, "agent_version": 0}, "cluster.gone",
         "WARN", "1 of 3 nodes gone: a (for 100 s)", "network"),
        (2, {"state": ClusterState.REFUSED}, "cluster.refused", "WARN",
         "1 of 3 nodes refused: c", "one release"),
        (2, {"more_devices": 3}, "cluster.left_out", "WARN",
         "1 of 3 nodes with more than they tell of: c (3 rows, 0 sh", "64"),
        (1, {"more_shares": 1}, "cluster.left_out", "WARN",
         "b (0 rows, 1 share)", "64"),
        (0, {"agent_version": 10203}, "cluster.version", "WARN", "a (1.2.3)",
         "one release"),
    ],
)  # fmt: skip
def test_another_node(
    node: Node,
    number: int,
    change: dict[str, Any],
    id: str,
    state: str,
    text: str,
    remedy: str,
) -> None:
    well = look(node)
    assert node.cluster
    nodes = list(node.cluster.nodes)
    nodes[number] = nodes[number]._replace(**change)
    node.cluster = node.cluster._replace(nodes=tuple(nodes))
    check(node, id, state, text, remedy)
    assert differ(node, well) == [id]


def test_a_cluster_that_is_old(node: Node) -> None:
    assert node.cluster
    old = node.cluster._replace(stale=True, age_ns=7 * SECOND)
    never = old._replace(age_ns=2**64 - 1)
    node.cluster = old
    text = "7 s ago, the limit is 6 s: gpumap-sync runs"
    check(node, "cluster.age", "FAIL", text, "journalctl")
    node.cluster = never
    text = "never seen as a whole"
    check(node, "cluster.age", "FAIL", text, "journalctl")
    put(node, SYNC, None)
    text = "does not run, or not at /run/"
    check(node, "cluster.age", "FAIL", text, "systemctl start gpumap-sync")


def test_another_version(node: Node) -> None:
    well = look(node)
    assert node.health
    node.health = node.health._replace(agent_version=90807)
    check(node, "agent.version", "WARN", "of version 9.8.7, and", "upgrade")
    assert differ(node, well) == ["agent.version", "cluster.version"]


def test_a_long_list_is_cut(node: Node) -> None:
    lost = node.rows[3]._replace(state=LOST, reason="x" * 90)
    node.rows += [lost._replace(row=number) for number in range(4, 12)]
    text = look(node)["rows.state"].text
    assert text.startswith("out of service: 4 (LOST: x") and len(text) < 320


def test_without_a_map(node: Node) -> None:
    node.health, node.cluster, node.rows = None, None, []
    put(node, "/sys/devices/system/node/node1/cpulist", None)
    os.rmdir(f"{node.root}/sys/devices/system/node/node1")
    of_map = ("rows.", "cluster.")
    found = {id: f for id, f in look(node).items() if id.startswith(of_map)}
    assert {each.state for each in found.values()} == {"SKIP"}
    # gpumap-sync runs beside an agent, and publishes nothing.
    node.health = Health(**zeros(Health))
    text = "has published nothing"
    check(node, "cluster.age", "FAIL", text, "journalctl")


# ---- the bundle and the command ----------------------------------------------

SECRETS = (
    "systemd.set_credential=db.password:hunter2 rd.iscsi.password=s3cret"
    " root=UUID=8932f937 ip=192.0.2.7::192.0.2.1:255.255.255.0:host-7:eth0"
    ' systemd.setenv="A=b iommu=hunter3" hunter4 password hostname=host-7'
    " nvidia_token=hunter5 nvidia.NVreg_TemporaryFilePath=/home/hunter6"
    ' "iommu=hunter7" mem=http://host-7/x'
)
HARMLESS = (
    "iommu=pt intel_iommu=on,sm_on pci=realloc=off hugepagesz=1G hugepages=64"
    " transparent_hugepage=never numa_balancing=disable mitigations=off nosmt"
    " isolcpus=managed_irq,domain,2-7 cgroup_no_v1=all nvidia-drm.modeset=1"
    " nvidia.NVreg_EnableGpuFirmware=0 modprobe.blacklist=nouveau"
)


def test_only_harmless_words_of_the_kernel_are_kept() -> None:
    kept = doctor_bundle.harmless(f"{SECRETS} {HARMLESS}\n")
    assert kept == f"{HARMLESS}\n(12 words are left out)\n"


def test_a_bundle(node: Node, tmp_path: Path) -> None:
    put(node, "/proc/cmdline", f"{SECRETS} {HARMLESS}\n")
    put(node, "/etc/gpumap/gpumapd.conf", "[host]\n")
    put(node, "/etc/gpumap/gpumapd.conf.d/50-limits.conf", "[limits]\n")
    path = tmp_path / "bundle.tar.gz"
    path.write_text("an older one")
    path.chmod(0o644)
    doctor_bundle.write(str(path), node, [{"id": "a.b"}])
    assert path.stat().st_mode & 0o777 == 0o600
    with tarfile.open(path) as tar:
        texts = {}
        for member in tar:
            stream = tar.extractfile(member)
            assert stream and member.mode == 0o600
            texts[member.name] = stream.read().decode()
    whole = "".join(texts.values())
    assert "hunter" not in whole and "host-7" not in whole
    assert texts["./proc-cmdline"].startswith(HARMLESS)
    assert texts["./proc-meminfo"] == WELL["/proc/meminfo"]
    assert texts["./etc-gpumap-gpumapd.conf"] == "[host]\n"
    assert texts["./etc-gpumap-gpumapd.conf.d-50-limits.conf"] == "[limits]\n"
    assert json.loads(texts["./doctor.json"]) == {"checks": [{"id": "a.b"}]}


def test_without_the_extension(node: Node, tmp_path: Path) -> None:
    built = BUILD.resolve() / "contrib/python/built"
    if not (built / "gpumapctl-doctor").exists():
        pytest.skip("the build has no commands in Python")
    broken = tmp_path / "built"
    shutil.copytree(built, broken, symlinks=True)
    (broken / "gpumap/_core.so").unlink()
    for name in "doctor", "topo":
        script = broken / f"gpumapctl-{name}"
        script.write_text(script.read_text().replace(str(built), str(broken)))

    def ctl(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [GPUMAPCTL, *words],
            env={**ENV, "GPUMAP_EXEC_PATH": str(broken)},
            capture_output=True,
            text=True,
            check=False,
        )

    put(node, "/proc/sys/kernel/osrelease", "5.4.0-1\n")
    got = ctl("--json", "doctor", "--root", node.root)
    assert (got.returncode, got.stderr) == (1, "")
    checks = {each["id"]: each for each in json.loads(got.stdout)["checks"]}
    assert len(checks) == 50
    assert checks["agent.map"]["state"] == "FAIL"
    assert "_core" in checks["agent.map"]["text"]
    assert "python3-gpumap" in checks["agent.map"]["remedy"]
    assert checks["agent.state"]["state"] == "SKIP"
    assert checks["kernel.version"]["state"] == "FAIL"
    assert checks["cards.driver"]["state"] == "PASS"
    got = ctl("topo")
    assert got.returncode == 1
    assert "topo needs the Python package gpumap: " in got.stderr
