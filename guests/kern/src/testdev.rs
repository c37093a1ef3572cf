//! Access to the test device (`guests/abi`, device).

use guests_abi::class::LineClass;
use guests_abi::device::{Register, RunState, line_class_word};

#[inline]
#[expect(unsafe_code, reason = "memory-mapped register")]
fn write(register: Register, value: u64) {
    let address = crate::arch::testdev_base() + register.offset();
    // SAFETY: the device's page is mapped uncached; writing its registers touches no memory.
    unsafe { (address as *mut u64).write_volatile(value) }
}

#[inline]
#[expect(unsafe_code, reason = "memory-mapped register")]
fn read(register: Register) -> u64 {
    let address = crate::arch::testdev_base() + register.offset();
    // SAFETY: as in `write`.
    unsafe { (address as *const u64).read_volatile() }
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
        crate::arch::cpu_relax();
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

/// The write alone may still be on its way when the CPU counts the next event; a read of the
/// device comes back after it.
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

/// Seed of this run; only after region begin.
pub(crate) fn seed() -> u64 {
    read(Register::Seed)
}
