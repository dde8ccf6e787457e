// SPDX-FileCopyrightText: 2026 The gpumap authors
// SPDX-License-Identifier: MIT

//! Maps, devices, layers, plans and reservations, with an agent.

mod agent;

use agent::{until, Agent, MINUTE};
use gpumap::*;
use std::thread;
use std::time::Duration;

fn kind<T: std::fmt::Debug>(result: Result<T>) -> Kind {
    result.unwrap_err().kind()
}

#[test]
fn no_agent_is_no_panic() {
    let nowhere = Attach::new().instance("no-such-instance");
    let error = nowhere.attach().unwrap_err();

    assert_eq!(error.kind(), Kind::NotRunning);
    assert_eq!(error.call(), "gpumap_attach");
    assert!(error.to_string().starts_with("gpumap_attach: "));
    assert!(nowhere.attach_if_running().unwrap().is_none());
    assert_eq!(kind(Attach::new().instance("a\0b").attach()), Kind::Invalid);
    assert!(version() > 0);
}

#[test]
fn devices_are_listed_found_and_chosen() {
    let agent = Agent::start();
    let map = agent.attach();
    let health = map.health();

    assert!(health.is_ok());
    assert_eq!(health.agent_version, version());
    let devices = map.devices().unwrap();
    assert_eq!(devices.len(), 2);
    for (row, device) in devices.iter().enumerate() {
        assert_eq!(device.row, row as u32);
        assert_eq!(device.kind, DeviceKind::Host);
        assert!(device.is_ready() && device.reason.is_empty());
        assert!(device.worker_pid.is_some());
        assert!(device.free_bytes <= device.total_bytes);
        assert_eq!(map.find_device(device.uuid).unwrap(), row as u32);
        assert_eq!(device.nvml_index, None);
    }
    assert_eq!(kind(map.device(2)), Kind::NoDevice);
    assert_eq!(kind(map.find_device([7; 16])), Kind::NoDevice);

    let mut rows = map.choose(&Choice::default()).unwrap();
    rows.sort_unstable();
    assert_eq!(rows, [0, 1]);
    let only = Choice { rows: Some(vec![1]), ..Choice::default() };
    assert_eq!(map.choose(&only).unwrap(), [1]);
    let huge = Choice { total_bytes: u64::MAX, ..Choice::default() };
    assert_eq!(kind(map.choose(&huge)), Kind::NoDevice);
    assert_eq!(map.visible(Some("0,1"), None).unwrap(), []);

    map.cordon(1).unwrap();
    map.uncordon(1).unwrap();
    map.drain(1).unwrap();
    assert!(!map.device(1).unwrap().is_ready());
    map.undrain(1).unwrap();
    until("row 1 is back", || map.device(1).unwrap().is_ready());
}

#[test]
fn layers_are_published_looked_up_and_pinned() {
    let agent = Agent::start();
    let map = agent.attach();

    assert!(map.layer_maps().is_empty());
    assert_eq!(kind(map.layers("llama")), Kind::NotFound);
    let mut view = map.publish(&Publish::new("llama", "0:2;1:2")).unwrap();
    assert_eq!(view.len(), 4);
    let rows: Vec<_> = (0..4).map(|i| view.get(i).unwrap()).collect();
    assert_eq!(rows, [0, 0, 1, 1]);
    assert_eq!(kind(view.get(4)), Kind::OutOfRange);
    assert_eq!(kind(view.get(usize::MAX)), Kind::OutOfRange);

    let pinned = map.pin_layers("llama").unwrap();
    let sizes = [10, 20, 30];
    let other = Publish::new("llama", "1:3").bytes(&sizes, 5);
    map.publish(&other.dtype(DType::BF16)).unwrap();
    assert_eq!(kind(view.get(0)), Kind::Again);
    assert_eq!(view.lookup(0).unwrap(), 1);
    assert_eq!(view.len(), 3);
    assert_eq!(pinned.len(), 4);
    assert_eq!(pinned.get(0).unwrap(), 0);
    drop(pinned);

    let info = map.read_layers("llama").unwrap();
    assert_eq!((info.name.as_str(), info.dtype), ("llama", DType::BF16));
    assert_eq!(
        (&info.rows[..], &info.layer_bytes[..]),
        (&[1; 3][..], &sizes[..])
    );
    assert_eq!((info.other_bytes, info.setting), (5, Setting::Manual));
    assert!(!info.committed && !info.held);
    assert_eq!(map.layer_maps(), ["llama"]);

    map.release("llama").unwrap();
    assert_eq!(kind(view.lookup(0)), Kind::NotFound);
    assert_eq!(kind(map.release("llama")), Kind::NotFound);
    let refused = map.publish(&Publish::new("llama", "9:2")).unwrap_err();
    assert_eq!(refused.kind(), Kind::NoDevice);
    assert!(refused.refusal().contains('9'), "{}", refused);
    let unlike = Publish::new("x", "0:3").bytes(&sizes, 0).n_layers(2);
    assert_eq!(kind(map.publish(&unlike)), Kind::Invalid);
}

#[test]
fn threads_share_a_map_and_see_changes() {
    let agent = Agent::start();
    let map = agent.attach();
    let view = map.publish(&Publish::new("m", "0:1")).unwrap();

    thread::scope(|threads| {
        let mut theirs = view.clone();
        let reader = threads.spawn(move || {
            until("the change", || theirs.lookup(0).unwrap() == 1);
        });
        map.publish(&Publish::new("m", "1:1")).unwrap();
        reader.join().unwrap();
    });

    let short = Some(Duration::from_millis(1));
    let mut seen = map.generation();
    until("nothing changes", || match map.wait_change(seen, short) {
        Ok(now) => {
            seen = now;
            false
        }
        Err(error) => {
            assert_eq!(error.kind(), Kind::Timeout);
            true
        }
    });
    thread::scope(|threads| {
        let waiter = threads.spawn(|| map.wait_change(seen, Some(MINUTE)));
        map.release("m").unwrap();
        assert_ne!(waiter.join().unwrap().unwrap(), seen);
    });
    map.wait_ready(Some(MINUTE)).unwrap();
    map.wait_ready(Some(Duration::ZERO)).unwrap();
    assert!(!map.change_arm(seen).unwrap());
    map.change_fd().unwrap();
    map.set_request_limit(Some(MINUTE));
}

#[test]
fn plans_fit_or_say_what_is_missing() {
    let agent = Agent::start();
    let map = agent.attach();
    let shape = Shape { layer_bytes: vec![1 << 20; 4], ..Shape::default() };

    let plan = map.plan(&shape, &PlanOptions::new().spec("0:1;1:3")).unwrap();
    assert_eq!(plan.rows, [0, 1, 1, 1]);
    assert_eq!(plan.version, 0);
    let charged: Vec<_> =
        plan.charges.iter().map(|one| (one.row, one.n_layers)).collect();
    assert_eq!(charged, [(0, 1), (1, 3)]);

    let one = LayerCache { token_elements: 64, ..LayerCache::default() };
    let three = LayerCache { n_layers: 3, ..one };
    let kept = Shape { caches: vec![one, three], ..shape.clone() };
    let options = PlanOptions::new().tokens(100, 1).spec("0:1;1:3");
    let plan = map.plan(&kept, &options).unwrap();
    assert!(plan.kv_bytes >= 100 * 64 * 2);
    assert_eq!(plan.charges[1].kv_bytes, 3 * plan.kv_bytes);
    let few = Shape { caches: vec![three], ..shape.clone() };
    let options = options.engine(Engine::LlamaCpp);
    let padded = map.plan(&kept, &options).unwrap();
    assert_eq!(padded.kv_bytes, 256 * 64 * 2);
    assert_eq!(map.plan(&few, &options).unwrap_err().kind(), Kind::Invalid);

    let options = PlanOptions::new().pipeline(&[2, 2]).rows(&[1, 0]);
    assert_eq!(map.plan(&shape, &options).unwrap().rows, [1, 1, 0, 0]);

    let options = PlanOptions::new().topology("0-2:cpu").base_row(1);
    assert_eq!(map.plan(&shape, &options).unwrap().rows, [1, 1, 1, 1]);

    let options = PlanOptions::new().strategy(Strategy::Fewest).hold("held");
    let plan = map.plan(&shape, &options).unwrap();
    assert!(plan.version > 0);
    let info = map.read_layers("held").unwrap();
    assert!(info.committed && info.held);
    assert_eq!(info.charges.len(), 1);
    assert_eq!(info.charges[0].weight_bytes, 4 << 20);
    map.release("held").unwrap();

    let huge = Shape { layer_bytes: vec![1 << 50; 2], ..Shape::default() };
    let error = map.plan(&huge, &PlanOptions::new()).unwrap_err();
    assert_eq!(error.kind(), Kind::DoesNotFit);
    let by_hand = PlanOptions::new().spec("1:2").commit("huge");
    let error = map.plan(&huge, &by_hand).unwrap_err();
    assert_eq!(error.kind(), Kind::DoesNotFit);
    assert!(error.missing_bytes().unwrap() > 1 << 50, "{:?}", error);
    assert_eq!(error.missing_row(), Some(1));
    assert!(!error.refusal().is_empty());
}

#[test]
fn reservations_end_with_their_handle() {
    let agent = Agent::start();
    let map = agent.attach();
    let kept = map.reserve(&Reserve::rows(&[(1, 8 << 20)])).unwrap();

    assert_eq!(kept.rows(), [(1, 8 << 20)]);
    let all = map.reservations().unwrap();
    assert_eq!(all.len(), 1);
    assert_eq!((all[0].row, all[0].bytes), (1, 8 << 20));
    assert_eq!(all[0].name, kept.name());
    assert_eq!(all[0].pid, Some(std::process::id()));
    assert_eq!(map.device(1).unwrap().reserved_bytes, 8 << 20);
    let any = map.reserve(&Reserve::any(1 << 20, &[0, 1]).name("any")).unwrap();
    assert_eq!((any.name(), any.rows().len()), ("any", 1));
    drop(any);
    drop(kept);
    assert!(map.reservations().unwrap().is_empty());

    // A later one of the same name replaces it, and no map of others.
    let named = |bytes| Reserve::rows(&[(0, bytes)]).name("named");
    let first = map.reserve(&named(1 << 20)).unwrap();
    let second = map.reserve(&named(2 << 20)).unwrap();
    drop(first);
    assert_eq!(map.reservations().unwrap()[0].bytes, 2 << 20);
    drop(second);
    assert!(map.reservations().unwrap().is_empty());
    map.publish(&Publish::new("named", "0:1")).unwrap();
    assert_eq!(kind(map.reserve(&named(1 << 20))), Kind::Exists);
    let shape = Shape { layer_bytes: vec![1], ..Shape::default() };
    let options = PlanOptions::new().no_replace().publish("named");
    assert_eq!(kind(map.plan(&shape, &options)), Kind::Exists);

    let window = Reserve::rows(&[(0, 1 << 20)]).start(MINUTE);
    let first = map.reserve(&window).unwrap();
    assert_eq!(kind(map.reserve(&window)), Kind::Busy);
    first.started().unwrap();
    map.reserve(&window).unwrap();
    let huge = Reserve::rows(&[(0, u64::MAX / 2)]);
    assert_eq!(kind(map.reserve(&huge)), Kind::DoesNotFit);
}

#[test]
fn small_work_is_not_worth_a_row() {
    let agent = Agent::start();
    let map = agent.attach();
    let worth = map.worth(0).unwrap();

    assert!(!worth.is(Work::Gemm, flops(2, 2, 2)));
    assert!(!worth.is(Work::Unknown(99), u64::MAX));
    assert_eq!(flops(2, 3, 4), 48);
    assert_eq!(kind(map.worth(9)), Kind::NoDevice);
}

#[test]
fn a_dead_agent_is_told_and_views_stay() {
    let mut agent = Agent::start();
    let map = agent.attach();
    let view = map.publish(&Publish::new("stays", "1:2")).unwrap();

    agent.kill();
    assert_eq!(view.get(0).unwrap(), 1);
    assert_eq!(map.device_count(), 2);
    until("it is stale", || map.health().stale);
    let error = map.publish(&Publish::new("new", "0:1")).unwrap_err();
    assert!(matches!(error.kind(), Kind::NotRunning | Kind::Gone), "{}", error);
    agent.run();
    let again = agent.attach();
    assert!(again.health().is_ok());
}
