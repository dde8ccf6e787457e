# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""Rows of OpenCL, on PoCL, and of Vulkan, on llvmpipe, whose devices are the
processor.  No GPU is in any of this."""

from __future__ import annotations

import errno
import json
import os
import platform
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import gpumap
import pytest
import row_cases
from agent import BUILD, Agent, small_model, wait_for
from gpumap import Job

POCL = Path("/etc/OpenCL/vendors/pocl.icd")
# This library of OpenCL is PoCL, unless another one is named.
LIBRARY = os.environ.get(
    "GM_OPENCL_LIBRARY", POCL.read_text().strip() if POCL.exists() else ""
)
# Debian 12 has the machine's name in it.
LLVMPIPE = next(
    Path("/usr/share/vulkan/icd.d").glob("lvp_icd*.json"), Path("absent")
)
HAS_VULKAN = "#define HAVE_VULKAN 1" in (BUILD / "config.h").read_text()
KINDS = {
    gpumap.DeviceKind.OPENCL: bool(LIBRARY),
    gpumap.DeviceKind.VULKAN: LLVMPIPE.exists() and HAS_VULKAN,
}

CONFIG = """
[host]
rows = 1
[cuda]
enabled = off
[opencl]
enabled = auto
devices = cpu
list-limit = 60s
vendors = {folder}
pass-environment = RUSTICL_ENABLE
[vulkan]
enabled = auto
devices = cpu
list-limit = 60s
vendors = {folder}
[programs]
policy = any
limit = 15s
directory = {folder}
"""

SQUARE = """
struct params { float alpha; };
__kernel void gpumap_program(__global uchar *dst, ulong dst_at,
                             __global uchar *src, ulong src_at, ulong n,
                             struct params params)
{
    size_t i = get_global_id(0);

    if (i < n)
        ((__global float *)(dst + dst_at))[i] = params.alpha *
            ((__global float *)(src + src_at))[i] *
            ((__global float *)(src + src_at))[i];
}
"""

ENDLESS = """
__kernel void gpumap_program(__global uchar *dst, ulong dst_at,
                             __global uchar *src, ulong src_at, ulong n)
{
    while (((volatile __global uchar *)src)[src_at] == 0)
        ;
    dst[dst_at] = 1;
}
"""

# A kernel that a processor runs can do what its worker can.
HELD = """
static long ask(long call, long a, long b, long c)
{
    long result;

    __asm__ volatile("syscall" : "=a"(result)
                     : "a"(call), "D"(a), "S"(b), "d"(c)
                     : "rcx", "r11", "memory");
    return result;
}
__kernel void gpumap_program(__global uchar *dst, ulong dst_at,
                             __global uchar *src, ulong src_at, ulong n)
{
    if (get_global_id(0) == 0) {
        __global long *other = (__global long *)(src + src_at);
        __global long *said = (__global long *)(dst + dst_at);

        printf("a client's line\\n");
        said[0] = ask(2, (long)(src + src_at + 8), 0, 0); /* open */
        said[1] = ask(2, (long)(src + src_at + 2048), 0, 0);
        said[2] = ask(234, *other, *other, 0); /* tgkill */
        said[3] = ask(57, 0, 0, 0); /* fork */
        if (said[3] == 0)
            ask(231, 0, 0, 0); /* exit_group */
    }
}
"""


SHADER = """
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require

layout(local_size_x = 64) in;
layout(buffer_reference, std430, buffer_reference_align = 4) buffer floats
{
    float x[];
};
layout(push_constant) uniform given
{
    floats dst, src;
    uint64_t n;
    float alpha;
};

void main()
{
    uint i = gl_GlobalInvocationID.x;

    if (i < n)
        dst.x[i] = alpha * src.x[i] * src.x[i];
}
"""


def write_module(path: Path, text: str) -> None:
    """Compile a shader, where there is a compiler."""
    compiler = shutil.which("glslangValidator")
    if compiler is None:
        return
    path.with_suffix(".comp").write_text(text)
    words = ["-V", "--target-env", "vulkan1.2", "-e", "gpumap_program"]
    words += ["--source-entrypoint", "main", "-o", str(path)]
    subprocess.run(
        [compiler, *words, str(path.with_suffix(".comp"))],
        check=True,
        stdout=subprocess.DEVNULL,
    )


WILD = """
__kernel void gpumap_program(__global uchar *dst, ulong dst_at,
                             __global uchar *src, ulong src_at, ulong n)
{
    *(volatile __global uint *)8 = 1;
}
"""


@pytest.fixture(scope="module")
def agent() -> Iterator[Agent]:
    with tempfile.TemporaryDirectory(prefix="gpumap-opencl.") as name:
        folder = Path(name)
        folder.chmod(0o755)
        if LIBRARY:
            # Blanks around a line are none of its name.
            (folder / "one.icd").write_bytes(f"  {LIBRARY} \r\n".encode())
        if LLVMPIPE.exists():
            (folder / "lvp.json").write_text(LLVMPIPE.read_text())
        # Vendors that are not there cost nothing but a line of the log.
        (folder / "absent.icd").write_text("libno-such-vendor.so.1\n")
        (folder / "other.icd").write_text("libm.so.6\n")
        (folder / "space.icd").write_text(f"{folder}/no such.so\n")
        (folder / "empty.icd").write_text("\n")
        (folder / "square.cl").write_text(SQUARE)
        (folder / "bad.cl").write_text("kernel void gpumap_program() {\n")
        (folder / "endless.cl").write_text(ENDLESS)
        (folder / "wild.cl").write_text(WILD)
        (folder / "held.cl").write_text(HELD)
        # A function's end, behind the head of a module.
        (folder / "module.cl.spv").write_bytes(
            struct.pack("<6I", 0x07230203, 0x10000, 0, 1, 0, 1 << 16 | 56)
        )
        (folder / "wordy.cl").write_text("what is this;\n" * 200)
        (folder / "secret.cl").write_text('#include "/etc/passwd"\n')
        write_module(folder / "square.spv", SHADER)
        write_module(
            folder / "endless.spv",
            SHADER.replace("if (i < n)", "while (src.x[0] == 0)"),
        )
        one = Agent(CONFIG.format(folder=folder))
        try:
            yield one
        finally:
            one.stop()


@pytest.fixture(params=list(KINDS), ids=lambda kind: kind.name.lower())
def kind(request: pytest.FixtureRequest) -> gpumap.DeviceKind:
    one: gpumap.DeviceKind = request.param
    if not KINDS[one]:
        pytest.skip(f"there is no CPU driver of {one.name}, or no such rows")
    return one


@pytest.fixture
def row(map: gpumap.Map, kind: gpumap.DeviceKind) -> int:
    return next(
        device.row for device in map.devices if device.kind == kind
    )


@pytest.fixture
def host(map: gpumap.Map) -> int:
    return next(device.row for device in map.devices if device.is_host)


def test_devices(
    agent: Agent, map: gpumap.Map, row: int, kind: gpumap.DeviceKind
) -> None:
    device = map.devices[row]
    name = kind.name.lower()
    assert device.name and device.free_bytes > 0 and device.units > 0
    assert device.total_bytes <= os.sysconf("SC_PHYS_PAGES") * 4096 // 4
    told = agent.ctl_json("devices")["devices"][row]
    assert told["kind"] == name
    assert map.choose(prefer=f"{name}:0") == [row]
    with pytest.raises(gpumap.NoDevice):
        map.choose(prefer=f"{name}:1")
    log = (agent.folder / "log").read_text()
    for vendor, why in (
        ("absent", "libno-such-vendor.so.1"),
        ("other", "is no vendor's library of OpenCL"),
        ("space", "/no such.so"),
    ):
        line = next(
            line
            for line in log.splitlines()
            if f"vendor_broken driver=opencl vendor={vendor}" in line
        )
        assert why in line
    assert "vendor_unread" in log and "empty.icd" in log


def test_jobs(session: gpumap.Session, row: int, host: int) -> None:
    """Each operator, beside the host row's own."""
    row_cases.jobs_are_right(session, row, host)


def test_scatter_over_all(map: gpumap.Map, session: gpumap.Session) -> None:
    """One job over a host row, a row of OpenCL and one of Vulkan."""
    if not all(KINDS.values()):
        pytest.skip("OpenCL and Vulkan are not both here")
    rows = [device.row for device in map.devices]
    assert len(rows) == 3
    row_cases.one_job_goes_over(session, rows)


def test_scatter(session: gpumap.Session, row: int, host: int) -> None:
    n = 1 << 20
    memory = session.memory(host, n)
    tiles = session.scatter(
        Job("fill", n, "u8", memory, pattern=7),
        rows=[host, row],
        weights=[1, 1],
    )
    assert {tile.row for tile in tiles} == {host, row}
    assert bytes(memory) == b"\7" * n
    result = session.memory(host, 64)
    total = session.reduce(
        Job("sum", n, "u8", result, memory), rows=[host, row]
    )
    assert total == 7 * n


def test_copies_between_rows(
    session: gpumap.Session, row: int, host: int
) -> None:
    row_cases.copies_are_right(session, row, host)


def check_opened(
    map: gpumap.Map,
    row: int,
    tensors: dict[str, tuple[str, tuple[int, ...], bytes]],
) -> None:
    """Of a session for programs, which has a worker of its own: its worker
    imports what the other one has exported."""
    with map.session(programs=True) as other, other.open("shared") as model:
        for name, (_, _, data) in tensors.items():
            if not data:
                continue
            memory = other.memory(row, len(data))
            buffer = gpumap.Buffer(other, model[name].buffer, len(data), row)
            other.run(
                row,
                Job(
                    "copy", len(data), "u8", memory,
                    (buffer, model[name].offset),
                ),
            )
            buffer.handle = 0  # the model's
            assert bytes(memory) == data


def test_loads(
    map: gpumap.Map,
    session: gpumap.Session,
    row: int,
    kind: gpumap.DeviceKind,
    tmp_path: Path,
) -> None:
    """A model, read back; and by name, where memory is exported."""
    tensors = small_model(tmp_path)
    with session.load(tmp_path, rows=[row]) as model:
        for name, (_, _, data) in tensors.items():
            tensor = model[name]
            assert tensor.row == row and tensor.nbytes == len(data)
            if not data:
                continue
            memory = session.memory(row, len(data))
            buffer = gpumap.Buffer(session, tensor.buffer, len(data), row)
            session.run(
                row,
                Job("copy", len(data), "u8", memory, (buffer, tensor.offset)),
            )
            buffer.handle = 0  # the model's
            assert bytes(memory) == data
    if kind == gpumap.DeviceKind.VULKAN:
        with session.load(tmp_path, rows=[row], name="shared"):
            check_opened(map, row, tensors)
        return
    with pytest.raises(gpumap.Unsupported) as caught:
        session.load(tmp_path, rows=[row], name="shared")
    assert "without a name" in caught.value.refusal
    with pytest.raises(gpumap.Unsupported):
        session.alloc(row, 4096, exportable=True)


def test_memory_is_counted(
    agent: Agent, map: gpumap.Map, row: int
) -> None:
    with map.session() as session:
        size = 64 << 20
        buffer = session.alloc(row, size)
        wait_for(lambda: map.devices[row].used >= size)
        buffer.free()
    wait_for(lambda: map.devices[row].used < size)
    with map.session() as session:
        with pytest.raises((gpumap.NoMemory, gpumap.Quota)):
            session.alloc(row, map.devices[row].total_bytes + 4096)


def need_compiler(kind: gpumap.DeviceKind) -> None:
    if kind == gpumap.DeviceKind.VULKAN and not shutil.which(
        "glslangValidator"
    ):
        pytest.skip("there is no glslangValidator")


def test_masks(
    map: gpumap.Map,
    session: gpumap.Session,
    row: int,
    host: int,
    kind: gpumap.DeviceKind,
) -> None:
    """Rows of OpenCL have no replica; a mask is published for the others."""
    mask = {"form": "causal", "dtype": "f32", "tgt_len": 64}
    exports = {
        device.row
        for device in map.devices
        if gpumap.DeviceFlags.EXPORTS in device.flags
    }
    info = map.publish_mask("square", **mask)
    assert set(info.rows) == exports and host in exports
    assert (row in exports) == (kind == gpumap.DeviceKind.VULKAN)
    if row not in exports:
        with pytest.raises(gpumap.Unsupported):
            map.publish_mask("there", **mask, rows=[row])
    else:
        there = session.register_mask("square")
        memory = session.memory(row, 64 * 64 * 4)
        session.run(row, Job("copy", 64 * 64, "f32", memory, there))
        one = session.memory(host, 64 * 64 * 4)
        session.run(host, Job("copy", 64 * 64, "f32", one, there))
        assert bytes(memory) == bytes(one)
    map.release_mask("square")


def test_programs(
    agent: Agent, map: gpumap.Map, row: int, kind: gpumap.DeviceKind
) -> None:
    need_compiler(kind)
    row_cases.square_is_right(map, row)
    # Its worker has read what the row's own one has compiled.
    assert "operators_not" not in (agent.folder / "log").read_text()


def has_landlock(agent: Agent) -> bool:
    """Before Linux 5.19 nothing keeps programs from files."""
    return "landlock_absent" not in (agent.folder / "log").read_text()


def test_programs_that_are_refused(
    agent: Agent, map: gpumap.Map, row: int, kind: gpumap.DeviceKind
) -> None:
    if kind != gpumap.DeviceKind.OPENCL:
        pytest.skip("gpumap-build compiles texts of OpenCL C")
    with map.session(programs=True) as session:
        with pytest.raises(gpumap.Error) as caught:
            session.program(row, "bad")
        assert "expected" in caught.value.refusal
        # The compiler reads no file but the system's own.
        with pytest.raises(gpumap.Error) as caught:
            session.program(row, "secret")
        if has_landlock(agent):
            assert "root" not in caught.value.refusal
            assert "/etc/passwd" in caught.value.refusal
        # The first of many words.
        with pytest.raises(gpumap.Error) as caught:
            session.program(row, "wordy")
        assert "what" in caught.value.refusal
        with pytest.raises(gpumap.Error) as caught:
            session.program(row, "module")
        assert (
            "of SPIR-V 1.0, and this row takes OpenCL C alone"
            in caught.value.refusal
            or "no kernel gpumap_program" in caught.value.refusal
        )
        with pytest.raises(gpumap.NotFound):
            session.program(row, "none")


@pytest.mark.skipif(
    platform.machine() != "x86_64" or "libpocl.so.2.10" not in LIBRARY,
    reason="it is for x86-64 and PoCL 3.1: later ones end at such assembly",
)
def test_a_program_reaches_no_other(
    agent: Agent,
    map: gpumap.Map,
    session: gpumap.Session,
    row: int,
    kind: gpumap.DeviceKind,
) -> None:
    """Neither files of other users' programs, nor other workers, nor the log;
    and it leaves no process."""
    if kind != gpumap.DeviceKind.OPENCL:
        pytest.skip("no shader of Vulkan makes a system call")
    mine = session.memory(row, 64)
    session.run(row, Job("fill", 64, "u8", mine, pattern=3))
    pid = map.devices[row].worker_pid
    cache = agent.folder / "state" / agent.instance / "opencl-cache"
    owner = (cache / f"{row}").stat()
    other = cache / f"{row}-77777"
    other.mkdir(mode=0o700)
    (other / "secret").write_text("of another user")
    for path in (other, other / "secret"):
        os.chown(path, owner.st_uid, owner.st_gid)
    with map.session(programs=True) as programs:
        source = programs.memory(row, 4096)
        result = programs.memory(row, 4096)
        memoryview(source)[:8] = pid.to_bytes(8, "little")
        for at, path in ((8, other / "secret"), (2048, Path("/usr/bin/env"))):
            name = bytes(path) + b"\0"
            memoryview(source)[at : at + len(name)] = name
        job = Job(
            "run", 1, "u8", result, source,
            program=programs.program(row, "held"),
            src_item_bytes=1, dst_item_bytes=1,
        )
        programs.run(row, job)
        said = memoryview(bytes(result)).cast("q")
    if has_landlock(agent):
        assert said[0] == -errno.EACCES and said[1] >= 0
    if not os.environ.get("GPUMAP_SANITIZE"):  # that keeps system calls
        assert said[2] == said[3] == -errno.EPERM
    assert "a client's line" not in (agent.folder / "log").read_text()


def test_a_builder_that_ends(
    agent: Agent, map: gpumap.Map, row: int, kind: gpumap.DeviceKind
) -> None:
    """Another worker has another one."""
    if kind != gpumap.DeviceKind.OPENCL:
        pytest.skip("gpumap-build compiles texts of OpenCL C")
    with map.session(programs=True) as session:
        session.program(row, "square")
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().split(b"\0")
            except OSError:
                continue
            cache = f"{agent.instance}/opencl-cache/{row}-{os.getuid()}"
            if words[0].endswith(b"gpumap-build") and any(
                word.endswith(cache.encode()) for word in words
            ):
                os.kill(int(path.parent.name), signal.SIGKILL)
        with pytest.raises(gpumap.WorkerDied):
            session.program(row, "square")
    with map.session(programs=True) as session:
        session.program(row, "square")


@pytest.mark.parametrize("name", ["endless", "wild"])
def test_a_program_that_ends_its_worker(
    agent: Agent,
    name: str,
    map: gpumap.Map,
    session: gpumap.Session,
    row: int,
    kind: gpumap.DeviceKind,
) -> None:
    """Its worker is ended, and no other user's."""
    need_compiler(kind)
    if kind == gpumap.DeviceKind.VULKAN:
        if name == "wild":
            pytest.skip("the address is one of OpenCL C")
        if 'version="Mesa 22.' in (agent.folder / "log").read_text():
            pytest.skip("Mesa 22 ends each loop after 65,535 rounds")
    mine = session.memory(row, 64)
    session.run(row, Job("fill", 64, "u8", mine, pattern=3))
    pid = map.devices[row].worker_pid
    with map.session(programs=True) as other:
        memory = other.memory(row, 64)
        job = Job(
            "run", 1, "u8", memory, memory,
            program=other.program(row, name),
            src_item_bytes=1, dst_item_bytes=1,
        )
        with pytest.raises(gpumap.WorkerDied):
            other.run(row, job)
    session.run(row, Job("fill", 64, "u8", mine, pattern=4))
    assert bytes(mine) == b"\4" * 64
    assert map.devices[row].worker_pid == pid


def test_a_worker_that_dies(map: gpumap.Map, row: int) -> None:
    row_cases.another_worker_serves(map, row)


def test_drain(agent: Agent, map: gpumap.Map, row: int) -> None:
    agent.ctl("drain", str(row))
    assert map.devices[row].state == gpumap.DeviceState.DRAINING
    assert map.devices[row].worker_pid == 0
    agent.ctl("undrain", str(row))
    map.wait_ready(60)
    with map.session() as session:
        memory = session.memory(row, 64)
        session.run(row, Job("fill", 64, "u8", memory, pattern=5))
        assert bytes(memory) == b"\5" * 64


def test_plans_and_reserves(
    agent: Agent, map: gpumap.Map, row: int, tmp_path: Path
) -> None:
    small_model(tmp_path)
    before = map.devices[row].reserved_bytes
    layers = map.publish("vendors", f"{row}:4")
    assert set(layers) == {row}
    map.release("vendors")
    said = json.loads(
        agent.ctl("--json", "plan", "--model", str(tmp_path), "--rows", str(row))
    )
    assert said
    assert map.devices[row].reserved_bytes == before


def test_the_next_agent_knows_the_row(
    agent: Agent, map: gpumap.Map, row: int
) -> None:
    uuid = map.devices[row].uuid
    agent.kill()
    agent.start()
    with gpumap.attach(agent.instance, agent.runtime_dir) as again:
        assert again.devices[row].uuid == uuid
        assert again.devices[row].state == gpumap.DeviceState.READY


def test_a_row_that_is_not_configured(
    agent: Agent, map: gpumap.Map, row: int
) -> None:
    """It is lost, also when an administrator has had it back."""
    config = agent.folder / "gpumapd.conf"
    text = config.read_text()
    agent.kill()
    config.write_text(text.replace("enabled = auto", "enabled = off"))
    agent.start()
    for word in ("drain", "undrain"):
        agent.ctl(word, str(row))
    with gpumap.attach(agent.instance, agent.runtime_dir) as again:
        assert again.devices[row].state == gpumap.DeviceState.LOST
    agent.kill()
    config.write_text(text)
    agent.start()
    with gpumap.attach(agent.instance, agent.runtime_dir) as again:
        assert again.devices[row].state == gpumap.DeviceState.READY


VENDOR = BUILD / "tests/fake/.libs/libvendor.so"


@contextmanager
def agent_of(
    config: str, *vendors: str, host: bool = True
) -> Iterator[Agent]:
    """An agent with vendors of the stand-in: "a-hang" is one that hangs, and
    the first of its name."""
    with tempfile.TemporaryDirectory(prefix="gpumap-vendors.") as name:
        folder = Path(name)
        folder.chmod(0o755)
        for vendor in vendors:
            library = folder / f"libvendor-{vendor.split('-')[1]}.so"
            shutil.copy(VENDOR, library)
            (folder / f"{vendor}.icd").write_text(f"{library}\n")
        one = Agent(
            f"[host]\nenabled = {'yes' if host else 'no'}\n"
            f"[cuda]\nenabled = off\n[opencl]\nvendors = {folder}\n{config}"
        )
        try:
            yield one
        finally:
            one.stop()


def opencl_rows(agent: Agent) -> list[gpumap.Device]:
    with gpumap.attach(agent.instance, agent.runtime_dir) as map:
        return [
            device
            for device in map.devices
            if device.kind == gpumap.DeviceKind.OPENCL
        ]


needs_stand_in = pytest.mark.skipif(
    not VENDOR.exists(), reason="the stand-in was not built"
)


@needs_stand_in
def test_a_vendor_costs_its_own_rows() -> None:
    """One that hangs, crashes, is too old, or has nothing."""
    config = "enabled = auto\nlist-limit = 1s\n"
    vendors = ["a-hang", "b-crash", "c-old", "d-lacks", "e-none", "f-twins"]
    with agent_of(config, *vendors) as agent:
        rows = opencl_rows(agent)
        # The third of them is a processor, which is not asked for.
        assert [row.name for row in rows] == ["Vendor's card"] * 2
        assert len({row.uuid for row in rows}) == 2
        log = (agent.folder / "log").read_text()
        for vendor, why in (
            ("a-hang", "it hangs: see list-limit"),
            ("b-crash", "SIGKILL"),
            ("c-old", "older than OpenCL 1.2"),
            ("d-lacks", "it lacks clCreateContext"),
        ):
            line = next(
                line
                for line in log.splitlines()
                if f"vendor_broken driver=opencl vendor={vendor}" in line
            )
            assert why in line
        assert "vendor=e-none" not in log
        left = subprocess.run(
            ["pgrep", "-f", "gpumap-probe.*vendor-hang"], capture_output=True
        )
        assert left.stdout == b""


@needs_stand_in
def test_a_card_is_served_once() -> None:
    """Whoever shows it, under however many platforms."""
    with agent_of("enabled = auto\n", "a-cards", "b-cards") as agent:
        rows = opencl_rows(agent)
        assert [row.pci_bus for row in rows] == [0x2100, 0x2200]
        log = (agent.folder / "log").read_text()
        assert log.count("event=device_left_out") == 6


@needs_stand_in
def test_a_vendor_that_comes_back() -> None:
    """What could not be opened is looked at again while its rows are lost."""
    config = "enabled = auto\n[cuda]\nlook-again = 300ms\n"
    with agent_of(config, "a-cards") as agent:
        before = [row.uuid for row in opencl_rows(agent)]
        text = (agent.folder / "gpumapd.conf").read_text()
        folder = Path(re.search("vendors = (.+)", text)[1])
        library = folder / "libvendor-cards.so"
        agent.kill()
        library.rename(folder / "away")
        agent.start()
        assert {row.state for row in opencl_rows(agent)} == {
            gpumap.DeviceState.LOST
        }
        time.sleep(1)
        log = (agent.folder / "log").read_text()
        assert log.count("event=vendor_broken") == 1
        (folder / "away").rename(library)
        wait_for(
            lambda: {row.state for row in opencl_rows(agent)}
            == {gpumap.DeviceState.READY}
        )
        assert [row.uuid for row in opencl_rows(agent)] == before


@needs_stand_in
def test_which_devices_are_wanted() -> None:
    for devices, n in (("cpu", 1), ("all", 3), ("b-twins other", 3)):
        config = f"enabled = auto\ndevices = {devices}\n"
        with agent_of(config, "a-none", "b-twins") as agent:
            assert len(opencl_rows(agent)) == n
    # NVIDIA's are CUDA's as long as that is not off.
    with agent_of("enabled = auto\n", "a-nvidia") as agent:
        assert len(opencl_rows(agent)) == 1
    config = "enabled = auto\n[cuda]\nenabled = auto\nlibrary = /nowhere\n"
    with agent_of(config, "a-nvidia") as agent:
        assert len(opencl_rows(agent)) == 0
    with agent_of("enabled = auto\n", "a-many") as agent:
        rows = opencl_rows(agent)
        assert len(rows) == 64 and len({row.uuid for row in rows}) == 64


@needs_stand_in
def test_devices_that_are_required() -> None:
    config = "enabled = required\nlist-limit = 1s\n"
    for vendors, why in (
        ((), "install a driver"),
        (("a-none",), "no vendor shows a device that is wanted"),
        (("a-hang",), "a-hang: it hangs"),
    ):
        with pytest.raises(RuntimeError) as caught:
            with agent_of(config, *vendors):
                pass
        assert "opencl.enabled = required" in str(caught.value)
        assert why in str(caught.value)
