//! Codes that the guest kernel writes to the exit register.

/// Everything that was asked for was done.
pub const PASS: u64 = 0;
/// A check of the guest failed; the console says which.
pub const FAIL: u64 = 1;
/// The command line has an unknown switch or a value that does not work.
pub const BAD_SWITCH: u64 = 2;
/// The guest kernel's own assertion failed.
pub const PANIC: u64 = 3;
/// An exception without a handler; the console shows vector, error code and rip.
pub const EXCEPTION: u64 = 4;
/// `bench=lostcall` found calls that were not served in time.
pub const LOST_CALL: u64 = 5;
/// A CPU did not settle, or did not come up, within its bound.
pub const TIMEOUT: u64 = 6;
/// The FDT or the machine lacks something that the guest kernel needs.
pub const BAD_MACHINE: u64 = 7;

/// Short meaning of an exit code of the guest kernel.
pub const fn meaning(code: u64) -> &'static str {
    match code {
        PASS => "passed",
        FAIL => "a check failed",
        BAD_SWITCH => "bad boot switch",
        PANIC => "guest panic",
        EXCEPTION => "unhandled exception",
        LOST_CALL => "lost calls",
        TIMEOUT => "a cpu did not settle or start in time",
        BAD_MACHINE => "the machine lacks something the kernel needs",
        _ => "unknown code",
    }
}
