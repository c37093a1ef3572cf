//! Access to the test device (`guests/abi`, device).

use guests_abi::class::LineClass;
use guests_abi::device::{Register, RunState, line_class_word};

use crate::arch;
use crate::arch::atomic::{AtomicU64, Ordering::Relaxed};
use crate::machine::Node;
use crate::percpu::Line;

/// Address of the device; 0 where only the tree can say, until it has.
static BASE: Line<AtomicU64> = Line(AtomicU64::new(arch::TEST_DEVICE_AT_START));

/// Takes the address from the device's node.
pub(crate) fn find(node: &Node) {
    if let Some(range) = node.ranges().next() {
        arch::map_device(&range);
        BASE.store(range.start, Relaxed);
    }
}

#[inline]
fn write(register: Register, value: u64) {
    let base = BASE.load(Relaxed);
    if base != 0 {
        arch::io_write(base + register.offset(), value);
    }
}

#[inline]
fn read(register: Register) -> u64 {
    let base = BASE.load(Relaxed);
    if base == 0 { 0 } else { arch::io_read(base + register.offset()) }
}

/// Appends a byte to the console.
pub(crate) fn console(byte: u8) {
    write(Register::Console, u64::from(byte));
}

/// Ends the run with a code of `guests_abi::exit`.
pub(crate) fn exit(code: u64) -> ! {
    write(Register::Exit, code);
    // The machine stops on that write; a machine without the device leaves us here.
    loop {
        arch::cpu_relax();
    }
}

/// Begins a region of interest; it has begun on return.
pub(crate) fn region_begin(id: u64) {
    mark(Register::RegionBegin, id);
}

/// Ends a region of interest; it has ended on return.
pub(crate) fn region_end(id: u64) {
    mark(Register::RegionEnd, id);
}

/// The write alone may still be on its way when the CPU counts the next event, and the machine
/// stops a little later at it; a read of the device comes back after both.
fn mark(register: Register, id: u64) {
    write(register, id);
    let _ = read(Register::Id);
}

/// What a CPU is doing.
pub(crate) fn run_state(cpu: usize) -> Option<RunState> {
    write(Register::CpuSelect, cpu as u64);
    RunState::from_value(read(Register::CpuState))
}

/// Declares the class of the lines of a range.
pub(crate) fn declare_lines(address: u64, bytes: usize, class: LineClass) {
    write(Register::LineAddress, address);
    write(Register::LineClass, line_class_word(class, bytes as u64));
}

/// Declares the class of the lines of a value.
pub(crate) fn declare<T>(value: &T, class: LineClass) {
    if size_of::<T>() != 0 {
        declare_lines(core::ptr::from_ref(value) as u64, size_of::<T>(), class);
    }
}

/// Seed of this run; only after region begin.
pub(crate) fn seed() -> u64 {
    read(Register::Seed)
}
