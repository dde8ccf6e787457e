// SPDX-FileCopyrightText: 2026 The gpumap authors
// SPDX-License-Identifier: MIT

//! Sessions, memory, buffers and jobs, with an agent.

mod agent;

use agent::{signal, stop, until, Agent, MINUTE, SIGKILL};
use gpumap::*;
use std::fs::File;
use std::io::Write;
use std::os::raw::{c_char, c_int, c_uint};
use std::os::unix::io::{AsFd, FromRawFd};
use std::time::Duration;

fn kind<T: std::fmt::Debug>(result: Result<T>) -> Kind {
    result.unwrap_err().kind()
}

fn floats(memory: &mut Memory<'_>, values: &[f32]) {
    let mut bytes = memory.bytes_mut().unwrap();

    bytes.elements_mut::<f32>()[..values.len()].copy_from_slice(values);
}

#[test]
fn jobs_compute() {
    let agent = Agent::start();
    let map = agent.attach();
    let session = map.session().unwrap();
    let mut a = session.memory(0, 16).unwrap();
    let mut b = session.memory(1, 16).unwrap();

    assert_eq!((a.len(), a.row(), a.is_empty()), (16, 0, false));
    floats(&mut a, &[1.0, -2.0, 3.0, 4.0]);
    session.run(0, &Job::copy(&b, &a, DType::F32, 4)).unwrap();
    session.run(1, &Job::scale(&b, &b, DType::F32, 4, 2.0)).unwrap();
    session.run(0, &Job::axpy(&a, &b, DType::F32, 4, 0.5)).unwrap();
    assert_eq!(b.bytes().unwrap().elements::<f32>(), [2.0, -4.0, 6.0, 8.0]);
    assert_eq!(a.bytes().unwrap().elements::<f32>(), [2.0, -4.0, 6.0, 8.0]);

    session.run(0, &Job::sum(&b, &a, DType::F32, 4)).unwrap();
    session.run(0, &Job::min(b.at(4), &a, DType::F32, 4)).unwrap();
    session.run(0, &Job::max(b.at(8), a.at(4), DType::F32, 3)).unwrap();
    session.run(0, &Job::fill(b.at(12), DType::F32, 1, 0x3f80_0000)).unwrap();
    assert_eq!(b.bytes().unwrap().elements::<f32>(), [12.0, -4.0, 8.0, 1.0]);

    let cast = Job::cast(&b, DType::BF16, &a, DType::F32, 4);
    session.run(0, &cast).unwrap();
    session.run(0, &Job::nop()).unwrap();
    assert_eq!(
        b.bytes().unwrap().elements::<u16>()[..4],
        [0x4000, 0xc080, 0x40c0, 0x4100]
    );

    let mask = session.memory(0, 4).unwrap();
    session.run(0, &Job::fill(mask.at(1), DType::U8, 1, 1)).unwrap();
    let job = Job::mask_bool(&a, &a, DType::F32, 4, &mask, 4);
    session.run(0, &job.clone().mask_first(1)).unwrap();
    assert_eq!(
        a.bytes().unwrap().elements::<f32>(),
        [f32::NEG_INFINITY, -4.0, 6.0, 8.0]
    );
    floats(&mut b, &[0.5, 1.5]);
    let job = Job::mask_add(a.at(8), a.at(8), DType::F32, 2, &b, 2);
    session.run(1, &job).unwrap();
    assert_eq!(a.bytes().unwrap().elements::<f32>()[2..], [6.5, 9.5]);
}

#[test]
fn memory_is_either_open_or_in_use() {
    let agent = Agent::start();
    let map = agent.attach();
    let session = map.session().unwrap();
    let mut memory = session.memory(0, 4096).unwrap();

    // Open here: no job may write it, and none may use it while it is open for
    // writing.
    let reading = Job::sum(memory.at(0), memory.at(8), DType::U8, 8);
    let open = memory.bytes().unwrap();
    assert_eq!(kind(session.submit(0, &reading)), Kind::Busy);
    drop(open);

    // In flight: it stays so until the completion is taken here.
    let token =
        session.submit(0, &Job::fill(&memory, DType::U8, 4096, 7)).unwrap();
    assert_eq!(session.in_flight(), 1);
    assert_eq!(kind(memory.bytes()), Kind::Busy);
    assert_eq!(kind(memory.bytes_mut()), Kind::Busy);
    session.wait_for(token, Some(MINUTE)).unwrap();
    assert_eq!(session.in_flight(), 0);
    assert!(memory.bytes().unwrap().iter().all(|byte| *byte == 7));
    assert!(memory.bytes_mut().unwrap().iter().all(|byte| *byte == 7));
    assert_eq!(kind(session.wait_for(token, None)), Kind::NothingInFlight);
    assert_eq!(kind(session.wait(None)), Kind::NothingInFlight);
    assert!(session.poll().unwrap().is_empty());

    // A job that reads it leaves it to readers.
    let other = session.memory(0, 64).unwrap();
    let job = Job::copy(&other, &memory, DType::U8, 64);
    let token = session.submit(0, &job).unwrap();
    assert_eq!(memory.bytes().unwrap()[0], 7);
    assert_eq!(kind(memory.bytes_mut()), Kind::Busy);
    session.wait_for(token, Some(MINUTE)).unwrap();

    // Open for ever, no job has it.
    std::mem::forget(memory.bytes_mut().unwrap());
    let job = Job::copy(&other, &memory, DType::U8, 64);
    assert_eq!(kind(session.submit(0, &job)), Kind::Busy);
    assert_eq!(kind(memory.bytes()), Kind::Busy);
}

#[test]
fn memory_that_was_dropped_waits_for_its_job() {
    let agent = Agent::start();
    let map = agent.attach();
    let session = OpenSession::new().arena_bytes(1 << 20).open(&map).unwrap();

    for round in 0..100 {
        let memory = session.memory(0, 512 << 10).unwrap();
        let job = Job::fill(&memory, DType::U8, 512 << 10, round);
        session.submit(0, &job).unwrap();
        memory.free();
        // The memory is not given out again while the job may write it.
        let other = loop {
            match session.memory(0, 600 << 10) {
                Ok(other) => break other,
                Err(error) => {
                    assert_eq!(error.kind(), Kind::NoMemory);
                    session.wait(Some(MINUTE)).unwrap();
                }
            }
        };
        assert_eq!(session.in_flight(), 0);
        other.free();
    }
}

#[test]
fn a_job_stays_within_its_memory_and_session() {
    let agent = Agent::start();
    let map = agent.attach();
    let (session, other) = (map.session().unwrap(), map.session().unwrap());
    let memory = session.memory(0, 64).unwrap();
    let theirs = other.memory(0, 64).unwrap();
    let refused = |job: Job<'_>| kind(session.submit(0, &job));

    assert_eq!(
        refused(Job::fill(&memory, DType::F32, 17, 0)),
        Kind::OutOfRange
    );
    assert_eq!(
        refused(Job::fill(memory.at(1), DType::U8, 64, 0)),
        Kind::OutOfRange
    );
    assert_eq!(
        refused(Job::fill(memory.at(u64::MAX), DType::U8, 1, 0)),
        Kind::OutOfRange
    );
    assert_eq!(
        refused(Job::fill(&memory, DType::F64, u64::MAX / 4, 0)),
        Kind::OutOfRange
    );
    assert_eq!(
        refused(Job::copy(&memory, &theirs, DType::U8, 1)),
        Kind::Denied
    );
    assert_eq!(kind(session.submit(9, &Job::nop())), Kind::NoDevice);
    assert_eq!(kind(session.memory(9, 1)), Kind::NoDevice);
    assert_eq!(kind(session.memory(0, 0)), Kind::Invalid);
    // The slots are as before.
    assert_eq!(session.in_flight(), 0);
    memory.bytes().unwrap();
}

#[test]
fn buffers_are_allocated_exported_and_registered() {
    let agent = Agent::start();
    let map = agent.attach();
    let (session, other) = (map.session().unwrap(), map.session().unwrap());
    let memory = session.memory(0, 4096).unwrap();
    let buffer = session.alloc(1, 4096, true, Some(MINUTE)).unwrap();

    assert_eq!((buffer.bytes(), buffer.row()), (4096, Some(1)));
    session.run(1, &Job::fill(&buffer, DType::U8, 4096, 9)).unwrap();
    let number = buffer.export().unwrap();
    let imported = other.import(number, true).unwrap();
    assert_eq!(imported.bytes(), 4096);
    let read = other.memory(1, 4096).unwrap();
    other.run(1, &Job::copy(&read, &imported, DType::U8, 4096)).unwrap();
    assert!(read.bytes().unwrap().iter().all(|byte| *byte == 9));
    let denied = other.submit(1, &Job::fill(&imported, DType::U8, 1, 0));
    assert_eq!(kind(denied), Kind::Denied);
    let (fd, bytes) = map.export_fd(number).unwrap();
    assert!(bytes >= 4096);
    drop(fd);
    assert_eq!(kind(other.import(number + 1000, true)), Kind::NotFound);
    let private = session.alloc(0, 4096, false, None).unwrap();
    assert_eq!(kind(private.export()), Kind::Invalid);
    assert_eq!(map.sessions().unwrap().len(), 2);
    assert!(map.usage().unwrap().iter().any(|one| one.row == 1));

    // A memfd of this process, and a file.
    let mut file = memfd(b"rust\0", 8192);
    file.write_all(&[5; 4096]).unwrap();
    let ours = session.register(file.as_fd(), 0, 4096, false).unwrap();
    session.run(0, &Job::copy(&memory, &ours, DType::U8, 4096)).unwrap();
    assert!(memory.bytes().unwrap().iter().all(|byte| *byte == 5));
    assert_eq!(kind(session.register(file.as_fd(), 1, 1, true)), Kind::Invalid);

    let path = agent.folder.join("file");
    std::fs::write(&path, [3; 100]).unwrap();
    let source = session.register_file(&File::open(&path).unwrap()).unwrap();
    session.run(0, &Job::load(&memory, &source, 50, 50)).unwrap();
    assert_eq!(memory.bytes().unwrap()[49..51], [3, 5]);
    let past = session.run(0, &Job::load(&memory, &source, 90, 50));
    assert_eq!(kind(past), Kind::NothingInFlight);
}

extern "C" {
    fn memfd_create(name: *const c_char, flags: c_uint) -> c_int;
    fn fcntl(fd: c_int, command: c_int, argument: c_int) -> c_int;
    fn fork() -> c_int;
    fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
    fn _exit(status: c_int) -> !;
}

/// A memfd that cannot shrink.
fn memfd(name: &[u8], bytes: u64) -> File {
    const MFD_CLOEXEC_ALLOW_SEALING: c_uint = 3;
    const F_ADD_SEALS: c_int = 1033;
    const F_SEAL_SHRINK: c_int = 2;

    // SAFETY: the name ends with a NUL, and the descriptor is this call's.
    unsafe {
        let fd = memfd_create(name.as_ptr().cast(), MFD_CLOEXEC_ALLOW_SEALING);
        assert!(fd >= 0);
        let file = File::from_raw_fd(fd);
        file.set_len(bytes).unwrap();
        assert_eq!(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
        file
    }
}

#[test]
fn completions_come_in_order_and_by_descriptor() {
    let agent = Agent::start();
    let map = agent.attach();
    let session = OpenSession::new().pollable().depth(16).open(&map).unwrap();
    let memory = session.memory(0, 64).unwrap();

    let jobs: Vec<_> =
        (0..4).map(|n| Job::fill(&memory, DType::U8, 64, n)).collect();
    let tokens = session.submit_all(0, &jobs).unwrap();
    let time = session.submitted(0).unwrap();
    let last = session.submit(1, &Job::nop().after(time)).unwrap();
    session.fd().unwrap();
    let mut done = Vec::new();
    while done.len() < 5 {
        done.extend(session.wait(Some(MINUTE)).unwrap());
    }
    done.iter().for_each(|one| one.check().unwrap());
    let of_row_0: Vec<_> =
        done.iter().filter(|one| one.row == 0).map(|one| one.token).collect();
    assert_eq!(of_row_0, tokens);
    assert!(done.iter().any(|one| one.token == last && one.row == 1));
    assert!(session.arm().unwrap());
    assert_eq!(memory.bytes().unwrap()[0], 3);

    // More than fit are none of them.
    let room = session.credit(0).unwrap() as usize;
    let many = vec![Job::nop(); room + 1];
    assert_eq!(kind(session.submit_all(0, &many)), Kind::Invalid);
    assert_eq!(session.in_flight(), 0);
    let tokens = session.submit_all(0, &many[..room]).unwrap();
    assert_eq!(session.credit(0).unwrap(), 0);
    assert_eq!(kind(session.submit(0, &Job::nop())), Kind::Again);
    assert_eq!(session.in_flight(), room);
    session.cancel_job(0, tokens[room - 1]).unwrap();
    session.cancel(0).unwrap();
    for token in tokens {
        match session.wait_for(token, Some(MINUTE)) {
            Ok(()) => {}
            Err(error) => assert_eq!(error.kind(), Kind::Canceled),
        }
    }
    let late = Job::nop().timeout(Duration::from_nanos(1));
    match session.run(0, &late) {
        Ok(()) => {}
        Err(error) => assert_eq!(error.kind(), Kind::Timeout),
    }
}

#[test]
fn a_scatter_is_the_job_in_parts() {
    let agent = Agent::start();
    let map = agent.attach();
    let session = map.session().unwrap();
    let n: u64 = 10_000;
    let how = Scatter::new().rows(&[0, 1]).weights(&[1.0, 3.0]).fallback();
    let mut data = session.scatter_memory(n, 8, &how).unwrap();

    for (i, value) in
        data.bytes_mut().unwrap().elements_mut::<i64>().iter_mut().enumerate()
    {
        *value = i as i64;
    }
    let scaled = session.memory(0, 8 * n as usize).unwrap();
    let job = Job::copy(&scaled, &data, DType::I64, n);
    let tiles = session.scatter(&job, &how).unwrap();
    assert_eq!(tiles.iter().map(|tile| tile.n).sum::<u64>(), n);
    assert_eq!(tiles.len(), 2);
    assert!(tiles[1].n > 2 * tiles[0].n && tiles[1].row == 1);
    assert_eq!(*scaled.bytes().unwrap(), *data.bytes().unwrap());

    let parts = session.memory(0, 64).unwrap();
    let job = Job::sum(&parts, &data, DType::I64, n);
    let sum = session.reduce(&job, &how).unwrap();
    assert_eq!(sum, Number::Signed((n * (n - 1) / 2) as i64));
    let short = session.memory(0, 8).unwrap();
    let job = Job::sum(&short, &data, DType::I64, n);
    assert_eq!(kind(session.scatter(&job, &how)), Kind::Again);
    let unlike = Scatter::new().rows(&[0, 1]).weights(&[1.0]);
    assert_eq!(kind(session.scatter(&job, &unlike)), Kind::Invalid);
    assert_eq!(session.in_flight(), 0);
}

#[test]
fn reductions_are_numbers() {
    let agent = Agent::start();
    let map = agent.attach();
    let session = map.session().unwrap();
    let how = Scatter::new().rows(&[0, 1]);
    let parts = session.memory(0, 64).unwrap();
    let mut data = session.memory(0, 64).unwrap();
    let mut reduce = |dtype, bytes: &[u8], n: u64| {
        data.bytes_mut().unwrap()[..bytes.len()].copy_from_slice(bytes);
        [
            Job::sum(&parts, &data, dtype, n),
            Job::min(&parts, &data, dtype, n),
            Job::max(&parts, &data, dtype, n),
        ]
        .map(|job| session.reduce(&job, &how).unwrap())
    };
    let unsigned = |of: [u64; 3]| of.map(Number::Unsigned);
    let signed = |of: [i64; 3]| of.map(Number::Signed);
    let float = |of: [f64; 3]| of.map(Number::Float);
    let words = |of: &[u16]| {
        of.iter().flat_map(|one| one.to_ne_bytes()).collect::<Vec<_>>()
    };

    assert_eq!(reduce(DType::U8, &[7, 255], 2), unsigned([262, 7, 255]));
    assert_eq!(
        reduce(DType::U16, &words(&[7, 65535]), 2),
        unsigned([65542, 7, 65535])
    );
    let pair: Vec<u8> =
        [7i32, -9].iter().flat_map(|one| one.to_ne_bytes()).collect();
    assert_eq!(reduce(DType::I32, &pair, 2), signed([-2, -9, 7]));
    let pair: Vec<u8> =
        [7.5f64, -2.0].iter().flat_map(|one| one.to_ne_bytes()).collect();
    assert_eq!(reduce(DType::F64, &pair, 2), float([5.5, -2.0, 7.5]));
    let pair: Vec<u8> =
        [7.5f32, -2.0].iter().flat_map(|one| one.to_ne_bytes()).collect();
    assert_eq!(reduce(DType::F32, &pair, 2), float([5.5, -2.0, 7.5]));
    assert_eq!(
        reduce(DType::F16, &words(&[0x4780, 0xc000]), 2),
        float([5.5, -2.0, 7.5])
    );
    assert_eq!(
        reduce(DType::F16, &words(&[0x0001, 0x8001]), 2),
        float([0.0, -(2f64.powi(-24)), 2f64.powi(-24)])
    );
    assert_eq!(
        reduce(DType::BF16, &words(&[0x40f0, 0xc000]), 2),
        float([5.5, -2.0, 7.5])
    );
    assert_eq!(Number::Signed(-2).as_f64(), -2.0);
    assert_eq!(Number::Float(0.5).to_string(), "0.5");
}

#[test]
fn the_end_of_the_agent_is_an_error_of_every_job() {
    let mut agent = Agent::start();
    let map = agent.attach();
    let session = map.session().unwrap();
    let memory = session.memory(0, 4096).unwrap();

    session.run(0, &Job::fill(&memory, DType::U8, 4096, 1)).unwrap();
    agent.kill();
    until("the session has ended", || {
        let job = Job::fill(&memory, DType::U8, 4096, 2);
        match session.run(0, &job) {
            Ok(()) => false,
            Err(error) => {
                assert!(
                    matches!(
                        error.kind(),
                        Kind::Gone | Kind::NotRunning | Kind::WorkerDied
                    ),
                    "{}",
                    error
                );
                error.kind() == Kind::Gone
            }
        }
    });
    assert_eq!(session.in_flight(), 0);
    // Whether a worker may write the memory still depends on its last job.
    match memory.bytes() {
        Ok(bytes) => assert_eq!(bytes.len(), 4096),
        Err(error) => assert_eq!(error.kind(), Kind::Gone),
    };
}

#[test]
fn memory_that_a_dead_agent_may_write_stays_shut() {
    const BYTES: usize = 4096;
    let mut agent = Agent::start();
    let map = agent.attach();
    let session = map.session().unwrap();
    let mut memory = session.memory(0, BYTES).unwrap();
    let idle = session.memory(0, 64).unwrap();

    session.run(0, &Job::nop()).unwrap();
    let worker = map.device(0).unwrap().worker_pid.unwrap();
    // From now on neither of them does anything.
    stop(agent.pid());
    stop(worker);
    let job = Job::fill(&memory, DType::U8, BYTES as u64, 1);
    session.submit_all(0, &vec![job; 200]).unwrap();
    signal(SIGKILL, worker);
    agent.kill();
    let mut ends = Vec::new();
    while session.in_flight() > 0 {
        ends.extend(session.wait(Some(MINUTE)).unwrap());
    }
    assert_eq!(ends.len(), 200);
    assert!(ends.iter().all(|end| kind(end.check()) == Kind::Gone));
    assert_eq!(kind(memory.bytes()), Kind::Gone);
    assert_eq!(kind(memory.bytes_mut()), Kind::Gone);
    assert_eq!(idle.bytes().unwrap().len(), 64);
}

#[test]
fn a_forked_child_is_told() {
    let agent = Agent::start();
    let map = agent.attach();
    let session = map.session().unwrap();

    // SAFETY: the child makes calls that allocate at most an error's text, and
    // ends without running what its parent has registered.
    unsafe {
        let child = fork();
        if child == 0 {
            let told = matches!(session.poll(), Err(e) if e.kind() == Kind::Forked)
                && matches!(map.sessions(), Err(e) if e.kind() == Kind::Forked)
                && map.device_count() == 2;
            _exit(if told { 0 } else { 1 });
        }
        let mut status = -1;
        assert_eq!(waitpid(child, &mut status, 0), child);
        assert_eq!(status, 0);
    }
    session.run(0, &Job::nop()).unwrap();
}

/// Numbers that look random, the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

#[test]
fn any_order_of_jobs_and_drops_keeps_memory_apart() {
    const BYTES: usize = 64 << 10;
    let agent = Agent::start();
    let map = agent.attach();
    let session =
        OpenSession::new().depth(16).arena_bytes(2 << 20).open(&map).unwrap();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    // Each with its row, and the byte that its last job fills it with.
    let mut all: Vec<(Memory<'_>, u32, u8)> = Vec::new();
    let (mut filled, mut dropped, mut read, mut busy) = (0, 0, 0, 0);

    for step in 0..5000 {
        match random.below(4) {
            0 if all.len() < 12 => {
                let row = random.below(2) as u32;
                match session.memory(row, BYTES) {
                    Ok(mut memory) => {
                        // No job of its last holder writes it.
                        memory.bytes_mut().unwrap().fill(1);
                        all.push((memory, row, 1));
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), Kind::NoMemory);
                        session.poll().unwrap();
                    }
                }
            }
            1 if !all.is_empty() => {
                let i = random.below(all.len());
                let byte = step as u8;
                let (memory, row, last) = &mut all[i];
                let job =
                    Job::fill(&*memory, DType::U8, BYTES as u64, byte.into());
                match session.submit(*row, &job) {
                    Ok(_) => *last = byte,
                    Err(error) => {
                        assert_eq!(error.kind(), Kind::Again);
                        session.wait(Some(MINUTE)).unwrap();
                    }
                }
                filled += 1;
            }
            2 if !all.is_empty() => {
                let i = random.below(all.len());
                all.swap_remove(i);
                dropped += 1;
            }
            _ if !all.is_empty() => {
                let i = random.below(all.len());
                match all[i].0.bytes() {
                    Ok(bytes) => {
                        assert!(*bytes == [all[i].2; BYTES][..]);
                        read += 1;
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), Kind::Busy);
                        session.wait(Some(MINUTE)).unwrap();
                        busy += 1;
                    }
                }
            }
            _ => {}
        }
    }
    assert!(filled > 500 && dropped > 500 && read > 200 && busy > 20);
    while session.in_flight() > 0 {
        session.wait(Some(MINUTE)).unwrap();
    }
    all.clear();
    // Nothing was lost.
    session.memory(0, 1 << 20).unwrap();
}

#[test]
fn a_session_moves_to_another_thread() {
    let agent = Agent::start();
    let map = agent.attach();

    std::thread::scope(|threads| {
        let session = map.session().unwrap();
        let worker = threads.spawn(move || {
            let memory = session.memory(0, 8).unwrap();
            session.run(0, &Job::fill(&memory, DType::U8, 8, 6)).unwrap();
            let byte = memory.bytes().unwrap()[7];
            byte
        });
        assert_eq!(worker.join().unwrap(), 6);
    });
    until("it has ended", || map.sessions().unwrap().is_empty());
}
