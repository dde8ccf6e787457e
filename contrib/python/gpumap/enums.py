# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""The library's numbers, by their names in the C headers."""

from __future__ import annotations

from enum import IntEnum, IntFlag


class _Told(IntEnum):
    """A number that an agent tells; its name is UNKNOWN where the agent is
    newer than this package."""

    @classmethod
    def _missing_(cls, value: object) -> _Told | None:
        if not isinstance(value, int):
            return None
        member = int.__new__(cls, value)
        member._name_ = "UNKNOWN"
        member._value_ = value
        return member


class DType(IntEnum):
    """The types of elements of jobs, enum gpumap_dtype."""

    U8 = 0
    F16 = 1
    BF16 = 2
    F32 = 3
    I32 = 4
    I64 = 5
    F64 = 6
    U16 = 7
    U32 = 8
    U64 = 9
    BOOL = 10
    I8 = 11
    I16 = 12
    F8_E4M3 = 13
    F8_E5M2 = 14

    @property
    def nbytes(self) -> int:
        """Bytes of an element."""
        return _SIZES[self]


_SIZES = {
    DType.U8: 1,
    DType.F16: 2,
    DType.BF16: 2,
    DType.F32: 4,
    DType.I32: 4,
    DType.I64: 8,
    DType.F64: 8,
    DType.U16: 2,
    DType.U32: 4,
    DType.U64: 8,
    DType.BOOL: 1,
    DType.I8: 1,
    DType.I16: 2,
    DType.F8_E4M3: 1,
    DType.F8_E5M2: 1,
}


class State(_Told):
    """The state of a map, enum gpumap_state."""

    STARTING = 1
    READY = 2
    DRAINING = 3
    RETIRED = 4


class DeviceKind(_Told):
    """enum gpumap_device_kind."""

    HOST = 1
    CUDA = 2
    DUMMY = 3
    OPENCL = 4
    VULKAN = 5
    HIP = 6


class DeviceState(_Told):
    """enum gpumap_device_state."""

    PROBING = 1
    READY = 2
    RESTARTING = 3
    DRAINING = 4
    FAILED = 5
    LOST = 6


class Known(IntFlag):
    """Which facts of a device are known, GPUMAP_KNOWN_*."""

    NUMA = 1 << 0
    PCI = 1 << 1
    CPUS = 1 << 2
    MEMORY = 1 << 3
    UNITS = 1 << 4
    CC = 1 << 5
    NVML = 1 << 6
    ORDINALS = 1 << 7
    MIG = 1 << 8
    UTILISATION = 1 << 9
    TEMPERATURE = 1 << 10
    POWER = 1 << 11


class DeviceFlags(IntFlag):
    """Properties of a device, GPUMAP_DEVICE_*."""

    ECC = 1 << 0
    INTEGRATED = 1 << 1
    MIG = 1 << 2
    FP16 = 1 << 3
    BF16 = 1 << 4
    INT8 = 1 << 5
    MAIN_MEMORY = 1 << 6
    CORDONED = 1 << 7
    PAGEABLE = 1 << 8
    SERVES = 1 << 9  # this and the next are abilities
    CARD = 1 << 10
    MAPPED = 1 << 11
    EXPORTS = 1 << 12
    CLIQUES = 1 << 13


class Peer(_Told):
    """May one card copy from another's memory directly?  enum gpumap_peer."""

    NONE = 0  # the driver does not say so
    REPORTED = 1  # it does, and it was not tried
    RIGHT = 2  # a copy was tried, and was right
    WRONG = 3  # one was wrong or failed: none is made


class ClusterState(_Told):
    """The knowledge of a node of the cluster, enum gpumap_cluster_state."""

    LIVE = 1
    GONE = 2  # it tells nothing; what it had is still listed
    REFUSED = 3  # what it says is of another format, or damaged


class ClusterFlags(IntFlag):
    """Properties of a node of the cluster, GPUMAP_CLUSTER_*."""

    SELF = 1 << 0  # this node
    NO_GANGS = 1 << 1  # it takes no gangs
    DRAINING = 1 << 2  # its agent is ending


class Setting(IntEnum):
    """The origin of a layer map, enum gpumap_setting."""

    MANUAL = 1
    AUTO = 2
    TOPOLOGY = 3
    DUMMY = 4
    NCCL = 5
    PIPELINE = 6
    RESERVE = 7


class MetaFormat(IntEnum):
    """The form of a checkpoint's metadata, enum gpumap_model_meta_format."""

    CONFIG_JSON = 1
    GGUF = 2


class Strategy(IntEnum):
    """enum gpumap_strategy."""

    FILL = 1
    BALANCE = 2
    FEWEST = 3


class ChooseBy(IntEnum):
    """enum gpumap_choose_by."""

    BEST = 0
    FREE_MEMORY = 1
    FREE_COMPUTE = 2


class Work(IntEnum):
    """A kind of work, and what its size counts, enum gpumap_work."""

    GEMM = 0
    POTRF = 1
    XTWX = 2
    FILL = 3
    COPY = 4
    SCALE = 5
    AXPY = 6
    CAST = 7
    REDUCE = 8
    MASK = 9


class Op(IntEnum):
    """The operation of a job or a collective, enum gpumap_op."""

    NOP = 0
    FILL = 1
    COPY = 2
    SCALE = 3
    AXPY = 4
    ALLOC = 5  # of Session.alloc(); no job
    FREE = 6  # of Buffer.free(); no job
    CAST = 7
    SUM = 8
    MIN = 9
    MAX = 10
    MASK_ADD = 11
    MASK_BOOL = 12
    LOAD = 13
    RUN = 14
    BARRIER = 16
    ALL_REDUCE = 17
    ALL_GATHER = 18
    REDUCE_SCATTER = 19
    BROADCAST = 20
    SEND = 21
    RECV = 22


class Reduce(IntEnum):
    """The operation that combines elements of ranks, enum gpumap_reduce."""

    SUM = 0
    PRODUCT = 1
    MIN = 2
    MAX = 3
    AVERAGE = 4


class ModelState(_Told):
    """enum gpumap_model_state."""

    ALLOCATING = 1
    LOADING = 2
    LOADED = 3
    ENDING = 4
    FAILED = 5
    WAITING = 6


class MaskKind(_Told):
    """enum gpumap_mask_kind."""

    NONE = 1
    CAUSAL_FLASH = 2
    CUSTOM = 3


class MaskForm(_Told):
    """The rule of a mask with a tensor, enum gpumap_mask_form."""

    LOADED = 0
    CAUSAL = 1
    SLIDING = 2
    CHUNKED = 3
    BIDIRECTIONAL_SLIDING = 4


class MeshTopology(_Told):
    """enum gpumap_mesh_topology."""

    DATA = 1
    TENSOR = 2
    PIPELINE = 3
    MIXED = 4


class MeshBackend(_Told):
    """enum gpumap_mesh_backend."""

    MOCK = 1
    NCCL = 2
    GLOO = 3
    MPI = 4


class Engine(IntEnum):
    """enum gpumap_engine."""

    ENV = 1
    LLAMA_CPP = 2
    OLLAMA = 3
    VLLM = 4
    SGLANG = 5
    MISTRAL_RS = 6
    ACCELERATE = 7


# Bits of the C headers that arguments of the package stand for.
SESSION_POLLABLE = 1 << 0
SESSION_SPARSE = 1 << 1
SESSION_PROGRAMS = 1 << 2
BUFFER_EXPORTABLE = 1 << 0
BUFFER_READ_ONLY = 1 << 1
MODEL_ANY_FILES = 1 << 8
MODEL_AS_FILE = 1 << 9
MODEL_MAPPED = 1 << 10
SHARE_READ_ONLY = 1 << 0
SHARE_ANY_USER = 1 << 1
SHARE_KEEP = 1 << 2
PLAN_PUBLISH = 1 << 0
PLAN_COMMIT = 1 << 1
PLAN_HELD = 1 << 2
PLAN_BASE = 1 << 3
PLAN_NEW = 1 << 4
PLAN_FOR = 1 << 5
WAIT_FOR_START = 1 << 0
LAYERS_COMMITTED = 1 << 0
LAYERS_HELD = 1 << 1
SCATTER_FALLBACK = 1 << 0
COMM_NCCL = 1 << 0
MESH_BROKEN = 1 << 0
MESH_ANY = 2**32 - 1
CLUSTER_BEGIN = 1 << 0
CLUSTER_MORE = 1 << 1
CLUSTER_HEARD = 1 << 2
ENGINE_BY_ENV = 1 << 0
