//! Scheduling decisions of the guest kernel as pure functions.
//!
//! Each function maps the facts a CPU has read to what it does next; the kernel does the reading,
//! the atomics and the interrupts, in the order that the policies prescribe. So the tables of the
//! policies stand here once, and are tested on the host. Reading order: [`flags`] (bits of
//! `thread_info.flags`), [`call_idle`] (a remote call meets an idle CPU), [`resched`]
//! (`resched_curr`), [`weight`], [`tree`] (the queue), [`eevdf`] and [`preempt`] (who runs),
//! [`pelt`] (load averages), [`tg_load`] (load of groups), [`affine`] and [`sis`] (where a wakee
//! goes), [`ttwu`] (queue a wake or lock the run queue), [`domain`] (levels of the topology),
//! [`balance`] (what moves between run queues), [`idlest`] (where a new task goes), [`nohz`]
//! (balance on behalf of idle CPUs), [`menu`] and [`haltpoll`] (how deep a CPU idles).
#![no_std]

/// The variants of a policy, each with the value of its boot switch.
macro_rules! variants {
    (
        $(#[$doc:meta])* $policy:ident {
            $($(#[$variant_doc:meta])* $variant:ident = $text:literal,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum $policy { $($(#[$variant_doc])* $variant,)* }

        impl $policy {
            /// All variants, in the order of the tables.
            pub const ALL: &'static [$policy] = &[$($policy::$variant,)*];

            /// Value of the boot switch.
            pub const fn name(self) -> &'static str {
                match self { $($policy::$variant => $text,)* }
            }

            /// The variant of that name, if there is one.
            pub fn from_name(name: &str) -> Option<$policy> {
                $policy::ALL.iter().copied().find(|variant| variant.name() == name)
            }
        }
    };
}

pub mod exponential;

pub mod flags;

pub mod call_idle;

pub mod resched;

pub mod weight;

pub mod tree;

pub mod eevdf;

pub mod preempt;

pub mod menu;

pub mod haltpoll;

pub mod pelt;

pub mod tg_load;

pub mod affine;

pub mod sis;

pub mod ttwu;

pub mod domain;

pub mod balance;

pub mod idlest;

pub mod nohz;
