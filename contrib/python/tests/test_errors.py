# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""The errors: a class for each errno of the headers, and what they say."""

from __future__ import annotations

import errno
import pickle
import re
from pathlib import Path

import gpumap
import pytest
from gpumap import enums, errors

INCLUDE = Path(__file__).resolve().parents[3] / "include"


def headers() -> str:
    return "\n".join(
        path.read_text() for path in sorted(INCLUDE.rglob("*.h"))
    )


def test_each_errno_has_a_class() -> None:
    names = set(re.findall(r"-(E[A-Z0-9]+)\b", headers()))
    assert len(names) > 35
    for name in sorted(names):
        found = errors.error_class(getattr(errno, name))
        assert found is not gpumap.Error, f"no class for {name}"
        assert issubclass(found, OSError)
        assert found.__doc__


def test_each_sentence_has_a_class() -> None:
    text = (INCLUDE.parent / "lib/errors.c").read_text()
    for name in set(re.findall(r"\{ -(E[A-Z0-9]+)", text)):
        assert errors.error_class(getattr(errno, name)) is not gpumap.Error


def test_classes_are_exported() -> None:
    for name, value in vars(errors).items():
        if isinstance(value, type) and issubclass(value, errors.Error):
            assert getattr(gpumap, name) is value
            assert name in gpumap.__all__


def test_what_an_error_says() -> None:
    error = errors.make("gpumap_x", errno.EPERM, "sentence", "do this")
    assert isinstance(error, gpumap.Denied)
    assert isinstance(error, PermissionError)
    assert error.errno == errno.EPERM
    assert str(error) == "gpumap_x: do this [EPERM]"
    bare = errors.make("gpumap_x", errno.ETIME, "sentence", "")
    assert isinstance(bare, TimeoutError)
    assert str(bare) == "gpumap_x: sentence [ETIME]"
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is gpumap.Denied and str(again) == str(error)
    odd = errors.make("gpumap_x", 12345, "sentence", "")
    assert type(odd) is gpumap.Error and "12345" in str(odd)


def test_a_call_gives_an_errno_its_meaning() -> None:
    assert errors.error_class(errno.ENOENT) is gpumap.NotFound
    assert (
        errors.error_class(errno.ENOENT, "gpumap_attach") is gpumap.NotRunning
    )
    assert (
        errors.error_class(errno.ENOSPC, "gpumap_plan_make")
        is gpumap.DoesNotFit
    )
    assert errors.error_class(errno.ENOSPC) is gpumap.Full


def test_strerror() -> None:
    assert "gpumapd running" in gpumap.strerror(-errno.ECONNREFUSED)
    assert gpumap.strerror(0) == "success"
    with pytest.raises(ValueError):
        gpumap.strerror(2**40)


@pytest.mark.parametrize(
    "kind,prefix",
    [
        (enums.DType, "GPUMAP_DTYPE_"),
        (enums.DeviceKind, "GPUMAP_DEVICE_"),
        (enums.DeviceState, "GPUMAP_DEVICE_"),
        (enums.Setting, "GPUMAP_SETTING_"),
        (enums.Strategy, "GPUMAP_STRATEGY_"),
        (enums.ChooseBy, "GPUMAP_CHOOSE_"),
        (enums.Work, "GPUMAP_WORK_"),
        (enums.Op, "GPUMAP_OP_"),
        (enums.Reduce, "GPUMAP_REDUCE_"),
        (enums.ModelState, "GPUMAP_MODEL_"),
        (enums.MaskKind, "GPUMAP_MASK_"),
        (enums.MaskForm, "GPUMAP_MASK_"),
        (enums.MeshTopology, "GPUMAP_MESH_"),
        (enums.MeshBackend, "GPUMAP_MESH_"),
        (enums.Engine, "GPUMAP_ENGINE_"),
        (enums.MetaFormat, "GPUMAP_META_"),
        (enums.State, "GPUMAP_"),
    ],
)
def test_numbers_are_those_of_the_headers(kind: type, prefix: str) -> None:
    text = headers()
    for member in kind:  # type: ignore[attr-defined]
        pattern = rf"\b{prefix}{member.name}\s*=\s*(\d+)"
        numbers = {int(n) for n in re.findall(pattern, text)}
        assert numbers == {int(member)}, member


def test_bits_are_those_of_the_headers() -> None:
    text = re.sub(r"\\\n", " ", headers())
    for name, value in vars(enums).items():
        if not re.fullmatch(r"[A-Z]+(_[A-Z]+)+", name) or name == "MESH_ANY":
            continue
        found = re.search(
            rf"define GPUMAP_{name}\s+\(UINT32_C\(1\) << (\d+)\)", text
        )
        assert found, name
        assert value == 1 << int(found[1]), name
    for flags, prefix in (
        (enums.Known, "KNOWN"),
        (enums.DeviceFlags, "DEVICE"),
    ):
        for member in flags:
            found = re.search(
                rf"GPUMAP_{prefix}_{member.name}\s+\(UINT32_C\(1\) << (\d+)",
                text,
            )
            assert found and member == 1 << int(found[1])
