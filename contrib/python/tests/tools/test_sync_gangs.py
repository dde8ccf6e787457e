# SPDX-FileCopyrightText: 2026 The gpumap authors
# SPDX-License-Identifier: MIT
"""Gangs, in a simulated time: what gpumap-sync decides, whatever dies."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from gpumap.tools import sync_gangs
from gpumap.tools.sync_etcd import StoreError, Value
from gpumap.tools.sync_gangs import Record, encode_record
from world import MIB, TURN, UUID, Process, Sim, World


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
    hostile = world.nodes[node].store
    assert hostile is not None
    hostile._differences = lambda: iter(())  # type: ignore[method-assign]
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
    bomb(world, "h", 1030)
    asked = world.nodes["a"].agent.n_asked
    world.run(TURN)
    assert world.nodes["a"].agent.n_asked <= asked + 2
    other = world.ask("b", "other", {"a": MIB, "b": MIB})
    took = world.until(lambda: other.answer)
    assert other.answer == "held" and took < world.ttl / 2
    world.run(5 * world.ttl)
    assert len(world.nodes["a"].agent.maps) == sync_gangs.OF_NODE + 2
    assert victim.has
    store = world.nodes["a"].store
    assert store is not None
    assert sum(key.startswith("gangs/h/") for key in store.keys) == 128


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
        b'{"format":3}',
        b'{"format":1,"name":"x","uid":0,"members":[]}',
        b'{"format":3,"name":"a b","uid":0,"members":[]}',
        b'{"format":3,"name":"x","uid":-1,"members":[]}',
        b'{"format":3,"name":"x","uid":0,"members":[{"node":"a"}]}',
        b'{"format":3,"name":"x","uid":0,"members":[{"node":"a","parts":'
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


def test_left_out_records_come_in_when_there_is_a_place(
    three: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []
    monkeypatch.setattr(
        sync_gangs.log,
        "warning_of",
        lambda uid, event, **_: event == "gang_left_out" and told.append(uid),
    )
    store = three.nodes["b"].store
    assert store is not None
    store._differences = lambda: iter(())  # type: ignore[method-assign]
    lease = three.etcd.keys["alive/b"].lease
    for number in range(70):
        record = Record(f"g{number}", 1 + number, {"a": {UUID: MIB // 1}})
        put(three, f"gangs/b/{number:016x}", encode_record(record), lease)
    three.nodes["a"].agent.room = 4096 * MIB
    three.run(3)
    assert len(three.nodes["a"].agent.maps) == sync_gangs.OF_NODE
    # One that is written again and again is known once.
    for _ in range(1000):
        put(three, f"gangs/b/{69:016x}", encode_record(record), lease)
    three.run(1)
    assert len(three.nodes["a"].gangs._left_out["b"]) == 6
    assert told == [65]  # the user of the first of them
    for number in range(6):
        three.etcd.apply([(f"gangs/b/{number:016x}", None)])
    three.run(2)
    assert "g69" in three.nodes["a"].agent.maps


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"instance":"x","boot":"y","period_ms":NaN}',
        b'{"instance":"x","boot":"y","period_ms":true}',
        b'{"instance":"x","boot":"y","period_ms":1' + b"0" * 400 + b"}",
        b'{"instance":"x","boot":"y","period_ms":1e999}',
        b'{"instance":1,"boot":[],"period_ms":-1}',
    ],
)
def test_damaged_counters(three: World, data: bytes) -> None:
    put(three, "alive/z", data)
    process = held_by_all(three)
    three.run(3 * three.ttl)
    assert process.has
    store = three.nodes["a"].store
    assert store is not None and store.is_dead("z")


def test_gangs_end_when_the_name_is_taken(three: World) -> None:
    process = held_by_all(three)
    other = three.ask("a", "other", {"a": MIB})
    three.until(lambda: other.answer)
    counter = b'{"instance":"x","boot":"y","period_ms":600000}'
    put(three, "alive/a", counter)
    other.release()
    three.until(lambda: process.lost and other.was_released, three.ttl / 2)
    three.until(lambda: not three.held("g"))


def test_a_node_that_is_told_to_end_is_gone_at_once() -> None:
    world = World("a", "b", ttl=60.0)
    world.run(1)
    process = held_by_all(world)
    world.nodes["b"].end()
    assert world.until(lambda: process.lost) < 1
    assert [key for key in world.etcd.keys if key.split("/")[1] == "b"] == []


def test_nothing_turns_for_nothing(three: World) -> None:
    """While an agent is away, its gangs are looked at now and then."""
    three.nodes["c"].agent.up = False
    three.ask("a", "g", {"a": MIB, "c": MIB})
    before = three.nodes["c"].n_turns
    three.run(0.9)
    assert three.nodes["c"].n_turns <= before + 12


def test_answers_that_are_lost_leave_no_map(three: World) -> None:
    for node in three.nodes.values():
        node.agent.silent = 0.5
    for number in range(12):
        process = three.ask("a", f"g{number}", dict.fromkeys("abc", MIB))
        three.until(lambda process=process: process.answer)
        if process.has:
            process.release()
    for node in three.nodes.values():
        node.agent.silent = 0.0
    three.run(2 * three.ttl)
    assert not any(node.agent.maps for node in three.nodes.values())


def test_a_crowd_that_comes_at_once_kills_nobody() -> None:
    world = World("a", "b")
    world.run(2 * world.ttl)
    process = held_by_all(world)
    for number in range(100):
        name = f"n{number:03}"
        world.nodes[name] = Sim(world, name, MIB)
        world.nodes[name].start()
        world.run(0.05)
    world.run(3 * world.ttl)
    assert process.has
    for node in world.nodes.values():
        assert node.store is not None and node.store.joined
        dead = [n for n in world.nodes if node.store.is_dead(n)]
        assert dead == []


def test_a_gang_that_never_completes_keeps_none_waiting() -> None:
    world = World("a", "b", "h", room=100 * MIB)
    world.run(2 * world.ttl)
    store = world.nodes["h"].store
    assert store is not None
    store._differences = lambda: iter(())  # type: ignore[method-assign]
    lease = world.etcd.keys["alive/h"].lease
    for number in range(20, 0, -1):
        members = {"a": {UUID: 90 * MIB}, "nobody": {UUID: MIB}}
        record = Record(f"h{number}", number, members)
        put(world, f"gangs/h/{number:016x}", encode_record(record), lease)
        world.run(TURN)
    other = world.ask("b", "other", {"a": MIB, "b": MIB})
    took = world.until(lambda: other.answer)
    assert other.answer == "held" and took < world.ttl / 4


# ---- what each does by itself -----------------------------------------------


def freeze(world: World, node: str) -> None:
    """The gpumap-sync of a node is there, and decides nothing more."""
    world.nodes[node].gangs.tick = lambda now: False  # type: ignore
    world.nodes[node].gangs.changed = lambda keys: None  # type: ignore
    store = world.nodes[node].store
    assert store is not None
    store._differences = lambda: iter(())  # type: ignore[method-assign]


def mute(world: World, node: str) -> Callable[[], None]:
    """A node hears etcd, which does not hear it.  Returns what ends that."""
    store = world.nodes[node].store
    assert store is not None

    def call(path: str, body: object) -> Any:
        raise StoreError("no answer")

    etcd = store._etcd
    etcd.call = call  # type: ignore[method-assign]
    return lambda: delattr(etcd, "call")


def kill_but_keep_lease(world: World, node: str) -> None:
    """A node ends, and somebody keeps its lease alive."""
    lease = world.etcd.keys[f"alive/{node}"].lease

    def keep() -> None:
        world.etcd.call("/v3/lease/keepalive", {"ID": str(lease)})

    world.watch = keep
    world.nodes[node].kill()


def records(
    world: World, node: str, uids: Iterable[int], members: Iterable[str]
) -> None:
    """Records that a frozen node has put; IDs and names are numbers."""
    lease = world.etcd.keys[f"alive/{node}"].lease
    for number, uid in enumerate(uids):
        parts = {one: {UUID: MIB} for one in members}
        data = encode_record(Record(f"r{number}", uid, parts))
        put(world, f"gangs/{node}/{number:016x}", data, lease)


def answer_of(world: World, node: str, process: Process) -> str | None:
    """What a member says: None, "held", or an error's name."""
    asker = process.sim.name
    value = world.etcd.keys.get(f"holds/{node}/{asker}.{process.asked.id}")
    if value is None:
        return None
    return sync_gangs.decode_answer(value.data).error or "held"


def test_a_record_that_changes_ends_the_gang(three: World) -> None:
    process = held_by_all(three)
    freeze(three, "a")
    key = f"gangs/a/{process.asked.id}"
    record = Record("g", 1000, dict.fromkeys("abc", {UUID: 2 * MIB}))
    put(three, key, encode_record(record), three.etcd.keys[key].lease)
    three.until(lambda: three.held("g") == ["a"], three.ttl / 4)


def test_members_see_that_the_asking_node_is_dead(three: World) -> None:
    process = three.ask("a", "g", {"b": MIB, "c": MIB})
    three.until(lambda: process.answer == "held")
    kill_but_keep_lease(three, "a")
    three.until(lambda: not three.held("g"), 1.5 * three.ttl)


def test_members_see_that_another_is_dead(three: World) -> None:
    process = held_by_all(three)
    freeze(three, "a")
    kill_but_keep_lease(three, "c")
    three.until(lambda: three.held("g") == ["a"], 1.5 * three.ttl)
    three.run(2 * TURN)
    assert answer_of(three, "b", process) == "ECANCELED"


def test_members_see_that_another_has_let_go(three: World) -> None:
    process = held_by_all(three)
    freeze(three, "a")
    freeze(three, "c")
    three.etcd.apply([(f"holds/c/a.{process.asked.id}", None)])
    three.until(lambda: "b" not in three.held("g"), three.ttl / 4)
    three.run(2 * TURN)
    assert answer_of(three, "b", process) == "ECANCELED"


def test_a_member_gives_up_when_others_do_not_hold(three: World) -> None:
    freeze(three, "c")
    process = three.ask("a", "g", {"a": MIB, "b": MIB, "c": MIB})
    three.until(lambda: "b" in three.held("g"), 0.2)
    freeze(three, "a")
    took = three.until(lambda: "b" not in three.held("g"))
    # The last word may be a third of the time old.
    assert 0.4 * three.ttl < took < 0.9 * three.ttl
    three.run(2 * TURN)
    assert answer_of(three, "b", process) == "ETIMEDOUT"


def test_time_in_which_etcd_is_away_does_not_count() -> None:
    world = World("a", "b", "c", ttl=6.0)
    world.run(2 * world.ttl)
    world.nodes["c"].agent.up = False
    process = world.ask("a", "g", dict.fromkeys("abc", MIB))
    world.until(lambda: world.held("g") == ["a", "b"], 1)
    world.run(TURN)
    world.etcd.up = False
    world.run(0.6 * world.ttl)
    world.etcd.up = True
    world.etcd.extend()
    world.run(1.5)
    world.nodes["c"].agent.up = True
    world.until(lambda: process.answer)
    assert process.answer == "held"


def test_the_asking_process_waits_the_leases_time(three: World) -> None:
    freeze(three, "c")
    process = three.ask("a", "g", {"c": MIB})
    took = three.until(lambda: process.answer)
    assert process.answer == "ETIMEDOUT" and took <= three.ttl + TURN
    assert "node c does not hold in time" in process.why


def test_of_several_reasons_the_first_cause_is_told(three: World) -> None:
    process = three.ask("a", "g", {"a": MIB, "b": MIB, "c": 65 * MIB})
    three.until(lambda: process.asked.id)
    gangs = three.nodes["a"].gangs
    look = gangs._look_at_asked
    gangs._look_at_asked = lambda *of: None  # type: ignore[method-assign]
    three.until(lambda: answer_of(three, "a", process) == "ECANCELED")
    three.until(lambda: answer_of(three, "b", process) == "ECANCELED")
    gangs._look_at_asked = look  # type: ignore[method-assign]
    three.until(lambda: process.answer)
    assert process.answer == "ENOSPC"


def test_a_process_is_told_only_while_its_node_hears(three: World) -> None:
    process = three.ask("a", "g", {"a": MIB})
    three.until(lambda: three.held("g"))
    three.nodes["a"].cut = "deaf"
    three.run(three.ttl / 4)
    assert process.answer is None
    three.nodes["a"].cut = ""
    three.until(lambda: process.answer == "held", three.ttl / 4)


def test_a_release_is_told_when_the_record_is_gone(three: World) -> None:
    process = held_by_all(three)
    unmute = mute(three, "a")
    process.release()
    three.run(three.ttl / 4)
    assert not process.was_released
    unmute()
    three.until(lambda: process.was_released, three.ttl)
    # A node that does not hear cannot know when.
    process = held_by_all(three)
    three.nodes["a"].cut = "off"
    three.run(3 * TURN)
    process.release()
    three.run(3 * TURN)
    assert process.was_released


def test_a_process_hears_that_the_name_is_taken(three: World) -> None:
    process = held_by_all(three)
    counter = b'{"instance":"x","boot":"y","period_ms":600000}'
    put(three, "alive/a", counter)
    three.until(lambda: process.lost)
    assert process.lost == "another machine has this node's name"


def test_a_release_is_told_when_the_name_is_taken(three: World) -> None:
    process = held_by_all(three)
    mute(three, "a")
    process.release()
    counter = b'{"instance":"x","boot":"y","period_ms":600000}'
    put(three, "alive/a", counter)
    three.until(lambda: process.was_released, three.ttl / 4)
    assert f"gangs/a/{process.asked.id}" in three.etcd.keys


def test_a_member_whose_name_is_taken_lets_go(three: World) -> None:
    process = three.ask("a", "g", {"b": MIB})
    three.until(lambda: process.answer == "held")
    freeze(three, "a")
    counter = b'{"instance":"x","boot":"y","period_ms":600000}'
    put(three, "alive/b", counter)
    three.until(lambda: not three.held("g"), three.ttl / 4)


# The agent.


def test_a_map_that_is_not_ours_is_not_ended(three: World) -> None:
    process = held_by_all(three)
    agent = three.nodes["b"].agent
    three.nodes["b"].gangs._look_at = sync_gangs.NEVER
    agent.maps["g"] = (99, 0, MIB, "")
    process.release()
    three.run(1)
    assert three.held("g") == ["b"] and agent.maps["g"][0] == 99


def test_another_map_of_the_name_ends_the_gang(three: World) -> None:
    process = held_by_all(three)
    three.nodes["b"].agent.maps["g"] = (99, 0, MIB, "")
    three.until(lambda: process.lost, 2 * sync_gangs.LOOK_S)
    three.run(1)
    assert three.held("g") == ["b"]


@pytest.mark.parametrize("error", ["EAGAIN", "ETIMEDOUT"])
def test_what_may_have_been_reserved_is_ended(
    three: World, error: str
) -> None:
    agent = three.nodes["b"].agent

    def reserve(record: Record, parts: sync_gangs.Parts) -> int:
        agent._reserve(record, parts)
        raise sync_gangs.Fault(error, "it is not known")

    agent.reserve = reserve  # type: ignore[method-assign]
    process = three.ask("a", "g", {"b": MIB})
    three.until(lambda: three.held("g"))
    process.end()
    three.until(lambda: not three.held("g"), three.ttl / 4)


@pytest.mark.parametrize("is_known", [False, True])
def test_a_map_that_the_agent_does_not_end(
    three: World, is_known: bool
) -> None:
    """It is the user's own, unless it is known that it is ours."""
    agent = three.nodes["b"].agent
    agent.silent = 0.0 if is_known else 1.0
    process = three.ask("a", "g", {"b": MIB})
    three.until(lambda: process.answer)
    names: list[str] = []

    def release(name: str) -> str:
        names.append(name)
        return "EPERM"

    agent.release = release  # type: ignore[method-assign]
    process.end()
    three.run(1)
    gangs = three.nodes["b"].gangs
    assert (len(names) > 2) == is_known == bool(gangs.holds)
    del agent.release  # type: ignore[method-assign]
    three.run(1)
    assert bool(three.held("g")) is not is_known


def test_a_predecessors_maps_are_waited_for(three: World) -> None:
    process = held_by_all(three)
    sim = three.nodes["b"]
    sim.kill()
    sim.agent.maps["g"] = (99, 1000, MIB, "")
    sim.start()
    three.run(0.5)
    assert process.has
    del sim.agent.maps["g"]
    three.run(3 * three.ttl)
    assert process.has and len(three.held("g")) == 3


def test_a_name_that_is_being_ended_is_waited_for(three: World) -> None:
    first = held_by_all(three)
    agent = three.nodes["b"].agent
    agent.release = lambda name: "EBUSY"  # type: ignore[method-assign]
    first.release()
    three.until(lambda: first.was_released)
    second = three.ask("a", "g", dict.fromkeys("abc", MIB))
    three.run(three.ttl / 4)
    assert second.answer is None
    del agent.release  # type: ignore[method-assign]
    three.until(lambda: second.answer)
    assert second.answer == "held"


def test_who_is_not_in_the_cluster_reserves_nothing(three: World) -> None:
    store = three.nodes["b"].store
    assert store is not None
    unmute = mute(three, "b")
    three.etcd.end_lease(store._lease)
    process = three.ask("a", "g", {"b": MIB})
    before = three.nodes["b"].n_turns
    three.run(three.ttl / 4)
    assert not three.held("g") and process.answer is None
    assert three.nodes["b"].n_turns <= before + 5
    unmute()
    three.until(lambda: process.answer == "held", three.ttl)


def test_who_does_not_hear_reserves_nothing(three: World) -> None:
    sim = three.nodes["b"]
    sim.agent.up = False
    process = three.ask("a", "g", {"b": MIB})
    three.until(lambda: sim.gangs.holds)
    three.run(2 * TURN)
    sim.cut, sim.agent.up = "deaf", True
    three.run(TURN)
    before = sim.n_turns
    three.run(three.ttl / 4)
    assert not three.held("g") and sim.n_turns <= before + 5
    sim.cut = ""
    three.until(lambda: process.answer == "held", three.ttl)


# Whose turn it is.


def number_ids() -> None:
    """IDs come in their order."""
    ids = iter(range(1000))
    sync_gangs.new_id = lambda: f"{next(ids):016x}"


def test_users_and_nodes_are_served_in_turn(three: World) -> None:
    number_ids()
    many = [
        three.ask("a", f"m{n:02}", {"c": MIB}, uid=1) for n in range(15)
    ]
    user = three.ask("a", "user", {"c": MIB}, uid=2)
    node = three.ask("b", "node", {"c": MIB}, uid=1)
    three.until(lambda: all(one.answer for one in [*many, user, node]))
    maps = three.nodes["c"].agent.maps
    assert maps["user"][0] <= 4 and maps["node"][0] <= 4


def test_many_ends_keep_no_beginning_waiting(three: World) -> None:
    sim = three.nodes["c"]
    many = [three.ask("a", f"m{n:02}", {"c": MIB}, uid=1) for n in range(15)]
    three.until(lambda: all(one.answer for one in many))
    sim.agent.up = False
    for process in many:
        process.release()
    three.ask("a", "other", {"c": MIB}, uid=2)
    three.run(sync_gangs.RETRY_S)
    assert sum(one.ends for one in sim.gangs.holds.values()) == 15
    sim.agent.up = True
    three.until(lambda: "other" in sim.agent.maps)
    assert len(sim.agent.maps) > 13


def test_many_beginnings_keep_no_end_waiting(three: World) -> None:
    sim = three.nodes["c"]
    other = three.ask("a", "other", {"c": MIB}, uid=2)
    three.until(lambda: other.answer)
    sim.agent.up = False
    other.release()
    for number in range(15):
        three.ask("a", f"m{number:02}", {"c": MIB}, uid=3 + number)
    three.run(sync_gangs.RETRY_S)
    assert sum(one.waits for one in sim.gangs.holds.values()) == 15
    sim.agent.up = True
    three.until(lambda: "other" not in sim.agent.maps)
    assert len(sim.agent.maps) < 3


def test_a_short_gang_is_not_waited_for(three: World) -> None:
    process = three.ask("a", "short", {"c": MIB})
    three.until(lambda: process.answer)
    process.release()
    three.run(sync_gangs.RETRY_S / 2)
    assert not three.nodes["c"].agent.maps


def test_who_waits_for_room_comes_first(three: World) -> None:
    number_ids()
    sim = three.nodes["c"]
    sim.agent.up = False
    first = three.ask("a", "first", {"c": MIB})
    second = three.ask("a", "second", {"c": MIB})
    three.until(lambda: len(sim.gangs.holds) == 2)
    sim.gangs.holds[f"a/{second.asked.id}"].late = sync_gangs.NO_ROOM
    sim.agent.up = True
    three.until(lambda: first.answer and second.answer)
    assert sim.agent.maps["second"][0] < sim.agent.maps["first"][0]


def contend(world: World, first: str, second: str) -> list[Process]:
    """A gang that waits for c, and one of another node that finds no room."""
    world.nodes["c"].agent.up = False
    one = world.ask(first, "one", {"a": 40 * MIB, "c": MIB})
    world.until(lambda: world.held("one"), 0.2)
    world.run(2 * TURN)
    two = world.ask(second, "two", {"a": 40 * MIB})
    return [one, two]


def test_the_lower_waits_for_the_higher() -> None:
    world = World("a", "b", "c", ttl=8.0)
    world.run(world.ttl)
    higher, lower = contend(world, "b", "a")
    world.run(3 * sync_gangs.RETRY_S)
    id, agent = lower.asked.id, world.nodes["a"].agent
    assert lower.answer is None and answer_of(world, "a", lower) is None
    # The lower one need not wait for its next attempt.
    n_asked = agent.n_asked
    world.until(lambda: agent.n_asked > n_asked, 1)
    higher.end()
    took = world.until(lambda: lower.answer)
    assert lower.answer == "held" and lower.asked.id == id
    assert took < sync_gangs.RETRY_S / 2


def test_the_higher_lets_go_and_comes_back() -> None:
    waits = set()
    for seed in range(4):
        world = World("a", "b", "c", ttl=8.0, seed=seed)
        world.run(world.ttl)
        lower, higher = contend(world, "a", "b")
        world.until(lambda: higher.asked.again_at, 0.2)
        assert higher.answer is None and not higher.asked.id
        waits.add(round(higher.asked.again_at - world.now, 2))
        lower.end()
        world.until(lambda: higher.answer, world.ttl / 2)
        assert higher.answer == "held"
    # Two that meet again and again would not come back at one time.
    assert len(waits) > 2 and max(waits) <= 0.4 + world.ttl / 4


@pytest.mark.parametrize(("first", "second"), ["ab", "ba"])
def test_who_holds_on_all_nodes_is_not_waited_for(
    three: World, first: str, second: str
) -> None:
    one = three.ask(first, "one", {"a": 40 * MIB, "c": MIB})
    three.until(lambda: one.answer == "held")
    two = three.ask(second, "two", {"a": 40 * MIB})
    three.until(lambda: two.answer, three.ttl / 4)
    assert two.answer == "ENOSPC" and not two.asked.again_at


def test_who_ends_soon_is_waited_for() -> None:
    world = World("a", "b", "c", ttl=8.0)
    world.run(world.ttl)
    agent = world.nodes["a"].agent
    agent.release = lambda name: "EBUSY"  # type: ignore[method-assign]
    lower, higher = contend(world, "a", "b")
    world.until(lambda: higher.asked.again_at, 0.2)
    lower.end()
    world.until(lambda: higher.asked.id)
    id = higher.asked.id
    world.run(2 * sync_gangs.RETRY_S)
    assert higher.answer is None and higher.asked.id == id
    del agent.release  # type: ignore[method-assign]
    world.until(lambda: higher.answer == "held", 1)


# How many.


def test_a_member_counts_the_gangs_of_a_user(three: World) -> None:
    freeze(three, "b")
    records(three, "b", [7] * 20, "a")
    three.run(1)
    assert len(three.nodes["a"].agent.maps) == sync_gangs.OF_USER


def test_a_member_counts_the_gangs_of_a_node(three: World) -> None:
    freeze(three, "b")
    three.nodes["a"].agent.room = 4096 * MIB
    records(three, "b", range(70), "a")
    three.run(2)
    assert len(three.nodes["a"].agent.maps) == sync_gangs.OF_NODE


def test_a_member_counts_all_gangs(
    three: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync_gangs, "HOLDERS", sync_gangs.LOCAL + 5)
    freeze(three, "b")
    records(three, "b", range(8), "a")
    three.run(1)
    gangs = three.nodes["a"].gangs
    assert len(gangs.holds) == 5 and len(gangs._left_out["b"]) == 3
    # There is a place: one that was left out comes in.
    three.etcd.apply([(f"gangs/b/{0:016x}", None)])
    three.run(TURN * 5)
    assert len(gangs.holds) == 5 and len(gangs._left_out["b"]) == 2
    assert f"b/{5:016x}" in gangs.holds


def test_some_maps_are_for_processes_of_the_node(
    three: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync_gangs, "HOLDERS", sync_gangs.LOCAL + 5)
    maps = three.nodes["b"].agent.maps
    maps |= {f"m{number}": (100 + number, 0, MIB, "") for number in range(4)}
    process = three.ask("a", "last", {"b": MIB})
    three.until(lambda: process.answer)
    assert process.answer == "held"
    process = three.ask("a", "none", {"b": MIB})
    three.until(lambda: process.answer)
    assert process.answer == "ENOSPC"
    assert "for processes of its own" in process.why


@pytest.mark.parametrize(
    ("uid", "holder", "stays"),
    [(5, "a process", True), (1000, "", True), (1000, "a process", False)],
)
def test_a_request_without_an_answer_ends_no_map_of_others(
    three: World,
    monkeypatch: pytest.MonkeyPatch,
    uid: int,
    holder: str,
    stays: bool,
) -> None:
    """A map of the gang's name is there, and the agent says nothing."""
    agent = three.nodes["c"].agent
    agent.maps["g"] = (77, uid, MIB, holder)

    def say_nothing(record: Record, parts: sync_gangs.Parts) -> int:
        raise sync_gangs.Fault("ETIMEDOUT", "no answer")

    monkeypatch.setattr(agent, "reserve", say_nothing)
    process = three.ask("a", "g", {"c": MIB})
    three.until(lambda: process.answer)
    three.run(2)
    assert ("g" in agent.maps) == stays


# ---- whatever dies ----------------------------------------------------------


class Story:
    """Gangs at two a second, under random kills of everything."""

    def __init__(self, seed: int, n_gangs: int) -> None:
        self.world = World("a", "b", "c", "d", seed=seed)
        self.random = self.world.random
        self.world.late_writes = 0.02
        for sim in self.world.nodes.values():
            sim.agent.silent = 0.02
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
        """etcd is back; its leases have their whole time, or have ended."""
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
            sim.agent.up, sim.cut, sim.agent.silent = True, "", 0.0
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
    assert json.loads(encode_record(record))["format"] == 3
