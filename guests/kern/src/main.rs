//! `kern`: the guest kernel, a small multicore scheduler whose policies are boot switches.
//!
//! One CPU boots, starts all others, and a control thread runs the workload that the command line
//! names (`bench=`). Linux names are kept where the thing is the same (`do_idle`,
//! `try_to_wake_up`, `smp_call_function_single`), so that a kernel developer is at home; the
//! decisions themselves are in `guests/sched`.
//!
//! Modelled: idle loop and call functions with all their flag and queue traffic, run queues,
//! locks, context switches, wake-ups by both paths with their choice of a CPU, task groups, load
//! averages, load balance, tick and `nohz`, timers, idle governors, softirqs, wait queues,
//! mutexes, futexes, pipes, loopback sockets, DMA. Not modelled: active balance, user space,
//! accounting, RCU.
//!
//! Shared state is atomics throughout, relaxed where a lock or the owner orders it: that compiles
//! to the plain loads and stores of a C kernel and leaves `unsafe` to `arch` and to the few
//! places that make references out of addresses.
//!
//! Reading order: [`start`] (boot), [`fdt`], [`config`], [`percpu`] (the line map), [`task`],
//! [`lock`], [`cfs`] (queues), [`rq`], [`pelt`], [`group`], [`domain`], [`balance`], [`nohz`],
//! [`sched`], [`placement`], [`wake`], [`smp`] (call functions), [`softirq`], [`idle`],
//! [`cpuidle`], [`tick`], [`timer`], [`wait`] (queues, and what sleeps on them: [`mutex`],
//! [`futex`], [`pipe`], [`sock`]), `bench`.
#![no_std]
#![no_main]

mod arch;

mod points;

mod testdev;

mod console;

mod fdt;

mod config;

mod memory;

mod machine;

mod cpumask;

mod domain;

mod percpu;

mod counters;

mod lock;

mod link;

mod llist;

mod task;

mod cfs;

mod rq;

mod pelt;

mod group;

mod balance;

mod nohz;

mod sched;

mod placement;

mod wake;

mod smp;

mod softirq;

mod idle;

mod cpuidle;

mod broadcast;

mod tick;

mod timer;

mod completion;

mod wait;

mod mutex;

mod futex;

mod pipe;

mod work;

mod sock;

mod dma;

mod rng;

mod samples;

mod note;

mod start;

mod bench;
