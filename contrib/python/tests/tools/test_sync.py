# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""gpumap-sync: nodes that meet in etcd, their summaries, and its ends."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import gpumap
import pytest
from agent import Agent, wait_for
from gpumap import ClusterState, DeviceState
from gpumap.tools import sync_config, sync_summary
from gpumap.tools.sync import Sync
from gpumap.tools.sync_config import Wrong
from gpumap.tools.sync_summary import Refused
from nodes import ETCD, PROGRAM, TTL, Cluster, EtcdServer, Node

LIVE, GONE = ClusterState.LIVE, ClusterState.GONE
MIB = 1 << 20
needs_etcd = pytest.mark.skipif(
    ETCD is None, reason="there is no etcd (Debian: etcd-server, etcd-client)"
)


@pytest.fixture(scope="module")
def etcd() -> Iterator[EtcdServer]:
    one = EtcdServer()
    yield one
    one.stop()


@pytest.fixture(scope="module")
def cluster(etcd: EtcdServer) -> Iterator[Cluster]:
    one = Cluster(etcd, "a", "b", "c")
    yield one
    one.stop()


@pytest.fixture
def three(cluster: Cluster) -> Cluster:
    """Three nodes that run, whatever the test before has ended."""
    for node in cluster.nodes.values():
        if node.process is None:
            node.start()
    cluster.wait()
    wait_for(lambda: not any(n.held() for n in cluster.nodes.values()))
    return cluster


# ---- the configuration ------------------------------------------------------


def read(tmp_path: Path, text: str) -> sync_config.Config:
    path = tmp_path / "gpumap-sync.conf"
    path.write_text(text)
    return sync_config.read(str(path), True)[0]


def test_configuration(tmp_path: Path) -> None:
    (tmp_path / "gpumap-sync.conf.d").mkdir()
    drop_in = tmp_path / "gpumap-sync.conf.d/1.conf"
    drop_in.write_text("[cluster]\nttl = 1500ms\n")
    (tmp_path / "gpumap-sync.conf.d/.2.conf").write_text("nonsense")
    config = read(
        tmp_path,
        "# a comment\n[cluster]\nname=lab\n node = n1 \nttl=9s\ngangs = no\n"
        "[store]\netcd = https://one:2379,http://two:2379\n[socket]\nmode=0600\n",
    )
    assert config.cluster == "lab" and config.node == "n1"
    assert config.ttl == 1.5 and not config.gangs
    assert config.etcd == ("https://one:2379", "http://two:2379")
    assert config.mode == 0o600


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", ": no place where the nodes meet: add etcd = ENDPOINTS"),
        ("[cluster", ":1: a section is one word in brackets"),
        ("[clustre]", ":1: no section [clustre]: there are cluster, store"),
        ("name = x", ":1: name stands before the first section"),
        ("[cluster]\nnom = x", ":2: [cluster] has no key nom: it has add"),
        ("[cluster]\nline", ":2: neither [section] nor key = value"),
        ("[cluster]\nnode = -x", ":2: node = -x: 1 to 63 letters"),
        ("[cluster]\nttl = 1ms", ":2: ttl = 1ms: a time from 1000ms to 600s"),
        ("[cluster]\ngangs = maybe", ":2: gangs = maybe: yes or no"),
        ("[store]\netcd = a b", ":2: etcd = a b: a text without blanks"),
        ("[store]\netcd = ftp://x", ": ftp://x is no endpoint: give http:"),
        ("[store]\netcd = h:1", ":2: etcd = h:1: h:1 is no endpoint"),
        ("[store]\netcd = http://h,", "nothing is no endpoint"),
        ("[store]\netcd = http://u@h", "http://u@h is no endpoint"),
        ("[store]\ndirectory = /x", "nodes do not meet in a directory"),
        ("[store]\nca = x", ":2: ca = x: an absolute path"),
        ("[store]\netcd = http://x\nuser = u", "user and password-file of [store]"),
        ("[store]\netcd = http://x\ncert = /u", "cert and key of [store] go"),
        ("[store]\netcd = http://x\nca = /no/ca", "/no/ca: it cannot be read"),
        ("[socket]\nmode = 999", ":2: mode = 999: an octal mode"),
        ("[socket]\ngroup = no such", ":2: group = no such: a group"),
        ("[cluster]\nname = \0", ":2: a NUL byte"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(Wrong) as wrong:
        read(tmp_path, text)
    assert says in str(wrong.value)


@pytest.mark.parametrize(
    ("mode", "data", "says"),
    [
        (0o644, b"secret\n", "others may read or write it: chmod 0640"),
        (0o600, b"\n", "its first line is empty"),
        (0o600, b"x" * 2000, "this is no file of one line"),
    ],
)
def test_passwords(tmp_path: Path, mode: int, data: bytes, says: str) -> None:
    file = tmp_path / "password"
    file.write_bytes(data)
    file.chmod(mode)
    text = f"[store]\netcd = http://x\nuser = u\npassword-file = {file}\n"
    with pytest.raises(Wrong, match=says):
        read(tmp_path, text)
    file.write_bytes(b"secret\nmore\n")
    file.chmod(0o640)
    read(tmp_path, text)
    assert sync_config.read_password(str(file)) == "secret"


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PROGRAM, *words], capture_output=True, text=True, timeout=60
    )


def test_command_line(tmp_path: Path) -> None:
    assert "--check-config" in run("--help").stdout
    assert run("--version").stdout.startswith("gpumap-sync ")
    assert run("operand").returncode == 2
    assert run("--nonsense").returncode == 2
    path = tmp_path / "x.conf"
    assert run("--config", str(path)).returncode == 2
    path.write_text("[store]\netcd = http://127.0.0.1:1\n[cluster]\nnode=x\n")
    checked = run("--check-config", "--config", str(path))
    assert (checked.returncode, checked.stderr) == (0, "")


# ---- summaries --------------------------------------------------------------


def summary_of(n_rows: int = 2, n_shares: int = 1) -> sync_summary.Summary:
    devices = tuple(
        gpumap.ClusterDevice(
            row=row,
            uuid=f"GPU-00000000-0000-0000-0000-{row:012x}",
            name="NVIDIA H100 80GB HBM3",
            kind=gpumap.DeviceKind.CUDA,
            state=DeviceState.READY,
            flags=gpumap.DeviceFlags.CARD,
            numa_node=-1,
            cc_major=9,
            cc_minor=0,
            total_bytes=80 << 30,
            free_bytes=70 << 30,
            reserved_bytes=2 << 30,
            used_by_holders=1 << 30,
            links=18,
        )
        for row in range(n_rows)
    )
    shares = tuple(
        gpumap.ClusterShare(
            uid=1000,
            flags=0,
            name=f"m\u00f6del{number}",
            bytes=1 << 30,
            rows=tuple(range(n_rows)),
            fingerprint=bytes(range(32)),
        )
        for number in range(n_shares)
    )
    node = gpumap.ClusterNode(
        name="n",
        address="10.0.0.1",
        state=LIVE,
        flags=gpumap.ClusterFlags(0),
        age_ns=0,
        epoch=7,
        agent_version=200,
        more_devices=0,
        more_shares=0,
        devices=devices,
        shares=shares,
    )
    return sync_summary.Summary(node, "0" * 16, "b" * 36)


def test_a_summary_is_read_as_it_was_written() -> None:
    summary = summary_of()
    data = sync_summary.encode(summary)
    assert sync_summary.decode(data, "n") == summary


def test_a_summary_has_16_kib() -> None:
    data = sync_summary.encode(summary_of(64, 64))
    node = sync_summary.decode(data, "n").node
    assert len(data) <= 16384
    assert len(node.devices) + node.more_devices == 64
    assert len(node.shares) + node.more_shares == 64
    assert len(node.devices) > 40 and node.more_shares > 0


def damaged() -> list[tuple[str, object]]:
    whole = json.loads(sync_summary.encode(summary_of()))
    row, share = whole["rows"][0], whole["shares"][0]
    found: list[tuple[str, object]] = []

    def change(what: str, of: str | None, **values: object) -> None:
        if of == "rows":
            value = whole | {"rows": [row | values, whole["rows"][1]]}
        elif of == "shares":
            value = whole | {"shares": [share | values]}
        else:
            value = whole | values
        found.append((what, value))

    change("format", None, format=1)
    change("another's", None, node="m")
    change("address", None, address="$(reboot)")
    change("instance", None, instance="x")
    change("boot", None, boot="x")
    change("gangs", None, gangs=1)
    change("epoch", None, epoch=-1)
    change("true", None, epoch=True)
    change("real", None, epoch=1.5)
    change("large", None, version=1 << 32)
    change("rows", None, rows={})
    change("many rows", None, rows=[row] * 65)
    change("row twice", None, rows=[row, row])
    change("rows_more", None, rows_more=255)
    change("no object", None, shares=[1])
    change("share twice", None, shares=[share, share])
    change("row", "rows", row=256)
    change("uuid", "rows", uuid="0" * 31)
    change("control", "rows", name="a\x1b[2J")
    change("long", "rows", name="x" * 64)
    change("kind", "rows", kind="quantum")
    change("state", "rows", state=7)
    change("cc", "rows", cc="9")
    change("cc zero", "rows", cc="09.0")
    change("free", "rows", free=81 << 30)
    change("used", "rows", used=3 << 30)
    change("numa", "rows", numa=-2)
    change("blank", "shares", name="a b")
    change("hash", "shares", hash="00")
    change("share's rows", "shares", rows=[0, 0])
    change("no row", "shares", rows=["0"])
    for name in whole:
        found.append(
            (f"no {name}", {k: v for k, v in whole.items() if k != name})
        )
    return found


@pytest.mark.parametrize(("what", "value"), damaged())
def test_a_damaged_summary_is_refused(what: str, value: object) -> None:
    with pytest.raises(Refused) as refused:
        sync_summary.decode(json.dumps(value).encode(), "n")
    assert str(refused.value).isprintable()


def test_no_bytes_break_the_reader() -> None:
    data = sync_summary.encode(summary_of())
    chance = random.Random(1)
    for _ in range(3000):
        broken = bytearray(data)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(broken))
            broken[at] = chance.randrange(256)
            if chance.random() < 0.3:
                del broken[at : at + chance.randint(1, 200)]
        try:
            sync_summary.decode(bytes(broken), "n")
        except Refused:
            pass


def test_news_and_figures() -> None:
    old = summary_of().node
    first, *rest = old.devices

    def with_row(**values: object) -> gpumap.ClusterNode:
        changed = first._replace(**values)  # type: ignore[arg-type]
        return old._replace(devices=(changed, *rest))

    news = sync_summary.has_facts
    assert news(old, old) is None
    assert news(old, with_row(free_bytes=first.free_bytes - MIB)) is None
    assert news(old, with_row(free_bytes=first.free_bytes - (1 << 30))) is False
    assert news(old, with_row(reserved_bytes=9 << 30)) is True
    assert news(old, with_row(state=DeviceState.LOST)) is True


# ---- the loop ---------------------------------------------------------------


def test_gangs_and_what_is_published_have_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both always have something to ask of the agent."""
    one = Sync(sync_config.Config(node="a", etcd=("http://127.0.0.1:1",)))
    asked: list[str] = []

    def ask(now: float) -> bool:
        asked.append("gangs")
        return True

    monkeypatch.setattr(one.watch, "is_alive", lambda: True)
    monkeypatch.setattr(one.store, "run", lambda at: None)
    monkeypatch.setattr(one.own, "tick", lambda *of: None)
    monkeypatch.setattr(one, "_look_at_agent", lambda at: None)
    monkeypatch.setattr(one.agent, "map", object())
    monkeypatch.setattr(one.agent, "answers", lambda: True)
    monkeypatch.setattr(one.gangs, "due", lambda: 0.0)
    monkeypatch.setattr(one.gangs, "_ask_agent", ask)
    monkeypatch.setattr(one.feed, "due", lambda: 0.0)
    monkeypatch.setattr(one.feed, "tick", lambda *of: asked.append("feed"))
    monkeypatch.setattr(one.own, "due", lambda map: float("inf"))
    for turn in range(1, 9):
        one._turn()
        assert len(asked) == turn
    assert asked == ["gangs", "feed"] * 4


# ---- nodes ------------------------------------------------------------------


def news_of(map: gpumap.Map) -> int:
    """So many bytes of row 0 that a reservation of them is told at once."""
    return 2 * map.devices[0].total_bytes // sync_summary.MOVED // MIB * MIB


@needs_etcd
def test_a_change_is_seen_on_other_nodes(three: Cluster) -> None:
    a, b = three["a"], three["b"]

    def reserved() -> int:
        node = b.node("a")
        return node.devices[0].reserved_bytes if node else -1

    before = reserved()
    with gpumap.attach(a.agent.instance, a.agent.runtime_dir) as map:
        n_bytes = news_of(map)
        held = map.reserve({0: n_bytes})
        wait_for(lambda: reserved() == before + n_bytes)
        held.release()
        wait_for(lambda: reserved() == before)
        map.cordon(1)
        flag = gpumap.DeviceFlags.CORDONED
        wait_for(lambda: b.node("a").devices[1].flags & flag)  # type: ignore
        map.uncordon(1)
    own = b.node("b")
    assert own is not None and own.flags & gpumap.ClusterFlags.SELF


@needs_etcd
def test_a_node_that_dies_is_gone_and_comes_back(three: Cluster) -> None:
    three["c"].kill()
    for node in "ab":
        wait_for(lambda node=node: three[node].nodes()["c"] == GONE)
        assert three[node].node("c").devices  # type: ignore
    # A gpumap-sync that begins anew knows of it from the agent.
    three["a"].kill(signal.SIGTERM)
    three["a"].start()
    wait_for(lambda: three["a"].nodes() == {"a": LIVE, "b": LIVE, "c": GONE})
    three["c"].start()
    three.wait()


@needs_etcd
def test_an_agent_that_ends_is_said_to_be_draining(three: Cluster) -> None:
    node, flag = three["b"], gpumap.ClusterFlags.DRAINING
    assert node.agent.process is not None
    node.agent.kill()
    wait_for(lambda: three["a"].node("b").flags & flag)  # type: ignore
    assert three["a"].nodes()["b"] == LIVE
    node.agent.start()
    wait_for(lambda: not three["a"].node("b").flags & flag)  # type: ignore
    three.wait()


@needs_etcd
def test_without_an_agent_it_waits_for_one(etcd: EtcdServer) -> None:
    agent = Agent()
    node = Node("lone", etcd.endpoints, cluster="lone", agent=agent)
    agent.kill()
    try:
        node.start()
        wait_for(lambda: "alive/lone" in etcd.keys("lone"))
        agent.start()
        wait_for(lambda: node.nodes() == {"lone": LIVE})
    finally:
        node.stop()
        agent.stop()


@needs_etcd
def test_nodes_of_other_formats_are_refused_by_name(etcd: EtcdServer) -> None:
    node = Node("f", etcd.endpoints, cluster="formats", more="forget = 1s")
    prefix = "/gpumap/v1/formats"
    try:
        node.start()
        wait_for(lambda: node.nodes() == {"f": LIVE})
        etcd.ctl("put", f"{prefix}/nodes/$x", "{}")
        etcd.ctl("put", f"{prefix}/values/x", "x" * 65536)
        # The last of them: when it is published, all have been looked at.
        old = {"format": 1, "node": "old", "rows": []}
        etcd.ctl("put", f"{prefix}/nodes/old", json.dumps(old))
        wait_for(lambda: node.nodes().get("old") == ClusterState.REFUSED)
        (line,) = node.events("node_refused")
        assert "node=old" in line and "update the older" in line
        assert len(node.events("node_left_out")) == 1
        etcd.ctl("del", f"{prefix}/nodes/old")
        wait_for(lambda: node.nodes() == {"f": LIVE})
        assert "node=old" in node.events("node_forgotten")[0]
        # Our own keys are put right.
        etcd.ctl("put", f"{prefix}/nodes/f", "{")
        wait_for(lambda: "boot" in etcd.keys("formats")["nodes/f"])
        etcd.ctl("put", f"{prefix}/gangs/f/0123456789abcdef", "x")
        wait_for(lambda: "gangs/f/0123456789abcdef" not in etcd.keys("formats"))
        etcd.ctl("del", f"{prefix}/alive/f")
        wait_for(lambda: "alive/f" in etcd.keys("formats"))
        wait_for(lambda: node.nodes() == {"f": LIVE})
    finally:
        node.stop()


@needs_etcd
def test_two_of_one_socket(three: Cluster) -> None:
    config = str(three["a"].config)
    second = run("--config", config)
    assert second.returncode == 3
    assert "another gpumap-sync has this socket" in second.stderr


@needs_etcd
def test_lost_watches_are_noticed(three: Cluster, etcd: EtcdServer) -> None:
    """History that was compacted is listed anew."""
    a, b = three["a"], three["b"]
    assert b.process is not None
    os.kill(b.process.pid, signal.SIGSTOP)
    revision = json.loads(etcd.ctl("get", "x", "-w", "json"))["header"]
    etcd.ctl("compact", str(revision["revision"]))
    time.sleep(TTL / 4)
    os.kill(b.process.pid, signal.SIGCONT)
    three.wait()
    with gpumap.attach(a.agent.instance, a.agent.runtime_dir) as map:
        n_bytes = news_of(map)
        with map.reserve({0: n_bytes}):
            wait_for(
                lambda: b.node("a").devices[0].reserved_bytes  # type: ignore
                >= n_bytes
            )


@needs_etcd
def test_etcd_that_stops_is_found_again() -> None:
    etcd = EtcdServer(3)
    cluster = Cluster(etcd, "a", "b")
    try:
        sync = cluster["a"].sync()
        sync.reserve("g", cluster.parts(MIB))
        # One member is gone: the others serve.
        etcd.signal(signal.SIGKILL, 0)
        time.sleep(TTL)
        cluster.wait()
        sync.check()
        # All are, for three times the lease.
        for member in (1, 2):
            etcd.signal(signal.SIGKILL, member)
        time.sleep(3 * TTL)
        for member in range(3):
            etcd.start(member)
        cluster.wait()
        sync.check()
        assert all(node.held() == ["g"] for node in cluster.nodes.values())
        sync.release()
        wait_for(lambda: not cluster["b"].held())
    finally:
        cluster.stop()
        etcd.stop()


@needs_etcd
def test_etcd_that_hangs_ends_no_gang() -> None:
    etcd = EtcdServer(1)
    cluster = Cluster(etcd, "a", "b")
    try:
        with cluster["a"].sync() as sync:
            sync.reserve("g", cluster.parts(MIB))
            etcd.signal(signal.SIGSTOP)
            time.sleep(3 * TTL)
            etcd.signal(signal.SIGCONT)
            cluster.wait()
            time.sleep(2 * TTL)
            sync.check()
            assert cluster["b"].held() == ["g"]
    finally:
        cluster.stop()
        etcd.stop()


# ---- users, tokens, TLS -----------------------------------------------------


@needs_etcd
def test_users_and_rights(tmp_path: Path) -> None:
    """Each node writes its own keys alone, with a token that expires."""
    script = Path(__file__).parents[3] / "etcd/etcd-node"
    # Long enough for an etcdctl that waits for a CPU: its token expires, too.
    etcd = EtcdServer(1, "--auth-token-ttl=10")
    try:
        etcd.ctl("user", "add", "root:pw")
        etcd.ctl("user", "grant-role", "root", "root")
        etcd.ctl("auth", "enable")
        etcd.env["ETCDCTL_USER"] = "root:pw"
        env = {**etcd.env, "ETCDCTL_ENDPOINTS": etcd.endpoints}
        stores = {}
        for name in "ab":
            file = tmp_path / name
            subprocess.run(
                ["sh", str(script), "test", name, str(file)],
                check=True,
                env=env,
                capture_output=True,
            )
            file.chmod(0o600)
            stores[name] = f"user = gpumap/test/{name}\npassword-file = {file}"
        nodes = {
            name: Node(name, etcd.endpoints, store=store)
            for name, store in stores.items()
        }
        cluster = object.__new__(Cluster)
        cluster.etcd, cluster.nodes = etcd, nodes
        for node in nodes.values():
            node.start()
        cluster.wait()
        time.sleep(12)  # tokens expire
        with nodes["a"].sync() as sync:
            sync.reserve("g", cluster.parts(MIB))
        password = (tmp_path / "a").read_text().strip()
        user = f"gpumap/test/a:{password}"
        for key in ("nodes/b", "alive/b", "gangs/b/1", "holds/b/a.1", "x"):
            with pytest.raises(subprocess.CalledProcessError):
                etcd.ctl("put", f"/gpumap/v1/test/{key}", "x", user=user)
        wrong = Node("c", etcd.endpoints, store=stores["a"])
        nodes["c"] = wrong
        wrong.start()
        wait_for(
            lambda: any("etcd-node" in one for one in wrong.events("not_said"))
        )
        cluster.stop()
    finally:
        etcd.stop()


def make_certificates(folder: Path) -> None:
    def openssl(*words: str) -> None:
        subprocess.run(
            ["openssl", *words], check=True, cwd=folder, capture_output=True
        )

    key = ["-newkey", "rsa:2048", "-nodes", "-days", "2"]
    openssl(
        "req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem",
        "-subj", "/CN=ca",
    )  # fmt: skip
    for name, subject in (("server", "/CN=127.0.0.1"), ("node", "/O=gpumap")):
        openssl(
            "req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr",
            "-subj", subject,
        )  # fmt: skip
        (folder / "ext").write_text("subjectAltName=IP:127.0.0.1\n")
        openssl(
            "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem",
            "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
            "-extfile", "ext", "-out", f"{name}.pem",
        )  # fmt: skip


@needs_etcd
@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl")
def test_tls(tmp_path: Path) -> None:
    make_certificates(tmp_path)
    etcd = EtcdServer(1, tls=tmp_path)
    right = (
        f"ca = {tmp_path}/ca.pem\ncert = {tmp_path}/node.pem\n"
        f"key = {tmp_path}/node.key"
    )
    node = Node("a", etcd.endpoints, store=right)
    stranger = Node("b", etcd.endpoints, store=f"ca = {tmp_path}/node.pem")
    try:
        node.start()
        stranger.start()
        wait_for(lambda: node.nodes() == {"a": LIVE})
        wait_for(lambda: stranger.events("not_said"))
        assert "certificate" in stranger.events("not_said")[0].lower()
    finally:
        node.stop()
        stranger.stop()
        etcd.stop()


# ---- gangs ------------------------------------------------------------------


@needs_etcd
def test_gangs(three: Cluster) -> None:
    a, c = three["a"], three["c"]
    with a.sync() as sync:
        sync.reserve("g", three.parts(MIB))
        sync.check()
        assert all(node.held() == ["g"] for node in three.nodes.values())
        with pytest.raises(gpumap.Busy):
            sync.reserve("h", three.parts(MIB))
        with c.sync() as other, pytest.raises(gpumap.Exists):
            other.reserve("g", three.parts(MIB, "a"))
        sync.release()
        with pytest.raises(gpumap.NotFound):
            sync.release()
        wait_for(lambda: not c.held())
        with pytest.raises(gpumap.DoesNotFit):
            sync.reserve("g", three.parts(1 << 60))
        with pytest.raises(gpumap.NoDevice):
            sync.reserve("g", {"b": {"0" * 32: MIB}})
        with pytest.raises(gpumap.Unreachable):
            sync.reserve("g", {"nobody": {"0" * 32: MIB}})
        with pytest.raises(gpumap.Invalid):
            sync.reserve("g", three.parts(1))
        sync.reserve("g", three.parts(MIB))
    wait_for(lambda: not any(node.held() for node in three.nodes.values()))


@needs_etcd
def test_a_gang_ends_with_a_node(three: Cluster) -> None:
    with three["a"].sync() as sync:
        sync.reserve("g", three.parts(MIB))
        three["b"].kill()
        with pytest.raises(gpumap.Lost):
            wait_for(lambda: sync.check())
        wait_for(lambda: not three["c"].held())
        assert three["a"].events("gang_lost")


@needs_etcd
def test_a_gang_lives_through_a_restart_of_a_member() -> None:
    """However long that takes, within the lease's time."""
    etcd = EtcdServer()
    cluster = Cluster(etcd, "a", "b", ttl=300)
    a, b = cluster["a"], cluster["b"]
    try:
        with a.sync() as sync:
            sync.reserve("g", cluster.parts(MIB))
            lease = etcd.lease("alive/b")
            b.kill()
            b.start()
            wait_for(lambda: b.events("published")[1:])
            wait_for(lambda: b.held() == ["g"])
            assert etcd.lease("alive/b") != lease
            # Nothing is under the lease of the one that was killed.
            etcd.ctl("lease", "revoke", f"{lease:x}")
            time.sleep(1)
            cluster.wait()
            sync.check()
            assert b.held() == ["g"]
    finally:
        cluster.stop()
        etcd.stop()


@needs_etcd
def test_its_own_end_ends_the_gang(three: Cluster) -> None:
    sync = three["a"].sync()
    sync.reserve("g", three.parts(MIB))
    three["a"].kill()
    with pytest.raises(gpumap.Gone):
        wait_for(lambda: sync.check())
    sync.close()
    wait_for(lambda: not three["c"].held())


@needs_etcd
def test_no_gangs_here(etcd: EtcdServer) -> None:
    closed = Node("closed", etcd.endpoints, cluster="no", more="gangs = no")
    closed.start()
    try:
        wait_for(lambda: closed.nodes() == {"closed": LIVE})
        node = closed.node("closed")
        assert node and node.flags & gpumap.ClusterFlags.NO_GANGS
        with closed.sync() as sync, pytest.raises(gpumap.Denied):
            sync.reserve("g", {"closed": {closed.uuid(): MIB}})
    finally:
        closed.stop()


# ---- its processes ----------------------------------------------------------


def connect(node: Node) -> socket.socket:
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    stream.connect(node.socket)
    stream.settimeout(60)
    return stream


@needs_etcd
@pytest.mark.parametrize(
    "record",
    [
        b"x",
        b"[]",
        b"\xff",
        b"[" * 60000,
        b"{" * 65537,
        b'{"op":"nothing"}',
        b'{"op":"reserve"}',
        b'{"op":"reserve","name":"x","members":[]}',
        b'{"op":"reserve","name":"x","members":{"a":{"x":1}}}',
        b'{"op":"reserve","name":"x","members":{"a":{}},"timeout":"x"}',
        b'{"op":"reserve","name":"x","members":{"a":{"'
        + b"0" * 32
        + b'":1e400}}}',
    ],
)
def test_odd_records(three: Cluster, record: bytes) -> None:
    with connect(three["a"]) as stream:
        stream.send(record)
        said = stream.recv(65536)
        assert said == b"" or "errno" in json.loads(said)
    with three["a"].sync() as sync:
        sync.reserve("g", three.parts(MIB, "a"))


@needs_etcd
def test_a_client_that_closes_is_not_blamed(three: Cluster) -> None:
    request = {"op": "reserve", "name": "x", "members": {"a": {}}}
    for _ in range(20):
        with connect(three["a"]) as stream:
            stream.send(json.dumps(request).encode())
    with three["a"].sync() as sync:
        sync.reserve("g", three.parts(MIB, "a"))
    said = three["a"].events("client_ended")
    assert not [line for line in said if "does not read" in line]


@needs_etcd
def test_descriptors_are_refused(three: Cluster) -> None:
    with connect(three["a"]) as stream, open("/dev/null") as file:
        try:
            socket.send_fds(stream, [b'{"op":"release"}'], [file.fileno()])
        except PermissionError:
            return  # the kernel lets none through, from Linux 6.16 on
        said = stream.recv(65536)
        assert said == b"" or "errno" in json.loads(said)


@needs_etcd
def test_a_user_has_256_connections(three: Cluster) -> None:
    streams = [connect(three["a"]) for _ in range(257)]
    try:
        said = json.loads(streams[-1].recv(65536))
        assert said["errno"] == "EUSERS"
    finally:
        for stream in streams:
            stream.close()

    def is_let_in() -> bool:
        with three["a"].sync() as sync:
            try:
                sync.reserve("g", three.parts(MIB, "a"))
            except gpumap.Quota as error:
                assert "too many processes" in error.refusal
                return False
        return True

    wait_for(is_let_in)


@needs_etcd
def test_many_gangs_of_users_cost_no_lease(three: Cluster) -> None:
    # A2 of users: each has as many gangs as it may, of the least size.
    before = len(three["a"].events("lease_lost"))
    with three["b"].sync() as victim:
        victim.reserve("victim", three.parts(MIB))
        syncs = [three["a"].sync() for _ in range(40)]
        held = 0
        for number, sync in enumerate(syncs):
            try:
                sync.reserve(f"m{number}", three.parts(MIB))
                held += 1
            except gpumap.Quota:
                pass
        assert held == 16
        victim.check()
        for sync in syncs:
            sync.close()
    assert len(three["a"].events("lease_lost")) == before


@needs_etcd
def test_it_gets_no_privileges_and_shows_no_memory(three: Cluster) -> None:
    process = three["a"].process
    assert process is not None
    status = Path(f"/proc/{process.pid}/status").read_text()
    assert "NoNewPrivs:\t1" in status
    # The kernel gives the files of a process that is not dumpable to root:
    # where the tests are root's, they cannot tell.
    assert os.stat(f"/proc/{process.pid}/mem").st_uid == 0


@needs_etcd
def test_it_ends_when_it_is_told(three: Cluster, etcd: EtcdServer) -> None:
    three["c"].kill(signal.SIGTERM)
    assert not [k for k in etcd.keys() if k.split("/")[1] == "c"]
    assert not os.path.exists(three["c"].socket)
    three["c"].start()
    three.wait()
