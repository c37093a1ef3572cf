//! `elf`: a file as image of a small machine, loaded and read as a bench would.
//!
//! What the guest would leave behind (counters, samples) is part of the image here.

use std::sync::OnceLock;

use emu_lab::{Counters, Rig, read_samples};
use emu_machine::{Image, Machine, Options};

use crate::read_error;

fn machine() -> Machine {
    static DUO: OnceLock<Machine> = OnceLock::new();
    let build = || {
        let topology = topology::Machine::load("duo", &[]).expect("a shipped machine");
        Machine::new(&topology, Options::default()).expect("it can be built")
    };
    DUO.get_or_init(build).clone()
}

pub(crate) fn run(data: &[u8]) {
    let image = match Image::from_elf(data, None) {
        Ok(image) => image,
        Err(error) => return read_error(&error),
    };
    assert!(image.segments.iter().map(|s| s.bytes.len()).sum::<usize>() <= data.len());
    for point in &image.points {
        assert!(!image.symbols.describe(point.address).is_empty());
    }
    let mut machine = machine();
    if let Err(error) = machine.load(&image, "") {
        return read_error(&error);
    }
    let _ = Rig::points(&machine);
    match Counters::read(&machine) {
        Ok(counters) => {
            let sums = counters.names().iter().map(|name| counters.sum(name));
            assert!(sums.count() < 2000);
        }
        Err(error) => read_error(&error),
    }
    if let Err(error) = read_samples(&machine) {
        read_error(&error);
    }
}
