// SPDX-FileCopyrightText: 2026 The gpumap authors
// SPDX-License-Identifier: MIT

//! lookup LIBRARY [INSTANCE [RUNTIME_DIR]] - lookups in Rust and in C.
//!
//! LIBRARY is lookup.c, compiled as a shared library.  Rounds of both alternate
//! in one run; the result is a line of JSON with the medians and their ratio.

mod options;

use gpumap::{sys, Publish, View};
use std::ffi::CString;
use std::os::raw::{c_char, c_int, c_void};
use std::time::Instant;

const LAYERS: u32 = 256;
const LOOKUPS: u32 = 100_000;
const ROUNDS: usize = 101;

extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}
const RTLD_NOW: c_int = 2;

type Lookups =
    unsafe extern "C" fn(*const sys::gpumap_view, *const u32, u64) -> u64;

/// The loop of lookup.c.
#[inline(never)]
fn lookups(view: &View<'_>, numbers: &[u32]) -> u64 {
    let mut sum = 0;

    for number in numbers {
        if let Ok(entry) = view.get(*number as usize) {
            sum += u64::from(entry);
        }
    }
    sum
}

fn from_library(path: &str) -> Lookups {
    let path = CString::new(path).expect("a path");
    let name = CString::new("lookups").expect("a name");
    // SAFETY: the library is lookup.c, whose function has this type.
    unsafe {
        let library = dlopen(path.as_ptr(), RTLD_NOW);
        assert!(!library.is_null(), "the library cannot be loaded");
        let function = dlsym(library, name.as_ptr());
        assert!(!function.is_null(), "the library is not lookup.c");
        std::mem::transmute(function)
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() -> Result<(), gpumap::Error> {
    let path = std::env::args().nth(1).expect("usage: lookup LIBRARY");
    let in_c = from_library(&path);
    let map = options::attach(2)?;
    let name = format!("rust.lookup.{}", std::process::id());
    let spec = format!("0:{}", LAYERS);
    let view = map.publish(&Publish::new(&name, &spec))?;
    let mut raw = sys::gpumap_view::default();
    let c_name = CString::new(name.as_str()).expect("a name");
    // SAFETY: the map is attached, and the name stays meanwhile.
    let ret = unsafe {
        sys::gpumap_layers_view(map.as_raw(), c_name.as_ptr(), &mut raw)
    };
    assert_eq!(ret, 0);

    // Some are past the end.
    let numbers: Vec<u32> =
        (0..LOOKUPS).map(|i| i.wrapping_mul(97) % (LAYERS + 1)).collect();
    let (mut rust, mut c, mut ratio) = (vec![], vec![], vec![]);
    let each =
        |time: Instant| time.elapsed().as_nanos() as f64 / f64::from(LOOKUPS);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let ours = lookups(&view, &numbers);
        rust.push(each(start));
        let start = Instant::now();
        // SAFETY: the library has filled the view, and there are as many
        // numbers.
        let theirs =
            unsafe { in_c(&raw, numbers.as_ptr(), numbers.len() as u64) };
        c.push(each(start));
        ratio.push(rust[rust.len() - 1] / c[c.len() - 1]);
        assert_eq!(ours, theirs);
    }
    map.release(&name)?;
    println!(
        "{{\"rust_ns\":{:.3},\"c_ns\":{:.3},\"rust_by_c\":{:.3}}}",
        median(rust),
        median(c),
        median(ratio)
    );
    Ok(())
}
