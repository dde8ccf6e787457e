# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""torch: state_dict, attach_module and publish_module on host rows."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import gpumap
import pytest
from agent import small_model

torch = pytest.importorskip("torch")

import gpumap.torch as gt  # noqa: E402


@pytest.fixture
def model(session: gpumap.Session, checkpoint: Path) -> Any:
    with session.load(checkpoint, name="torch") as loaded:
        yield loaded


def test_state_dict(model: gpumap.Model, tmp_path: Path) -> None:
    tensors = small_model(tmp_path)
    for name in list(model):
        if tensors[name][0] == "F8_E4M3" and not hasattr(
            torch, "float8_e4m3fn"
        ):
            with pytest.raises(TypeError):
                gt.state_dict(model, prefix=name)
    got = {}
    for kind in ("f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8",
                 "bool"):
        name = f"model.layers.0.{kind}"
        got |= {
            name + key: value
            for key, value in gt.state_dict(model, prefix=name).items()
        }
    got |= gt.state_dict(model, prefix="model.embed_tokens.")
    for name, tensor in got.items():
        full = "model.embed_tokens." + name if name == "weight" else name
        assert tuple(tensor.shape) == tensors[full][1]
        flat = tensor.reshape(-1).view(torch.uint8)
        assert bytes(flat.tolist()) == tensors[full][2]
    assert gt.state_dict(model, prefix="scalar")[""].item() == 2.5
    assert gt.state_dict(model, prefix="empty")[""].shape == (0, 4)


def test_a_write_stays_private(model: gpumap.Model) -> None:
    name = "model.layers.0.mlp.up_proj.weight"
    before = bytes(memoryview(model[name]).cast("B"))
    one = gt.state_dict(model, prefix=name)[""]
    two = gt.state_dict(model, prefix=name)[""]
    one.mul_(0)
    assert one.sum().item() == 0 and two.sum().item() != 0
    assert bytes(memoryview(model[name]).cast("B")) == before
    shared = gt.state_dict(model, prefix=name, writable="no")[""]
    assert shared.data_ptr() == model[name].address
    model.close()
    assert torch.equal(shared, two)


class Net(torch.nn.Module):  # type: ignore[misc,name-defined]
    def __init__(self, width: int = 5) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(7, width)
        self.head = torch.nn.Linear(width, 7, bias=False)
        self.head.weight = self.embed.weight  # tied
        self.norm = torch.nn.BatchNorm1d(width)
        self.turned = torch.nn.Parameter(torch.randn(4, width).t())
        self.register_buffer("table", torch.arange(3), persistent=False)
        self.scale = torch.tensor([2.0, 3.0])  # a plain attribute
        self.half = torch.randn(3).to(torch.bfloat16)


def meta(width: int = 5) -> Net:
    net = Net(width)
    for slot in gt._slots(net):
        had = slot.get()
        if slot.name == "head.weight":
            continue
        empty = torch.empty_strided(
            had.shape, had.stride(), dtype=had.dtype, device="meta"
        )
        slot.set(empty)
    net.head._parameters["weight"] = net.embed.weight
    return net


def test_publish_and_attach(
    map: gpumap.Map, session: gpumap.Session
) -> None:
    net = Net()
    print_ = {"engine": "test", "rank": 0}
    with gt.publish_module(session, "net", net, fingerprint=print_):
        with map.session() as other:
            with pytest.raises(gpumap.Mismatch):
                gt.open_module(other, "net", fingerprint={"engine": "x"})
            opened = gt.open_module(other, "net", fingerprint=print_)
            copy = meta()
            report = gt.attach_module(copy, opened)
            assert report.whole, report
            assert set(report.tied) == {"head.weight"}
            assert gt.differences(net, copy) == []
            assert copy.head.weight is copy.embed.weight
            with torch.no_grad():
                copy.embed.weight.mul_(0)
            assert net.embed.weight.abs().sum() > 0
            third = meta()
            gt.attach_module(third, gt_again(map, print_))
            assert gt.differences(net, third) == []
            different = gt.differences(copy, third)
            assert {one.split(":")[0] for one in different} == {
                "embed.weight",
                "head.weight",
            }


def gt_again(map: gpumap.Map, fingerprint: dict[str, object]) -> Any:
    return gt.open_module(map.session(), "net", fingerprint=fingerprint)


def total(instance: str, runtime_dir: str) -> float:
    map = gpumap.attach(instance, runtime_dir)
    net = Net()
    gt.attach_module(net, gt.open_module(map.session(), "spawned"))
    return float(net.embed.weight.sum() + net.scale.sum())


def test_in_another_process(
    map: gpumap.Map, session: gpumap.Session
) -> None:
    net = Net()
    with gt.publish_module(session, "spawned", net):
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            got = pool.apply(total, (map.instance, map.runtime_dir))
    assert got == pytest.approx(float(net.embed.weight.sum()) + 5.0)


def test_kept_module(map: gpumap.Map) -> None:
    net = Net()
    with map.session() as session:
        gt.publish_module(session, "stays", net, keep=True)
    with map.session() as session:
        other = Net()
        gt.attach_module(other, gt.open_module(session, "stays"))
        assert torch.equal(other.embed.weight, net.embed.weight)
        del other
    map.release_share("stays")


def test_what_does_not_fit(session: gpumap.Session) -> None:
    with gt.publish_module(session, "misfit", Net()):
        opened = gt.open_module(session.map.session(), "misfit")
        with pytest.raises(gpumap.Mismatch) as caught:
            gt.attach_module(meta(width=6), opened)
        assert "embed.weight is (7, 5)" in caught.value.refusal
        report = gt.attach_module(
            torch.nn.Linear(2, 2), opened, strict=False
        )
        assert report.missing == ["weight", "bias"]
        assert "embed.weight" in report.unexpected
        with pytest.raises(ValueError):
            gt.publish_module(session, "meta", meta())
    buffer = session.alloc(0, 64, exportable=True)
    with session.share("none", [buffer], about=b"{}"):
        with pytest.raises(gpumap.Mismatch):
            gt.open_module(session.map.session(), "none")


def test_attach_a_checkpoint(
    session: gpumap.Session, model: gpumap.Model
) -> None:
    class Up(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.up_proj = torch.nn.Linear(5, 3, bias=False)

    module = Up()
    report = gt.attach_module(module, model, prefix="model.layers.1.mlp.")
    assert report.attached == ["up_proj.weight"] and report.whole
    assert module.up_proj.weight[0, 0].item() == 15.0
    assert module.up_proj(torch.ones(1, 5))[0, 0].item() == sum(range(15, 20))
