# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""Gangs, in a simulated time: what gpumap-sync decides, whatever dies."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from gpumap.tools import sync_gangs
from gpumap.tools.sync_etcd import Value
from gpumap.tools.sync_gangs import Record, encode_record
from world import MIB, TURN, UUID, Process, World


def held_by_all(world: World, name: str = "g", size: int = MIB) -> Process:
    """A gang of the process of a on all nodes."""
    process = world.ask("a", name, dict.fromkeys(world.nodes, size))
    world.until(lambda: process.answer)
    assert process.answer == "held", process.why
    assert world.held(name) == list(world.nodes)
    return process


def put(world: World, key: str, data: bytes, lease: int = 0) -> None:
    """Write what a hostile or another node writes."""
    world.etcd.apply([(key, Value(data, 0, lease))])


@pytest.fixture
def three() -> World:
    world = World("a", "b", "c")
    world.run(2 * world.ttl)
    return world


# ---- as it should be --------------------------------------------------------


def test_all_hold_and_all_let_go(three: World) -> None:
    process = held_by_all(three)
    three.run(10)
    assert process.has and len(three.held("g")) == 3
    process.release()
    assert three.until(lambda: not three.held("g")) < 1
    three.run(1)
    assert {key.split("/")[0] for key in three.etcd.keys} == {"alive"}


def test_one_without_room_ends_it_for_all(three: World) -> None:
    process = three.ask("a", "g", {"a": MIB, "b": MIB, "c": 65 * MIB})
    three.until(lambda: process.answer)
    assert process.answer == "ENOSPC" and "node c: " in process.why
    three.until(lambda: not three.held("g"))


@pytest.mark.parametrize(
    ("members", "error"),
    [
        ({}, "EINVAL"),
        ({"a": 0}, "EINVAL"),
        ({"a": MIB - 1}, "EINVAL"),
        ({"no node": MIB}, "EINVAL"),
        ({"a": MIB, "z": MIB}, "EHOSTUNREACH"),
    ],
)
def test_what_cannot_be_is_refused_at_once(
    three: World, members: dict[str, int], error: str
) -> None:
    process = three.ask("a", "g", members)
    assert process.answer == error and process.why


def test_a_name_is_taken_once(three: World) -> None:
    held_by_all(three)
    other = three.ask("b", "g", {"c": MIB})
    three.until(lambda: other.answer)
    assert other.answer == "EEXIST"


def test_a_process_that_dies_holds_nothing(three: World) -> None:
    process = held_by_all(three)
    process.end()
    assert three.until(lambda: not three.held("g")) < 1


def test_a_released_map_ends_the_gang(three: World) -> None:
    process = held_by_all(three)
    del three.nodes["b"].agent.maps["g"]
    three.until(lambda: process.lost)
    assert "node b: the map was released there" in str(process.lost)
    three.until(lambda: not three.held("g"))


def test_a_node_that_takes_no_gangs(three: World) -> None:
    three.nodes["c"].gangs._config.gangs = False
    process = three.ask("a", "g", {"a": MIB, "c": MIB})
    three.until(lambda: process.answer)
    assert process.answer == "EPERM" and "gpumap-sync.conf" in process.why


def test_an_agent_that_is_away(three: World) -> None:
    three.nodes["c"].agent.up = False
    process = three.ask("a", "g", {"a": MIB, "c": MIB})
    three.until(lambda: process.answer)
    assert process.answer == "ETIMEDOUT"
    three.until(lambda: not three.held("g"))
    three.nodes["c"].agent.up = True
    three.run(3)
    assert not three.held("g")


# ---- what dies --------------------------------------------------------------


@pytest.mark.parametrize("victim", ["a", "b", "c"])
def test_a_node_that_ends_takes_the_gang_along(
    three: World, victim: str
) -> None:
    process = held_by_all(three)
    three.nodes[victim].kill()
    took = three.until(lambda: not three.held("g"), 2 * three.ttl)
    # Renewals have a third of the time, and etcd looks at whole turns.
    assert took <= three.ttl + 3 * TURN
    assert victim == "a" or process.lost


@pytest.mark.parametrize("victim", ["b", "c"])
def test_a_member_that_comes_back_in_time_reserves_again(
    three: World, victim: str
) -> None:
    process = held_by_all(three)
    three.nodes[victim].kill()
    three.run(three.ttl / 4)
    three.nodes[victim].start()
    three.run(5 * three.ttl)
    assert process.has and len(three.held("g")) == 3


def test_an_asker_that_comes_back_has_no_gang(three: World) -> None:
    held_by_all(three)
    three.nodes["a"].kill()
    three.run(0.2)
    three.nodes["a"].start()
    assert three.until(lambda: not three.held("g")) < three.ttl


def test_a_member_that_finds_its_room_taken(three: World) -> None:
    process = held_by_all(three, size=60 * MIB)
    victim = three.nodes["b"]
    victim.kill()
    three.run(0.2)
    victim.agent.maps["local"] = (99, 0, 32 * MIB, "")
    victim.start()
    three.until(lambda: process.lost)
    assert "there is no room" in str(process.lost)
    three.until(lambda: three.held("g") == [])


@pytest.mark.parametrize("leases_end", [False, True])
@pytest.mark.parametrize("away", [0.3, 1.0, 3.0])
def test_etcd_that_is_away_ends_no_gang(
    three: World, away: float, leases_end: bool
) -> None:
    process = held_by_all(three)
    three.etcd.up = False
    three.run(away * three.ttl)
    three.etcd.up = True
    if leases_end:
        for lease in list(three.etcd.leases):
            three.etcd.end_lease(lease)
    else:
        three.etcd.extend()
    three.run(5 * three.ttl)
    assert process.has and len(three.held("g")) == 3
    process.release()
    three.until(lambda: not three.held("g"))


def test_a_lease_that_is_revoked_ends_no_gang(three: World) -> None:
    process = held_by_all(three)
    for lease in list(three.etcd.leases):
        three.etcd.end_lease(lease)
    three.run(5 * three.ttl)
    assert process.has and len(three.held("g")) == 3


def test_a_member_that_is_cut_off_lets_go_when_it_hears_again(
    three: World,
) -> None:
    process = held_by_all(three)
    three.nodes["c"].cut = "off"
    assert three.until(lambda: process.lost) <= 1.5 * three.ttl
    three.until(lambda: three.held("g") == ["c"])
    three.run(10 * three.ttl)
    assert three.held("g") == ["c"]  # it cannot know
    three.nodes["c"].cut = ""
    assert three.until(lambda: not three.held("g")) < three.ttl


def test_a_short_cut_is_not_noticed(three: World) -> None:
    process = held_by_all(three)
    for node in "abc":
        three.nodes[node].cut = "off"
        three.run(three.ttl / 3)
        three.nodes[node].cut = ""
        three.run(three.ttl)
    assert process.has and len(three.held("g")) == 3


# ---- two at a time ----------------------------------------------------------


def test_half_each_the_lower_wins() -> None:
    for seed in range(20):
        world = World("a", "b", seed=seed)
        world.run(2 * world.ttl)
        one = world.ask("a", "one", {"a": 40 * MIB, "b": 40 * MIB})
        two = world.ask("b", "two", {"a": 40 * MIB, "b": 40 * MIB})
        world.until(lambda: "held" in (one.answer, two.answer), 2 * world.ttl)
        world.until(lambda: one.answer and two.answer, 2 * world.ttl)
        assert {one.answer, two.answer} == {"held", "ENOSPC"}


def test_the_higher_comes_back_when_the_lower_has_ended() -> None:
    world = World("a", "b", ttl=8.0)
    world.run(2 * world.ttl)
    one = world.ask("a", "one", {"a": 40 * MIB, "b": 40 * MIB})
    two = world.ask("b", "two", {"a": 40 * MIB, "b": 40 * MIB})
    world.until(lambda: "held" in (one.answer, two.answer), 2 * world.ttl)
    first, second = (one, two) if one.answer == "held" else (two, one)
    if second.answer is None:
        first.release()
        world.until(lambda: second.answer, 2 * world.ttl)
        assert second.answer == "held"


# ---- attacks ----------------------------------------------------------------


def bomb(world: World, node: str, n: int, size: int = MIB) -> None:
    """Records of a hostile node, whose users it makes up."""
    lease = world.etcd.keys[f"alive/{node}"].lease
    for number in range(n):
        record = Record(f"bomb{number}", 20000 + number, {"a": {UUID: size}})
        put(
            world, f"gangs/{node}/{number:016x}", encode_record(record), lease
        )


def test_a_hostile_node_takes_few_places_and_little_time() -> None:
    # A2, A4: a thousand gangs of another node.
    world = World("a", "b", "h", room=4096 * MIB)
    world.run(2 * world.ttl)
    victim = held_by_all(world, "victim")
    world.nodes["h"].gangs.changed = lambda keys: None  # type: ignore
    bomb(world, "h", 1030)
    asked = world.nodes["a"].agent.n_asked
    world.run(TURN)
    assert world.nodes["a"].agent.n_asked <= asked + 2
    world.run(5 * world.ttl)
    assert len(world.nodes["a"].agent.maps) <= sync_gangs.OF_NODE + 1
    assert victim.has
    other = world.ask("b", "other", {"a": MIB, "b": MIB})
    world.until(lambda: other.answer)
    assert other.answer == "held"


def test_users_of_a_node_have_turns() -> None:
    # A2: one request to the agent in a turn, of users in turn.
    world = World("a", "b", room=4096 * MIB)
    world.run(2 * world.ttl)
    many = [
        world.ask("a", f"m{i}", {"a": MIB, "b": MIB}, uid=1)
        for i in range(16)
    ]
    other = world.ask("a", "other", {"a": MIB, "b": MIB}, uid=2)
    took = world.until(lambda: other.answer)
    assert other.answer == "held" and took < world.ttl / 2
    world.until(lambda: all(one.answer for one in many))
    assert [one.answer for one in many] == ["held"] * 16


def test_a_user_has_16_gangs_and_a_node_64(three: World) -> None:
    for number in range(17):
        process = three.ask("a", f"g{number}", {"a": MIB}, uid=1)
    assert process.answer == "EDQUOT"
    others = [
        three.ask("a", f"h{number}", {"a": MIB}, uid=100 + number)
        for number in range(60)
    ]
    three.run(2)
    answers = Counter(one.answer for one in others)
    assert answers["held"] == 64 - 16 and answers["EDQUOT"] == 12


def test_a_dead_node_is_dead_whoever_keeps_its_lease(three: World) -> None:
    # A6: every user of etcd may keep any lease alive.
    process = held_by_all(three)
    lease = three.etcd.keys["alive/c"].lease
    three.nodes["c"].kill()

    def keep() -> None:
        if lease in three.etcd.leases:
            three.etcd.call("/v3/lease/keepalive", {"ID": str(lease)})

    three.watch = keep
    assert three.until(lambda: process.lost) <= 1.5 * three.ttl
    # Another boot of the machine takes its name.
    three.nodes["c"].boot = "c" * 36
    three.nodes["c"].start()
    store = three.nodes["c"].store
    assert store is not None
    assert three.until(lambda: store.joined) <= 2 * three.ttl


def test_two_machines_of_one_name(three: World) -> None:
    twin = World("c").nodes["c"]
    twin.world, twin.boot = three, "d" * 36
    three.nodes["twin"] = twin
    twin.start()
    first, second = three.nodes["c"].store, twin.store
    assert first is not None and second is not None
    three.run(5 * three.ttl)
    assert first.joined and not first.taken
    assert second.taken and not second.joined
    three.nodes["c"].kill()
    three.until(lambda: second.joined, 3 * three.ttl)


def test_the_same_id_of_another_node(three: World) -> None:
    # A10: a restart finds two records with one ID, the stranger's first.
    process = three.ask("b", "g", {"b": MIB, "c": MIB})
    three.until(lambda: process.answer)
    record = Record("h", 1, {"c": {UUID: MIB}})
    lease = three.etcd.keys["alive/a"].lease
    three.nodes["a"].gangs.changed = lambda keys: None  # type: ignore
    three.nodes["a"].store._own = set()  # type: ignore
    put(
        three, f"gangs/a/{process.asked.id}", encode_record(record), lease
    )
    three.nodes["c"].kill()
    three.run(0.2)
    three.nodes["c"].start()
    three.run(3 * three.ttl)
    assert process.has


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[]",
        b"[" * 10000,
        b'{"format":2}',
        b'{"format":1,"name":"x","uid":0,"members":[]}',
        b'{"format":2,"name":"a b","uid":0,"members":[]}',
        b'{"format":2,"name":"x","uid":-1,"members":[]}',
        b'{"format":2,"name":"x","uid":0,"members":[{"node":"a"}]}',
        b'{"format":2,"name":"x","uid":0,"members":[{"node":"a","parts":'
        b'[{"uuid":"00","bytes":1048576}]}]}',
        b"x" * 20000,
    ],
)
def test_damaged_records_are_refused(three: World, data: bytes) -> None:
    put(three, "gangs/c/0123456789abcdef", data)
    put(three, "holds/b/a.0123456789abcdef", data)
    three.run(1)
    assert not any(node.gangs.holds for node in three.nodes.values())
    held_by_all(three)


def test_damaged_holds_end_the_gang(three: World) -> None:
    process = held_by_all(three)
    key = f"holds/b/a.{process.asked.id}"
    lease = three.etcd.keys[key].lease
    three.nodes["b"].kill()
    put(three, key, b"{}", lease)
    three.until(lambda: process.lost)
    assert "damaged" in str(process.lost)


# ---- whatever dies ----------------------------------------------------------


class Story:
    """Gangs at two a second, under random kills of everything."""

    def __init__(self, seed: int, n_gangs: int) -> None:
        self.world = World("a", "b", "c", "d", seed=seed)
        self.random = self.world.random
        self.world.late_writes = 0.02
        self.processes: list[Process] = []
        self.sided: dict[str, float] = {}
        self.longest = 0.0
        self.never_held = 0
        self.was_held: dict[str, set[str]] = {}
        self.down_until: dict[str, float] = {}
        self.world.watch = self.look
        self.n_gangs = n_gangs

    def look(self) -> None:
        """See that nothing is promised twice, and nothing stays one-sided."""
        world = self.world
        for sim in world.nodes.values():
            assert sim.agent.free() >= 0
        if not world.etcd.up:
            self.sided = {}
        for process in self.processes[-200:]:
            name = process.name
            held = [n for n in world.held(name) if not world.nodes[n].cut]
            was = self.was_held.setdefault(name, set())
            was.update(world.held(name))
            if process.has:
                assert was == set(process.members)
            whole = len(held) == len(process.members)
            if held and not (whole and process.has):
                begin = self.sided.setdefault(name, world.now)
                self.longest = max(self.longest, world.now - begin)
            else:
                self.sided.pop(name, None)

    def strike(self) -> None:
        world, chance = self.world, self.random
        kind = chance.random()
        name = chance.choice(list(world.nodes))
        sim = world.nodes[name]
        if kind < 0.4 and sim.store is not None:
            sim.kill()
            for process in self.processes:
                if process.sim is sim:
                    process.released = True
            back = chance.uniform(0.05, 2 * world.ttl)
            world.later(back, lambda: sim.start() if not sim.store else None)
        elif kind < 0.6 and self.processes:
            one = chance.choice(self.processes[-10:])
            if one.has:
                one.end()
        elif kind < 0.8:
            sim.agent.up = False
            back = chance.uniform(0.05, world.ttl)
            world.later(back, lambda: setattr(sim.agent, "up", True))
        elif kind < 0.9:
            sim.cut = "off"
            back = chance.uniform(0.05, 3 * world.ttl)
            world.later(back, lambda: setattr(sim, "cut", ""))
        elif world.etcd.up:
            world.etcd.up = False
            world.later(chance.uniform(0.05, 3 * world.ttl), self.come_back)

    def come_back(self) -> None:
        """etcd is back, and its leases have their whole time, or have ended."""
        etcd = self.world.etcd
        etcd.up = True
        if self.random.random() < 0.5:
            etcd.extend()
        else:
            for lease in list(etcd.leases):
                etcd.end_lease(lease)

    def run(self) -> None:
        world, chance = self.world, self.random
        world.run(2 * world.ttl)
        for number in range(self.n_gangs):
            running = [n for n, s in world.nodes.items() if s.store]
            if running:
                members = chance.sample(
                    list(world.nodes), chance.randint(1, 4)
                )
                size = chance.randint(1, 40) * MIB
                self.processes.append(
                    world.ask(
                        chance.choice(running),
                        f"g{number}",
                        dict.fromkeys(members, size),
                        uid=chance.randint(1, 8),
                    )
                )
            world.run(0.5)
            for process in self.processes[-40:]:
                if process.has and chance.random() < 0.2:
                    process.release()
            if chance.random() < 0.1:
                self.strike()

    def end(self) -> None:
        world = self.world
        world.late_writes = 0.0
        for sim in world.nodes.values():
            sim.agent.up, sim.cut = True, ""
        world.etcd.up = True
        for process in self.processes:
            if process.gangs is process.sim.gangs:
                process.end()
        world.run(6 * world.ttl)
        assert all(sim.store for sim in world.nodes.values())
        for name, sim in world.nodes.items():
            assert not sim.agent.maps, name
        left = [k for k in world.etcd.keys if not k.startswith("alive/")]
        assert left == []


@pytest.mark.parametrize("seed", range(3))
def test_random_kills(seed: int) -> None:
    story = Story(seed, 150)
    story.run()
    story.end()
    answers = Counter(one.answer for one in story.processes)
    assert answers["held"] > 40, answers
    # An agent that is away keeps what it holds until it is back.
    assert story.longest <= 3 * story.world.ttl, story.longest


def test_records_are_what_they_were(three: World) -> None:
    record = Record("n\u00e4me", 7, {"a": {"f" * 32: 1 << 40}})
    assert sync_gangs.decode_record(encode_record(record)) == record
    assert json.loads(encode_record(record))["format"] == 2
