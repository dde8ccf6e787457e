# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""gpumapctl doctor on this machine: with an agent that is well, with one that
is not, and with none; what the kernel refuses, and the bundle.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import struct
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import gpumap
import pytest
from agent import Agent, wait_for
from gpumap.tools.command import Exit

NOBODY = 65534


class Report:
    """The end of a doctor --json."""

    def __init__(self, ran: subprocess.CompletedProcess[str]) -> None:
        self.checks: list[dict[str, Any]] = json.loads(ran.stdout)["checks"]
        self.of = {one["id"]: one for one in self.checks}
        # Faults of the machine that the test runs on are not the test's.
        failed = any(one["state"] == "FAIL" for one in self.checks)
        assert ran.returncode == (Exit.FAILED if failed else Exit.OK)

    def says(self, id: str, state: str, text: str, remedy: str = "") -> None:
        one = self.of[id]
        assert one["state"] == state and text in one["text"], one
        assert (one["remedy"] is None) == (remedy == ""), one
        assert remedy in (one["remedy"] or ""), one


def doctor(agent: Agent, *words: str, **more: Any) -> Report:
    return Report(agent.run("doctor", "--json", *words, **more))


def test_each_check_has_its_fields(agent: Agent) -> None:
    report = doctor(agent)
    assert len(report.of) == len(report.checks) >= 40
    for one in report.checks:
        assert " ".join(one) == "id state text remedy"
        assert one["state"] in ("PASS", "SKIP", "WARN", "FAIL") and one["text"]
        is_fault = one["state"] in ("WARN", "FAIL")
        assert is_fault == (one["remedy"] is not None)
    report.says("agent.map", "PASS", agent.instance)
    report.says("agent.state", "PASS", "seen")
    report.says("agent.version", "PASS", "one version")
    report.says("agent.socket", "PASS", "answers")
    report.says("agent.state_dir", "PASS", str(agent.folder / "state"))
    report.says("rows.state", "PASS", "2 rows")


def test_lines_are_for_people(agent: Agent, map: gpumap.Map) -> None:
    said = agent.run("doctor").stdout
    assert "PASS  agent.map " in said and " passed, " in said
    assert said.endswith(" skipped; -q shows warnings and failures only\n")
    said = agent.run("doctor", "-q").stdout
    assert "PASS" not in said and "SKIP" not in said
    map.cordon(1)
    said = agent.run("doctor", "--quiet").stdout
    map.uncordon(1)
    assert "WARN  rows.cordoned " in said and ": 1\n" in said
    assert "remedy: gpumapctl uncordon ROW" in said


def test_another_user_is_refused(agent: Agent) -> None:
    if os.geteuid() != 0:
        pytest.skip("another user needs root")
    try:
        ran = agent.run("doctor", "--json", user=NOBODY, group=NOBODY)
        report = Report(ran)
    except (PermissionError, json.JSONDecodeError):
        pytest.skip("another user cannot run what was built here")
    report.says("agent.socket", "FAIL", "may not talk", "usermod -aG gpumap")
    report.says("agent.map", "PASS", "")


# ---- what the kernel refuses -------------------------------------------------

IO_URING_SETUP, PIDFD_OPEN = 425, 434  # on each machine
EPERM, ENOSYS = 1, 38


def without_calls() -> None:
    """Have the kernel refuse two calls, as a container's profile does."""
    code = [
        (0x20, 0, 0, 0),  # load the call's number
        (0x15, 0, 1, IO_URING_SETUP),  # is it this one?
        (0x06, 0, 0, 0x50000 + EPERM),  # refused
        (0x15, 0, 1, PIDFD_OPEN),
        (0x06, 0, 0, 0x50000 + ENOSYS),
        (0x06, 0, 0, 0x7FFF0000),  # allowed
    ]
    program = b"".join(struct.pack("HBBI", *one) for one in code)
    filter = ctypes.create_string_buffer(program)
    head = struct.pack("HxxxxxxP", len(code), ctypes.addressof(filter))
    libc = ctypes.CDLL(None)
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
    assert libc.prctl(22, 2, head) == 0  # PR_SET_SECCOMP, a filter


def test_calls_that_are_refused(agent: Agent) -> None:
    report = doctor(agent, preexec_fn=without_calls)
    refused = "Operation not permitted"
    report.says("kernel.io_uring", "WARN", refused, "seccomp")
    report.says("kernel.pidfd", "WARN", "not implemented", "seccomp")


READ_ONLY = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0"'


@pytest.mark.parametrize(
    ("mounts", "id", "state", "text", "remedy"),
    [
        (READ_ONLY, "agent.state_dir", "FAIL", "read-only", "--state-dir"),
        (READ_ONLY, "memory.shm", "PASS", "left", ""),
        ("mount -t tmpfs -o size=1M none $0", "agent.state_dir", "FAIL",
         "left", "free some"),
        ("mount -t tmpfs -o size=8M none /dev/shm", "memory.shm", "WARN",
         "8.0 MiB left of 8.0 MiB", "--shm-size"),
        ("mount --bind /proc /dev/shm", "memory.shm", "FAIL", "no tmpfs",
         "mount -t tmpfs"),
    ],
)  # fmt: skip
def test_mounts(
    agent: Agent, mounts: str, id: str, state: str, text: str, remedy: str
) -> None:
    """doctor among mounts of its own, laid over the folders."""
    if subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("no mounts here")
    words = agent.words("doctor", "--json")
    script = f'{mounts} && exec "$@"'
    folder = str(agent.folder / "state")
    ran = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, folder, *words],
        env=agent.env,
        capture_output=True,
        text=True,
    )
    Report(ran).says(id, state, text, remedy)


# ---- the bundle --------------------------------------------------------------


def test_a_bundle_has_no_secrets(agent: Agent, tmp_path: Path) -> None:
    path = tmp_path / "bundle.tar.gz"
    secret = {**agent.env, "HF_TOKEN": "hf_secret_of_the_test"}
    agent.run("doctor", "-q", "--bundle", str(path), env=secret)
    assert path.stat().st_mode & 0o777 == 0o600
    with tarfile.open(path) as tar:
        texts = {
            member.name: stream.read()
            for member in tar
            if (stream := tar.extractfile(member))
        }
    assert {"./doctor.json", "./devices.json", "./proc-meminfo"} < set(texts)
    (found,) = (
        one
        for one in json.loads(texts["./doctor.json"])["checks"]
        if one["id"] == "agent.map"
    )
    assert found["state"] == "PASS" and agent.instance in found["text"]
    assert b"hf_secret" not in b"".join(texts.values())


def test_a_bundle_that_cannot_be_written(agent: Agent) -> None:
    path = "/nowhere/at/all/b.tar.gz"
    ran = agent.run("doctor", "-q", "--bundle", path)
    assert f"cannot write {path}" in ran.stderr


# ---- clusters, and agents that are gone --------------------------------------


def test_a_cluster(agent: Agent, map: gpumap.Map) -> None:
    doctor(agent).says("cluster.gone", "SKIP", "in no cluster")
    nodes = [
        gpumap.ClusterNode(
            name=name,
            address="10.0.0.1",
            state=gpumap.ClusterState.LIVE,
            flags=flags,
            age_ns=0,
            epoch=1,
            agent_version=gpumap.version(),
            more_devices=more,
            more_shares=0,
        )
        for name, flags, more in (
            ("n0", gpumap.ClusterFlags.SELF, 0),
            ("n1", gpumap.ClusterFlags(0), 2),
        )
    ]
    map.publish_cluster("c", "n0", nodes, limit_ns=10**12, begin=True)
    report = doctor(agent)
    never = "cluster c was never seen as a whole"
    report.says("cluster.age", "FAIL", never, "gpumap-sync")
    report.says("cluster.self", "PASS", "n0")
    report.says("cluster.gone", "PASS", "")
    report.says("cluster.version", "PASS", "")
    report.says("cluster.left_out", "WARN", "n1 (2 rows, 0 shares)", "64 rows")


def test_a_silent_agent(agent: Agent) -> None:
    assert agent.process
    agent.process.send_signal(signal.SIGSTOP)
    wait_for(lambda: "has not been seen" in agent.run("doctor").stdout)
    report = doctor(agent)
    agent.process.send_signal(signal.SIGCONT)
    report.says("agent.state", "FAIL", "not been seen", "journalctl")
    report.says("agent.socket", "SKIP", "no agent")


def test_no_agent(agent: Agent) -> None:
    report = doctor(agent, "--instance", "no-such")
    report.says("agent.map", "FAIL", "no-such", "systemctl start gpumapd")
    report.says("agent.state", "SKIP", "no map")
    report.says("rows.state", "SKIP", "no map")
    ran = agent.run("doctor", "-q", "--instance", "no-such")
    assert ran.returncode == Exit.FAILED
    assert "FAIL  agent.map " in ran.stdout
