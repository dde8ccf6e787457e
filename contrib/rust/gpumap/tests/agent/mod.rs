// SPDX-FileCopyrightText: 2026 The gpumap authors
// SPDX-License-Identifier: MIT

//! An agent of a test's own, on two host rows, from the build tree GPUMAP_BUILD.

#![allow(dead_code)] // each test uses a part

use gpumap::{Attach, Map};
use std::env;
use std::fs;
use std::os::raw::{c_int, c_ulong};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

const CONFIG: &str = "[host]\nrows = 2\n[cuda]\nenabled = off\n";
pub const MINUTE: Duration = Duration::from_secs(60);

extern "C" {
    fn kill(pid: c_int, signal: c_int) -> c_int;
    fn prctl(option: c_int, argument: c_ulong) -> c_int;
    fn getuid() -> u32;
}
pub const SIGKILL: c_int = 9;
const SIGTERM: c_int = 15;
const SIGSTOP: c_int = 19;
const PR_SET_PDEATHSIG: c_int = 1;

static AGENTS: AtomicU32 = AtomicU32::new(0);

pub struct Agent {
    build: PathBuf,
    pub folder: PathBuf,
    instance: String,
    process: Option<Child>,
}

impl Agent {
    pub fn start() -> Agent {
        let build = env::var_os("GPUMAP_BUILD")
            .expect("GPUMAP_BUILD is to name a build tree of gpumap");
        let number = AGENTS.fetch_add(1, Ordering::Relaxed);
        let instance = format!("rust.{}.{}", std::process::id(), number);
        let folder = env::temp_dir().join(format!("gpumap-{}", instance));

        fs::create_dir_all(folder.join("run")).unwrap();
        fs::write(folder.join("gpumapd.conf"), CONFIG).unwrap();
        let mut agent = Agent {
            build: PathBuf::from(build),
            folder,
            instance,
            process: None,
        };
        agent.run();
        agent
    }

    fn command(&self) -> Command {
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.folder.join("log"))
            .unwrap();
        let mut command = Command::new(self.build.join("agent/daemon/gpumapd"));

        command
            .args(["--instance", &self.instance, "--runtime-dir"])
            .arg(self.folder.join("run"))
            .arg("--state-dir")
            .arg(self.folder.join("state"))
            .arg("--config")
            .arg(self.folder.join("gpumapd.conf"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        command
    }

    /// Starts the agent again after kill().
    pub fn run(&mut self) {
        let mut command = self.command();

        command
            .arg("--worker")
            .arg(self.build.join("agent/worker/gpumap-worker"))
            .arg("--probe")
            .arg(self.build.join("agent/probe/gpumap-probe"));
        // SAFETY: the call is one that a child may make before it execs.
        unsafe {
            command.pre_exec(|| {
                prctl(PR_SET_PDEATHSIG, SIGTERM as c_ulong);
                Ok(())
            })
        };
        self.process = Some(command.spawn().expect("gpumapd starts"));
        until("the agent is ready", || self.is_ready());
    }

    fn is_ready(&mut self) -> bool {
        let process = self.process.as_mut().unwrap();

        if let Some(status) = process.try_wait().unwrap() {
            let log = fs::read_to_string(self.folder.join("log"));
            panic!("gpumapd ended, {}: {}", status, log.unwrap());
        }
        match self.attach_options().attach_if_running().unwrap() {
            None => false,
            Some(map) => {
                map.health().is_ok()
                    && map.device_count() == 2
                    && map.devices().unwrap().iter().all(|one| one.is_ready())
            }
        }
    }

    pub fn attach_options(&self) -> Attach {
        Attach::new()
            .instance(&self.instance)
            .runtime_dir(self.folder.join("run"))
    }

    /// The instance and the folder, as arguments of a program.
    pub fn words(&self) -> [PathBuf; 2] {
        [PathBuf::from(&self.instance), self.folder.join("run")]
    }

    pub fn attach(&self) -> Map {
        self.attach_options().attach().unwrap()
    }

    pub fn pid(&self) -> u32 {
        self.process.as_ref().unwrap().id()
    }

    /// Ends the agent as a crash would.
    pub fn kill(&mut self) {
        let process = self.process.as_mut().unwrap();

        process.kill().unwrap();
        process.wait().unwrap();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            if process.try_wait().unwrap().is_none() {
                // SAFETY: a signal to a child that was not waited for.
                unsafe { kill(process.id() as c_int, SIGTERM) };
                process.wait().unwrap();
            }
        }
        let removed = self.command().arg("--remove").status();
        // SAFETY: the call has no conditions.
        let ours = format!(".uid{}", unsafe { getuid() });
        for entry in fs::read_dir("/dev/shm").unwrap().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with("gpumap.") && name.ends_with(&ours) {
                let _ = fs::remove_dir_all(entry.path().join(&self.instance));
            }
        }
        fs::remove_dir_all(&self.folder).unwrap();
        assert!(removed.unwrap().success());
    }
}

/// Sends a signal to a process of the agent.
pub fn signal(number: c_int, pid: u32) {
    // SAFETY: the call has no conditions.
    assert_eq!(unsafe { kill(pid as c_int, number) }, 0);
}

/// Stops a process of the agent: all its threads have stopped then.
pub fn stop(pid: u32) {
    let tasks = PathBuf::from(format!("/proc/{}/task", pid));
    let is_stopped = |task: &Path| {
        let stat = fs::read_to_string(task.join("stat")).unwrap();
        // The state is behind the name, which is in parentheses.
        stat[stat.rfind(')').unwrap()..].starts_with(") T")
    };

    signal(SIGSTOP, pid);
    until("it has stopped", || {
        let tasks = fs::read_dir(&tasks).unwrap();
        tasks.flatten().all(|task| is_stopped(&task.path()))
    });
}

/// Waits until it is true; the test fails where it never is.
pub fn until(what: &str, mut is: impl FnMut() -> bool) {
    let start = Instant::now();

    while !is() {
        assert!(start.elapsed() < MINUTE, "never: {}", what);
        sleep(Duration::from_millis(5));
    }
}

/// Writes a safetensors file of (name, type, shape, bytes).
pub fn write_safetensors(
    path: &Path,
    tensors: &[(&str, &str, &[u64], Vec<u8>)],
) {
    let mut at = 0;
    let entries: Vec<String> = tensors
        .iter()
        .map(|(name, dtype, shape, data)| {
            let first = at;
            at += data.len();
            format!(
                "\"{}\":{{\"dtype\":\"{}\",\"shape\":{:?},\
                 \"data_offsets\":[{},{}]}}",
                name, dtype, shape, first, at
            )
        })
        .collect();
    let header = format!("{{{}}}", entries.join(","));
    let mut file = (header.len() as u64).to_le_bytes().to_vec();

    file.extend_from_slice(header.as_bytes());
    tensors.iter().for_each(|one| file.extend_from_slice(&one.3));
    fs::write(path, file).unwrap();
}
