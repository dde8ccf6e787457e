# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""gpumap-exporter: its metrics, its HTTP, its files, and its ends."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gpumap
import pytest
from agent import (
    BUILD,
    DRIVER,
    Agent,
    agent_of_cards,
    die_with_parent,
    wait_for,
)

PROGRAM = [str(BUILD / "contrib/python/built/gpumap-exporter")]
MIB = 1 << 20
OPENMETRICS = "application/openmetrics-text;version=1.0.0"
LIMIT = 60  # seconds, against hanging


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *words], capture_output=True, text=True, timeout=LIMIT
    )


def names(agent: Agent) -> list[str]:
    return [
        f"--instance={agent.instance}",
        f"--runtime-dir={agent.runtime_dir}",
    ]


class Exporter:
    """A gpumap-exporter that serves an agent's map."""

    def __init__(self, agent: Agent, *words: str) -> None:
        self.process = subprocess.Popen(
            [*PROGRAM, *names(agent), "--listen", "127.0.0.1:0", *words],
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=die_with_parent,
        )
        assert self.process.stderr
        says = self.process.stderr.readline()
        assert "listening on 127.0.0.1:" in says
        self.port = int(says.rpartition(":")[2])
        self.text = ""

    def __enter__(self) -> Exporter:
        return self

    def __exit__(self, *unused: object) -> None:
        self.process.terminate()
        assert self.process.stderr
        self.process.stderr.close()
        assert self.process.wait(LIMIT) == 0

    def connect(self, source: str = "127.0.0.1") -> socket.socket:
        """A connection from an address of the loopback interface."""
        return socket.create_connection(
            ("127.0.0.1", self.port), LIMIT, source_address=(source, 0)
        )

    def ask(self, request: str, source: str = "127.0.0.1") -> str:
        """The answer to the text of a request, to the end."""
        with self.connect(source) as connection:
            with contextlib.suppress(ConnectionError):
                connection.sendall(request.encode())
                with connection.makefile("rb") as stream:
                    return stream.read().decode()
        return ""

    def get(self, path: str, accept: str = "*/*", method: str = "GET") -> str:
        return self.ask(
            f"{method} {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n"
            f"Accept: {accept}\r\n\r\n"
        )

    def scrape(self, accept: str = "*/*") -> Exporter:
        head, _, self.text = self.get("/metrics", accept).partition("\r\n\r\n")
        assert head.startswith("HTTP/1.1 200 ")
        self.head = head
        return self

    def value(self, name: str, /, **labels: object) -> float | None:
        """Of the one sample that has these labels; None: there is none."""
        want = {f'{key}="{value}"' for key, value in labels.items()}
        found = [
            float(value)
            for shown, value in re.findall(
                rf"(?m)^{name}(?:\{{(.*)\}})? (\S+)$", self.text
            )
            if want <= set(re.findall(r'\w+="(?:[^"\\]|\\.)*"', shown))
        ]
        assert len(found) < 2
        return found[0] if found else None


@pytest.fixture(scope="module")
def exporter(agent: Agent) -> Iterator[Exporter]:
    with Exporter(agent) as one:
        yield one


@pytest.fixture
def asking(agent: Agent) -> Iterator[Exporter]:
    with Exporter(agent, "--usage") as one:
        yield one


# ---- the command line -------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["--help"], 0, "usage: gpumap-exporter [--listen ADDRESS:PORT]"),
        (["--version"], 0, f"gpumap-exporter {gpumap.__version__}\n"),
        (["--listen", "nowhere"], 1, "give ADDRESS:PORT"),
        (["--listen", ""], 1, "give ADDRESS:PORT"),
        (["--listen", "999.1.2.3:1"], 1, "--listen 999.1.2.3:1: "),
        (["--interval", "5"], 2, "--interval is for --textfile"),
        (["--interval", "0"], 2, "a number of seconds, 1 to 86400"),
        (["--textfile=x", "--interval=86401"], 2, "1 to 86400"),
        (["--textfile=x", "--interval", "1s"], 2, "1 to 86400"),
        (["operand"], 2, "it takes no operand: operand"),
        (["--what"], 2, "--what"),
        (["--listen=:1", "--textfile", "x"], 2, "not both: start it twice"),
    ],
)
def test_command_lines(words: list[str], status: int, says: str) -> None:
    result = run(*words)
    assert result.returncode == status
    assert says in (result.stderr if status else result.stdout)
    assert status == 0 or "gpumap-exporter: " in result.stderr


def test_a_port_that_is_taken(exporter: Exporter) -> None:
    where = f"127.0.0.1:{exporter.port}"
    result = run("--listen", where)
    assert result.returncode == 1
    want = f"gpumap-exporter: --listen {where}: Address already in use\n"
    assert result.stderr == want


@pytest.mark.parametrize("where", ["127.0.0.1:0", "[::1]:0", ":0"])
def test_addresses(where: str) -> None:
    host = where.removesuffix(":0") or "[::]"
    if "[" in host and not socket.has_dualstack_ipv6():
        pytest.skip("there is no IPv6")
    process = subprocess.Popen(
        [*PROGRAM, "--listen", where], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr
    says = process.stderr.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait(LIMIT) == 0
    process.stderr.close()
    assert re.fullmatch(
        rf"gpumap-exporter: listening on {re.escape(host)}:\d+\n", says
    )


# ---- HTTP -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "status", "has"),
    [
        ("GET", "/", 200, '<a href="/metrics">'),
        ("GET", "/metrics", 200, "\ngpumap_up 1\n"),
        ("GET", "/metrics?x=1", 200, "\ngpumap_up 1\n"),
        ("GET", "/metric", 404, "not found: the metrics are at /metrics\n"),
        ("POST", "/metrics", 405, "\r\nAllow: GET, HEAD\r\n"),
        ("GET", "/" + 100_000 * "a", None, ""),
    ],
)
def test_answers(
    exporter: Exporter, method: str, path: str, status: int | None, has: str
) -> None:
    answer = exporter.get(path, method=method)
    if status is None:
        assert not answer.startswith("HTTP/1.1 200")
    else:
        assert answer.startswith(f"HTTP/1.1 {status} ")
        assert has in answer
    exporter.scrape()


@pytest.mark.parametrize(
    "request_text",
    ["nonsense\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "\r\n\r\n", "GET /metrics"],
)
def test_what_is_no_request(exporter: Exporter, request_text: str) -> None:
    with exporter.connect() as connection:
        connection.sendall(request_text.encode())
        connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            assert b" 200 " not in connection.recv(4096)
    exporter.scrape()


def test_head_has_no_body(exporter: Exporter) -> None:
    answer = exporter.get("/", method="HEAD")
    assert answer.startswith("HTTP/1.1 200 ")
    assert answer.endswith("\r\n\r\n")
    assert re.search(r"\r\nContent-Length: [1-9]", answer)


def test_a_connection_stays(exporter: Exporter) -> None:
    two = "GET / HTTP/1.1\r\nHost: test\r\n\r\n" + (
        "GET /none HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"
    )
    answer = exporter.ask(two)
    assert answer.startswith("HTTP/1.1 200 ")
    assert "\r\nHTTP/1.1 404 " in answer.replace("</html>\n", "\r\n")
    assert exporter.ask("GET / HTTP/1.0\r\n\r\n").count("HTTP/1.1 200") == 1


# ---- clients that are slow, or many -----------------------------------------


@contextlib.contextmanager
def drip(connections: list[socket.socket]) -> Iterator[None]:
    """Meanwhile send a byte of a request's head on each, again and again."""
    ended = threading.Event()

    def send() -> None:
        while not ended.wait(0.2):
            for connection in connections:
                with contextlib.suppress(OSError):
                    connection.send(b"a", socket.MSG_NOSIGNAL)

    for connection in connections:
        connection.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        for connection in connections:
            connection.close()


@pytest.mark.parametrize(("addresses", "each"), [(1, 60), (40, 8)])
def test_connections_keep_no_other_out(
    agent: Agent, addresses: int, each: int
) -> None:
    """While many are kept, also their own address has its scrape."""
    with Exporter(agent) as exporter:
        kept = [
            exporter.connect(f"127.0.1.{1 + i}")
            for i in range(addresses)
            for _ in range(each)
        ]
        with drip(kept):
            for source in ("127.0.0.1", "127.0.1.1"):
                answer = exporter.ask(
                    "GET /metrics HTTP/1.1\r\nConnection: close\r\n"
                    "Host: test\r\n\r\n",
                    source,
                )
                assert answer.startswith("HTTP/1.1 200 ")


def test_a_head_has_a_limit(exporter: Exporter) -> None:
    """A byte each 0.1 s does not keep a connection."""
    with exporter.connect() as connection:
        connection.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
        connection.setblocking(False)
        for _ in range(300):
            time.sleep(0.1)
            try:
                connection.send(b"a", socket.MSG_NOSIGNAL)
                assert connection.recv(1) == b""
                break
            except BlockingIOError:
                continue
            except ConnectionError:
                break
        else:
            pytest.fail("the connection is kept")


def test_a_client_that_takes_no_answer(exporter: Exporter) -> None:
    with exporter.connect() as connection:
        connection.setblocking(False)
        with contextlib.suppress(OSError):
            for _ in range(2000):
                connection.send(b"GET /metrics HTTP/1.1\r\nHost: test\r\n\r\n")
        assert exporter.scrape().value("gpumap_up") == 1


class Unsent:
    """A connection whose client has not taken so many bytes."""

    def __init__(self, n_bytes: int) -> None:
        self.n_bytes = n_bytes
        self.transport = self
        self.ended = False

    def get_write_buffer_size(self) -> int:
        return self.n_bytes

    def abort(self) -> None:
        self.ended = True

    close = abort


def test_unsent_answers_have_a_limit() -> None:
    from gpumap.tools.exporter import UNSENT_BYTES, Client, Server

    part = UNSENT_BYTES // 4
    kept: list[Any] = [Unsent(part * n) for n in (1, 0, 2, 1)]
    server: Any = Server(None)  # type: ignore[arg-type]
    server.clients = {"a": Client(kept[:2]), "b": Client(kept[2:])}
    server._make_room(0)
    assert not any(one.ended for one in kept)
    server._make_room(2 * part)
    assert [one.ended for one in kept] == [True, False, True, False]
    assert server.clients["a"].writers == [kept[1]]


def test_no_more_connections_than_there_may_be() -> None:
    from gpumap.tools.exporter import OF_ADDRESS, OF_ALL, Server

    class Writer(Unsent):
        def set_write_buffer_limits(self, high: int) -> None:
            pass

    server: Any = Server(None)  # type: ignore[arg-type]
    for i in range(4 * OF_ALL):
        server._admit(f"10.0.0.{i % 40}", Writer(0))
        counts = [len(one.writers) for one in server.clients.values()]
        assert sum(counts) == min(i + 1, OF_ALL)
        assert max(counts) <= OF_ADDRESS


@pytest.mark.skipif(
    "libasan" in os.environ.get("LD_PRELOAD", ""),
    reason="ASan keeps memory that was given back",
)
def test_scrapes_leave_nothing(exporter: Exporter) -> None:
    def pages() -> int:
        statm = Path(f"/proc/{exporter.process.pid}/statm").read_text()
        return int(statm.split()[1])

    for _ in range(50):
        exporter.scrape()
    before = pages()
    for i in range(300):
        exporter.scrape(OPENMETRICS if i % 2 else "*/*")
    assert pages() < before + 256  # a MiB
    fds = os.listdir(f"/proc/{exporter.process.pid}/fd")
    exporter.scrape()
    assert len(fds) < 20


# ---- the metrics ------------------------------------------------------------


def test_rows_are_the_librarys(map: gpumap.Map, exporter: Exporter) -> None:
    map.cordon(1)
    exporter.scrape()
    map.uncordon(1)
    for device in map.devices:
        row = device.row
        for name, value in {
            "device_score": device.score,
            "worker_restarts_total": device.restarts,
            "device_cordoned": row,
            "jobs_total": map.jobs(row).ended,
            "job_duration_seconds_count": sum(map.jobs(row).times),
            "job_duration_seconds_sum": map.jobs(row).ns / 1e9,
            "device_xids_total": None,
            "device_temperature_celsius": None,
        }.items():
            assert exporter.value(f"gpumap_{name}", row=row) == value, name
        for kind, value in {
            "total": device.total_bytes,
            "reserved": device.reserved_bytes,
            "used_by_holders": device.used_by_holders,
        }.items():
            name = "gpumap_device_memory_bytes"
            assert exporter.value(name, row=row, kind=kind) == value, kind
        for state in gpumap.DeviceState:
            told = exporter.value(
                "gpumap_device_state", row=row, state=state.name
            )
            assert told == (state == device.state)
        assert exporter.value(
            "gpumap_device_info",
            row=row,
            name=device.name,
            device_kind="host",
            hostname=socket.gethostname(),
        )
    assert "modelName" not in exporter.text


def test_jobs_are_counted(
    map: gpumap.Map, session: gpumap.Session, exporter: Exporter
) -> None:
    before = map.jobs(0).ended
    session.alloc(0, MIB).free()
    wait_for(lambda: map.jobs(0).ended > before)
    wait_for(
        lambda: exporter.scrape().value("gpumap_jobs_total", row=0)
        == map.jobs(0).ended
    )
    jobs, so_far = map.jobs(0), 0
    ends = [f"{ns / 1e9:.15g}" for ns in gpumap.JOB_TIME_ENDS[:-1]]
    for end, count in zip([*ends, "+Inf"], jobs.times, strict=True):
        so_far += count
        name = "gpumap_job_duration_seconds_bucket"
        assert exporter.value(name, row=0, le=end) == so_far


def test_objects(map: gpumap.Map, exporter: Exporter) -> None:
    uid = os.getuid()
    map.publish("größe", "0:2;1:3", layer_bytes=[MIB] * 5)
    map.publish('say"\\', "1:1")
    map.publish_mask("causal", tgt_len=8, dtype="f32", rows=[0, 1])
    map.publish_mesh("pair", "tensor", tp=2, rows=[0, 1])
    with map.reserve({0: 4 * MIB, 1: MIB}, name="mine"):
        exporter.scrape()
        for row, n, reserved in ((0, 2, 4 * MIB), (1, 3, MIB)):
            it: dict[str, Any] = {"map": "gr????e", "uid": uid, "row": row}
            kinds = ("weights", "kv_cache", "activations", "reserve")
            sizes = [
                exporter.value("gpumap_layer_map_bytes", kind=kind, **it)
                for kind in kinds
            ]
            assert exporter.value("gpumap_layer_map_layers", **it) == n
            assert sizes == [n * MIB, 0, 0, 0]
            # Only what is committed is reserved.
            assert exporter.value("gpumap_reservation_bytes", **it) is None
            it["map"] = "mine"
            assert exporter.value("gpumap_reservation_bytes", **it) == reserved
    assert '{map="say\\"\\\\",uid=' in exporter.text
    assert exporter.value("gpumap_mask_bytes", mask="causal", uid=uid) == 256
    assert exporter.value("gpumap_mask_replicas", mask="causal") == 2
    assert exporter.value("gpumap_mesh_ranks", mesh="pair") == 2
    assert exporter.value("gpumap_mesh_ready_rows", mesh="pair") == 2


def test_the_agents_lists(
    map: gpumap.Map,
    session: gpumap.Session,
    exporter: Exporter,
    asking: Exporter,
) -> None:
    uid = os.getuid()
    exporter.scrape()
    assert "gpumap_sessions" not in exporter.text
    assert "gpumap_usage_up" not in exporter.text
    buffer = session.alloc(1, 3 * MIB, exportable=True)
    session.share("weights", [buffer])
    asking.scrape()
    sessions = map.sessions()
    arenas = sum(one.arena_bytes for one in sessions)
    used = sum(one.bytes for one in map.usage() if one.row == 1)
    for name, labels, value in (
        ("usage_up", {}, 1),
        ("sessions", {"uid": uid}, len(sessions)),
        ("session_arena_bytes", {"uid": uid}, arenas),
        ("buffer_bytes", {"uid": uid, "row": 1}, used),
        ("share_bytes", {"share": "weights", "uid": uid}, 3 * MIB),
        ("share_holders", {"share": "weights"}, 1),
        ("start_queue_length", {}, 0),
        ("start_queue_oldest_seconds", {}, 0),
    ):
        assert asking.value(f"gpumap_{name}", **labels) == value, name


def test_a_cluster_is_counted(map: gpumap.Map, exporter: Exporter) -> None:
    assert "gpumap_cluster" not in exporter.scrape().text
    states = gpumap.ClusterState
    nodes = [
        gpumap.ClusterNode(
            name=f"n{i}",
            address="10.0.0.1",
            state=state,
            flags=gpumap.ClusterFlags(0),
            age_ns=0,
            epoch=1,
            agent_version=200,
            more_devices=0,
            more_shares=0,
        )
        for i, state in enumerate([states.LIVE, states.LIVE, states.GONE])
    ]
    map.publish_cluster("c", "n0", nodes, limit_ns=10**12, begin=True)
    exporter.scrape()
    assert exporter.value("gpumap_cluster_stale") == 1
    assert exporter.value("gpumap_cluster_age_seconds") is None
    map.publish_cluster("c", "n0", limit_ns=10**12, heard=True)
    exporter.scrape()
    age = exporter.value("gpumap_cluster_age_seconds")
    assert age is not None and age > 0
    assert exporter.value("gpumap_cluster_stale") == 0
    for state, n in (("LIVE", 2), ("GONE", 1), ("REFUSED", 0)):
        assert exporter.value("gpumap_cluster_nodes", state=state) == n
    assert exporter.value("gpumap_cluster_devices") == 0
    assert exporter.value("gpumap_cluster_shares") == 0
    remove = [node.name for node in nodes]
    map.publish_cluster("c", "n0", remove=remove, limit_ns=10**12)


def dcgm_labels(it: gpumap.Device) -> str:
    """As NVIDIA's DCGM exporter orders and writes them."""
    bus, slot = divmod(it.pci_bus, 256)
    place = f"{it.pci_domain:08X}:{bus:02X}:{slot >> 3:02X}.{slot & 7:X}"
    told = {
        "gpu": it.nvml_index if it.nvml_index >= 0 else None,
        "UUID": it.uuid,
        "pci_bus_id": place,
        "device": f"nvidia{it.minor_number}" if it.minor_number >= 0 else None,
        "modelName": it.name,
    }
    if it.mig_gi >= 0:
        told |= {"GPU_I_PROFILE": it.mig_profile, "GPU_I_ID": it.mig_gi}
    told["hostname"] = socket.gethostname()
    return ",".join(
        f'{name}="{value}"' for name, value in told.items() if value is not None
    )


@pytest.mark.skipif(
    not all((BUILD / path).exists() for path in DRIVER),
    reason="the stand-in was not built",
)
def test_cards_have_the_labels_of_dcgm() -> None:
    with (
        agent_of_cards("split.yaml") as agent,
        gpumap.attach(agent.instance, agent.runtime_dir) as map,
        Exporter(agent) as exporter,
    ):
        exporter.scrape()
        cards = [it for it in map.devices if it.kind == gpumap.DeviceKind.CUDA]
        assert {it.uuid[:4] for it in cards} == {"GPU-", "MIG-"}
        for it in cards:
            assert f",{dcgm_labels(it)}" in exporter.text
            value, row = exporter.value, it.row
            assert value("gpumap_device_xids_total", row=row) == it.xids
            total = value("gpumap_device_memory_bytes", row=row, kind="total")
            assert total == it.total_bytes
            if gpumap.Known.TEMPERATURE in it.known:
                assert value("gpumap_device_temperature_celsius", row=row)


def test_the_formats(exporter: Exporter) -> None:
    for accept, kind, has, lacks in (
        (
            OPENMETRICS,
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            ["device info", "worker_restarts counter"],
            ["device_info gauge"],
        ),
        (
            "text/plain",
            "text/plain; version=0.0.4; charset=utf-8",
            ["device_info gauge", "worker_restarts_total counter"],
            ["device info"],
        ),
    ):
        exporter.scrape(accept)
        types = re.findall(r"(?m)^# TYPE gpumap_(.*)$", exporter.text)
        assert f"Content-Type: {kind}" in exporter.head
        assert set(has) <= set(types) and not set(lacks) & set(types)
        is_open = accept == OPENMETRICS
        assert exporter.text.endswith("\n# EOF\n") == is_open
        unit = "# UNIT gpumap_device_memory_bytes bytes\n"
        assert (unit in exporter.text) == is_open
        # All samples of a metric stand together, behind its head.
        heads = re.findall(r"(?m)^# HELP (\S+)", exporter.text)
        assert len(heads) == len(set(heads)) == len(types) > 15


def test_prometheus_reads_it(exporter: Exporter) -> None:
    pytest.importorskip("prometheus_client", reason="no prometheus_client")
    from prometheus_client import openmetrics, parser  # noqa: F401
    from prometheus_client.openmetrics.parser import (
        text_string_to_metric_families as read_openmetrics,
    )

    text = exporter.scrape(OPENMETRICS).text
    assert len(list(read_openmetrics(text))) > 15
    text = exporter.scrape().text
    assert len(list(parser.text_string_to_metric_families(text))) > 15


# ---- agents that come and go ------------------------------------------------


def test_agents_come_and_go() -> None:
    agent = Agent("[host]\nrows = 1\n[cuda]\nenabled = off\n")
    with Exporter(agent) as exporter, Exporter(agent, "--usage") as asking:

        def turns(up: int, starts: int | None) -> None:
            wait_for(lambda: exporter.scrape().value("gpumap_up") == up)
            told = exporter.value("gpumap_agent_starts_total")
            assert told == starts
            # The facts about the rows stay.
            info = exporter.value("gpumap_device_info", row=0)
            assert info == (None if starts is None else 1)
            answers = asking.scrape().value("gpumap_usage_up")
            assert answers == (None if starts is None else up)

        turns(1, 1)
        assert agent.process is not None
        agent.process.send_signal(signal.SIGSTOP)
        turns(0, 1)
        before = exporter.value("gpumap_heartbeat_age_seconds")
        after = asking.value("gpumap_heartbeat_age_seconds")
        assert before is not None and after is not None
        assert 2 <= before < after
        agent.process.send_signal(signal.SIGCONT)
        turns(1, 1)
        agent.kill()
        turns(0, 1)
        agent.start()
        turns(1, 2)
        agent.process.terminate()
        agent.process.wait()
        subprocess.run([*agent.command(), "--remove"], stderr=agent.log)
        turns(0, None)
        assert exporter.value("gpumap_build_info") == 1
        with open(agent.folder / "gpumapd.conf", "a") as stream:
            stream.write("[segment]\nsize = 32M\n")
        agent.start()
        turns(1, 1)
        assert exporter.value("gpumap_map_bytes") == 32 * MIB
    agent.stop()


# ---- the file ---------------------------------------------------------------


def test_a_file_is_whole(agent: Agent, tmp_path: Path) -> None:
    path = tmp_path / "gpumap.prom"
    for _ in range(2):  # the second in the place of the first
        result = run(*names(agent), "--textfile", str(path))
        assert (result.returncode, result.stderr) == (0, "")
        assert os.listdir(tmp_path) == ["gpumap.prom"]
        assert path.stat().st_mode & 0o777 == 0o644
        assert "\ngpumap_up 1\n" in path.read_text()
    missing = tmp_path / "none" / "gpumap.prom"
    result = run(*names(agent), "--textfile", str(missing))
    assert result.returncode == 1
    want = f"gpumap-exporter: {missing}: No such file or directory\n"
    assert result.stderr == want


def test_a_file_is_written_again(agent: Agent, tmp_path: Path) -> None:
    path = tmp_path / "gpumap.prom"
    process = subprocess.Popen(
        [*PROGRAM, *names(agent), "--textfile", str(path), "--interval", "1"],
        preexec_fn=die_with_parent,
    )
    for _ in range(2):
        wait_for(path.exists)
        path.unlink()
    process.terminate()
    assert process.wait(LIMIT) == 0


def test_no_agent_is_told_once(tmp_path: Path) -> None:
    name = f"none.{os.getpid()}"
    path = tmp_path / "gpumap.prom"
    result = run(f"--instance={name}", f"--textfile={path}")
    assert result.returncode == 0
    assert result.stderr.startswith(f'gpumap-exporter: instance "{name}": ')
    assert result.stderr.count("\n") == 1
    assert "\ngpumap_up 0\n" in path.read_text()
