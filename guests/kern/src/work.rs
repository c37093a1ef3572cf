//! Work of a known length: time that passes only while the task runs.
//!
//! What protocols and servers of benchmarks do is not modelled, only how long they take. The task
//! reads the clock in a loop and leaves out what it did not see pass, so that an interrupt or
//! another task in between makes the work take longer, as it would. It ends at the first look at
//! the clock that is late enough, some ten ns after its time, or a tick of a slow clock.

use crate::arch;
use crate::tick::sched_clock_ns;

/// Time between two looks at the clock from which on the task has not run meanwhile, ns.
const GAP_NS: u64 = 2000;

/// Pauses between two looks.
const PAUSES: u32 = 4;

/// Works for a time.
pub(crate) fn for_ns(mut left: u64) {
    let mut last = sched_clock_ns();
    while left != 0 {
        (0..PAUSES).for_each(|_| arch::cpu_relax());
        let now = sched_clock_ns();
        if now - last < GAP_NS {
            left = left.saturating_sub(now - last);
        }
        last = now;
    }
}
