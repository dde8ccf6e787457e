# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""Models: loading, tensors as buffers, numpy and DLPack, pickle, lifetimes."""

from __future__ import annotations

import gc
import hashlib
import io
import json
import multiprocessing
import os
import pickle
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import gpumap
import pytest
from agent import Agent, small_model, wait_for, write_safetensors
from gpumap.model import Bar


def bits(tensor: gpumap.Tensor) -> bytes:
    return memoryview(tensor).tobytes()


@pytest.fixture
def model(session: gpumap.Session, checkpoint: Path) -> Any:
    with session.load(checkpoint, name="model") as loaded:
        yield loaded


def test_mapping(model: gpumap.Model, tmp_path: Path) -> None:
    tensors = small_model(tmp_path)
    assert sorted(model) == sorted(tensors) == sorted(model.keys())
    assert len(model) == len(tensors)
    assert "scalar" in model and "nothing" not in model and 5 not in model
    with pytest.raises(KeyError):
        model["nothing"]
    for name, tensor in model.items():
        dtype, shape, data = tensors[name]
        assert (tensor.name, tensor.dtype) == (name, dtype)
        assert tensor.shape == shape and tensor.nbytes == len(data)
        assert bits(tensor) == data
        assert tensor.row == 0
    assert model["scalar"].layer is None
    assert model.state == gpumap.ModelState.LOADED
    assert model.progress.fraction == 1.0
    assert model == model and hash(model) == hash(model)


def test_formats(model: gpumap.Model) -> None:
    formats = {
        "F64": "d",
        "F32": "f",
        "F16": "e",
        "I64": "q",
        "I32": "i",
        "I16": "h",
        "I8": "b",
        "U8": "B",
        "BOOL": "?",
    }
    for dtype, code in formats.items():
        view = memoryview(model[f"model.layers.0.{dtype.lower()}.weight"])
        assert view.format == code and view.shape == (6, 4), dtype
        assert view.readonly and view.c_contiguous
    view = memoryview(model["model.layers.0.mlp.up_proj.weight"])
    assert view.tolist()[2] == [10.0, 11.0, 12.0, 13.0, 14.0]
    for dtype in ("bf16", "f8_e4m3"):
        tensor = model[f"model.layers.0.{dtype}.weight"]
        view = memoryview(tensor)
        assert view.format == "B" and view.shape == (tensor.nbytes,)
    assert memoryview(model["scalar"]).shape == ()
    assert memoryview(model["scalar"])[()] == 2.5
    assert memoryview(model["empty"]).shape == (0, 4)
    with pytest.raises(TypeError):
        memoryview(model["scalar"])[()] = 1.0
    with pytest.raises(TypeError):
        len(model["scalar"])
    assert len(model["empty"]) == 0


def test_fd(model: gpumap.Model) -> None:
    tensor = model["model.layers.1.f32.weight"]
    fd = tensor.fd()
    assert os.pread(fd, tensor.nbytes, tensor.offset) == bits(tensor)
    with pytest.raises(OSError):
        os.pwrite(fd, b"x", tensor.offset)
    os.close(fd)


def test_jobs_name_tensors(
    session: gpumap.Session, model: gpumap.Model
) -> None:
    tensor = model["model.layers.1.u8.weight"]
    memory = session.memory(0, tensor.nbytes)
    buffer = gpumap.Buffer(session, tensor.buffer, tensor.nbytes, 0)
    session.run(
        0, gpumap.Job("copy", 24, "u8", memory, (buffer, tensor.offset))
    )
    buffer.handle = 0  # the model's
    assert bytes(memory) == bits(tensor)


def test_jobs_name_tensors_of_an_opened_model(
    map: gpumap.Map, model: gpumap.Model
) -> None:
    with map.session() as other, other.open("model") as opened:
        tensor = opened["model.layers.1.u8.weight"]
        assert bits(tensor) == bits(model[tensor.name])
        found = opened._find(tensor.name)
        assert found is not None and found[5] == 0  # mapped, not imported
        assert opened["empty"].buffer == 0
        memory = other.memory(0, tensor.nbytes)
        for _ in range(2):
            buffer = gpumap.Buffer(other, tensor.buffer, tensor.nbytes, 0)
            assert tensor.buffer == buffer.handle
            job = gpumap.Job("copy", 24, "u8", memory, (buffer, tensor.offset))
            other.run(0, job)
            assert bytes(memory) == bits(tensor)
            buffer.handle = 0  # the model's
            opened.renew()


def test_private(model: gpumap.Model, map: gpumap.Map) -> None:
    name = "model.layers.0.f32.weight"
    before = bits(model[name])
    tensor = model.private(name)
    view = memoryview(tensor)
    assert not view.readonly and view.tobytes() == before
    view.cast("B")[:4] = b"mine"
    assert bits(tensor)[:4] == b"mine" and bits(model[name]) == before
    with map.session() as other, other.open("model") as opened:
        assert bits(opened[name]) == before
    with pytest.raises(KeyError):
        model.private("nothing")


# ---- lifetimes ---------------------------------------------------------------


def test_close_keeps_tensors(map: gpumap.Map, checkpoint: Path) -> None:
    session = map.session()
    model = session.load(checkpoint, name="kept")
    tensor = model["model.layers.0.f32.weight"]
    data = bits(tensor)
    session.close()
    other = model["scalar"]  # the session ends with the model
    model.close()
    model.close()
    with pytest.raises(ValueError):
        model["scalar"]
    wait_for(lambda: map.who() == [] and map.shares() == [])
    assert bits(tensor) == data and memoryview(other)[()] == 2.5
    view = memoryview(tensor)
    del tensor, model, session
    gc.collect()
    assert view.tobytes() == data


def test_collected_models_end_with_their_session(
    map: gpumap.Map, checkpoint: Path
) -> None:
    session = map.session()
    model = session.load(checkpoint, name="collected")
    del model
    gc.collect()
    session.poll()
    assert map.shares() == []
    session.close()
    wait_for(lambda: map.who() == [])


def test_metadata(map: gpumap.Map, model: gpumap.Model) -> None:
    with map.session() as other, other.open("model") as opened:
        assert opened.config["model_type"] == "llama"
        assert json.loads(opened.meta) == opened.config == model.config


def test_without_a_name(map: gpumap.Map, checkpoint: Path) -> None:
    with map.session() as session, session.load(checkpoint) as model:
        assert memoryview(model["scalar"])[()] == 2.5
        assert map.shares() == []
        with pytest.raises(TypeError):
            pickle.dumps(model)


def test_layers_and_rows(
    map: gpumap.Map, session: gpumap.Session, checkpoint: Path
) -> None:
    map.publish("halves", "0:2;1:2")
    with session.load(checkpoint, layers="halves", name="halves") as model:
        rows = {model[f"model.layers.{i}.f32.weight"].row for i in (0, 1)}
        assert rows == {0}
        tensor = model["model.layers.3.f32.weight"]
        assert tensor.row == 1 and tensor.layer == 3
        assert len(bits(tensor)) == tensor.nbytes
    with session.load(checkpoint, layers="halves", rows=[1]) as model:
        assert model["model.layers.0.f32.weight"].buffer == 0
        with pytest.raises(BufferError):
            memoryview(model["model.layers.0.f32.weight"])
        assert bits(model["model.layers.3.f32.weight"])
    map.release("halves")


# ---- errors ------------------------------------------------------------------


def test_what_can_go_wrong(
    map: gpumap.Map,
    session: gpumap.Session,
    checkpoint: Path,
    tmp_path: Path,
) -> None:
    with pytest.raises(gpumap.NotFound):
        session.open("nothing")
    with pytest.raises(gpumap.NotFound) as caught:
        session.load(tmp_path / "nothing")
    assert "nothing" in caught.value.refusal
    with pytest.raises(gpumap.NotFound):
        session.load(checkpoint, layers="no such map")
    (tmp_path / "bad.safetensors").write_bytes(b"\xff" * 100)
    with pytest.raises(gpumap.Invalid):
        session.load(tmp_path / "bad.safetensors")
    with session.load(checkpoint, name="one"):
        small_model(tmp_path / "other", layers=2)
        with pytest.raises(gpumap.Mismatch) as mismatch:
            with map.session() as other:
                other.load(tmp_path / "other", name="one")
        assert mismatch.value.refusal
        with pytest.raises(gpumap.Busy):
            session.open("one")
    with pytest.raises(gpumap.NotFound):
        session.open("one")


def test_fingerprints(
    map: gpumap.Map, session: gpumap.Session, checkpoint: Path
) -> None:
    with session.load(checkpoint, name="one", fingerprint={"a": 1}) as model:
        with map.session() as other:
            with pytest.raises(gpumap.Mismatch) as caught:
                other.open("one", fingerprint={"a": 2})
            assert 'a is "1"' in caught.value.refusal
            with pytest.raises(gpumap.Mismatch):
                other.load(checkpoint, name="one", fingerprint={"a": 2})
            with other.open("one", fingerprint={"a": 1}) as opened:
                assert memoryview(opened["scalar"])[()] == 2.5
        again = pickle.loads(pickle.dumps(model))
        assert memoryview(again["scalar"])[()] == 2.5


def test_file_changes_while_it_is_loaded(
    session: gpumap.Session, tmp_path: Path
) -> None:
    data = bytes(1 << 20)
    path = tmp_path / "model.safetensors"
    write_safetensors(path, {"layers.0.x.w": ("U8", (1 << 20,), data)})
    os.truncate(path, path.stat().st_size - 5)
    with pytest.raises(gpumap.NothingInFlight) as caught:
        session.load(path)
    assert "model.safetensors" in caught.value.refusal


def test_fork(session: gpumap.Session, model: gpumap.Model) -> None:
    tensor = model["scalar"]
    child = os.fork()
    if child == 0:
        status = 1
        try:
            assert memoryview(tensor)[()] == 2.5  # mapped memory is inherited
            try:
                model["scalar"]
            except gpumap.Forked:
                status = 0
            model.close()
            session.close()
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert memoryview(model["scalar"])[()] == 2.5


def test_agent_dies(checkpoint: Path) -> None:
    agent = Agent()
    try:
        map = gpumap.attach(agent.instance, agent.runtime_dir)
        session = map.session()
        model = session.load(checkpoint, name="orphan")
        tensor = model["scalar"]
        agent.kill()
        assert memoryview(tensor)[()] == 2.5
        assert memoryview(model["scalar"])[()] == 2.5
        with pytest.raises(gpumap.Gone):
            session.alloc(0, 64)
        with pytest.raises(gpumap.Gone):
            session.load(checkpoint, name="another")
        model.close()
        session.close()
    finally:
        agent.stop()


# ---- processes ---------------------------------------------------------------


def digest(model: gpumap.Model) -> str:
    hashed = hashlib.sha256()
    for name in sorted(model):
        hashed.update(name.encode() + bits(model[name]))
    return hashed.hexdigest()


def test_pickle_through_spawn(model: gpumap.Model) -> None:
    context = multiprocessing.get_context("spawn")
    with context.Pool(2) as pool:
        assert pool.map(digest, [model] * 4) == [digest(model)] * 4
        tensors = pool.map(bits, [model["scalar"]] * 2)
    assert tensors == [struct.pack("<f", 2.5)] * 2


def test_of_several_one_loads(
    agent: Agent, map: gpumap.Map, checkpoint: Path
) -> None:
    code = (
        "import gpumap, sys\n"
        f"m = gpumap.attach({agent.instance!r}, {str(agent.runtime_dir)!r})\n"
        f"x = m.session().load({str(checkpoint)!r}, name='together')\n"
        "print(int(x.progress.was_there), len(x), flush=True)\n"
        "sys.stdin.read()\n"
    )
    children = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    lines = [child.stdout.readline() for child in children if child.stdout]
    assert sorted(line[0] for line in lines) == ["0", "1", "1", "1"]
    for child in children:
        child.communicate()
        assert child.returncode == 0


def test_kept_model(map: gpumap.Map, checkpoint: Path) -> None:
    with map.session() as session:
        loaded = digest(session.load(checkpoint, name="kept", keep=True))
    with map.session() as session:
        assert digest(session.open("kept")) == loaded
    assert [one.kept for one in map.shares() if one.name == "kept"] == [True]
    map.release_share("kept")
    with map.session() as session:
        with pytest.raises(gpumap.NotFound):
            session.open("kept")
        with pytest.raises(gpumap.Error) as caught:
            session.load(checkpoint, keep=True)
        assert "name" in caught.value.refusal


def test_threads_open_and_close(map: gpumap.Map, model: gpumap.Model) -> None:
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(20):
                with map.session(arena=1 << 20) as session:
                    with session.open("model") as opened:
                        assert memoryview(opened["scalar"])[()] == 2.5
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


# ---- whole files -------------------------------------------------------------


def test_whole_file(
    map: gpumap.Map, session: gpumap.Session, tmp_path: Path
) -> None:
    path = tmp_path / "any file.bin"
    data = os.urandom(100_003)
    path.write_bytes(data)
    with session.load_file(path, name="whole", row=1) as file:
        assert file.name == "any file.bin" and file.nbytes == len(data)
        assert os.fstat(file.fileno()).st_size == len(data)
        assert bytes(file.view()) == data
        shown = subprocess.run(["cat", file.path], capture_output=True)
        assert shown.stdout == data
        with map.session() as other, other.open_file("whole") as opened:
            (tmp_path / "links").mkdir()
            link = opened.link(tmp_path / "links")
            with open(link, "rb") as stream:
                assert stream.read() == data
            with pytest.raises(OSError):
                os.truncate(opened.path, 5)
            fd = opened.fd()
            with pytest.raises(OSError):
                os.pwrite(fd, b"x", 0)
            os.close(fd)
            view = opened.view()
        with pytest.raises(ValueError):
            opened.path
        assert bytes(view) == data
    with pytest.raises(gpumap.NotFound):
        session.open_file("whole")


def test_whole_file_or_model(
    session: gpumap.Session, checkpoint: Path, tmp_path: Path
) -> None:
    with session.load(checkpoint, name="model"):
        with session.map.session() as other:
            with pytest.raises(gpumap.Mismatch):
                other.open_file("model")
    with pytest.raises(gpumap.NotFound):
        session.load_file(tmp_path / "nothing", name="whole")


def test_safetensors_reads_a_whole_file(
    session: gpumap.Session, checkpoint: Path, tmp_path: Path
) -> None:
    safetensors = pytest.importorskip("safetensors")
    path = checkpoint / "model.safetensors"
    tensors = small_model(tmp_path)
    name = "model.layers.0.mlp.up_proj.weight"
    with session.load_file(path, name="safetensors") as file:
        with safetensors.safe_open(file.path, "np") as opened:
            assert opened.get_tensor(name).tobytes() == tensors[name][2]


# ---- progress ----------------------------------------------------------------


def test_progress(session: gpumap.Session, checkpoint: Path) -> None:
    seen: list[gpumap.Progress] = []
    with session.load(checkpoint, progress=seen.append):
        assert seen[-1].state == gpumap.ModelState.LOADED
        assert seen[-1].bytes == seen[-1].total_bytes

    def refuse(progress: gpumap.Progress) -> None:
        raise RuntimeError("not that one")

    with pytest.raises(RuntimeError):
        session.load(checkpoint, name="refused", progress=refuse)
    with pytest.raises(gpumap.NotFound):
        session.open("refused")


def test_bar(
    session: gpumap.Session,
    checkpoint: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", None)
    stream = io.StringIO()
    bar = Bar("name", stream)
    with session.load(checkpoint, progress=bar) as model:
        bar(model.progress)
    assert stream.getvalue().startswith("\rname: 100% of 0.0 GB")
    assert stream.getvalue().count("\n") == 1

    class Tqdm:
        n = 0
        total = 0
        closed = False

        def __init__(self, **named: Any) -> None:
            self.named = named

        def update(self, n: int) -> None:
            self.n += n

        def close(self) -> None:
            self.closed = True

    class Module:
        tqdm = Tqdm

    monkeypatch.setitem(sys.modules, "tqdm", Module)  # type: ignore[arg-type]
    bar = Bar("name", stream)
    with session.load(checkpoint, progress=bar) as model:
        assert bar._bar.n == model.progress.total_bytes
    assert bar._bar.closed


# ---- checkpoints -------------------------------------------------------------


def write_gguf(path: Path) -> bytes:
    def text(word: str) -> bytes:
        return struct.pack("<Q", len(word)) + word.encode()

    values = [
        text("general.architecture") + struct.pack("<I", 8) + text("llama"),
        text("llama.block_count") + struct.pack("<II", 4, 2),
        text("llama.attention.head_count") + struct.pack("<II", 4, 4),
        text("llama.attention.head_count_kv") + struct.pack("<II", 4, 2),
        text("llama.embedding_length") + struct.pack("<II", 4, 64),
        text("list") + struct.pack("<IIQ3H", 9, 2, 3, 1, 2, 3),
        text("texts") + struct.pack("<IIQ", 9, 8, 1) + text("x"),
    ]
    tensors = []
    at = 0
    for layer in range(2):
        tensors.append(
            text(f"blk.{layer}.w.weight")
            + struct.pack("<IQQIQ", 2, 64, 2, 2, at)
        )
        at += 96  # 72 of four blocks, aligned to 32
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values))
    head += b"".join(values) + b"".join(tensors)
    head += bytes(-len(head) % 32)
    data = bytes(i % 251 for i in range(at))
    path.write_bytes(head + data)
    return data


def test_gguf(session: gpumap.Session, tmp_path: Path) -> None:
    path = tmp_path / "small.gguf"
    data = write_gguf(path)
    shape = gpumap.Shape.of(path)
    assert shape.layer_bytes == (72, 72) and shape.other_bytes == 0
    assert shape.n_heads == 4
    assert shape.caches == (gpumap.LayerCache(2, 2, token_elements=64),)
    with session.load(path) as model:
        tensor = model["blk.1.w.weight"]
        assert tensor.dtype == "Q4_0" and tensor.shape == (2, 64)
        assert memoryview(tensor).shape == (72,)
        assert bits(tensor) == data[96 : 96 + 72]
        assert model.meta.startswith(b"GGUF")
        assert model.config["llama.block_count"] == 2
        assert model.config["list"] == [1, 2, 3]
        assert model.config["texts"] == ["x"]
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(ValueError):
        gpumap.Shape.of(path)


def test_shapes(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        gpumap.Shape.of(tmp_path)
    small_model(tmp_path, layers=3)
    config = json.loads((tmp_path / "config.json").read_text())
    config = {"text_config": config, "model_type": "both"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    shape = gpumap.Shape.of(tmp_path)
    assert (shape.n_layers, shape.n_heads) == (3, 2)
    assert shape.caches == (gpumap.LayerCache(3, 1, token_elements=8),)
    (tmp_path / "config.json").unlink()
    with pytest.raises(FileNotFoundError, match="with its config.json"):
        gpumap.Shape.of(tmp_path)
    shape = gpumap.Shape.of(tmp_path / "model.safetensors")
    assert shape.n_layers == 3 and shape.n_heads == 0
    shape = gpumap.Shape.of(os.fspath(tmp_path / "model.safetensors"))
    assert shape.n_layers == 3
