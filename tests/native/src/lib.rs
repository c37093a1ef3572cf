//! Instructions on the emulator against the same on the host's processor.
//!
//! A generator makes instances of every implemented form of 64-bit user code, with random and edge
//! values in registers, flags and memory. Each runs once in a child process on the host, which
//! traps behind the instruction or at its exception, and once on the emulator. Registers, defined
//! flags, memory, and the kind of exception with error code and address must agree.
//!
//! Long run: `cargo run --release -p tests_native -- --cases 1000000 --seed 1`. The gate has a
//! short one in `tests/gate.rs`. Equal seeds give equal cases.
//!
//! A case that differs shrinks to what the difference needs and is shown as a row for
//! `tests/isa/x86/`; to keep it, put it into `tests/isa/x86/native.ins`, where `rows_hold` of
//! `emu_x86` runs it on every host.
//!
//! Not compared: flags and registers that the manual leaves undefined (`undefined.txt` lists
//! them), what the emulator does not model (exception flags of MXCSR; rounding to other than
//! nearest, and what a processor approximates, are within bounds: see `compare`). Not run: what
//! enters the kernel or depends on it (`forms`).
//!
//! Reading order: `case`, `forms`, `generate`, `emulate`, `child` with `wire` and `host` (its other
//! end), `compare` with `undefined`, `shrink`, `row`, `run`, `coverage`.

pub mod case;
pub mod child;
pub mod compare;
pub mod coverage;
pub mod emulate;
pub mod forms;
pub mod generate;
pub mod host;
pub mod rng;
pub mod row;
pub mod run;
pub mod shrink;
pub mod undefined;
pub mod values;
mod wire;
