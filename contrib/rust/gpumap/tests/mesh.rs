// SPDX-FileCopyrightText: 2026 The gpumap authors
// SPDX-License-Identifier: MIT

//! Masks and meshes, with an agent.

mod agent;

use agent::{until, Agent, MINUTE};
use gpumap::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

fn kind<T: std::fmt::Debug>(result: Result<T>) -> Kind {
    result.unwrap_err().kind()
}

#[test]
fn masks_are_made_by_rule() {
    let agent = Agent::start();
    let map = agent.attach();
    let rows = [0, 1];
    let rule = |name| NewMask::causal(name, DType::U8, 3, 1).rows(&rows);

    let made = map.publish_mask(&rule("causal")).unwrap();
    assert_eq!(made.bytes, 12);
    let info = map.read_mask("causal").unwrap();
    assert_eq!((info.kind, info.form), (MaskKind::Custom, MaskForm::Causal));
    assert_eq!((info.rows, info.dtype), (vec![0, 1], DType::U8));
    let mask = map.mask("causal").unwrap();
    let copy = mask.copy(0).unwrap();
    assert_eq!(copy.data, [0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 0]);
    assert_eq!(copy.shape.iter().product::<u64>(), 12);
    assert!(mask.holds());
    let replica = mask.get(1).unwrap();
    assert_eq!((replica.row(), replica.bytes()), (1, 12));
    assert_eq!(replica.export(), None);
    assert!(!replica.as_ptr().is_null());
    assert_eq!(kind(mask.get(7)), Kind::NotFound);

    map.publish_mask(&rule("sliding").sliding(2)).unwrap();
    let sliding = map.mask("sliding").unwrap().copy(0).unwrap();
    assert!(sliding.data > copy.data);
    map.publish_mask(&rule("chunked").chunked(2)).unwrap();
    map.publish_mask(&rule("both").bidirectional(2)).unwrap();
    map.publish_mask(&NewMask::none("none").rows(&[0])).unwrap();
    map.publish_mask(&NewMask::causal_flash("flash").rows(&[0])).unwrap();
    assert_eq!(map.masks().len(), 6);
    let none = map.mask("none").unwrap();
    assert_eq!(none.get(0).unwrap().kind(), MaskKind::None);
    assert!(none.copy(0).unwrap().data.is_empty());
    map.release_mask("causal").unwrap();
    assert_eq!(kind(mask.get(0)), Kind::NotFound);
    assert_eq!(kind(map.mask("causal")), Kind::NotFound);
    assert_eq!(kind(map.release_mask("causal")), Kind::NotFound);
}

#[test]
fn a_pinned_mask_stays_and_others_follow() {
    const BYTES: usize = 128 * 256 * 4;
    let agent = Agent::start();
    let map = agent.attach();
    let rows = [0, 1];
    let publish = |byte: u8| {
        let data = [byte; BYTES];
        let shape = [128, 256];
        let mask = NewMask::loaded("loaded", DType::F32, &shape, &data);
        map.publish_mask(&mask.rows(&rows)).unwrap().version
    };

    let first = publish(1);
    let pinned = map.pin_mask("loaded").unwrap();
    let bytes = pinned.data(1).unwrap();
    let mask = map.mask("loaded").unwrap();
    assert_eq!(mask.get(0).unwrap().shape(), [128, 256]);
    assert_eq!(mask.get(0).unwrap().strides(), [1024, 4]);
    let reads = AtomicBool::new(false);
    thread::scope(|threads| {
        // A copy is of one version, whatever is published meanwhile.
        let reads = &reads;
        let reader = threads.spawn(move || {
            let mut versions = 0;
            let mut last = 0;
            while last < first + 198 {
                let copy = mask.copy(0).unwrap();
                assert!(copy.data == [copy.data[0]; BYTES]);
                assert!(copy.version >= last);
                versions += u32::from(copy.version != last);
                last = copy.version;
                reads.store(true, Ordering::SeqCst);
            }
            versions
        });
        until("it reads", || reads.load(Ordering::SeqCst));
        for byte in 2..200 {
            publish(byte);
        }
        assert!(reader.join().unwrap() > 1);
    });
    assert_eq!(pinned.get(1).unwrap().version(), first);
    assert!(bytes == [1; BYTES]);
    let wrong = NewMask::loaded("loaded", DType::F32, &[3, 5], &[0; 59]);
    assert_eq!(kind(map.publish_mask(&wrong.rows(&rows))), Kind::Invalid);

    map.publish(&Publish::new("followed", "1:2")).unwrap();
    let follows = NewMask::causal("follows", DType::U8, 4, 0);
    map.publish_mask(&follows.follow("followed")).unwrap();
    let info = map.read_mask("follows").unwrap();
    assert_eq!(
        (info.map.as_deref(), &info.rows[..]),
        (Some("followed"), &[1][..])
    );

    // Jobs read the replica of their row.
    let session = map.session().unwrap();
    let buffer = session.register_mask("loaded").unwrap();
    let memory = session.memory(0, 60).unwrap();
    session.run(0, &Job::copy(&memory, &buffer, DType::U8, 60)).unwrap();
    assert!(memory.bytes().unwrap().iter().all(|byte| *byte == 199));
}

#[test]
fn meshes_have_groups_and_places() {
    let agent = Agent::start();
    let map = agent.attach();
    let new = NewMesh::tensor("pair", 2).rows(&[1, 0]);

    assert_eq!(kind(map.mesh("pair")), Kind::NotFound);
    map.publish_mesh(&new.clone().group("second", &[1], MeshBackend::Gloo))
        .unwrap();
    let mesh = map.mesh("pair").unwrap();
    assert_eq!(map.meshes(), ["pair"]);
    assert_eq!((mesh.name().as_str(), mesh.rows()), ("pair", &[1, 0][..]));
    assert_eq!(mesh.topology(), Topology::Tensor);
    assert_eq!(mesh.factors(), Place { tp: 2, pp: 1, dp: 1 });
    assert_eq!((mesh.expected(), mesh.n_groups()), (2, 3));
    assert_eq!(mesh.place(1), Some(Place { tp: 1, pp: 0, dp: 0 }));
    assert_eq!(mesh.place(2), None);
    let world = map.mesh_group("pair", None).unwrap();
    assert_eq!((world.name.as_str(), &world.ranks[..]), ("world", &[0, 1][..]));
    assert_eq!((world.rows, world.whole, world.index), (vec![1, 0], true, 0));
    let second = map.mesh_group("pair", Some("second")).unwrap();
    assert_eq!((second.rows, second.backend), (vec![0], MeshBackend::Gloo));
    assert_eq!(kind(map.mesh_group("pair", Some("x"))), Kind::NotFound);

    let names = |rank| -> Vec<String> {
        let groups = map.mesh_groups("pair", rank).unwrap();
        groups.into_iter().map(|group| group.0).collect()
    };
    assert_eq!(names(None), ["world", "tp_0", "second"]);
    assert_eq!(names(Some(0)), ["world", "tp_0"]);
    assert_eq!(kind(map.mesh_groups("pair", Some(2))), Kind::OutOfRange);
    assert_eq!(map.mesh_within("pair", None, 1).unwrap(), Some(1));
    assert_eq!(map.mesh_within("pair", Some("second"), 1).unwrap(), Some(0));
    assert_eq!(map.mesh_within("pair", Some("second"), 0).unwrap(), None);
    let stats = map.mesh_stats("pair").unwrap();
    assert_eq!((stats.world, stats.n_host, stats.n_ready), (2, 2, 2));

    let mut view = map.mesh_view("pair", None, GroupTable::Rows).unwrap();
    assert_eq!((view.get(0).unwrap(), view.get(1).unwrap()), (1, 0));
    let ranks = map.pin_mesh("pair", Some("second"), GroupTable::Ranks);
    let ranks = ranks.unwrap();
    map.publish_mesh(&new.rows(&[0, 1])).unwrap();
    assert_eq!(kind(view.get(0)), Kind::Again);
    assert_eq!(view.lookup(0).unwrap(), 0);
    assert_eq!((ranks.len(), ranks.get(0).unwrap()), (1, 1));
    drop(ranks);
    map.publish_mesh(&NewMesh::pipeline("stages", 2)).unwrap();
    assert_eq!(map.mesh("stages").unwrap().topology(), Topology::Pipeline);
    map.publish_mesh(&NewMesh::mixed("mixed", 2, 1, 1)).unwrap();
    map.publish_mesh(&NewMesh::data("data", 2)).unwrap();
    assert_eq!(
        kind(map.publish_mesh(&NewMesh::tensor("big", 3))),
        Kind::Invalid
    );
    map.release_mesh("pair").unwrap();
    assert_eq!(kind(view.lookup(0)), Kind::NotFound);
}

#[test]
fn ranks_join_and_leave() {
    let agent = Agent::start();
    let map = agent.attach();
    let id: [u8; ID_BYTES] = std::array::from_fn(|i| i as u8);

    map.publish_mesh(&NewMesh::tensor("m", 2).rows(&[0, 1])).unwrap();
    let epoch = || map.mesh_group("m", None).unwrap().epoch;
    let first = epoch();
    let second = |end: fn(Joined<'_>) -> Result<()>| {
        let theirs = agent.attach();
        let join = Join::new("m", epoch(), 1, 7).timeout(MINUTE);
        let joined = theirs.join(&join).unwrap();
        assert_eq!(joined.id(), &id);
        end(joined)
    };
    let ours =
        || map.join(&Join::new("m", epoch(), 0, 7).id(&id).timeout(MINUTE));
    thread::scope(|threads| {
        let other = threads.spawn(|| second(|joined| joined.leave()));
        ours().unwrap().leave().unwrap();
        other.join().unwrap().unwrap();
    });
    assert_eq!(epoch(), first);
    thread::scope(|threads| {
        let other = threads.spawn(|| second(|joined| joined.broken()));
        let joined = ours().unwrap();
        other.join().unwrap().unwrap();
        assert_ne!(epoch(), first);
        assert_eq!(kind(joined.leave()), Kind::NotFound);
    });
    let alone = Join::new("m", epoch(), 0, 7).id(&id);
    let short = Duration::from_millis(100);
    let error = map.join(&alone.clone().timeout(short)).unwrap_err();
    assert_eq!(error.kind(), Kind::Timeout);
    assert!(error.refusal().contains('1'), "{}", error);
    assert_eq!(kind(map.join(&alone)), Kind::Stale);
    assert_eq!(
        kind(map.join(&Join::new("m", epoch(), 5, 7))),
        Kind::OutOfRange
    );
}
