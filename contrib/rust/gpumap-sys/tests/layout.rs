// SPDX-FileCopyrightText: 2026 The gpumap authors
// SPDX-License-Identifier: MIT

//! The declarations agree with the C headers: a C program says where each field
//! is, and which number each constant has.  CC is the compiler.

use gpumap_sys::*;
use std::env;
use std::fs;
use std::mem::{size_of, MaybeUninit};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr::addr_of;

/// A number as an expression of C, and as Rust has it.
type Number = (String, u64);

/// Sizes and offsets of all structs.
macro_rules! structs {
    ($($name:ident { $($field:ident,)* })*) => {
        fn layouts() -> Vec<Number> {
            let mut all = Vec::new();
            $({
                let whole = MaybeUninit::<$name>::zeroed();
                let base = whole.as_ptr();
                let c = concat!("struct ", stringify!($name));

                all.push((format!("sizeof({})", c), size_of::<$name>() as u64));
                $({
                    // SAFETY: the address of a field within the struct.
                    let at = unsafe { addr_of!((*base).$field) };
                    let field = stringify!($field).trim_end_matches('_');

                    all.push((
                        format!("offsetof({}, {})", c, field),
                        at as u64 - base as u64,
                    ));
                })*
            })*
            all
        }
    };
}
include!("layout/structs.rs");

const BINDINGS: &str = include_str!("../src/bindings.rs");

/// The constants of the bindings, by their text.
fn constants() -> Vec<Number> {
    let mut all = Vec::new();

    for part in BINDINGS.split("pub const ").skip(1) {
        let end = part.find(';').expect("the end of a constant");
        let (name, rest) = part[..end].split_once(':').expect("a type");
        let (_, value) = rest.split_once('=').expect("a value");
        let value: i128 = value.trim().parse().expect("a number");

        all.push((name.trim().into(), value as u64));
    }
    all
}

/// C's value of each of the expressions.
fn c_says(folder: &Path, numbers: &[Number]) -> Vec<u64> {
    let include = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../include");
    let (source, program) = (folder.join("all.c"), folder.join("all"));
    let mut text = String::from(
        "#include <errno.h>\n#include <gpumap.h>\n#include <gpumap/engine.h>\n\
         #include <gpumap/model.h>\n#include <gpumap/plan.h>\n\
         #include <gpumap/program.h>\n#include <stddef.h>\n#include <stdio.h>\nint main(void)\n{\n",
    );

    for (expression, _) in numbers {
        text += "printf(\"%llu\\n\", (unsigned long long)(";
        text += expression;
        text += "));\n";
    }
    fs::write(&source, text + "return 0;\n}\n").unwrap();
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".into());
    let status = Command::new(compiler)
        .args(["-w", "-I", include, "-o"])
        .args([&program, &source])
        .status()
        .expect("a C compiler");
    assert!(status.success());
    let said = Command::new(&program).output().unwrap();
    String::from_utf8(said.stdout)
        .unwrap()
        .lines()
        .map(|line| line.parse().unwrap())
        .collect()
}

fn agree(test: &str, numbers: &[Number]) {
    let folder =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("c-{}", test));

    fs::create_dir_all(&folder).unwrap();
    let said = c_says(&folder, numbers);
    assert_eq!(said.len(), numbers.len());
    for ((expression, rust), c) in numbers.iter().zip(said) {
        assert_eq!(*rust, c, "{}", expression);
    }
}

#[test]
fn structs_have_c_layouts() {
    let layouts = layouts();

    // Each struct of the bindings that is not opaque is among them.
    for part in BINDINGS.split("pub struct ").skip(1) {
        let (name, rest) = part.split_once(' ').expect("a name");
        let opaque =
            rest.trim_start_matches(['{', '\n', ' ']).starts_with("_unused");
        let size = format!("sizeof(struct {})", name);
        assert_ne!(opaque, layouts.iter().any(|one| one.0 == size), "{}", name);
    }
    agree("layouts", &layouts);
}

#[test]
fn constants_have_c_values() {
    let constants = constants();

    assert!(constants.len() > 100);
    agree("constants", &constants);
}

#[test]
fn sizes_of_work_are_those_of_c() {
    let mut numbers = Vec::new();

    for work in 0..GPUMAP_WORKS + 1 {
        let c = format!("gpumap_work_floor({})", work);
        numbers.push((c, gpumap_work_floor(work)));
    }
    for (m, n, k) in [
        (0, 1, 1),
        (1, 1, 1),
        (3, 5, 7),
        (1 << 32, 1 << 31, 1),
        (1 << 32, 1 << 30, 1),
        (u64::MAX, 1, 1),
        (u64::MAX, u64::MAX, 0),
        (1 << 21, 1 << 21, 1 << 21),
    ] {
        let c = format!("gpumap_flops({}ull, {}ull, {}ull)", m, n, k);
        numbers.push((c, gpumap_flops(m, n, k)));
    }
    agree("work", &numbers);
}
