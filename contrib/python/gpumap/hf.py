# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""transformers and accelerate: device maps, memory, and models from shares."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from . import errors
from .enums import DeviceState
from .map import Layers, Map, Path
from .session import FingerprintLike, Session

__all__ = ["device_map", "from_share", "max_memory"]


def device_map(
    layers: Layers, model: Path, *, env: Mapping[str, str] | None = None
) -> dict[str, int | str]:
    """A layer map as accelerate's device_map: modules to ordinals, or "cpu".

    model   the model's directory, for the names of its modules
    env     CUDA_VISIBLE_DEVICES of the program that will use it; None:
            os.environ

    NoDevice: a row of the map is not visible there.  Unsupported: accelerate
    cannot follow the map.
    """
    settings = layers.map.export("accelerate", layers, model=model)
    found: dict[str, int | str] = json.loads(settings.file or "{}")
    for name, device in found.items():
        if not isinstance(device, int):
            continue
        row = settings.rows[device]
        ordinal = layers.map.ordinal(row, env)
        if ordinal is None:
            raise errors.make(
                "device_map",
                19,
                "a row is not visible",
                f"{name} is on row {row}, which CUDA_VISIBLE_DEVICES hides: "
                f"set it as Map.export() says",
            )
        found[name] = ordinal
    return found


def max_memory(
    map: Map, *, keep: int = 0, env: Mapping[str, str] | None = None
) -> dict[int | str, int]:
    """accelerate's max_memory: what is free and not reserved, in bytes.

    keep   bytes of each device to leave free
    env    as in device_map()
    """
    found: dict[int | str, int] = {}
    for ordinal, row in enumerate(map.visible(env)):
        found[ordinal] = max(map.devices[row].unclaimed - keep, 0)
    hosts = [
        device.unclaimed
        for device in map.devices
        if device.is_host and device.state == DeviceState.READY
    ]
    # Host rows without a NUMA node of their own share one memory.
    found["cpu"] = max(max(hosts, default=0) - keep, 0)
    return found


def from_share(
    session: Session,
    name: str,
    config: Any = None,
    *,
    auto: str = "AutoModelForCausalLM",
    fingerprint: FingerprintLike = None,
    **named: Any,
) -> Any:
    """A model of transformers over the memory of a loaded model.

    config   of transformers; None: what was loaded with the model
    auto     the class of transformers that makes it
    named    for its from_config()

    The parameters are made on the meta device, so that their own memory is
    never allocated, and then are the shared tensors, copy on write.  Do not
    give it a device_map: transformers would allocate the whole model once more.

    Mismatch: the tensors are not those of the config, or the fingerprint
    differs.
    """
    import transformers

    from .torch import attach_module, unfilled_on_meta, without_memory

    model = session.open(name, fingerprint=fingerprint)
    if config is None:
        facts = model.config
        kind = facts.pop("model_type", None)
        if kind is None:
            raise errors.make(
                "from_share",
                61,
                "no config",
                f"{name} was loaded without a config.json: give config=",
            )
        config = transformers.AutoConfig.for_model(kind, **facts)
    with unfilled_on_meta():
        module = getattr(transformers, auto).from_config(config, **named)
    report = attach_module(module, model, strict=False)
    module.tie_weights()
    missing = without_memory(module)
    if missing:
        raise errors.make(
            "from_share",
            129,
            "the config is of another model",
            f"{name} lacks {', '.join(missing[:8])}: give the model's own "
            f"config; it has {', '.join(report.unexpected[:8]) or 'no more'}",
        )
    return module.eval()
