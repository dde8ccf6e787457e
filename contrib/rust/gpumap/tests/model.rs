// SPDX-FileCopyrightText: 2026 The gpumap authors
// SPDX-License-Identifier: MIT

//! Models, tensors, shares and claims, with an agent.

mod agent;

use agent::{signal, until, write_safetensors, Agent, MINUTE, SIGKILL};
use gpumap::*;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

const LAYERS: usize = 4;

fn kind<T: std::fmt::Debug>(result: Result<T>) -> Kind {
    result.unwrap_err().kind()
}

/// The elements of a layer's tensor.
fn weights(layer: usize) -> Vec<f32> {
    (0..15).map(|i| (100 * layer + i) as f32).collect()
}

/// Writes a checkpoint of a tensor for each layer and some of no layer.
fn checkpoint(agent: &Agent) -> PathBuf {
    let folder = agent.folder.join("checkpoint");
    let names: Vec<_> =
        (0..LAYERS).map(|i| format!("model.layers.{}.weight", i)).collect();
    let mut tensors: Vec<(&str, &str, &[u64], Vec<u8>)> = vec![
        ("embed", "BF16", &[16, 8], (0..=255).collect()),
        ("scalar", "F64", &[], 2.5f64.to_le_bytes().into()),
        ("empty", "F16", &[0, 4], Vec::new()),
    ];

    for (i, name) in names.iter().enumerate() {
        let bytes = weights(i).iter().flat_map(|x| x.to_le_bytes()).collect();
        tensors.push((name, "F32", &[3, 5], bytes));
    }
    std::fs::create_dir_all(&folder).unwrap();
    write_safetensors(&folder.join("model.safetensors"), &tensors);
    std::fs::write(folder.join("config.json"), "{\"hidden_size\": 8}").unwrap();
    folder
}

fn mapped(name: &str) -> OpenModel {
    // SAFETY: these tests write no model that is loaded.
    unsafe { OpenModel::new(name).mapped() }
}

#[test]
fn a_model_is_loaded_and_opened() {
    let agent = Agent::start();
    let map = agent.attach();
    let (session, other) = (map.session().unwrap(), map.session().unwrap());
    let path = checkpoint(&agent);

    map.publish(&Publish::new("llama", "0:2;1:2")).unwrap();
    let what = LoadModel::new(&path).layers("llama").name("llama").read_only();
    let model = session.load(&what).unwrap();
    model.wait(Some(MINUTE)).unwrap();
    let progress = model.progress().unwrap();
    assert_eq!(progress.state, ModelState::Loaded);
    assert_eq!(progress.bytes, progress.total_bytes);
    assert_eq!((progress.n_tensors, progress.was_there), (7, false));
    assert_eq!(model.tensors().len(), 7);
    let meta = model.meta().unwrap();
    assert_eq!(meta.format, MetaFormat::ConfigJson);
    assert_eq!(meta.data, b"{\"hidden_size\": 8}");
    let rows: Vec<_> = model.buffers().iter().map(|one| one.row).collect();
    assert_eq!(rows, [0, 1]);

    // The tensors of the session that has loaded it are for its jobs.
    let memory = session.memory(0, 60).unwrap();
    for layer in 0..LAYERS {
        let name = format!("model.layers.{}.weight", layer);
        let tensor = model.tensor(&name).unwrap();
        assert_eq!(tensor.name(), name);
        assert_eq!((tensor.type_name(), tensor.dtype()), ("F32", DType::F32));
        assert_eq!((tensor.shape(), tensor.bytes()), (&[3, 5][..], 60));
        assert_eq!(tensor.layer(), Some(layer as u32));
        assert_eq!(tensor.row(), (layer / 2) as u32);
        assert!(tensor.data().is_none());
        assert_eq!(kind(tensor.elements::<f32>()), Kind::Unsupported);
        let job = Job::copy(&memory, &tensor, DType::F32, 15);
        session.run(tensor.row(), &job).unwrap();
        assert_eq!(memory.bytes().unwrap().elements::<f32>(), weights(layer));
        let job = Job::copy(&memory, tensor.at(4), DType::F32, 15);
        assert_eq!(kind(session.submit(0, &job)), Kind::OutOfRange);
        let job = Job::copy(&tensor, &memory, DType::F32, 1);
        assert_eq!(kind(session.submit(0, &job)), Kind::Denied);
    }
    assert_eq!(kind(model.tensor("nothing")), Kind::NotFound);

    // Another session maps them.
    let opened = other.open_model(&mapped("llama")).unwrap();
    assert!(opened.progress().unwrap().was_there);
    for layer in 0..LAYERS {
        let name = format!("model.layers.{}.weight", layer);
        let tensor = opened.tensor(&name).unwrap();
        assert_eq!(tensor.elements::<f32>().unwrap(), weights(layer));
        assert_eq!(kind(tensor.elements::<u32>()), Kind::Unsupported);
        let job = Job::fill(&memory, DType::U8, 1, 0);
        assert_eq!(kind(other.submit(0, &job)), Kind::Denied);
        let theirs = other.memory(0, 60).unwrap();
        let job = Job::copy(&theirs, &tensor, DType::F32, 15);
        assert_eq!(kind(other.submit(0, &job)), Kind::Invalid);
    }
    assert_eq!(opened.tensor("embed").unwrap().data().unwrap().len(), 256);
    let scalar = opened.tensor("scalar").unwrap();
    assert_eq!(scalar.elements::<f64>().unwrap(), [2.5]);
    assert_eq!((scalar.layer(), scalar.shape().len()), (None, 0));
    assert_eq!(scalar.to_string(), "scalar F64[] on row 0");
    assert_eq!(opened.tensor("empty").unwrap().bytes(), 0);
    assert_eq!(opened.meta().unwrap(), meta);
    assert_eq!(kind(other.open_model(&mapped("llama"))), Kind::Busy);
    assert_eq!(kind(other.open_model(&mapped("other"))), Kind::NotFound);

    // Threads may read what is mapped.
    let tensors = opened.tensors();
    let embed = tensors.iter().find(|one| one.name() == "embed").unwrap();
    let data = embed.data().unwrap();
    let sum: u32 = thread::scope(|threads| {
        threads
            .spawn(move || data.iter().map(|byte| u32::from(*byte)).sum())
            .join()
            .unwrap()
    });
    assert_eq!(255 * 256 / 2, sum);
    opened.close();
    model.close();
    assert!(map.shares().unwrap().is_empty());
}

#[test]
fn one_session_loads_for_all() {
    let agent = Agent::start();
    let path = checkpoint(&agent);
    let loaded = AtomicU32::new(0);

    thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                let map = agent.attach();
                let session = map.session().unwrap();
                let what = LoadModel::new(&path).name("shared").keep();
                let model = session.load(&what).unwrap();
                model.wait(Some(MINUTE)).unwrap();
                if !model.progress().unwrap().was_there {
                    loaded.fetch_add(1, Ordering::Relaxed);
                }
                assert_eq!(model.tensors().len(), 7);
            });
        }
    });
    assert_eq!(loaded.into_inner(), 1);
    let map = agent.attach();
    until("their sessions have ended", || map.sessions().unwrap().is_empty());
    let shares = map.shares().unwrap();
    assert_eq!((shares.len(), shares[0].n_holders), (1, 0));
    assert!(shares[0].kept && shares[0].name == "shared");

    // The name holds these files and no others.
    let copy = agent.folder.join("other");
    std::fs::create_dir(&copy).unwrap();
    write_safetensors(
        &copy.join("model.safetensors"),
        &[("one", "U8", &[3], vec![1, 2, 3])],
    );
    let session = map.session().unwrap();
    let error =
        session.load(&LoadModel::new(&copy).name("shared")).unwrap_err();
    assert_eq!(error.kind(), Kind::Mismatch);
    assert!(!error.refusal().is_empty());
    let any = LoadModel::new("/nowhere").name("shared").any_files();
    session.load(&any).unwrap().close();
    map.release_share("shared").unwrap();
    assert_eq!(kind(map.release_share("shared")), Kind::NotFound);
}

#[test]
fn what_cannot_be_loaded_is_refused() {
    let agent = Agent::start();
    let map = agent.attach();
    let session = map.session().unwrap();
    let path = checkpoint(&agent);

    let error = session.load(&LoadModel::new("/nowhere")).unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound);
    assert!(error.to_string().contains("/nowhere"), "{}", error);
    let what = LoadModel::new(&path).layers("no-map");
    assert_eq!(kind(session.load(&what)), Kind::NotFound);
    let bad = agent.folder.join("bad.safetensors");
    std::fs::write(&bad, b"\xff\xff\xff\xff\0\0\0\0{").unwrap();
    assert!(session.load(&LoadModel::new(&bad)).is_err());
    let model = session.load(&LoadModel::new(&path).rows(&[1])).unwrap();
    model.cancel().unwrap();
    match model.wait(Some(MINUTE)) {
        Ok(()) => {}
        Err(error) => assert_eq!(error.kind(), Kind::Canceled),
    }
    let mut model = session.load(&LoadModel::new(&path)).unwrap();
    model.wait(Some(MINUTE)).unwrap();
    assert_eq!(kind(model.renew()), Kind::Invalid);
}

#[test]
fn a_file_is_one_tensor() {
    let agent = Agent::start();
    let map = agent.attach();
    let (session, other) = (map.session().unwrap(), map.session().unwrap());
    let path = agent.folder.join("any.bin");
    let bytes: Vec<u8> = (0..10_000u32).map(|i| (i * 7) as u8).collect();

    std::fs::write(&path, &bytes).unwrap();
    let what = LoadModel::new(&path).as_file().name("file").read_only();
    let model = session.load(&what).unwrap();
    model.wait(Some(MINUTE)).unwrap();
    let opened = other.open_model(&mapped("file")).unwrap();
    let tensor = opened.tensor("any.bin").unwrap();
    assert_eq!(tensor.elements::<u8>().unwrap(), bytes);
    drop(opened);
    let share = other.open_share("file", true, None).unwrap();
    let (fd, _) = share.fd(0).unwrap();
    let mut got = Vec::new();
    File::from(fd).read_to_end(&mut got).unwrap();
    assert_eq!(got, bytes);
}

#[test]
fn shares_are_published_and_opened() {
    let agent = Agent::start();
    let map = agent.attach();
    let (session, other) = (map.session().unwrap(), map.session().unwrap());
    let buffer = session.alloc(0, 4096, true, None).unwrap();
    let small = session.alloc(1, 100, true, None).unwrap();
    let hash: Fingerprint =
        "00112233445566778899aabbccddeeff".repeat(2).parse().unwrap();
    let ours = hash.clone().fields("dtype=bf16\nrank=0\n");

    session.run(0, &Job::fill(&buffer, DType::U8, 4096, 4)).unwrap();
    let new = NewShare::new("cache")
        .about(b"a description")
        .fingerprint(&ours)
        .read_only();
    let share = session.publish_share(&new, &[&buffer, &small]).unwrap();
    assert_eq!(share.about().unwrap(), b"a description");
    assert_eq!(kind(session.publish_share(&new, &[&buffer])), Kind::Exists);
    assert_eq!(
        kind(other.publish_share(&NewShare::new("x"), &[&buffer])),
        Kind::Denied
    );

    let wrong = Fingerprint::new([1; 32]).fields("dtype=bf16\nrank=1\n");
    let error = other.open_share("cache", true, Some(&wrong)).unwrap_err();
    assert_eq!(error.kind(), Kind::Mismatch);
    assert!(error.refusal().contains("rank"), "{}", error);
    assert_eq!(kind(other.open_share("cache", false, None)), Kind::Denied);
    let opened = other.open_share("cache", true, Some(&ours)).unwrap();
    let info = opened.info().unwrap();
    assert_eq!((info.name.as_str(), info.n_buffers), ("cache", 2));
    assert_eq!(info.fingerprint, Some(hash.hash()));
    assert!(info.read_only && !info.any_user && !info.kept);
    assert_eq!(opened.about().unwrap(), b"a description");
    let theirs = opened.buffer(0).unwrap();
    assert_eq!((theirs.row(), theirs.bytes()), (0, 4096));
    let memory = other.memory(0, 4096).unwrap();
    other.run(0, &Job::copy(&memory, &theirs, DType::U8, 4096)).unwrap();
    assert!(memory.bytes().unwrap().iter().all(|byte| *byte == 4));
    let job = Job::fill(&theirs, DType::U8, 1, 0);
    assert_eq!(kind(other.submit(0, &job)), Kind::Denied);
    let job = Job::copy(&memory, theirs.at(4090), DType::U8, 7);
    assert_eq!(kind(other.submit(0, &job)), Kind::OutOfRange);
    assert_eq!(kind(opened.buffer(2)), Kind::OutOfRange);
    let listed = map.shares().unwrap();
    assert_eq!((listed.len(), listed[0].n_holders), (1, 2));
    assert_eq!(listed[0].rows, [0, 1]);
    assert_eq!(listed[0].pid, Some(std::process::id()));
    share.close();
    opened.close();
    assert!(map.shares().unwrap().is_empty());
}

#[test]
fn one_of_many_makes_a_share() {
    let agent = Agent::start();
    let made = AtomicU32::new(0);
    let new = NewShare::new("claimed");

    let (asked, have) = (AtomicU32::new(0), AtomicU32::new(0));
    let (map, none) = (agent.attach(), Some(Duration::ZERO));
    let session = map.session().unwrap();
    let claim = session.claim(&new, none).unwrap().unwrap();

    assert_eq!(kind(session.claim(&new, None)), Kind::Busy);
    thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                let map = agent.attach();
                let session = map.session().unwrap();
                assert_eq!(kind(session.claim(&new, none)), Kind::Timeout);
                asked.fetch_add(1, Ordering::SeqCst);
                let buffer = session.alloc(0, 64, true, None).unwrap();
                let share = match session.claim(&new, Some(MINUTE)).unwrap() {
                    Some(_claim) => {
                        made.fetch_add(1, Ordering::SeqCst);
                        session.publish_share(&new, &[&buffer]).unwrap()
                    }
                    None => session.open_share("claimed", false, None).unwrap(),
                };
                assert_eq!(share.info().unwrap().bytes, 64);
                // The share stays as long as one has it.
                have.fetch_add(1, Ordering::SeqCst);
                until("all have it", || have.load(Ordering::SeqCst) == 4);
            });
        }
        until("all have asked", || asked.load(Ordering::SeqCst) == 4);
        drop(claim);
    });
    assert_eq!(made.into_inner(), 1);
}

#[test]
fn a_model_may_be_dropped_with_its_jobs_in_flight() {
    let agent = Agent::start();
    let map = agent.attach();
    let session = map.session().unwrap();
    let path = checkpoint(&agent);
    let memory = session.memory(0, 60).unwrap();

    for _ in 0..20 {
        let model = session.load(&LoadModel::new(&path)).unwrap();
        model.wait(Some(MINUTE)).unwrap();
        let tensor = model.tensor("model.layers.1.weight").unwrap();
        let token = session
            .submit(0, &Job::copy(&memory, &tensor, DType::F32, 15))
            .unwrap();
        drop(model);
        session.wait_for(token, Some(MINUTE)).unwrap();
        assert_eq!(memory.bytes().unwrap().elements::<f32>(), weights(1));
    }
    // Nor must a model that loads be waited for.
    let model = session.load(&LoadModel::new(&path)).unwrap();
    drop(model);
    drop(memory);
    drop(session);
    until("all is free", || {
        map.usage().unwrap().iter().all(|one| one.bytes == 0)
    });
}

#[test]
fn a_model_outlives_the_worker_of_its_row() {
    let agent = Agent::start();
    let map = agent.attach();
    let session = map.session().unwrap();
    let path = checkpoint(&agent);
    let memory = session.memory(0, 60).unwrap();
    let mut model = session.load(&LoadModel::new(&path).name("m")).unwrap();

    model.wait(Some(MINUTE)).unwrap();
    let worker = map.device(0).unwrap().worker_pid.unwrap();
    signal(SIGKILL, worker);
    until("another worker is there", || {
        let device = map.device(0).unwrap();
        device.is_ready() && device.worker_pid != Some(worker)
    });
    let copied = |model: &Model<'_>| {
        let tensor = model.tensor("model.layers.3.weight").unwrap();
        session.run(0, &Job::copy(&memory, &tensor, DType::F32, 15))
    };
    let mut kinds = Vec::new();
    while let Err(error) = copied(&model) {
        kinds.push(error.kind());
        assert!(
            matches!(error.kind(), Kind::Stale | Kind::WorkerDied),
            "{}",
            error
        );
        model.renew().unwrap();
    }
    assert!(!kinds.is_empty());
    assert_eq!(memory.bytes().unwrap().elements::<f32>(), weights(3));
}
