# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""DLPack, numpy and jax: the shared memory itself, without a copy."""

from __future__ import annotations

import ctypes
import gc
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import gpumap
import pytest
from agent import Agent, small_model

NAME = "model.layers.0.mlp.up_proj.weight"


@pytest.fixture
def model(session: gpumap.Session, checkpoint: Path) -> Any:
    with session.load(checkpoint, name="arrays") as loaded:
        yield loaded


# ---- capsules ----------------------------------------------------------------


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("n_dims", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", Tensor),
    ]


pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
pointer_of.restype = ctypes.c_void_p
pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]


def versioned(capsule: object) -> Versioned:
    return Versioned.from_address(pointer_of(capsule, b"dltensor_versioned"))


def test_versioned_capsule(model: gpumap.Model) -> None:
    tensor = model[NAME]
    assert tensor.__dlpack_device__() == (1, 0)
    capsule = tensor.__dlpack__(max_version=(1, 1))
    assert '"dltensor_versioned"' in repr(capsule)
    got = versioned(capsule)
    assert (got.major, got.flags) == (1, 1)
    assert got.tensor.data == tensor.address
    assert (got.tensor.code, got.tensor.bits, got.tensor.lanes) == (2, 32, 1)
    assert got.tensor.shape[: got.tensor.n_dims] == [3, 5]
    assert got.tensor.strides[: got.tensor.n_dims] == [5, 1]
    private = versioned(model.private(NAME).__dlpack__(max_version=(1, 0)))
    assert private.flags == 0
    assert '"dltensor"' in repr(tensor.__dlpack__())
    assert '"dltensor"' in repr(tensor.__dlpack__(max_version=(0, 8)))


@pytest.mark.parametrize(
    "dtype,code,bits",
    [
        ("f64", 2, 64),
        ("f16", 2, 16),
        ("bf16", 4, 16),
        ("i64", 0, 64),
        ("i8", 0, 8),
        ("u8", 1, 8),
        ("bool", 6, 8),
        ("f8_e4m3", 10, 8),
    ],
)
def test_types(model: gpumap.Model, dtype: str, code: int, bits: int) -> None:
    tensor = model[f"model.layers.0.{dtype}.weight"]
    capsule = tensor.__dlpack__(max_version=(1, 0))
    got = versioned(capsule).tensor
    assert (got.code, got.bits) == (code, bits)
    assert got.shape[: got.n_dims] == [6, 4]


def test_odd_shapes(model: gpumap.Model) -> None:
    capsule = model["scalar"].__dlpack__(max_version=(1, 0))
    assert versioned(capsule).tensor.n_dims == 0
    capsule = model["empty"].__dlpack__(max_version=(1, 0))
    assert versioned(capsule).tensor.data is None


def test_what_is_refused(model: gpumap.Model) -> None:
    tensor = model[NAME]
    for named in (
        {"stream": 1},
        {"copy": True},
        {"dl_device": (2, 0)},
    ):
        with pytest.raises(BufferError):
            tensor.__dlpack__(**named)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        tensor.__dlpack__(max_version=1)  # type: ignore[arg-type]
    assert tensor.__dlpack__(copy=False, dl_device=(1, 0))


def test_strict(model: gpumap.Model) -> None:
    """The older form cannot say that memory is read-only."""
    tensor, private = model[NAME], model.private(NAME)
    tensor.strict = private.strict = True
    for version in (None, (0, 8)):
        with pytest.raises(BufferError, match="private"):
            tensor.__dlpack__(max_version=version)
        assert private.__dlpack__(max_version=version)
    assert tensor.__dlpack__(max_version=(1, 0))
    assert not model[NAME].strict and model[NAME].__dlpack__()


def test_unused_capsules_are_freed(model: gpumap.Model) -> None:
    tensor = model[NAME]
    before = sys.getrefcount(tensor)
    for version in ((1, 0), None):
        capsules = [
            tensor.__dlpack__(max_version=version) for _ in range(10)
        ]
        assert sys.getrefcount(tensor) == before + 10
        del capsules
        gc.collect()
        assert sys.getrefcount(tensor) == before


# ---- numpy -------------------------------------------------------------------


def test_numpy(model: gpumap.Model) -> None:
    numpy = pytest.importorskip("numpy")
    tensor = model[NAME]
    array = tensor.numpy()
    assert array.shape == (3, 5) and array.dtype == numpy.float32
    assert array.ctypes.data == tensor.address
    assert array.tolist() == memoryview(tensor).tolist()
    with pytest.raises(ValueError):
        array[0] = 1
    with pytest.raises(ValueError):
        array.flags.writeable = True
    model.close()
    del tensor
    gc.collect()
    assert array[2, 4] == 14.0


def test_numpy_dlpack(model: gpumap.Model) -> None:
    numpy = pytest.importorskip("numpy")
    tensor = model[NAME]
    array = numpy.from_dlpack(tensor)
    assert array.ctypes.data == tensor.address
    assert not array.flags.writeable
    assert array.tolist() == memoryview(tensor).tolist()
    before = sys.getrefcount(tensor)
    del array
    gc.collect()
    assert sys.getrefcount(tensor) == before - 1


def test_numpy_types(
    model: gpumap.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numpy")
    for dtype in ("f64", "f16", "i64", "i32", "i16", "i8", "u8", "bool"):
        array = model[f"model.layers.0.{dtype}.weight"].numpy()
        assert array.shape == (6, 4)
        kinds = {"f": "f", "i": "i", "u": "u", "b": "b"}
        assert array.dtype.kind == kinds[dtype[0]], dtype
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    tensor = model["model.layers.0.bf16.weight"]
    with pytest.raises(TypeError, match="ml_dtypes"):
        tensor.numpy()
    raw = tensor.numpy(raw=True)
    assert raw.dtype == "uint16" and raw.shape == (6, 4)
    assert raw.tobytes() == bytes(memoryview(tensor))


def test_numpy_bf16(model: gpumap.Model) -> None:
    pytest.importorskip("numpy")
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for dtype in ("bf16", "f8_e4m3"):
        tensor = model[f"model.layers.0.{dtype}.weight"]
        array = tensor.numpy()
        assert array.shape == (6, 4)
        assert array.ctypes.data == tensor.address
        assert array.tobytes() == bytes(memoryview(tensor))
    assert model["model.layers.0.bf16.weight"].numpy().dtype == (
        ml_dtypes.bfloat16
    )


EXIT = """
import gpumap, sys
{imports}
map = gpumap.attach({instance!r}, {runtime_dir!r})
model = map.session().load({path!r}, name="exit")
tensor = model[{name!r}]
{arrays}
print("alive")
"""


@pytest.mark.parametrize("round", range(3))
@pytest.mark.parametrize(
    "module,arrays",
    [
        ("numpy", "a, b = numpy.from_dlpack(tensor), tensor.numpy()"),
        ("jax", "a = jax.dlpack.from_dlpack(tensor)"),
        ("sys", "a = memoryview(tensor); b = tensor.__dlpack__()"),
    ],
)
def test_exit_with_live_arrays(
    agent: Agent, checkpoint: Path, module: str, arrays: str, round: int
) -> None:
    """A consumer that frees an array when the interpreter has ended does not
    crash."""
    pytest.importorskip(module)
    code = EXIT.format(
        imports=f"import {module}" + (", jax.dlpack" * (module == "jax")),
        instance=agent.instance,
        runtime_dir=str(agent.runtime_dir),
        path=str(checkpoint),
        name=NAME,
        arrays=arrays,
    )
    ran = subprocess.run([sys.executable, "-X", "faulthandler", "-c", code],
                         capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "alive\n" and "Fatal" not in ran.stderr


# ---- jax ---------------------------------------------------------------------


def test_jax(model: gpumap.Model, tmp_path: Path) -> None:
    jax = pytest.importorskip("jax")
    import jax.dlpack as dlpack

    for name, tensor in model.items():
        if tensor.nbytes == 0 or tensor.dtype in ("F64", "I64"):
            continue
        array = dlpack.from_dlpack(tensor)
        assert array.unsafe_buffer_pointer() == tensor.address, name
        assert array.shape == tensor.shape
    expected = small_model(tmp_path)["model.layers.0.bf16.weight"][2]
    array = dlpack.from_dlpack(model["model.layers.0.bf16.weight"])
    assert array.dtype == jax.numpy.bfloat16
    import numpy

    assert numpy.asarray(array).tobytes() == expected


def test_jax_pytree(model: gpumap.Model) -> None:
    pytest.importorskip("jax")
    from gpumap.jax import pytree

    arrays = pytree(model, prefix="model.layers.2.mlp.")
    (array,) = arrays.values()
    assert list(arrays) == ["up_proj.weight"]
    assert float((array @ array.T).sum()) > 0
    model.close()
    assert float(array[0, 0]) == 30.0


# ---- tinygrad ----------------------------------------------------------------


def test_tinygrad(
    model: gpumap.Model, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Where OpenCL is installed tinygrad would take it.
    monkeypatch.setenv("DEV", "CPU")
    monkeypatch.setenv("CACHEDB", str(tmp_path / "cache.db"))
    pytest.importorskip("tinygrad")
    if shutil.which("clang") is None:
        pytest.skip("tinygrad needs clang")
    from gpumap.tinygrad import state_dict

    tensors = state_dict(model, prefix="model.layers.2.")
    tensor = tensors["mlp.up_proj.weight"]
    assert tensor.shape == (3, 5)
    assert (tensor + 1).sum().item() == sum(range(31, 46))
    assert tensors["bf16.weight"].dtype.name == "__bf16"
