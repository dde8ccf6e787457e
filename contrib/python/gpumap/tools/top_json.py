# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""The facts of gpumapctl top as an object for JSON."""

from __future__ import annotations

from typing import Any

from ..enums import DeviceFlags, Known
from ..facts import Holder, SessionInfo
from .top_facts import Facts, Owned, Process, Row

Object = dict[str, Any]


def of_facts(facts: Facts) -> Object:
    """All of them.  A list that the agent has not given is null."""
    sessions = [of_session(facts, one) for one in facts.sessions or []]
    shares = [
        pick(one.info, "name bytes")
        | {"holders": one.info.n_holders}
        | pick(one.info, "kept rows age_ns")
        | of_process(one.process)
        for one in facts.shares or []
    ]
    maps = [
        pick(one.info, "name n_layers")
        | pick(one, "bytes")
        | pick(one.info, "committed")
        | pick(one, "rows")
        | pick(one.process, "uid user")
        for one in facts.maps
    ]
    waits = [of_wait(facts, i) for i in range(len(facts.waits or []))]
    return {
        "instance": facts.instance,
        **pick(facts.health, "stale age_ns epoch agent_pid agent_version"),
        "up_s": facts.up_s or None,
        "rows": [of_row(facts, row) for row in facts.rows],
        "reservations": [of_holder(one) for one in facts.holders],
        "maps": maps,
        "sessions": None if facts.sessions is None else sessions,
        "shares": None if facts.shares is None else shares,
        "waits": None if facts.waits is None else waits,
    }


def pick(of: object, names: str) -> Object:
    """Attributes by their names."""
    return {name: getattr(of, name) for name in names.split()}


def of_process(process: Process) -> Object:
    """The members that tell whose something is."""
    pid = {"pid": process.pid or None}
    return pick(process, "uid user") | pid | pick(process, "command")


def of_row(facts: Facts, row: Row) -> Object:
    """A row."""
    device = row.device

    def known(fact: Known, value: int) -> int | None:
        return value if device.known & fact else None

    return {
        "row": device.row,
        "kind": device.kind.name.lower(),
        "name": device.name,
        "state": device.state.name,
        "reason": device.reason,
        "cordoned": bool(device.flags & DeviceFlags.CORDONED),
        "numa_node": known(Known.NUMA, device.numa_node),
        "total_bytes": device.total_bytes,
        "used_bytes": device.used,
        "session_bytes": None if facts.usages is None else row.ours,
        "promised_bytes": device.promised,
        "free_bytes": device.unclaimed,
        "utilisation": known(Known.UTILISATION, device.utilisation),
        "temperature": known(Known.TEMPERATURE, device.temperature),
        "power": known(Known.POWER, device.power),
        **pick(device, "worker_pid restarts"),
        "jobs": row.jobs,
        "jobs_failed": row.failed,
    }


def of_session(facts: Facts, session: Owned[SessionInfo]) -> Object:
    """A session."""
    names = "id rows arena_bytes age_ns load_bytes load_total_bytes"
    usage = [
        pick(one, "row bytes lent_bytes borrowed_bytes")
        for one in facts.usage_of(session.info.id)
    ]
    process = of_process(session.process)
    return pick(session.info, names) | {"usage": usage} | process


def of_holder(holder: Owned[Holder]) -> Object:
    """A reservation."""
    return {
        **pick(holder.info, "name since_ns"),
        "bytes": holder.bytes,
        "rows": [pick(charge, "row bytes") for charge in holder.charges],
        "start_ns": holder.info.start_ns or None,
        **of_process(holder.process),
    }


def of_wait(facts: Facts, i: int) -> Object:
    """The request that is i in the line."""
    wait = (facts.waits or [])[i]
    holder, before = facts.wait_for(i)
    return {
        "name": wait.info.name,
        "bytes": wait.info.bytes or None,
        **pick(wait.info, "rows age_ns left_ns for_start"),
        "missing_bytes": wait.info.missing_bytes or None,
        "for": holder.info.name if holder else None,
        "before": before,
        **of_process(wait.process),
    }
