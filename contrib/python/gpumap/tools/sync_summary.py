# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""The summary of a node: one object of JSON of at most 16 KiB.

Rows come first, in their order, then shares; those that find no room are
counted.  Members that a reader does not know are ignored.  Another node wrote
the summary: the reader believes nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from .. import Map
from ..enums import (
    ClusterFlags,
    ClusterState,
    DeviceFlags,
    DeviceKind,
    DeviceState,
    Known,
    State,
)
from ..facts import (
    ClusterDevice,
    ClusterNode,
    ClusterShare,
    Device,
    uuid_bytes,
    uuid_text,
)
from .sync_config import is_address, is_name
from .sync_etcd import VALUE_BYTES

FORMAT = 3
NAME_BYTES = 63
ROWS_MAX = 256
DEVICES_MAX = 64  # that are listed
SHARES_MAX = 64
MOVED = 256  # a figure has moved by more than this part of its row
U32 = 2**32 - 1
U64 = 2**64 - 1

KINDS = {one.name.lower(): one for one in DeviceKind}
STATES = {one.name.lower(): one for one in DeviceState}
# As numbers: cards, hosts and dummies, from the highest.
CLASS = DeviceFlags.SERVES | DeviceFlags.CARD
CC = re.compile(r"[1-9][0-9]{0,2}\.(0|[1-9][0-9]{0,2})")
HEX = re.compile("[0-9a-f]+")
# White_Space, Cc, Cf and Cs of Unicode, by ranges: as names of gpumapd(8).
UNFIT = re.compile(
    "[\0- \x7f-\xa0\xad\u0600-\u0605\u061c\u06dd\u070f\u1680\u180e"
    "\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ud800-\udfff\ufeff"
    "\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e007f]"
)
BOOT = re.compile("[0-9a-f-]{36}")

Json = dict[str, Any]


class Refused(ValueError):
    """What another node has written cannot be: the text says why."""


class Summary(NamedTuple):
    """A node, as its gpumap-sync tells of it."""

    node: ClusterNode
    instance: str  # of the gpumap-sync
    boot: str


# ---- reading the map --------------------------------------------------------


class Reader:
    """Reads this node's map.

    Links between rows are read when rows have come or gone.
    """

    def __init__(self) -> None:
        self._rows: list[tuple[int, str]] = []
        self._links: dict[int, int] = {}

    def rows(self, map: Map, node: ClusterNode) -> ClusterNode:
        """The node with the devices of its map, and the agent's state."""
        health = map.health()
        devices = [one for one in map.devices if one.name or one.total_bytes]
        devices.sort(key=lambda one: (-int(one.flags & CLASS), one.row))
        listed = devices[:DEVICES_MAX]
        self._find_links(map, listed)
        flags = node.flags & ~ClusterFlags.DRAINING
        if health.state == State.DRAINING:
            flags |= ClusterFlags.DRAINING
        return node._replace(
            flags=flags,
            epoch=health.epoch,
            agent_version=health.agent_version,
            devices=tuple(self._device(one) for one in listed),
            more_devices=len(devices) - len(listed),
        )

    def _find_links(self, map: Map, listed: list[Device]) -> None:
        rows = [(one.row, one.uuid) for one in listed]
        if rows == self._rows:
            return
        self._rows = rows
        self._links = {
            row: sum(
                map.path(row, other).nvlinks
                for other, _ in rows
                if other != row
            )
            for row, _ in rows
        }

    def _device(self, one: Device) -> ClusterDevice:
        """Readers refuse figures that cannot be: put a driver's right."""
        has_cc = bool(one.known & Known.CC)
        return ClusterDevice(
            row=one.row,
            uuid=one.uuid,
            name=plain(one.name) or "?",
            kind=one.kind,
            state=one.state,
            flags=one.flags,
            numa_node=max(one.numa_node, -1),
            cc_major=one.cc_major if has_cc else 0,
            cc_minor=one.cc_minor if has_cc else 0,
            total_bytes=one.total_bytes,
            free_bytes=min(one.free_bytes, one.total_bytes),
            reserved_bytes=one.reserved_bytes,
            used_by_holders=min(one.used_by_holders, one.reserved_bytes),
            links=self._links.get(one.row, 0),
        )


def plain(words: str) -> str:
    """Words with "?" for each character that no name may have."""
    return " ".join(UNFIT.sub("?", word) for word in words.split(" "))


def with_shares(map: Map, node: ClusterNode) -> ClusterNode:
    """The node with the shares of its agent, those with a hash first."""
    shares = sorted(map.shares(), key=lambda one: not one.fingerprint)
    return node._replace(
        shares=tuple(
            ClusterShare(
                uid=one.uid,
                flags=one.flags,
                name=one.name,
                bytes=one.bytes,
                rows=tuple(one.rows),
                fingerprint=one.fingerprint,
            )
            for one in shares[:SHARES_MAX]
        ),
        more_shares=len(shares[SHARES_MAX:]),
    )


def has_facts(old: ClusterNode, new: ClusterNode) -> bool | None:
    """Is there anything that other nodes must know?

    True: at once.  False: figures alone have moved, by more than 1/256 of
    their row.  None: nothing.
    """
    rows = zip(old.devices, new.devices, strict=False)
    moved = any(
        abs(a.free_bytes - b.free_bytes) > b.total_bytes // MOVED
        or abs(a.used_by_holders - b.used_by_holders)
        > b.total_bytes // MOVED
        for a, b in rows
    )
    reserved = any(
        abs(a.reserved_bytes - b.reserved_bytes) > b.total_bytes // MOVED
        for a, b in zip(old.devices, new.devices, strict=False)
    )
    if reserved or _facts_of(old) != _facts_of(new):
        return True
    return False if moved else None


def _facts_of(node: ClusterNode) -> ClusterNode:
    """The node without what moves by itself."""
    devices = tuple(
        one._replace(free_bytes=0, used_by_holders=0, reserved_bytes=0)
        for one in node.devices
    )
    return node._replace(devices=devices, age_ns=0)


# ---- writing ----------------------------------------------------------------


def encode(summary: Summary) -> bytes:
    """The value of a node's key."""
    node = summary.node
    head: Json = {
        "format": FORMAT,
        "node": node.name,
        "instance": summary.instance,
        "boot": summary.boot,
        "version": node.agent_version,
        "epoch": node.epoch,
        "address": node.address,
        "gangs": not node.flags & ClusterFlags.NO_GANGS,
        "draining": bool(node.flags & ClusterFlags.DRAINING),
        "rows": [],
        "rows_more": U32,
        "shares": [],
        "shares_more": U32,
    }
    room = VALUE_BYTES - len(_dump(head))
    rows = [_row_of(one) for one in node.devices]
    shares = [_share_of(one) for one in node.shares]
    head["rows"], room = _fitting(rows, room)
    head["shares"], room = _fitting(shares, room)
    more_rows = len(rows) - len(head["rows"])
    more_shares = len(shares) - len(head["shares"])
    head["rows_more"] = node.more_devices + more_rows
    head["shares_more"] = node.more_shares + more_shares
    return _dump(head)


def _dump(value: Json) -> bytes:
    return json.dumps(
        value, separators=(",", ":"), ensure_ascii=False
    ).encode()


def _fitting(items: list[Json], room: int) -> tuple[list[Json], int]:
    """The first items, as far as there is room, and the room that is left."""
    taken = []
    for item in items:
        n_bytes = len(_dump(item)) + 1  # and a comma
        if n_bytes > room:
            break
        room -= n_bytes
        taken.append(item)
    return taken, room


def _row_of(one: ClusterDevice) -> Json:
    row: Json = {
        "row": one.row,
        "uuid": uuid_bytes(one.uuid).hex(),
        "name": one.name,
        "kind": one.kind.name.lower(),
        "state": one.state.name.lower(),
        "flags": int(one.flags),
        "numa": one.numa_node,
        "total": one.total_bytes,
        "free": one.free_bytes,
        "reserved": one.reserved_bytes,
        "used": one.used_by_holders,
        "links": one.links,
    }
    if one.cc_major:
        row["cc"] = f"{one.cc_major}.{one.cc_minor}"
    return row


def _share_of(one: ClusterShare) -> Json:
    share: Json = {
        "name": one.name,
        "bytes": one.bytes,
        "uid": one.uid,
        "flags": one.flags,
        "rows": list(one.rows),
    }
    if one.fingerprint:
        share["hash"] = bytes(one.fingerprint).hex()
    return share


# ---- believing nothing ------------------------------------------------------


class Fields:
    """The members of an object of JSON that another node has written.

    where   "", or "rows[3].": before the names of members, in messages
    """

    def __init__(self, value: object, where: str = "") -> None:
        if not isinstance(value, dict):
            raise Refused(f"{where[:-1] or 'it'} is no object")
        self._value = value
        self._where = where

    def refuse(self, name: str, why: str) -> Refused:
        """The exception for a member."""
        return Refused(f"{self._where}{name} {why}")

    def has(self, name: str) -> bool:
        """Is the member there?"""
        return name in self._value

    def number(self, name: str, most: int, least: int = 0) -> int:
        """A whole number."""
        value = self._value.get(name)
        if type(value) is not int:
            raise self.refuse(name, "is no number, or is missing")
        if not least <= value <= most:
            raise self.refuse(name, "is too large or too small")
        return value

    def text(self, name: str, check: Callable[[str], object]) -> str:
        """A text that the check takes."""
        value = self._value.get(name)
        if not isinstance(value, str):
            raise self.refuse(name, "is no text, or is missing")
        if not check(value):
            raise self.refuse(name, "cannot be that")
        return value

    def switch(self, name: str) -> bool:
        """True or false."""
        value = self._value.get(name)
        if not isinstance(value, bool):
            raise self.refuse(name, "is neither true nor false, or missing")
        return value

    def hex(self, name: str, n_bytes: int) -> str:
        """So many bytes in hexadecimal digits."""
        value = self.text(name, HEX.fullmatch)
        if len(value) != 2 * n_bytes:
            raise self.refuse(name, "has not so many hexadecimal digits")
        return value

    def seconds(self, name: str) -> float:
        """A time."""
        value = self._value.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            if 0 <= value < 1e9:
                return float(value)
        raise self.refuse(name, "is no number of seconds")

    def names(self) -> list[str]:
        """The names of all members."""
        return list(self._value)

    def object(self, name: str) -> Fields:
        """An object."""
        return Fields(self._value.get(name), f"{self._where}{name}.")

    def items(self, name: str, most: int) -> list[Fields]:
        """The objects of a list."""
        value = self.list(name, most)
        return [
            Fields(one, f"{self._where}{name}[{i}].")
            for i, one in enumerate(value)
        ]

    def list(self, name: str, most: int) -> list[Any]:
        """A list of at most so many."""
        value = self._value.get(name)
        if not isinstance(value, list):
            raise self.refuse(name, "is no list, or is missing")
        if len(value) > most:
            raise self.refuse(name, "has too many")
        return value


def parse(data: bytes) -> Fields:
    """The members of a value of our format."""
    if len(data) > VALUE_BYTES:
        raise Refused(f"it has more than {VALUE_BYTES} bytes")
    try:
        fields = Fields(json.loads(data.decode()))
    except (ValueError, RecursionError) as error:
        if isinstance(error, Refused):
            raise
        raise Refused(f"it is no JSON: {error}") from None
    number = fields.number("format", U32)
    if number != FORMAT:
        raise Refused(
            f"its format is {number}, and this gpumap-sync knows format"
            f" {FORMAT}: update the older of the two nodes"
        )
    return fields


def is_object_name(name: str) -> bool:
    """May a map or a share have this name?"""
    n_bytes = len(name.encode(errors="replace"))
    return 0 < n_bytes <= NAME_BYTES and not UNFIT.search(name)


def decode(data: bytes, name: str) -> Summary:
    """Read the value of a node's key.  Refused: the text says why."""
    fields = parse(data)
    instance = fields.hex("instance", 8)
    boot = fields.text("boot", BOOT.fullmatch)
    flags = ClusterFlags(0)
    if not fields.switch("gangs"):
        flags |= ClusterFlags.NO_GANGS
    if fields.switch("draining"):
        flags |= ClusterFlags.DRAINING
    devices = [_device_of(one) for one in fields.items("rows", DEVICES_MAX)]
    if len({one.row for one in devices}) < len(devices) or len(
        {one.uuid[-36:] for one in devices}
    ) < len(devices):
        raise fields.refuse("rows", "has a row twice")
    shares = [
        _cluster_share(one) for one in fields.items("shares", SHARES_MAX)
    ]
    if len({one.name for one in shares}) < len(shares):
        raise fields.refuse("shares", "has a name twice")
    node = ClusterNode(
        name=fields.text("node", lambda one: is_name(one) and one == name),
        address=fields.text("address", is_address),
        state=ClusterState.LIVE,
        flags=flags,
        age_ns=0,
        epoch=fields.number("epoch", U64),
        agent_version=fields.number("version", U32),
        more_devices=fields.number("rows_more", ROWS_MAX - len(devices)),
        more_shares=fields.number("shares_more", U32),
        devices=tuple(devices),
        shares=tuple(shares),
    )
    return Summary(node, instance, boot)


def _is_device_name(name: str) -> bool:
    n_bytes = len(name.encode(errors="replace"))
    return 0 < n_bytes <= NAME_BYTES and not UNFIT.search(name.replace(" ", ""))


def _device_of(fields: Fields) -> ClusterDevice:
    flags = DeviceFlags(fields.number("flags", U32))
    cc_major = cc_minor = 0
    if fields.has("cc"):
        cc = fields.text("cc", CC.fullmatch)
        cc_major, cc_minor = (int(word) for word in cc.split("."))
    total = fields.number("total", U64)
    reserved = fields.number("reserved", U64)
    plain = uuid_text(fields.hex("uuid", 16))
    return ClusterDevice(
        row=fields.number("row", ROWS_MAX - 1),
        uuid=f"GPU-{plain}" if DeviceFlags.CARD in flags else plain,
        name=fields.text("name", _is_device_name),
        kind=KINDS[fields.text("kind", KINDS.__contains__)],
        state=STATES[fields.text("state", STATES.__contains__)],
        flags=flags,
        numa_node=fields.number("numa", 2**31 - 1, -1),
        cc_major=cc_major,
        cc_minor=cc_minor,
        total_bytes=total,
        free_bytes=fields.number("free", total),
        reserved_bytes=reserved,
        used_by_holders=fields.number("used", reserved),
        links=fields.number("links", U32),
    )


def _cluster_share(fields: Fields) -> ClusterShare:
    rows = fields.list("rows", ROWS_MAX)
    for row in rows:
        if type(row) is not int or not 0 <= row < ROWS_MAX:
            raise fields.refuse("rows", "has one that is none")
    if len(set(rows)) < len(rows):
        raise fields.refuse("rows", "has one twice")
    has_hash = fields.has("hash")
    return ClusterShare(
        uid=fields.number("uid", U32),
        flags=fields.number("flags", U32),
        name=fields.text("name", is_object_name),
        bytes=fields.number("bytes", U64),
        rows=tuple(sorted(rows)),
        fingerprint=bytes.fromhex(fields.hex("hash", 32)) if has_hash else b"",
    )
