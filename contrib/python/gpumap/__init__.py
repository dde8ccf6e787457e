# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""One node's GPU map, shared by every inference process on it.

    import gpumap

    with gpumap.attach() as map:
        print(map.devices[0].free, map.maps())
        model = map.session().load("/models/llama", name="llama")
        weight = model["model.layers.0.mlp.up_proj.weight"].numpy()

gpumapd(8) is the agent; gpumap(7) has the concepts.  Importing needs no agent.
Numbers of bytes are plain ints, times are seconds unless their names say _ns.
"""

from __future__ import annotations

from . import errors
from ._core import strerror, version
from .checkpoint import Shape
from .enums import (
    ChooseBy,
    DeviceFlags,
    DeviceKind,
    DeviceState,
    DType,
    Engine,
    Known,
    MaskForm,
    MaskKind,
    MeshTopology,
    MetaFormat,
    ModelState,
    Op,
    Reduce,
    Setting,
    State,
    Strategy,
    Work,
)
from .errors import (
    Again,
    Busy,
    Canceled,
    Denied,
    DoesNotFit,
    Draining,
    Error,
    Exists,
    Forked,
    Full,
    Gone,
    Invalid,
    Lost,
    Mismatch,
    NoDescriptors,
    NoDevice,
    NoMemory,
    NotFound,
    NothingInFlight,
    NotRunning,
    NotSeen,
    OutOfRange,
    Protocol,
    Quota,
    Stale,
    Timeout,
    TooLarge,
    TooNew,
    Unreachable,
    Unsupported,
    WorkerDied,
)
from .facts import (
    Charge,
    Device,
    Done,
    Fingerprint,
    Group,
    Health,
    Holder,
    LayersInfo,
    MaskInfo,
    MeshInfo,
    Plan,
    Policy,
    Progress,
    Reserved,
    SessionInfo,
    Settings,
    ShareInfo,
    Tile,
    Usage,
    Waiting,
)
from .map import Devices, Layers, Map, Reservation, attach
from .mask import Mask
from .mesh import Joined, Mesh
from .session import Buffer, Job, Memory, Session, Share, Source
from .sync import Member, Sync
from .comm import Comm  # isort: skip
from .model import File, Model, Tensor

__version__ = ".".join(
    str(part)
    for part in (
        version() // 10000,
        version() // 100 % 100,
        version() % 100,
    )
)

__all__ = [
    "Again",
    "Buffer",
    "Busy",
    "Canceled",
    "Charge",
    "ChooseBy",
    "Comm",
    "DType",
    "Denied",
    "Device",
    "DeviceFlags",
    "DeviceKind",
    "DeviceState",
    "Devices",
    "DoesNotFit",
    "Done",
    "Draining",
    "Engine",
    "Error",
    "Exists",
    "File",
    "Fingerprint",
    "Forked",
    "Full",
    "Gone",
    "Group",
    "Health",
    "Holder",
    "Invalid",
    "Job",
    "Joined",
    "Known",
    "Layers",
    "LayersInfo",
    "Lost",
    "Map",
    "Mask",
    "MaskForm",
    "MaskInfo",
    "MaskKind",
    "Member",
    "Memory",
    "Mesh",
    "MeshInfo",
    "MeshTopology",
    "MetaFormat",
    "Mismatch",
    "Model",
    "ModelState",
    "NoDescriptors",
    "NoDevice",
    "NoMemory",
    "NotFound",
    "NotRunning",
    "NotSeen",
    "NothingInFlight",
    "Op",
    "OutOfRange",
    "Plan",
    "Policy",
    "Progress",
    "Protocol",
    "Quota",
    "Reduce",
    "Reservation",
    "Reserved",
    "Session",
    "SessionInfo",
    "Setting",
    "Settings",
    "Shape",
    "Share",
    "ShareInfo",
    "Source",
    "Stale",
    "State",
    "Strategy",
    "Sync",
    "Tensor",
    "Tile",
    "Timeout",
    "TooLarge",
    "TooNew",
    "Unreachable",
    "Unsupported",
    "Usage",
    "Waiting",
    "Work",
    "WorkerDied",
    "attach",
    "errors",
    "strerror",
    "version",
]
