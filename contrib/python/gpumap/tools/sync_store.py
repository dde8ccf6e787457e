# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""The cluster's keys in etcd: those of others as they are, ours as they should
be.

	nodes/NODE		what a node has, sync_summary
	alive/NODE		a counter that NODE moves
	gangs/NODE/ID		what a process of NODE asks for, sync_gangs
	holds/NODE/ASKER.ID	what NODE holds for the gang ID of ASKER

  - A key has one writer, the node that it names.  Each transaction has the
    condition that alive/NODE is under the writer's lease: so nothing arrives
    that a predecessor wrote late, or another machine of this name.
  - wanted has our keys as they should be, keys as the watch says that they
    are; whatever differs is written.
  - A node that comes, or has lost its lease, writes alive/NODE last: whoever
    sees it sees all that the node wants.
  - The time in which the watch does not hear etcd does not count: etcd may be
    away, and then nobody is dead.  Keys that end together with alive/NODE, by
    the end of its lease, stay the node's last word until it is back or dead.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .sync_config import Config, is_name
from .sync_etcd import (
    NO_ETCD,
    PAUSES,
    Changed,
    Cut,
    Etcd,
    Heard,
    Json,
    LeaseLost,
    Listed,
    StoreError,
    Value,
    delete,
    encode,
    is_lease,
    is_revision,
    put,
    read_value,
)
from .sync_log import log
from .sync_summary import Fields

NODES_PER_S = 20  # that move their counters, in large clusters
PERIOD_MOST = 600.0  # seconds of a counter that is believed
DEAF = 0.6  # of the lease's time without a word: etcd is not heard
LEAVE_S = 0.5  # for an answer, in ending
NEVER = float("inf")
SLACK = 0.05  # seconds, by which a counter may be early
BATCH = 32  # keys of a transaction
AGAIN = 0.2  # seconds until what has failed its condition is tried again
HOLD_BYTES = 1024  # of one that is looked at
KEYS_MOST = {"gangs": 128, "holds": 1024}  # of another node
AT_NODES, AT_ALIVE, AT_GANGS, AT_HOLDS = "nodes/", "alive/", "gangs/", "holds/"


def node_of(key: str) -> str:
    """The node that writes the key."""
    parts = key.split("/", 2)
    return parts[1] if len(parts) > 1 else ""


@dataclass(slots=True)
class Alive:
    """A node's counter."""

    instance: str
    boot: str
    period: float  # seconds in which it moves
    moved: float  # when we heard of it last
    gone: float | None = None  # when its key went; None: it is there


class Store:
    """The cluster as this node's watch has heard of it, and our part of it.

    etcd    the connection of the loop
    clock   seconds, which only grow
    """

    def __init__(
        self,
        config: Config,
        etcd: Etcd,
        instance: str,
        boot: str,
        clock: Callable[[], float],
    ) -> None:
        self.config = config
        self.node = config.node
        self.keys: dict[str, Value] = {}
        self.kept: dict[str, dict[str, Value]] = {}  # last words, by node
        self.counters: dict[str, Alive] = {}
        self.wanted: dict[str, bytes] = {}
        self.pending: set[str] = set()  # a predecessor's, not decided yet
        self.changed: set[str] = set()  # keys, for whoever looks at them
        self.known = False  # the list has been whole, at least once
        self.whole = False  # every change is heard
        self.joined = False
        self.joined_at = 0.0
        self.taken = False  # another machine has our name
        self.held = False  # the lease, as far as we know
        self.heard_at = 0.0
        self.streak_from = 0.0  # since when the watch has heard without a gap
        self.deaf_at: float | None = None  # when an echo is overdue
        self._etcd = etcd
        self._instance = instance
        self._boot = boot
        self._clock = clock
        self._own: set[str] = set()
        self._n_there = 0
        self._n_keys: Counter[tuple[str, str]] = Counter()
        self._left_out: set[str] = set()
        self._written: dict[str, int] = {}  # revisions the watch has not said
        self._echo = 0  # revision of our counter that it has not said
        self._lease = 0
        self._renewed = 0.0
        self._granted = config.ttl
        self._renew_at = 0.0
        self._counted = 0.0
        self._promised = config.ttl / 2  # the next count comes by then
        self._count = 0
        self._has_joined = False
        self._failures = 0
        self._retry_at = 0.0
        self._write_at = 0.0
        self._why = ""

    # ---- what others say -----------------------------------------------------

    def word(self, key: str) -> Value | None:
        """The last word of the key's node, also while etcd has lost it."""
        value = self.keys.get(key)
        if value is None and self.kept:
            value = self.kept.get(node_of(key), {}).get(key)
        return value

    def is_there(self, node: str) -> bool:
        """Is the node's counter in etcd?"""
        counter = self.counters.get(node)
        return counter is not None and counter.gone is None

    def n_there(self) -> int:
        """How many nodes have a counter in etcd."""
        return self._n_there

    def is_dead(self, node: str) -> bool:
        """Has the node ended, or been cut off, as far as can be known?

        Its counter was heard not to move for two of its periods, or not to be
        there for the lease's time.
        """
        counter = self.counters.get(node)
        if counter is None:
            return self.heard_at - self.streak_from >= self.config.ttl
        stood = self.heard_at - max(counter.moved, self.streak_from)
        if stood >= 2 * counter.period:
            return True
        if counter.gone is None:
            return False
        away = self.heard_at - max(counter.gone, self.streak_from)
        return away >= self.config.ttl

    def take(self, heard: Heard) -> None:
        """Take what the watch has heard."""
        if isinstance(heard, Cut):
            if self.whole or not self.known:
                log.warning("store_cut", why=heard.why)
            self.whole = False
            return
        now = self._clock()
        if isinstance(heard, Changed):
            if now - self.heard_at > DEAF * self.config.ttl:
                self.streak_from = now
            if any(one[1] >= self._echo for one in heard.changes):
                self._echo, self.deaf_at = 0, None
            self._apply(heard.changes, now)
        else:
            self.streak_from = now
            self._echo, self.deaf_at = 0, None
            self._apply(list(self._differs_from(heard)), now)
            self.known = self.whole = True
        self.heard_at = now
        self._follow_name()

    def _differs_from(
        self, listed: Listed
    ) -> Iterator[tuple[str, int, Value | None]]:
        """The changes that make our keys those of a list."""
        for key in self.keys:
            if key not in listed.keys:
                yield key, listed.revision, None
        for key, value in listed.keys.items():
            if self.keys.get(key) != value:
                yield key, value.revision, value

    def _apply(
        self, changes: list[tuple[str, int, Value | None]], now: float
    ) -> None:
        ended: dict[str, Value] = {}
        for key, revision, value in changes:
            if revision < self._written.get(key, 0):
                continue
            self._written.pop(key, None)
            before = self.keys.get(key)
            self._set(key, value, now)
            if value is None and before is not None:
                ended[key] = before
            else:
                ended.pop(key, None)
        for key, value in ended.items():
            node = node_of(key)
            if not self.is_there(node) and not key.startswith(AT_ALIVE):
                self.kept.setdefault(node, {})[key] = value
        if self.kept:
            self.forget_dead()

    def forget_dead(self) -> None:
        """Forget the last words of nodes that are dead, or back."""
        for node in list(self.kept):
            if self.is_there(node) or self.is_dead(node):
                self.changed.update(self.kept.pop(node))
        for node, counter in list(self.counters.items()):
            if counter.gone is not None and self.is_dead(node):
                del self.counters[node]

    def _set(self, key: str, value: Value | None, now: float) -> None:
        node = node_of(key)
        if value is not None and key.startswith(AT_HOLDS):
            value = value._replace(data=value.data[:HOLD_BYTES])
        if not self._counts(key, node, value):
            return
        self.changed.add(key)
        if value is None:
            self.keys.pop(key, None)
            self._own.discard(key)
            if key.startswith(AT_ALIVE) and self.is_there(node):
                self.counters[node].gone = now
                self._n_there -= 1
            return
        self.keys[key] = value
        if key.startswith(AT_ALIVE):
            self._n_there += not self.is_there(node)
            self.counters[node] = _read_alive(value.data, self.config.ttl, now)
        elif node == self.node:
            self._own.add(key)

    def _counts(self, key: str, node: str, value: Value | None) -> bool:
        """Is there room to know the key?  A hostile node may write many."""
        kind, had = key.partition("/")[0], key in self.keys
        if kind not in KEYS_MOST:
            return kind in ("nodes", "alive")
        if value is not None and not had:
            if self._n_keys[kind, node] >= KEYS_MOST[kind]:
                if node not in self._left_out:
                    self._left_out.add(node)
                    log.warning(
                        "keys_left_out",
                        node=node if is_name(node) else "-",
                        why=f"it has more than {KEYS_MOST[kind]} keys below"
                        f" {kind}/{node}/: they are not looked at",
                    )
                return False
            self._n_keys[kind, node] += 1
        elif value is None and had:
            self._n_keys[kind, node] -= 1
        return True

    # ---- our name ------------------------------------------------------------

    def _follow_name(self) -> None:
        """See who has our name."""
        counter = self.counters.get(self.node)
        is_there = self.is_there(self.node)
        is_ours = counter is not None and counter.instance == self._instance
        if not is_there or not is_ours:
            self.joined = False
        is_taken = (
            counter is not None
            and is_there
            and not is_ours
            and (counter.boot != self._boot or self._has_joined)
            and not self.is_dead(self.node)
        )
        if is_taken and not self.taken:
            log.error(
                "name_taken",
                node=self.node,
                by=self._address(),
                remedy="another machine of the cluster has this name: give"
                " each its own node = NAME in [cluster] of gpumap-sync.conf",
            )
        elif self.taken and not is_taken:
            log.info("name_free", node=self.node)
        self.taken = is_taken

    def _address(self) -> str:
        value = self.word(AT_NODES + self.node)
        try:
            return str(json.loads(value.data)["address"]) if value else "?"
        except (ValueError, KeyError, TypeError, RecursionError):
            return "?"

    # ---- our keys ------------------------------------------------------------

    def is_in(self) -> str | None:
        """Why this node can have no new gangs; None: it can."""
        if self.taken:
            return "another machine has its name"
        if not self.known:
            return "it has not yet seen what is in the store"
        if not self.joined or not self.held:
            return "its lease of the store is lost"
        if not self.whole:
            return "it sees no changes in the store"
        return None

    def run(self, now: float) -> None:
        """Do the next thing in etcd: one call, which takes the timeout of the
        client at most.

        The counter and the lease come before all else.
        """
        if self.held and now - self._renewed >= self._granted:
            self._lose(
                f"the lease was not renewed for {self._granted * 1000:.0f} ms"
            )
        if now >= self._retry_at:
            try:
                self._step(now)
                self._failures = 0
            except LeaseLost as error:
                self._lose(str(error))
                self._lease, self.joined = 0, False
            except StoreError as error:
                self._fail(str(error))
            except Exception as error:  # whatever an answer may have in it
                self._fail(f"{self._etcd.endpoint}: {NO_ETCD} ({error!r})")

    def due(self) -> float:
        """When run() has something to do."""
        if not self._lease:
            return NEVER if self.taken else self._retry_at
        if self.taken:
            return self._retry_at
        due = self._renew_at
        if self.joined:
            due = min(due, self._count_due())
        if self.known and self._is_behind():
            due = min(due, self._write_at)
        return max(due, self._retry_at)

    def leave(self) -> None:
        """Delete our keys, and give the lease back, if etcd answers soon.

        Keys that go while the counter is there were deleted: others need not
        wait for its time.
        """
        if not self._lease:
            return
        self._etcd.close()
        self._etcd.timeout = LEAVE_S
        try:
            if self.joined:
                guard = is_lease(self._full(AT_ALIVE + self.node), self._lease)
                keys = sorted(self._own)
                for at in range(0, len(keys), BATCH):
                    self._etcd.call(
                        "/v3/kv/txn",
                        {
                            "compare": [guard],
                            "success": [
                                delete(self._full(key))
                                for key in keys[at : at + BATCH]
                            ],
                        },
                    )
            self._etcd.call("/v3/lease/revoke", {"ID": str(self._lease)})
        except Exception as error:
            self._fail(str(error))

    def _step(self, now: float) -> None:
        renews = now >= self._renew_at
        counts = self.joined and now >= self._count_due()
        if self.taken:
            self._give_back()
        elif not self._lease:
            self._grant(now)
        elif counts and not (renews and self._failures % 2):
            # The lease ends last, so that its end finds a counter that stands.
            # After a failure the other of the two has its turn.
            self._move_counter(now)
        elif renews:
            self._renew(now)
        elif self.known and now >= self._write_at:
            self._write(now)

    def _fail(self, why: str) -> None:
        if why != self._why:
            self._why = why
            log.warning("not_said", why=why)
        pause = PAUSES[min(self._failures, len(PAUSES) - 1)]
        self._failures += 1
        self._retry_at = self._clock() + pause

    def _give_back(self) -> None:
        """End our keys, which are another machine's to write now."""
        if self._lease:
            self._etcd.call("/v3/lease/revoke", {"ID": str(self._lease)})
            self._lose("another machine has this node's name")
            self._lease = 0

    # The lease.

    def _grant(self, now: float) -> None:
        seconds = -int(-self.config.ttl // 1)
        answer = self._etcd.call("/v3/lease/grant", {"TTL": str(seconds)})
        self._lease = int(answer.get("ID", 0))
        if not self._lease:
            raise StoreError("etcd has granted no lease")
        self._renewed_for(now, answer)

    def _renew(self, now: float) -> None:
        answer = self._etcd.call(
            "/v3/lease/keepalive", {"ID": str(self._lease)}
        )
        result = answer.get("result", {})
        if int(result.get("TTL", 0)) <= 0:
            raise LeaseLost("etcd has ended the lease")
        self._renewed_for(now, result)

    def _renewed_for(self, now: float, answer: Json) -> None:
        self._granted = float(answer.get("TTL", self.config.ttl))
        self._renewed = now
        self._renew_at = now + self._granted / 3
        if not self.held:
            self.held = True
            log.info("lease_held", ttl_ms=int(self._granted * 1000))

    def _lose(self, why: str) -> None:
        if self.held:
            log.warning("lease_lost", why=why)
        self.held = False

    # The counter.

    def _period(self) -> float:
        return self.n_there() / NODES_PER_S

    def _count_due(self) -> float:
        wait = max(self.config.ttl / 3 - SLACK, self._period())
        return self._counted + min(wait, self._promised)

    def _counter(self) -> Json:
        period = max(self.config.ttl / 2, self._period())
        self._promised = period
        self._count += 1
        value = {
            "instance": self._instance,
            "boot": self._boot,
            "count": self._count,
            "period_ms": min(int(period * 1000), int(PERIOD_MOST * 1000)),
        }
        return put(
            self._full(AT_ALIVE + self.node),
            json.dumps(value, separators=(",", ":")).encode(),
            self._lease,
        )

    def _move_counter(self, now: float) -> None:
        key = AT_ALIVE + self.node
        mine = is_lease(self._full(key), self._lease)
        revision = self._transact([mine], [self._counter()], [key])
        if revision:
            self._has_counted(now, revision)
        else:
            self.joined = False

    def _has_counted(self, now: float, revision: int) -> None:
        self._counted = now
        if not self._echo:
            self._echo = revision
            self.deaf_at = now + max(1.0, self._etcd.timeout)

    # Differences.

    def _full(self, key: str) -> str:
        return f"/gpumap/v1/{self.config.cluster}/{key}"

    def _is_behind(self) -> bool:
        return not self.joined or next(self._differences(), None) is not None

    def _differences(self) -> Iterator[tuple[str, bytes | None]]:
        for key, data in self.wanted.items():
            has = self.keys.get(key)
            if has is None or has.data != data or has.lease != self._lease:
                yield key, data
        for key in self._own:
            if key not in self.wanted and key not in self.pending:
                yield key, None

    def _write(self, now: float) -> None:
        """Write what differs; at last, in joining, our counter."""
        key = AT_ALIVE + self.node
        alive = self.keys.get(key)
        if self.joined:
            guard = is_lease(self._full(key), self._lease)
        else:
            guard = is_revision(
                self._full(key), alive.revision if alive else 0
            )
        # Gangs before the summary.
        batch = sorted(self._differences())[:BATCH]
        if batch:
            self._write_batch(guard, batch, now)
        elif not self.joined:
            revision = self._transact([guard], [self._counter()], [key])
            if revision:
                self._has_counted(now, revision)
                self._written[key] = revision
                self.keys[key] = Value(b"", revision, self._lease)
                self._n_there += not self.is_there(self.node)
                self.counters[self.node] = Alive(
                    self._instance, self._boot, self.config.ttl / 2, now
                )
                self.joined = self._has_joined = True
                self.joined_at = now
                self._why = ""

    def _write_batch(
        self, guard: Json, batch: list[tuple[str, bytes | None]], now: float
    ) -> None:
        conditions, operations = [guard], []
        for key, data in batch:
            has, full = self.keys.get(key), self._full(key)
            conditions.append(is_revision(full, has.revision if has else 0))
            operations.append(
                delete(full) if data is None else put(full, data, self._lease)
            )
        keys = [AT_ALIVE + self.node, *(key for key, _ in batch)]
        revision = self._transact(conditions, operations, keys)
        if not revision:
            return
        self._why = ""
        for key, data in batch:
            self._written[key] = revision
            value = (
                None if data is None else Value(data, revision, self._lease)
            )
            self._set(key, value, now)

    def _transact(
        self, conditions: list[Json], operations: list[Json], keys: list[str]
    ) -> int:
        """Returns the revision; 0: a condition was not met, and the keys are
        seen as they are.
        """
        reads = [
            {"request_range": {"key": encode(self._full(key))}} for key in keys
        ]
        answer = self._etcd.call(
            "/v3/kv/txn",
            {"compare": conditions, "success": operations, "failure": reads},
        )
        now, revision = self._clock(), int(answer["header"]["revision"])
        if answer.get("succeeded"):
            return revision
        self._write_at = now + AGAIN
        changes: list[tuple[str, int, Value | None]] = []
        for key, read in zip(keys, answer.get("responses", ()), strict=False):
            found = read["response_range"].get("kvs")
            value = read_value(found[0]) if found else None
            changes.append((key, value.revision if value else revision, value))
        self._apply(changes, now)
        self._written.update({key: at for key, at, _ in changes})
        self._follow_name()
        return 0


def _read_alive(data: bytes, ttl: float, now: float) -> Alive:
    """Read a counter, which a stranger may have damaged."""
    try:
        fields = Fields(json.loads(data))
        return Alive(
            fields.text("instance", bool),
            fields.text("boot", bool),
            fields.number("period_ms", int(PERIOD_MOST * 1000), 1) / 1000,
            now,
        )
    except (ValueError, RecursionError):  # Refused is a ValueError
        return Alive("", "", ttl / 2, now)
