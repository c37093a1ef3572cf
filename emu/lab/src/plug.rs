//! The machine of this project as a rig.

use emu_cpu::thread::RunState;
use emu_machine::load::Symbols;
use emu_machine::{
    Boot, BrokenLaw, CpuCounters, Image, Machine, NamedLines, Options, PointRule, Stop, Until,
};
use emu_observe::{Observer, PointTable, StallReport};
use emu_sim::{CpuId, SimTime};
use topology::Isa;

use crate::ending::LabError;
use crate::rig::{Program, Rig};

/// Turns an error with its sources into one input error.
fn input(error: &dyn std::error::Error) -> LabError {
    let text = LabError::input(error.to_string());
    match error.source() {
        Some(source) => input(source).during(error.to_string()),
        None => text,
    }
}

impl Rig for Machine {
    fn build(
        topology: &topology::Machine,
        options: Options,
        program: &Program<'_>,
    ) -> Result<Self, LabError> {
        let mut machine = Machine::new(topology, options).map_err(|error| input(&error))?;
        let image = Image::read(program.image, topology, program.load_at);
        let mut image = image.map_err(|error| input(&error))?;
        if let Some(bytes) = program.symbols {
            let symbols =
                Symbols::read(bytes).map_err(|error| input(&error).during("--symbols"))?;
            image.symbols = symbols;
        }
        let boot = Boot { bootargs: program.bootargs, initrd: program.initrd };
        machine.load(&image, boot).map_err(|error| input(&error))?;
        Ok(machine)
    }

    fn run<O: Observer>(&mut self, until: &Until, observer: &mut O) -> Stop {
        Machine::run(self, until, observer)
    }

    fn now(&self) -> SimTime {
        Machine::now(self)
    }

    fn input(&mut self, bytes: &[u8]) {
        Machine::input(self, bytes);
    }

    fn cpus(&self) -> usize {
        Machine::cpus(self)
    }

    fn counters(&self, cpu: CpuId) -> CpuCounters {
        Machine::counters(self, cpu)
    }

    fn ipis_under_way(&self) -> u64 {
        Machine::ipis_under_way(self)
    }

    fn reseed(&mut self, seed: u64) {
        Machine::reseed(self, seed);
    }

    fn set_rules(&mut self, rules: &[PointRule]) -> Result<(), LabError> {
        Machine::set_rules(self, rules).map_err(|error| input(&error))
    }

    fn read_guest(&self, address: u64, len: usize) -> Vec<u8> {
        Machine::read_guest(self, address, len)
    }

    fn console(&self) -> &[u8] {
        Machine::console(self)
    }

    fn symbol(&self, name: &str) -> Option<u64> {
        self.image()?.symbols.find(name).map(|symbol| symbol.address)
    }

    fn describe(&self, pc: u64) -> Option<String> {
        Some(self.image()?.symbols.describe(pc))
    }

    fn points(&self) -> PointTable {
        let names = self.point_names();
        let points = self.image().map_or(&[][..], |image| &image.points);
        let index = |name: &str| {
            let at = names.iter().position(|have| have == name);
            at.and_then(|at| u32::try_from(at).ok())
        };
        let places =
            points.iter().filter_map(|point| Some((point.address, index(&point.name)?))).collect();
        PointTable::new(names, places)
    }

    fn named_lines(&self) -> &[NamedLines] {
        Machine::named_lines(self)
    }

    fn is_settled(&self, cpu: CpuId) -> bool {
        matches!(self.run_state(cpu), RunState::Waiting(_) | RunState::Spinning)
    }

    fn passed(&self, cpu: CpuId, point: &str) -> u64 {
        self.passes(cpu, point)
    }

    fn registers(&self, cpu: CpuId) -> Vec<(&'static str, u64)> {
        Machine::registers(self, cpu)
    }

    fn check_laws(&self) -> Result<(), BrokenLaw> {
        Machine::check_laws(self)
    }

    fn stall_report(&self) -> StallReport {
        Machine::stall_report(self)
    }
}

/// Returns the names of the features that this emulator implements of an instruction set.
#[must_use]
pub fn implemented_features(isa: Isa) -> Vec<&'static str> {
    match isa {
        Isa::X86_64 => emu_machine::implemented_features().iter().map(|f| f.name()).collect(),
        Isa::Aarch64 => emu_machine::arm_id::implemented(),
    }
}
