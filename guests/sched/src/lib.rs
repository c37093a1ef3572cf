//! Scheduling decisions of the guest kernel as pure functions.
//!
//! Each function maps the facts a CPU has read to what it does next; the kernel does the reading,
//! the atomics and the interrupts, in the order that the policies prescribe. So the tables of the
//! policies stand here once, and are tested on the host. Reading order: [`flags`] (bits of
//! `thread_info.flags`), [`call_idle`] (a remote call meets an idle CPU), [`resched`]
//! (`resched_curr`), [`preempt`] (does a wakee preempt), [`affine`] and [`sis`] (where a wakee
//! goes), [`ttwu`] (queue a wake or lock the run queue).
#![no_std]

pub mod flags;

pub mod call_idle;

pub mod resched;

pub mod preempt;

pub mod pelt;

pub mod affine;

pub mod sis;

pub mod ttwu;
