# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""Attachments: devices, layer maps, plans, reservations."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from pathlib import Path

import gpumap
import pytest
from agent import Agent, wait_for


def test_attach_finds_no_agent() -> None:
    assert gpumap.attach("no-such-instance", required=False) is None
    with pytest.raises(gpumap.NotRunning) as caught:
        gpumap.attach("no-such-instance")
    assert isinstance(caught.value, ConnectionError)
    assert "start gpumapd" in caught.value.refusal
    with pytest.raises(gpumap.Invalid):
        gpumap.attach("a/b", required=False)


def test_health(map: gpumap.Map, agent: Agent) -> None:
    health = map.health()
    assert health.ok and health.state == gpumap.State.READY
    assert not health.stale
    assert agent.process is not None
    assert health.agent_pid == agent.process.pid
    assert health.agent_version == gpumap.version()


def test_devices(map: gpumap.Map) -> None:
    assert len(map.devices) == 2
    first, second = map.devices
    assert (first.row, second.row) == (0, 1)
    assert first.kind == gpumap.DeviceKind.HOST and first.is_host
    assert first.free > 0 and first.total_bytes >= first.free
    assert map.devices[-1].row == 1
    assert [one.row for one in map.devices[:1]] == [0]
    with pytest.raises(IndexError):
        map.devices[2]
    with pytest.raises(AttributeError):
        first.row = 3  # type: ignore[misc]
    assert map.row(first.uuid) == 0
    for text in ("", first.uuid[1:], "0" * 30 + "  ", "{" + "0" * 30 + "}"):
        with pytest.raises(ValueError):
            map.row(text)
    assert map.row("cpu") == 0
    assert map.visible({}) == []
    assert map.ordinal(0) is None
    with pytest.raises(gpumap.NoDevice):
        map.row("cuda:0")
    with pytest.raises(gpumap.NoDevice):
        map.row("00000000-0000-0000-0000-000000000000")


def test_choose(map: gpumap.Map) -> None:
    assert sorted(map.choose()) == [0, 1]
    assert map.choose(rows=[1]) == [1]
    with pytest.raises(gpumap.NoDevice) as caught:
        map.choose(free_bytes=1 << 60)
    assert caught.value.refusal


def test_worth(map: gpumap.Map) -> None:
    assert not map.worth(0, "copy", 1)
    assert map.worth(0, gpumap.Work.COPY, 1 << 50)
    with pytest.raises(gpumap.NoDevice):
        map.worth(7, "copy", 1)
    assert len(map.policy(0).least) == 13
    had = map.policy(0).least
    map.set_policy(0, (7,) * 10 + (0,) * 3)
    assert map.policy(0).least[0] == 7
    map.set_policy(0, (0,) * 13)
    assert map.policy(0).least == had
    with pytest.raises(gpumap.Again):
        map.set_policy(0, (7,) * 10, map.policy(0).generation + 1)
    assert map.policy(0).least == had


def test_layers(map: gpumap.Map) -> None:
    seen = map.generation
    layers = map.publish(
        "llama", "0:2;1:3", layer_bytes=[10, 20, 30, 40, 50], dtype="bf16"
    )
    assert map.wait_change(seen, 5) != seen
    assert "llama" in map.maps()
    assert list(layers) == [0, 0, 1, 1, 1] == layers.rows.tolist()
    assert (layers[0], layers[4], layers[-1], layers.row(3)) == (0, 1, 1, 1)
    assert len(layers) == 5
    for index in (5, -6, 2**40):
        with pytest.raises(IndexError):
            layers[index]
    info = layers.read()
    assert info.bytes.tolist() == [10, 20, 30, 40, 50]
    assert info.rows.format == "I" and info.rows.readonly
    assert info.spec == "0:2;1:3" and info.dtype == gpumap.DType.BF16
    assert [charge.row for charge in info.charges] == [0, 1]
    # A later publication is followed, whatever its length.
    map.publish("llama", "1:6")
    assert layers[0] == 1 and len(layers) == 6
    again = pickle.loads(pickle.dumps(layers))
    assert list(again) == [1] * 6
    map.release("llama")
    with pytest.raises(gpumap.NotFound):
        layers[0]
    with pytest.raises(gpumap.NotFound):
        map.layers("llama")
    with pytest.raises(gpumap.NotFound) as caught:
        map.release("llama")
    assert isinstance(caught.value, FileNotFoundError)


def test_bad_specs(map: gpumap.Map) -> None:
    with pytest.raises(gpumap.NoDevice) as caught:
        map.publish("bad", "9:4")
    assert caught.value.refusal
    with pytest.raises(gpumap.Invalid):
        map.publish("bad", "nonsense")
    with pytest.raises(ValueError):
        map.publish("bad\0name", "0:4")
    with pytest.raises(ValueError):
        map.publish("bad", "0:4", dtype="f4")
    with pytest.raises(ValueError):
        map.publish("bad", "0:4", n_layers=3, layer_bytes=[1, 2, 3, 4])
    with pytest.raises(TypeError):
        map._layers_publish({"no such field": 1})


def test_close_while_others_use_it(agent: Agent) -> None:
    map = gpumap.attach(agent.instance, agent.runtime_dir)
    layers = map.publish("kept", "0:2")
    map.release("kept")
    map.publish("kept", "0:2")
    session = map.session()
    memory = session.memory(0, 100)
    view = memoryview(memory)
    waiter = threading.Thread(
        target=lambda: pytest.raises(
            (gpumap.Timeout, ValueError),
            lambda: map.wait_change(map.generation, 0.3),
        )
    )
    waiter.start()
    map.close()
    waiter.join()
    with pytest.raises(ValueError):
        map.health()
    with pytest.raises(ValueError):
        layers[0]
    session.close()
    view[:5] = b"bytes"  # still mapped
    del view, memory
    assert session.closed
    with pytest.raises(ValueError):
        session.memory(0, 1)
    with gpumap.attach(agent.instance, agent.runtime_dir) as map:
        map.release("kept")


def test_plan(map: gpumap.Map, checkpoint: Path, agent: Agent) -> None:
    shape = gpumap.Shape.of(checkpoint)
    assert shape.n_layers == 4 and [one.n_layers for one in shape.caches] == [4]
    plan = map.plan(checkpoint, commit="planned", max_seq_len=64)
    assert plan.n_layers == 4 and plan.rows.tolist() == [0] * 4
    assert plan.charges[0].weight_bytes == (
        sum(shape.layer_bytes) + shape.other_bytes
    )
    assert [one.name for one in map.holders()] == ["planned"]
    assert map.holders()[0].pid == os.getpid()
    assert {one.name for one in map.reservations()} == {"planned"}
    map.release("planned")
    assert map.holders() == []
    plan = map.plan(checkpoint, spec="1:1;0:3", publish="by-hand")
    assert list(map.layers("by-hand")) == [1, 0, 0, 0]
    map.release("by-hand")
    plan = map.plan(checkpoint, split=[1, 3], rows=[0, 1])
    assert plan.rows.tolist() == [0, 1, 1, 1] and plan.version == 0
    topology = {"0-2": {"device": "cpu"}, "/ffn/": {"isq": "Q4K"}, 2: {}}
    plan = map.plan(checkpoint, topology=topology, base_row=1)
    assert plan.rows.tolist() == [1] * 4
    assert "the topology quantises" in plan.warnings[0]
    plan = map.plan(checkpoint, topology="0-2:cpu;2")
    assert plan.rows.tolist() == [0] * 4 and not plan.warnings
    with pytest.raises(gpumap.Invalid, match="Device specifier"):
        map.plan(checkpoint, topology="0-2:gpu")


def test_plan_for_an_engine(map: gpumap.Map) -> None:
    state = gpumap.LayerCache(1, conv_elements=40, state_elements=100)
    shape = gpumap.Shape((1 << 20,), caches=(state,), conv_taps=4, state_bytes=2)
    for engine, kept in (
        (None, 40 * 4 + 100 * 4),
        ("llama.cpp", 30 * 4 + 100 * 4),
        (gpumap.enums.Engine.SGLANG, 6 * (30 * 2 + 100 * 2)),
    ):
        plan = map.plan(shape, dtype="f32", engine=engine)
        assert plan.charges[0].kv_bytes == kept
    with pytest.raises(gpumap.errors.Invalid):
        map.plan(shape, engine="accelerate", paged=("mib", 8))


def test_shape_is_what_gpumapctl_reads(
    checkpoint: Path, map: gpumap.Map, agent: Agent
) -> None:
    shape = gpumap.Shape.of(checkpoint)
    agent.ctl("publish", "ctl", "--model", str(checkpoint), "--spec", "0:4")
    info = map.layers("ctl").read()
    assert info.bytes.tolist() == list(shape.layer_bytes)
    assert info.other_bytes == shape.other_bytes
    map.release("ctl")


def test_plan_that_does_not_fit(map: gpumap.Map) -> None:
    huge = gpumap.Shape(layer_bytes=(1 << 50,) * 4, other_bytes=1)
    with pytest.raises(gpumap.DoesNotFit) as caught:
        map.plan(huge, commit="huge")
    assert "lower max_seq_len or the batch" in caught.value.remedies
    with pytest.raises(gpumap.DoesNotFit) as caught:
        map.plan(huge, commit="huge", spec="1:4")
    error = caught.value
    assert error.missing_bytes > 1 << 40
    assert error.row == 1
    assert error.remedies[-1] == "ask for less"
    assert pickle.loads(pickle.dumps(error)).refusal == error.refusal


def test_reserve(map: gpumap.Map) -> None:
    had = map.devices[1].reserved
    with map.reserve({1: 1 << 20}) as kept:
        assert kept.by_row == {1: 1 << 20}
        assert map.devices[1].reserved == had + (1 << 20)
    assert map.devices[1].reserved == had
    kept = map.reserve(1 << 20, name="mine")
    assert [one.name for one in map.holders()] == ["mine"]
    kept.release()
    kept.release()
    map.publish("mine", "1:6")
    with pytest.raises(gpumap.Exists):
        map.reserve(1 << 20, name="mine")
    map.release("mine")
    with map.reserve(1 << 20, rows=[1]) as kept:
        assert kept.by_row == {1: 1 << 20}
    with pytest.raises(gpumap.DoesNotFit):
        map.reserve({0: 1 << 60})


def test_reservations_wait_in_a_line(map: gpumap.Map) -> None:
    device = map.devices[0]
    half = device.unclaimed // 3 * 2
    first = map.reserve({0: half})
    with pytest.raises(gpumap.DoesNotFit) as caught:
        map.reserve({0: half}, wait=0.1)
    assert caught.value.missing_bytes and caught.value.row == 0
    got: list[gpumap.Reservation] = []
    thread = threading.Thread(
        target=lambda: got.append(map.reserve({0: half}, wait=None))
    )
    thread.start()
    wait_for(map.waiting)
    assert map.waiting()[0].rows == (0,) and map.waiting()[0].bytes == half
    assert map.waiting()[0].n_before == 0
    assert map.health().ok and map.who() == []  # requests go on
    first.release()
    thread.join()
    assert got[0].by_row == {0: half}
    got[0].release()


def test_a_wait_is_dropped(map: gpumap.Map) -> None:
    half = map.devices[0].unclaimed // 3 * 2
    with pytest.raises(gpumap.NotFound):
        map.drop_waiting("later")
    with map.reserve({0: half}):
        caught: list[gpumap.Error] = []

        def ask() -> None:
            try:
                map.reserve({0: half}, name="later", wait=None)
            except gpumap.Error as error:
                caught.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        wait_for(map.waiting)
        map.drop_waiting("later")
        thread.join()
    assert isinstance(caught[0], gpumap.Canceled)


def test_start_windows(map: gpumap.Map) -> None:
    first = map.reserve({0: 4096}, start=60)
    assert map.holders()[0].start_ns > 0
    with pytest.raises(gpumap.Busy):
        map.reserve({0: 4096}, start=60)
    first.started()
    with map.reserve({0: 4096}, start=60):
        pass
    first.release()


def test_waiting_is_interrupted(map: gpumap.Map) -> None:
    code = (
        "import gpumap, signal\n"
        f"m = gpumap.attach({map.instance!r}, {map.runtime_dir!r})\n"
        "kept = m.reserve({0: m.devices[0].unclaimed // 3 * 2})\n"
        "signal.signal(signal.SIGALRM, signal.default_int_handler)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.2)\n"
        "try: m.reserve(kept.by_row, wait=None)\n"
        "except KeyboardInterrupt: print('interrupted')\n"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60
    )
    assert out.stdout == "interrupted\n" and out.returncode == 0, out.stderr
    wait_for(lambda: map.holders() == [] and map.waiting() == [])


def test_reserve_ends_with_its_process(map: gpumap.Map) -> None:
    code = (
        "import gpumap, sys\n"
        f"m = gpumap.attach({map.instance!r}, {map.runtime_dir!r})\n"
        "m.reserve({0: 4096}, name='child')\n"
        "print('kept', flush=True)\n"
        "sys.stdin.read()\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"kept\n"
    assert [one.name for one in map.holders()] == ["child"]
    child.kill()
    child.communicate()
    wait_for(lambda: map.holders() == [])


def test_wait_change_times_out(map: gpumap.Map) -> None:
    with pytest.raises(gpumap.Timeout) as caught:
        map.wait_change(map.generation, 0.01)
    assert isinstance(caught.value, TimeoutError)
    assert map.wait_change(map.generation - 1) == map.generation


def test_wait_ready(map: gpumap.Map) -> None:
    map.wait_ready()
    map.wait_ready(0)


def test_wait_change_is_interrupted(map: gpumap.Map) -> None:
    code = (
        "import gpumap, signal\n"
        f"m = gpumap.attach({map.instance!r}, {map.runtime_dir!r})\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.05)\n"
        "signal.signal(signal.SIGALRM, signal.default_int_handler)\n"
        "try:\n"
        "    while True: m.wait_change(m.generation)\n"
        "except KeyboardInterrupt: print('interrupted')\n"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60
    )
    assert out.stdout == "interrupted\n", out.stderr


def test_pickle_and_fork(map: gpumap.Map) -> None:
    again = pickle.loads(pickle.dumps(map))
    assert again.devices[0].uuid == map.devices[0].uuid
    session = map.session()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        text = b"?"
        try:
            assert map.devices[0].row == 0  # reading goes on
            for call in (
                lambda: session.memory(0, 10),
                lambda: session.wait(0),
                lambda: map.publish("forked", "0:1"),
            ):
                try:
                    call()
                except gpumap.Forked:
                    continue
                raise AssertionError("no Forked")
            session.close()
            text = b"ok"
        except BaseException as error:
            text = repr(error).encode()
        os.write(write, text)
        os._exit(0)
    os.close(write)
    assert os.read(read, 1000) == b"ok"
    os.close(read)
    os.waitpid(child, 0)
    session.close()


def test_export(map: gpumap.Map) -> None:
    map.publish("exported", "0:2;1:2")
    with pytest.raises(gpumap.Unsupported) as caught:
        map.export("vllm", "exported")
    assert "layer" in caught.value.refusal
    map.publish("exported", "0:4")
    settings = map.export("llama.cpp", map.layers("exported"))
    assert settings.argv[:2] == ("--device", "none")
    assert settings.env["CUDA_VISIBLE_DEVICES"] == "-1"
    assert not settings.exact and "numactl" in settings.notes[-1]
    map.release("exported")


def test_lists(map: gpumap.Map, session: gpumap.Session) -> None:
    session.memory(1, 100)
    mine = [one for one in map.who() if one.pid == os.getpid()]
    assert mine and mine[0].rows == (1,)
    buffer = session.alloc(0, 4096)
    assert [one.bytes for one in map.usage() if one.row == 0] == [4096]
    buffer.free()
    assert map.shares() == [] and map.masks() == [] and map.meshes() == []


def test_cordon(map: gpumap.Map) -> None:
    map.cordon(1)
    assert gpumap.DeviceFlags.CORDONED in map.devices[1].flags
    map.uncordon(1)
    map.drain(1)
    assert map.devices[1].state == gpumap.DeviceState.DRAINING
    map.undrain(1)
    wait_for(lambda: map.devices[1].state == gpumap.DeviceState.READY)
    with pytest.raises(gpumap.NoDevice):
        map.drain(99)


def test_agent_dies(checkpoint: Path) -> None:
    one = Agent()
    try:
        map = gpumap.attach(one.instance, one.runtime_dir)
        session = map.session()
        session.memory(0, 10)
        one.kill()
        with pytest.raises((gpumap.Gone, gpumap.NotRunning)):
            map.publish("x", "0:1")
        with pytest.raises(gpumap.Gone) as caught:
            session.alloc(0, 4096)
        assert isinstance(caught.value, ConnectionResetError)
        assert map.devices[0].row == 0
        session.close()
        map.close()
    finally:
        one.stop()


def test_request_limit() -> None:
    """Without a limit a stopped agent is Gone; a second ends before that."""
    agent = Agent()
    assert agent.process is not None
    try:
        with gpumap.attach(agent.instance, agent.runtime_dir) as map:
            with pytest.raises(ValueError):
                map.request_limit(float("nan"))
            map.request_limit(None)
            map.publish("limited", "0:2")
            map.request_limit(0.1)

            def ends_by_the_limit() -> bool:
                assert agent.process is not None
                agent.process.send_signal(signal.SIGSTOP)
                try:
                    map.publish("limited", "0:3")
                except gpumap.Timeout:
                    return True
                except gpumap.Gone:
                    pass  # the machine was too slow to look in between
                finally:
                    agent.process.send_signal(signal.SIGCONT)
                return False

            wait_for(ends_by_the_limit)
            map.request_limit(60)
            map.publish("later", "0:2")
    finally:
        agent.stop()


def test_path(map: gpumap.Map) -> None:
    path = map.path(1, 0)
    assert (path.to, path.from_) == (1, 0)
    assert path.nvlinks == 0 and path.peer == gpumap.Peer.NONE
    for to, from_ in ((0, 9), (9, 0), (2**40, 0), (0, 2**32)):
        with pytest.raises(gpumap.NoDevice):
            map.path(to, from_)
    with pytest.raises(OverflowError):
        map.path(-1, 0)
