//! `topology`: the text of a machine file and overrides, each behind a NUL.
//!
//! A text that begins with `@` names a machine instead. A file that is accepted is shown, built,
//! and runs a short program on all of its cpus: nothing that the check lets through may fail then.

use std::sync::OnceLock;

use emu_machine::{Image, Machine, Options, Stop, Until};
use emu_sim::SimTime;

use crate::{read_error, world};

/// Machines with more cpus are only shown, as are those with larger private caches.
const CPUS_MAX: usize = 16;
const CACHE_BYTES_MAX: u64 = 16 << 20;
/// Simulated time of a run.
const TIME: SimTime = SimTime::from_us(2);

pub(crate) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut parts = text.split('\0');
    let Some(text) = parts.next() else { return };
    let overrides: Vec<String> = parts.map(str::to_owned).collect();
    let loaded = match text.strip_prefix('@') {
        // No file of the host is read.
        Some(name) if name.contains(['/', '\\', '.']) => return,
        Some(name) => topology::Machine::load(name, &overrides),
        None => topology::Machine::from_toml(text, "x.toml", &overrides),
    };
    match loaded {
        Ok(machine) => use_machine(&machine),
        Err(report) => read_error(&report),
    }
}

fn use_machine(topology: &topology::Machine) {
    assert!(!topology.render(&emu_lab::implemented_features(topology.isa)).is_empty());
    let sizes = |core: &topology::CorePlace| {
        [Some(core.l1i.size), Some(core.l1d.size), core.l2.as_ref().map(|l2| l2.size)]
    };
    let cached: u64 = topology.cores.iter().flat_map(sizes).flatten().sum();
    if topology.cpus.len() > CPUS_MAX || cached > CACHE_BYTES_MAX {
        return;
    }
    let mut machine = match Machine::new(topology, Options::default()) {
        Ok(machine) => machine,
        Err(error) => return read_error(&error),
    };
    if let Err(error) = machine.load(program(), "") {
        return read_error(&error);
    }
    let stop = machine.run(&Until { time: TIME, regions: false }, &mut ());
    assert!(matches!(stop, Stop::TimeLimit | Stop::Stalled), "{stop:?}");
    assert_eq!(machine.check_laws(), Ok(()));
}

/// Cpu 0 stores, wakes all others at a page of zeros, and waits.
fn program() -> &'static Image {
    static PROGRAM: OnceLock<Image> = OnceLock::new();
    PROGRAM.get_or_init(|| world::wake_all().expect("it can be assembled"))
}
