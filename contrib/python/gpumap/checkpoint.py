# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""The shape of a checkpoint, for plans: bytes of layers, heads of attention.

Reads headers only: those of safetensors files, with config.json beside them, or
of a GGUF file.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO

from .enums import DType

if TYPE_CHECKING:
    from pathlib import Path

_CONTAINERS = {"layers", "h", "blk", "blocks", "block", "layer"}
_DTYPES = {d.name: d for d in DType}
_LAYER_KEYS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_LANGUAGE_KEYS = ("text_config", "llm_config", "language_config")
_WIDTH_KEYS = ("hidden_size", "n_embd", "d_model")
_HEAD_KEYS = ("num_attention_heads", "n_head", "n_heads")
_KV_KEYS = (
    "num_key_value_heads",
    "num_kv_heads",
    "n_head_kv",
    "multi_query_group_num",
    "kv_n_heads",
)
_DIM_KEYS = ("head_dim", "kv_channels")

# Elements and bytes of a block, by GGUF's numbers.
_GGUF_TYPES: dict[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    9: ("Q8_1", 32, 36),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1),
    25: ("I16", 1, 2),
    26: ("I32", 1, 4),
    27: ("I64", 1, 8),
    28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2),
    34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17),
}


def layer_of(name: str) -> tuple[str, int] | None:
    """The stack and the number of a tensor's layer, None: of none.

    [PREFIX.]layers.N.REST, or with layer, h, blk, block or blocks.
    """
    words = name.split(".")
    for i in range(len(words) - 2):
        number = words[i + 1]
        if words[i] not in _CONTAINERS or not number.isdecimal():
            continue
        if len(number) > 1 and number[0] == "0":
            continue
        return ".".join(words[: i + 1]), int(number)
    return None


@dataclass(frozen=True)
class Shape:
    """The facts of a model that a plan needs.

    layer_bytes   bytes of each layer
    other_bytes   of what belongs to no layer
    dtype         of most weights
    n_heads ...   of attention, 0: not known, and no KV cache is charged
    """

    layer_bytes: tuple[int, ...]
    other_bytes: int = 0
    dtype: DType = DType.F16
    n_heads: int = 0
    n_kv_heads: int = 0
    k_dim: int = 0
    v_dim: int = 0
    kv_lora_rank: int = 0
    kpe_head_dim: int = 0
    path: str | None = field(default=None, compare=False)

    @property
    def n_layers(self) -> int:
        """How many layers there are."""
        return len(self.layer_bytes)

    @classmethod
    def of(cls, path: str | os.PathLike[str]) -> Shape:
        """Read the headers of a checkpoint.

        path   a directory with safetensors files, one such file, or a GGUF
               file

        FileNotFoundError: there is none.  ValueError: it is malformed.
        """
        from pathlib import Path

        place = Path(path)
        if place.suffix == ".gguf":
            tensors, config = _read_gguf(place)
        else:
            tensors = list(_read_safetensors(place))
            folder = place if place.is_dir() else place.parent
            config = _read_config(folder / "config.json")
        return cls(
            **_sizes(tensors, config.pop("n_layers", 0)),
            **config,
            path=os.fspath(path),
        )


def _sizes(
    tensors: list[tuple[str, str, int]], n_layers: int
) -> dict[str, Any]:
    stacks: dict[str, dict[int, int]] = {}
    by_type: dict[str, int] = {}
    total = 0
    for name, kind, nbytes in tensors:
        total += nbytes
        by_type[kind] = by_type.get(kind, 0) + nbytes
        place = layer_of(name)
        if place is not None:
            layers = stacks.setdefault(place[0], {})
            layers[place[1]] = layers.get(place[1], 0) + nbytes
    if not stacks:
        raise ValueError("no tensor of it belongs to a layer")

    # Several stacks: the language model's is the one that config.json counts,
    # or else the largest.
    def rank(stack: dict[int, int]) -> tuple[bool, int]:
        return len(stack) >= n_layers > 0, sum(stack.values())

    layers = max(stacks.values(), key=rank)
    n = n_layers or max(layers) + 1
    sizes = tuple(layers.get(i, 0) for i in range(n))
    most = max(by_type, key=lambda kind: by_type[kind])
    return {
        "layer_bytes": sizes,
        "other_bytes": total - sum(sizes),
        "dtype": _DTYPES.get(most, DType.U8),
    }


# ---- safetensors -------------------------------------------------------------


def _read_safetensors(place: Path) -> Iterator[tuple[str, str, int]]:
    files = sorted(place.glob("*.safetensors")) if place.is_dir() else [place]
    index = place / "model.safetensors.index.json"
    if place.is_dir() and index.is_file():
        named = json.loads(index.read_text())["weight_map"].values()
        files = [place / name for name in sorted(set(named))]
    if not files:
        raise FileNotFoundError(f"{place}: no safetensors file")
    for file in files:
        with open(file, "rb") as stream:
            (length,) = struct.unpack("<Q", _exactly(stream, 8))
            if length > 256 << 20:
                raise ValueError(f"{file}: a header of {length} bytes")
            header = json.loads(_exactly(stream, length))
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            start, end = entry["data_offsets"]
            yield name, entry["dtype"], end - start


def _exactly(stream: BinaryIO, n: int) -> bytes:
    data = stream.read(n)
    if len(data) != n:
        raise ValueError("the file ends in its header")
    return data


def _first(config: dict[str, Any], keys: tuple[str, ...]) -> int:
    for key in keys:
        value = config.get(key)
        if isinstance(value, int) and value > 0:
            return value
    return 0


def _read_config(path: Path) -> dict[str, int]:
    if not path.is_file():
        return {}
    config = json.loads(path.read_text())
    parts = [config, *(config.get(key) or {} for key in _LANGUAGE_KEYS)]
    part: dict[str, Any] = next(
        (p for p in parts if _first(p, _LAYER_KEYS)), {}
    )
    found = {"n_layers": _first(part, _LAYER_KEYS)}
    heads = _first(part, _HEAD_KEYS)
    if not heads:
        return found
    found["n_heads"] = heads
    found.update(_attention(part, heads))
    return found


def _attention(part: dict[str, Any], heads: int) -> dict[str, int]:
    kv = _first(part, _KV_KEYS) or _first(
        part.get("attn_config") or {}, _KV_KEYS
    )
    if part.get("multi_query") and not part.get("new_decoder_architecture"):
        kv = 1
    kv = kv or heads
    rank = _first(part, ("kv_lora_rank",))
    rope = _first(part, ("qk_rope_head_dim",))
    if rank and rope:
        return {
            "n_kv_heads": kv,
            "k_dim": _first(part, ("qk_nope_head_dim",)) + rope,
            "v_dim": _first(part, ("v_head_dim",)),
            "kv_lora_rank": rank,
            "kpe_head_dim": rope,
        }
    dim = _first(part, _DIM_KEYS) or _first(part, _WIDTH_KEYS) // heads
    return {"n_kv_heads": kv, "k_dim": dim, "v_dim": dim} if dim else {}


# ---- GGUF --------------------------------------------------------------------

_SCALARS = {
    0: "<B",
    1: "<b",
    2: "<H",
    3: "<h",
    4: "<I",
    5: "<i",
    6: "<f",
    7: "<?",
    10: "<Q",
    11: "<q",
    12: "<d",
}


def _scalar(stream: BinaryIO, form: str) -> Any:
    return struct.unpack(form, _exactly(stream, struct.calcsize(form)))[0]


def _text(stream: BinaryIO) -> str:
    length = _scalar(stream, "<Q")
    if length > 64 << 20:
        raise ValueError(f"a text of {length} bytes")
    return _exactly(stream, length).decode("utf-8", "replace")


def _value(stream: BinaryIO, kind: int) -> Any:
    if kind == 8:
        return _text(stream)
    if kind == 9:
        item = _scalar(stream, "<I")
        n = _scalar(stream, "<Q")
        if item not in _SCALARS:
            return [_value(stream, item) for _ in range(n)]
        form = f"<{n}{_SCALARS[item][1]}"
        return list(
            struct.unpack(form, _exactly(stream, struct.calcsize(form)))
        )
    if kind not in _SCALARS:
        raise ValueError(f"a GGUF value of type {kind}")
    return _scalar(stream, _SCALARS[kind])


def gguf_values(stream: BinaryIO) -> tuple[int, dict[str, Any]]:
    """How many tensors a GGUF file has, and its key-value pairs."""
    if _exactly(stream, 4) != b"GGUF":
        raise ValueError("no GGUF file")
    _scalar(stream, "<I")
    n_tensors: int = _scalar(stream, "<Q")
    values: dict[str, Any] = {}
    for _ in range(_scalar(stream, "<Q")):
        key = _text(stream)
        values[key] = _value(stream, _scalar(stream, "<I"))
    return n_tensors, values


def _read_gguf(
    path: Path,
) -> tuple[list[tuple[str, str, int]], dict[str, Any]]:
    with open(path, "rb") as stream:
        n_tensors, values = gguf_values(stream)
        tensors = [_gguf_tensor(stream) for _ in range(n_tensors)]
    arch = values.get("general.architecture")

    def number(key: str) -> int:
        value = values.get(f"{arch}.{key}")
        return value if isinstance(value, int) else 0

    config = {"n_layers": number("block_count")}
    heads = number("attention.head_count")
    if heads:
        dim = number("embedding_length") // heads
        config |= {
            "n_heads": heads,
            "n_kv_heads": number("attention.head_count_kv") or heads,
            "k_dim": number("attention.key_length") or dim,
            "v_dim": number("attention.value_length") or dim,
        }
    return tensors, config


def _gguf_tensor(stream: BinaryIO) -> tuple[str, str, int]:
    name = _text(stream)
    elements = 1
    for _ in range(_scalar(stream, "<I")):
        elements *= _scalar(stream, "<Q")
    kind = _scalar(stream, "<I")
    _scalar(stream, "<Q")
    if kind not in _GGUF_TYPES:
        raise ValueError(f"a tensor of type {kind}")
    text, block, nbytes = _GGUF_TYPES[kind]
    return name, text, elements // block * nbytes
