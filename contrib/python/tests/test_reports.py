# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""What gpumapctl plans for small models whose like users reported on engines.

The figures were counted by hand: KiB that all layers keep of 1024 tokens.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from agent import ENV, GPUMAPCTL
from test_caches import write_gguf, write_safetensors

NODE = """
name: small
rows:
  - name: card
    kind: cuda
    count: 4
    memory: 80G
    free: 80G
    compute-capability: 9.0
"""
PLAN = ["plan", "--node", "node.yaml", "--max-seq-len", "1024", "--json"]
EXPORT = ["export", "--node", "node.yaml", "--spec", "0:2;1:2", "--for", "llama.cpp"]
PAGED = ["--paged-mib", "1024"]
HEADS = {
    "hidden_size": 256,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
}
PLAIN = {**HEADS, "model_type": "qwen3", "num_hidden_layers": 4}
MLA = {
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
    "num_hidden_layers": 4,
}
THINKER = {
    "hidden_size": 3584,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "num_hidden_layers": 28,
}
GEMMA = {
    "model_type": "gemma3_text",
    "hidden_size": 2560,
    "num_hidden_layers": 34,
    "sliding_window": 1024,
}
UNKNOWN = "It is not known what layer 0 and {} others keep of a sequence"


@dataclass
class Case:
    """A model of layers whose tensors' names tell nothing, and what is planned for it."""

    name: str
    config: dict[str, Any]
    kib: int | None = None  # None: another figure than a sum, or refused
    layers: int = 4
    prefix: str = "model.layers"
    words: list[str] = field(default_factory=list)
    says: str = ""  # a warning, or why it is refused


CASES = [
    # huggingface/transformers/pull/42959: Python's words in keys of no use here
    Case("infinity", {**PLAIN, "time_step_limit": [0.0, float("inf")]}, 2048),
    Case("nan", {**PLAIN, "eps": float("nan")}, 2048),
    Case("bigint", {**PLAIN, "model_max_length": int(1e30)}, 2048),
    # ddalcu/mlx-serve/pull/46: what the class has by default is not in the file
    Case(
        "gemma3-4b-defaults",
        {"model_type": "gemma3", "text_config": GEMMA},
        layers=34,
        prefix="language_model.model.layers",
        says="what layer 0 keeps of a sequence: give --kv-elements",
    ),
    Case(
        "gemma3-4b-told",
        {"model_type": "gemma3", "text_config": GEMMA},
        139264,
        layers=34,
        prefix="language_model.model.layers",
        words=["--kv-elements", "2048"],
    ),
    # huggingface/transformers/issues/37515
    Case(
        "omni-thinker",
        {"model_type": "qwen2_5_omni", "thinker_config": {"text_config": THINKER}},
        57344,
        layers=28,
        prefix="thinker.model.layers",
    ),
    # huggingface/transformers/issues/48017
    Case(
        "nemotron-no-layers",
        {
            **HEADS,
            "model_type": "nemotron_h",
            "layers_block_type": ["mamba", "moe", "mamba", "attention"],
        },
        512,
        prefix="backbone.layers",
        says=UNKNOWN.format(1),
    ),
    Case(
        "nope-0",
        {
            **PLAIN,
            "kv_lora_rank": 64,
            "qk_nope_head_dim": 64,
            "qk_rope_head_dim": 0,
            "v_head_dim": 64,
        },
        2048,
    ),
    # NVIDIA/TensorRT-LLM/pull/16707: 512 + 64 elements, once
    Case("mla", MLA, 4608),
    # vllm/issues/25350: a pool is no larger than was asked for
    Case("mla-paged", MLA, 1048464, words=PAGED),
    Case("f8-paged", PLAIN, 1048576, words=[*PAGED, "--cache-type", "f8e4m3"]),
    # gpustack/gguf-parser-go/issues/28
    Case(
        "hybrid-layer-types",
        {
            **PLAIN,
            "model_type": "granitemoehybrid",
            "layer_types": ["mamba", "mamba", "attention", "mamba"],
        },
        512,
        says=UNKNOWN.format(2),
    ),
    Case(
        "full-attention-interval",
        {**PLAIN, "model_type": "qwen3_next", "full_attention_interval": 4},
        512,
        says=UNKNOWN.format(2),
    ),
    Case(
        "mtp",
        {**PLAIN, "model_type": "glm4_moe", "num_nextn_predict_layers": 1},
        2048,
        layers=5,
    ),
    # gpustack/gpustack/issues/2259
    Case(
        "heads-14",
        {
            "model_type": "qwen2",
            "hidden_size": 896,
            "num_attention_heads": 14,
            "num_key_value_heads": 2,
            "num_hidden_layers": 4,
        },
        1024,
        words=["--setting", "nccl", "--rows", "0-3"],
        says="The model's 14 attention heads are not to be divided by 4",
    ),
]


@dataclass
class Gguf:
    """As Case, of GGUF: queries alone are there."""

    name: str
    architecture: str
    keys: dict[str, Any] = field(default_factory=dict)
    kv_heads: Any = 2
    kib: int = 2048
    kind: tuple[int, int, int] = (2, 32, 18)  # Q4_0, elements and bytes of a block
    says: str = ""


GGUF = [
    # gpustack/gguf-parser-go/issues/31
    Gguf("kv-list-lfm2", "lfm2", kv_heads=[0, 0, 8, 0]),
    Gguf("kv-list-equal", "qwen3", kv_heads=[2, 2, 2, 2]),
    Gguf(
        "full-attention-interval",
        "qwen35moe",
        {"full_attention_interval": 4},
        kib=512,
        says=UNKNOWN.format(2),
    ),
    # containers/ramalama/pull/2894: types of gguf 0.19
    Gguf("nvfp4", "qwen3", kind=(40, 64, 36)),
    Gguf("q1_0", "qwen3", kind=(41, 128, 18)),
]


def run(folder: Path, *words: Any) -> tuple[int, str, Any]:
    """The status, what was complained of, and the object that was printed."""
    (folder / "node.yaml").write_text(NODE)
    ran = subprocess.run(
        [GPUMAPCTL, *words], cwd=folder, capture_output=True, env={**os.environ, **ENV}
    )
    text = ran.stdout.decode()
    return ran.returncode, ran.stderr.decode(), json.loads(text) if text else None


def check_plan(plan: Any, kib: int, says: str) -> None:
    assert sum(charge["kv_bytes"] for charge in plan["charges"]) == kib << 10
    about = [w for w in plan["warnings"] if "not known what" in w or "not to be divided" in w]
    assert len(about) == (1 if says else 0), about
    assert says in "".join(about)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_safetensors(case: Case, tmp_path: Path) -> None:
    tensors = {f"{case.prefix}.{i}.w.weight": [8, 8] for i in range(case.layers)}
    (tmp_path / "model").mkdir()
    write_safetensors(tmp_path / "model", {"config": case.config, "tensors": tensors})
    status, complaint, plan = run(tmp_path, *PLAN, "--model", "model", *case.words)
    if case.kib is None:
        assert status == 1 and plan is None
        assert case.says in complaint
        return
    assert status == 0, complaint
    assert plan["n_layers"] == case.layers - case.config.get("num_nextn_predict_layers", 0)
    n_ranks = len(plan["charges"]) if "nccl" in case.words else 1  # each has one of the two heads
    check_plan(plan, case.kib * n_ranks, case.says)


@pytest.mark.parametrize("case", GGUF, ids=[case.name for case in GGUF])
def test_gguf(case: Gguf, tmp_path: Path) -> None:
    keys = {
        "block_count": 4,
        "embedding_length": 256,
        "attention.head_count": 4,
        "attention.key_length": 64,
        "attention.value_length": 64,
        "attention.head_count_kv": case.kv_heads,
        **case.keys,
    }
    keys = {f"{case.architecture}.{key}": value for key, value in keys.items()}
    keys["general.architecture"] = case.architecture
    tensors = {f"blk.{i}.attn_q.weight": [256, 64] for i in range(4)}
    write_gguf(tmp_path / "m.gguf", {"keys": keys, "tensors": tensors}, case.kind)
    status, complaint, plan = run(tmp_path, *PLAN, "--model", "m.gguf")
    assert status == 0, complaint
    assert plan["n_layers"] == 4
    check_plan(plan, case.kib, case.says)


def test_a_projector_is_no_model(tmp_path: Path) -> None:
    # unslothai/unsloth/pull/10357; llama.cpp's LoRAs and importance matrices likewise
    for kind in "mmproj", "adapter", "imatrix":
        keys = {"general.architecture": "clip", "general.type": kind}
        write_gguf(tmp_path / "m.gguf", {"keys": keys, "tensors": {"v.blk.0.w": [8, 8]}})
        status, complaint, _ = run(tmp_path, *PLAN, "--model", "m.gguf")
        assert status == 1
        assert f'its general.type is "{kind}", and no language model' in complaint


def test_a_spec_has_no_layers_that_predict(tmp_path: Path) -> None:
    config = {**PLAIN, "model_type": "glm4_moe", "num_nextn_predict_layers": 1}
    tensors = {f"model.layers.{i}.w.weight": [8, 8] for i in range(5)}
    write_safetensors(tmp_path, {"config": config, "tensors": tensors})
    status, complaint, made = run(tmp_path, *EXPORT, "--model", ".", "--json")
    assert status == 0, complaint
    assert made["argv"][made["argv"].index("--tensor-split") + 1] == "2,4"


def test_an_index_without_its_shards(tmp_path: Path) -> None:
    # sgl-project/sglang/pull/32279
    shard = "model-00001-of-00004.safetensors"
    write_safetensors(tmp_path, {"config": PLAIN, "tensors": {"model.layers.0.w": [8]}})
    os.rename(tmp_path / "model.safetensors", tmp_path / "model-00001-of-00002.safetensors")
    index = {"weight_map": {"model.layers.0.w": shard}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    status, complaint, _ = run(tmp_path, *PLAN, "--model", ".")
    assert status == 1
    assert f"{shard}: No such file or directory; fetch the missing file" in complaint


def test_metadata_that_are_null(tmp_path: Path) -> None:
    # foundation-model-stack/fastsafetensors/pull/89
    (tmp_path / "config.json").write_text(json.dumps({**PLAIN, "num_hidden_layers": 1}))
    place = {"dtype": "BF16", "shape": [8], "data_offsets": [0, 16]}
    for nothing in (None, dict[str, str]()):
        text = json.dumps({"__metadata__": nothing, "model.layers.0.w": place}).encode()
        head = len(text).to_bytes(8, "little") + text
        (tmp_path / "model.safetensors").write_bytes(head + bytes(16))
        status, complaint, plan = run(tmp_path, *PLAN, "--model", ".")
        assert status == 0, complaint
        check_plan(plan, 512, "")


def test_a_path_that_is_no_text(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/n\n\xff"
    os.mkdir(folder)
    tensors = {f"model.layers.{i}.w.weight": [8, 8] for i in range(4)}
    write_safetensors(Path(os.fsdecode(folder)), {"config": PLAIN, "tensors": tensors})
    status, complaint, plan = run(tmp_path, *PLAN, "--model", folder)
    assert status == 0, complaint
    check_plan(plan, 2048, "")
