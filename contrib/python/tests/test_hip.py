# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""Rows of HIP, on the stand-in under HIP's names and with sysfs as amdgpu writes
it.  No GPU is in any of this."""

from __future__ import annotations

import array
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import gpumap
import pytest
import row_cases
from agent import BUILD, Agent, machine_of_cards, wait_for
from gpumap import Job

HIP = BUILD / "tests/fake/.libs/libamdhip64.so.7"
RCCL = BUILD / "tests/fake/.libs/librccl.so.1"
VENDOR = BUILD / "tests/fake/.libs/libvendor.so"
KERNELS = BUILD / "tests/.libs/operators_hip.so"
HAS_OPERATORS = (
    "#define HAVE_HIP_OPERATORS 1" in (BUILD / "config.h").read_text()
)
SYSTEMS = Path("/usr/lib/x86_64-linux-gnu/libamdhip64.so.5")

pytestmark = pytest.mark.skipif(
    not HIP.exists(), reason="the stand-in was not built"
)


SQUARE = """
extern "C" __attribute__((global)) void gpumap_program(
    float *dst, const float *src, unsigned long n, float alpha)
{
    unsigned long i = __builtin_amdgcn_workgroup_id_x() * 256ul +
                      __builtin_amdgcn_workitem_id_x();

    if (i < n)
        dst[i] = alpha * src[i] * src[i];
}
"""


def write_program(folder: Path) -> None:
    """A code object, where the operators' compiler is."""
    folder.mkdir()
    found = re.search(
        "^HIP_CLANG = (.+)$", (BUILD / "Makefile").read_text(), re.M
    )
    if not HAS_OPERATORS or not found:
        return
    subprocess.run(
        [found[1], "-O2", "-x", "hip", "--cuda-device-only", "-nogpulib", "-nogpuinc",
         "--no-gpu-bundle-output", "--offload-arch=gfx90a", "-", "-o",
         str(folder / "square.hsaco")],
        check=True,
        input=SQUARE.encode(),
    )


class Card:
    """What stand-in show tells of one."""

    def __init__(self, line: str) -> None:
        self.told = dict(re.findall(r"(\w+)=([^\" ]+)", line))
        self.place = self.told["place"]
        self.number = int(self.told["uuid"][:16], 16)
        self.total = int(self.told["total"])
        self.used = self.total - int(self.told["free"])

    @property
    def used_file(self) -> str:
        return f"sys/bus/pci/devices/{self.place}/mem_info_vram_used"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def write_kernel(
    root: Path,
    cards: list[Card],
    without_number: frozenset[int] = frozenset(),
    sets: list[int] | None = None,
    parts: str = "",
) -> None:
    """What the kernel shows of a machine with these cards.

    parts   they are parts of the first, with "own" numbers or its "one"
    """
    nodes = root / "sys/class/kfd/kfd/topology/nodes"
    write(nodes / "0/properties", "cpu_cores_count 2\nsimd_count 0\n")
    for i, card in enumerate(cards):
        place = cards[0 if parts else i].place
        domain, bus = place.split(":")[:2]
        number = 0 if i in without_number else card.number
        if parts == "one":
            number = cards[0].number
        part = i << 28 if parts else 0
        write(nodes / f"{i + 1}/name", "aldebaran\n")
        write(
            nodes / f"{i + 1}/properties",
            "cpu_cores_count 0\nsimd_count 416\nsimd_per_cu 4\n"
            "max_waves_per_simd 8\nwave_front_size 64\nlds_size_in_kb 64\n"
            f"gfx_target_version {sets[i] if sets else 90010}\n"
            "vendor_id 4098\n"
            f"location_id {int(bus, 16) << 8 | part}\ndomain {int(domain, 16)}\n"
            f"drm_render_minor {128 + i}\nunique_id {number}\n",
        )
        write(
            nodes / f"{i + 1}/mem_banks/0/properties",
            f"heap_type 1\nsize_in_bytes {card.total}\n",
        )
        device = root / f"sys/bus/pci/devices/{card.place}"
        write(device / "mem_info_vram_total", f"{card.total}\n")
        write(root / card.used_file, f"{card.used}\n")


@contextmanager
def agent_of_hip(
    config: str = "",
    *,
    without_number: frozenset[int] = frozenset(),
    sets: list[int] | None = None,
    parts: str = "",
    look_again: str = "60s",
    rccl: str = "",
) -> Iterator[tuple[Agent, Path, list[Card]]]:
    """An agent with four cards and a host row.

    rccl   faults of the stand-in for RCCL
    """
    with machine_of_cards("mixed.yaml") as (folder, env):
        shown = subprocess.run(
            [
                str(BUILD / "tests/fake/stand-in"),
                "show",
                env["GPUMAP_FAKE_HARDWARE"],
            ],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        cards = [
            Card(line) for line in shown.splitlines() if "uuid=" in line
        ]
        for library in (HIP, RCCL, KERNELS):
            shutil.copy(library, folder / "driver")
        env["FAKE_NCCL"] = rccl
        env["GPUMAP_FAKE_KERNELS"] = f"{folder}/driver/operators_hip.so"
        write_program(folder / "programs")
        write_kernel(folder / "root", cards, without_number, sets, parts)
        env["LD_LIBRARY_PATH"] = f"{BUILD}/lib/.libs:{folder}/driver"
        names = f"pass-environment = {' '.join(env)}\n"
        library = "" if "library" in config else f"library = {folder}/driver\n"
        library += f"rccl-library = {folder}/driver\n"
        agent = Agent(
            "[host]\nrows = 1\n"
            f"[cuda]\nenabled = off\nsysfs = {folder}/root\n{names}"
            f"look-again = {look_again}\n"
            f"[hip]\nenabled = required\n{library}{names}{config}\n"
            f"[programs]\npolicy = any\ndirectory = {folder}/programs\n",
            **env,
        )
        try:
            yield agent, folder / "root", cards
        finally:
            agent.stop()


def rows_of(agent: Agent) -> list[gpumap.Device]:
    with gpumap.attach(agent.instance, agent.runtime_dir) as map:
        return [
            device
            for device in map.devices
            if device.kind == gpumap.DeviceKind.HIP
        ]


def address_of(device: gpumap.Device) -> str:
    return f"{device.pci_domain:04x}:{device.pci_bus >> 8:02x}:00.0"


def log_of(agent: Agent) -> str:
    return (agent.folder / "log").read_text()


@pytest.fixture(scope="module")
def machine() -> Iterator[tuple[Agent, Path, list[Card]]]:
    with agent_of_hip(without_number=frozenset({3})) as one:
        yield one


@pytest.fixture(scope="module")
def agent(machine: tuple[Agent, Path, list[Card]]) -> Agent:
    return machine[0]


@pytest.fixture
def row(map: gpumap.Map) -> int:
    return next(
        device.row
        for device in map.devices
        if device.kind == gpumap.DeviceKind.HIP
    )


@pytest.fixture
def host(map: gpumap.Map) -> int:
    return next(device.row for device in map.devices if device.is_host)


def test_devices(
    machine: tuple[Agent, Path, list[Card]], map: gpumap.Map
) -> None:
    agent, root, cards = machine
    rows = rows_of(agent)
    assert [address_of(row) for row in rows] == sorted(
        card.place for card in cards
    )
    assert len({row.uuid for row in rows}) == 4
    by_place = {card.place: card for card in cards}
    for row in rows:
        card = by_place[address_of(row)]
        assert row.name == "AMD aldebaran" and row.units == 104
        assert row.state == gpumap.DeviceState.READY
        assert row.total_bytes == card.total
        assert row.free_bytes == card.total - card.used
    told = agent.ctl_json("devices")["devices"][rows[1].row]
    assert told["kind"] == "hip"
    for name in ("hip:1", "ROCm:1", address_of(rows[1])):
        assert map.choose(prefer=name) == [rows[1].row]
    with pytest.raises(gpumap.NoDevice):
        map.choose(prefer="rocm:4")
    with pytest.raises(gpumap.NoDevice):
        map.choose(prefer="cuda:0")
    # Others, too, have memory of a card.
    card = by_place[address_of(rows[0])]
    (root / card.used_file).write_text(f"{card.total // 2}\n")
    wait_for(
        lambda: map.devices[rows[0].row].free_bytes
        == card.total - card.total // 2
    )
    (root / card.used_file).write_text(f"{card.used}\n")


def test_a_worker_sees_its_card(
    machine: tuple[Agent, Path, list[Card]], map: gpumap.Map
) -> None:
    """By its number, where it has one."""
    agent, _, cards = machine
    by_place = {card.place: i for i, card in enumerate(cards)}
    for row in rows_of(agent):
        i = by_place[address_of(row)]
        name = f"GPU-{cards[i].number:016x}"
        with map.session() as session:
            memory = session.memory(row.row, 64)
            there = session.alloc(row.row, 64)
            session.run(row.row, Job("copy", 64, "u8", there, memory))
            pid = map.devices[row.row].worker_pid
            said = Path(f"/proc/{pid}/environ").read_bytes().decode()
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode()
        has = (
            f"ROCR_VISIBLE_DEVICES={name}\0" in said
            and "HIP_VISIBLE_DEVICES=0\0" in said
        )
        assert has == (i != 3)
        assert (f"gfx90a:{cards[3].place if i == 3 else name}\0") in words


def test_copies(session: gpumap.Session, row: int, host: int) -> None:
    row_cases.copies_are_right(session, row, host)


needs_operators = pytest.mark.skipif(
    not HAS_OPERATORS, reason="there are no operators of HIP rows"
)


@needs_operators
def test_jobs(session: gpumap.Session, row: int, host: int) -> None:
    """Each operator, beside the host row's own."""
    row_cases.jobs_are_right(session, row, host)


@needs_operators
def test_one_job_over_two_rows(
    session: gpumap.Session, row: int, host: int
) -> None:
    n = 1 << 18
    memory = session.memory(host, 4 * n)
    source = session.memory(host, 4 * n)
    for at in (memory, source):
        memoryview(at).cast("f")[:] = memoryview(
            array.array("f", (i % 1000 for i in range(n)))
        )
    tiles = session.scatter(
        Job("axpy", n, "f32", memory, source, alpha=2.0),
        rows=[host, row],
        weights=[1, 1],
    )
    assert {tile.row for tile in tiles} == {host, row}
    assert memoryview(memory).cast("f").tolist() == [
        3.0 * (i % 1000) for i in range(n)
    ]


@needs_operators
def test_a_program(map: gpumap.Map, row: int) -> None:
    row_cases.square_is_right(map, row)


def test_a_card_without_operators() -> None:
    """Of an instruction set that gpumap was not built for."""
    with agent_of_hip(sets=[80003] * 4) as (agent, _, _):
        row = rows_of(agent)[0].row
        with gpumap.attach(agent.instance, agent.runtime_dir) as map:
            with map.session() as session:
                memory = session.memory(row, 64)
                there = session.alloc(row, 64)
                session.run(row, Job("copy", 64, "u8", there, memory))
                with pytest.raises(gpumap.Unsupported):
                    session.run(
                        row, Job("scale", 16, "f32", there, memory, alpha=2.0)
                    )
        assert "operators_missing" in log_of(agent)


def test_scatter(map: gpumap.Map, session: gpumap.Session) -> None:
    """One job over the host row and all cards."""
    rows = [device.row for device in map.devices]
    assert len(rows) == 5
    row_cases.one_job_goes_over(session, rows)


def collective(agent: Agent, op: str) -> dict[str, object]:
    return agent.ctl_json(
        "collective", "ring", "world", "--nccl", "--op", op,
        "--bytes", "400000", "--rounds", "1",
    )


@pytest.fixture
def ring(map: gpumap.Map) -> Iterator[list[int]]:
    rows = [
        device.row
        for device in map.devices
        if device.kind == gpumap.DeviceKind.HIP
    ]
    map.publish_mesh("ring", "tensor", tp=len(rows), rows=rows)
    yield rows
    map.release_mesh("ring")


def test_collectives(agent: Agent, map: gpumap.Map, ring: list[int]) -> None:
    """Among the cards, by RCCL."""
    assert all(
        gpumap.DeviceFlags.CLIQUES in map.devices[row].flags for row in ring
    )
    for op in (
        "all_reduce", "all_gather", "reduce_scatter", "broadcast", "send",
        "barrier",
    ):
        told = collective(agent, op)
        assert told["right"] and told["nccl"] and told["rows"] == ring
    assert "nccl_failed" not in log_of(agent)


def test_a_rank_that_dies(
    agent: Agent, map: gpumap.Map, ring: list[int]
) -> None:
    """The other ranks are let go, and form a clique with its next worker."""
    with map.session() as session, session.comm("ring", nccl=True) as comm:
        assert comm.nccl
        os.kill(map.devices[ring[1]].worker_pid, signal.SIGKILL)
        comm.submit("barrier")
        with pytest.raises(gpumap.Error):
            session.wait(60)[0].check()
    map.wait_ready(60)
    told = collective(agent, "all_reduce")
    assert told["right"] and told["nccl"]


def test_rccl_that_is_too_old() -> None:
    with agent_of_hip(rccl="version=21806") as (agent, _, _):
        with gpumap.attach(agent.instance, agent.runtime_dir) as map:
            rows = [device.row for device in rows_of(agent)]
            map.publish_mesh("ring", "tensor", tp=4, rows=rows)
            told = collective(agent, "all_gather")
        assert told["right"] and not told["nccl"]
        said = [
            line for line in log_of(agent).splitlines() if "nccl_absent" in line
        ]
        assert said and all("RCCL 2.18.6" in line for line in said)
        assert "install RCCL of ROCm 6.2 or a later one" in said[0]


def test_a_worker_that_dies(map: gpumap.Map, row: int) -> None:
    row_cases.another_worker_serves(map, row)


def test_tools(agent: Agent, row: int) -> None:
    assert "hip" in agent.ctl("devices") and "hip" in agent.ctl("topo")
    assert ", 0 failed," in agent.run("doctor").stdout


def test_the_next_agent_knows_the_rows(agent: Agent) -> None:
    before = {row.row: row.uuid for row in rows_of(agent)}
    agent.kill()
    agent.start()
    after = rows_of(agent)
    assert {row.row: row.uuid for row in after} == before
    assert {row.state for row in after} == {gpumap.DeviceState.READY}


def test_a_card_that_is_split() -> None:
    """Its parts have rows where each has a number of its own."""
    with agent_of_hip(parts="own") as (agent, _, cards):
        rows = rows_of(agent)
        assert {address_of(row) for row in rows} == {cards[0].place}
        assert len({row.uuid for row in rows}) == 4
        # The kernel counts by cards what is in use.
        assert [row.free_bytes for row in rows] == [
            row.total_bytes for row in rows
        ]
        for row in rows:
            copy_on(agent, row.row)
    with agent_of_hip(parts="one") as (agent, _, cards):
        assert [address_of(row) for row in rows_of(agent)] == [cards[0].place]
        assert "others have no number of their own" in log_of(agent)


def copy_on(agent: Agent, row: int) -> None:
    with gpumap.attach(agent.instance, agent.runtime_dir) as map:
        with map.session() as session:
            memory = session.memory(row, 64)
            there = session.alloc(row, 64)
            session.run(row, Job("copy", 64, "u8", there, memory))


def states_of(agent: Agent) -> set[gpumap.DeviceState]:
    return {row.state for row in rows_of(agent)}


def test_a_card_that_comes_back() -> None:
    """The kernel did not show it, or its worker had no right to open it."""
    ready = {gpumap.DeviceState.READY}
    with agent_of_hip(look_again="300ms") as (agent, root, _):
        rows = [row.row for row in rows_of(agent)]
        nodes = root / "sys/class/kfd/kfd/topology/nodes"
        agent.kill()
        (nodes / "2").rename(root / "away")
        agent.start()
        assert states_of(agent) == ready | {gpumap.DeviceState.LOST}
        (root / "away").rename(nodes / "2")
        wait_for(lambda: states_of(agent) == ready)
        for row in rows:
            copy_on(agent, row)

        def plan(fault: str) -> None:
            file = agent.env["GPUMAP_FAKE_HARDWARE"]
            subprocess.run(
                [BUILD / "tests/fake/stand-in", "plan", file, fault],
                check=True,
            )

        agent.kill()
        plan("init fails 100")
        agent.start()
        with pytest.raises(gpumap.Error):
            copy_on(agent, rows[0])
        plan("init fails 0")
        wait_for(lambda: states_of(agent) == ready)
        copy_on(agent, rows[0])


def test_which_cards_are_wanted() -> None:
    devices = "GPU-a30dd591d13d4d02 0000:17:00.0"
    with agent_of_hip(
        f"devices = {devices}", without_number=frozenset({3})
    ) as (agent, _, _):
        rows = rows_of(agent)
        assert [address_of(row) for row in rows] == [
            "0000:17:00.0",
            "0001:2c:00.0",
        ]


def test_a_card_is_served_once() -> None:
    """CUDA's before HIP's, and HIP's before OpenCL's."""
    with machine_of_cards("mixed.yaml") as (folder, env):
        root = folder / "root"
        shutil.copy(HIP, folder / "driver")
        shutil.copy(VENDOR, folder / "libvendor-cards.so")
        (folder / "a.icd").write_text(f"{folder}/libvendor-cards.so\n")
        env["LD_LIBRARY_PATH"] = f"{BUILD}/lib/.libs:{folder}/driver"
        lines = [
            f"place={place} uuid={i:032x} total={1 << 30} free={1 << 30}"
            for i, place in enumerate(
                ["0000:17:00.0", "0000:21:00.0", "0000:30:00.0"], 1
            )
        ]
        write_kernel(root, [Card(line) for line in lines])
        names = f"pass-environment = {' '.join(env)}\n"
        agent = Agent(
            "[host]\nrows = 1\n[cuda]\nenabled = required\n"
            f"list-limit = 20s\nlibrary = {folder}/driver\n"
            f"sysfs = {root}\n{names}[hip]\nenabled = auto\n"
            f"library = {folder}/driver\n{names}"
            f"[opencl]\nenabled = auto\nvendors = {folder}\n",
            **env,
        )
        try:
            with gpumap.attach(agent.instance, agent.runtime_dir) as map:
                kinds = {
                    address_of(device): device.kind
                    for device in map.devices
                    if not device.is_host
                }
            log = log_of(agent)
        finally:
            agent.stop()
    assert kinds["0000:17:00.0"] == gpumap.DeviceKind.CUDA
    assert kinds["0000:21:00.0"] == gpumap.DeviceKind.HIP
    assert kinds["0000:22:00.0"] == gpumap.DeviceKind.OPENCL
    assert kinds["0000:30:00.0"] == gpumap.DeviceKind.HIP
    assert "device_left_out driver=hip" in log
    assert "device_left_out driver=opencl" in log


def test_cards_that_are_required(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError) as caught:
        Agent(
            f"[cuda]\nenabled = off\nsysfs = {tmp_path}\n"
            "[hip]\nenabled = required\n"
        )
    assert "hip.enabled = required" in str(caught.value)
    assert "is there amdgpu" in str(caught.value)


@pytest.mark.skipif(
    not SYSTEMS.exists(), reason="libamdhip64-5 is not installed"
)
@pytest.mark.skipif(
    Path("/dev/kfd").exists(), reason="there may be a card"
)
def test_a_runtime_without_a_card() -> None:
    """Debian's own, where the kernel's files tell of a card that is not there:
    the row says so."""
    line = f"place=0000:17:00.0 uuid={7:032x} total={1 << 30} free={1 << 30}"
    with tempfile.TemporaryDirectory(prefix="gpumap-hip.") as name:
        root = Path(name)
        root.chmod(0o755)
        write_kernel(root, [Card(line)])
        agent = Agent(
            f"[host]\nrows = 1\n[cuda]\nenabled = off\nsysfs = {root}\n"
            f"[hip]\nenabled = auto\nlibrary = {SYSTEMS.parent}\n"
        )
        try:
            row = rows_of(agent)[0].row
            with gpumap.attach(agent.instance, agent.runtime_dir) as map:
                with map.session() as session, pytest.raises(gpumap.Error):
                    session.alloc(row, 4096)
                wait_for(lambda: "HIP 101" in map.devices[row].reason)
            wait_for(lambda: "remedy=" in log_of(agent))
            line = next(
                line
                for line in log_of(agent).splitlines()
                if "event=worker_died" in line
            )
            assert "/dev/kfd" in line.split("remedy=")[1]
        finally:
            agent.stop()
