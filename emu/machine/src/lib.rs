//! A machine: assembled from a topology, loaded with an image, run until an event.
//!
//! Reading order: `api` (how a run is asked for and ends), `machine` (the face), `system` (state),
//! `platform` (what differs by instruction set), `x86`, `arm64` with its `map`, `assemble` (from
//! the topology), `load`, `fdt`, `handover`, `cpuid`, `arm_id` (what the guest meets), `run` (the
//! loop), `bus` and `dev`, `rules`, `stall` (who waits for what), `laws` (what holds at the end of
//! every run).
//!
//! ```
//! use emu_machine::{Image, Machine, Options, Stop, Until};
//! use emu_observe::{Event, Observer, Record, WakeCause, Wanted};
//! use emu_sim::{CpuId, SimTime};
//!
//! /// Counts the waits that a store ended.
//! struct StoreWakes(u64);
//!
//! impl Observer for StoreWakes {
//!     fn wanted(&self) -> Wanted {
//!         Wanted { wakes: true, ..Wanted::default() }
//!     }
//!     fn record(&mut self, r: &Record) {
//!         if matches!(r.event, Event::IdleExit { cause: WakeCause::MonitorStore, .. }) {
//!             self.0 += 1;
//!         }
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let topology = topology::Machine::load("duo", &[])?;
//! # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../guests/images/x86_64/kern.elf");
//! let image = Image::from_elf(&std::fs::read(path)?, None)?;
//! let mut machine = Machine::new(&topology, Options::default())?;
//! machine.load(&image, "bench=ipistorm cpulist=0 offset=1 numipi=20 warmup=5")?;
//!
//! // Up to the region mark, then on from two forks with seeds of their own.
//! let until = Until { time: SimTime::from_us(10_000), regions: true };
//! let stop = machine.run(&until, &mut ());
//! assert!(matches!(stop, Stop::Region { begin: true, .. }));
//! for seed in [1, 2] {
//!     let mut fork = machine.clone();
//!     fork.reseed(seed);
//!     let mut wakes = StoreWakes(0);
//!     let until = Until { regions: false, ..until.clone() };
//!     assert_eq!(fork.run(&until, &mut wakes), Stop::Exit { code: 0 });
//!     assert!(wakes.0 > 0 && fork.counters(CpuId(1)).idle_wake_write > 0);
//! }
//! # Ok(())
//! # }
//! ```

mod api;
mod arm64;
pub mod arm_id;
mod assemble;
mod bus;
pub mod cpuid;
pub mod dev;
mod dma;
mod earliest;
mod far;
pub mod fdt;
pub mod handover;
mod laws;
pub mod load;
mod machine;
pub mod map;
mod platform;
mod rules;
mod run;
mod stall;
mod system;
mod x86;

pub use api::{Boot, NamedLines, Options, PointAction, PointRule, Stop, Until};
pub use assemble::x86::implemented_features;
pub use dma::{Dma, DmaDone, DmaOp};
pub use emu_cpu::counters::CpuCounters;
pub use laws::BrokenLaw;
pub use load::Image;
pub use machine::{BuildError, Machine};
pub use rules::UnknownPoint;
