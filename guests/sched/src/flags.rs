//! Bits of `thread_info.flags`.

/// The task should call the scheduler soon.
pub const NEED_RESCHED: u32 = 1 << 3;
/// The (idle) task watches its flags: a store to them is as good as an interrupt.
pub const POLLING: u32 = 1 << 21;
/// The idle task should look at its call queue; the scheduler is not meant.
pub const NOTIFY_IPI: u32 = 1 << 22;
