//! The power controller behind the firmware: which cpus are on, and who turns them on.
//!
//! Modelled: CPU_ON, AFFINITY_INFO, CPU_OFF, SYSTEM_OFF and SYSTEM_RESET as the firmware of each
//! cpu sends them to its mailbox, in the order of arrival; the time that power-up takes. Not
//! modelled: suspended cpus (they are on for PSCI), power levels above the cpu.
//! Source: \[PSCI\] "CPU_ON", "CPU_OFF", "AFFINITY_INFO". Status: spec.

use std::ops::Range;

use emu_arm64::psci::{mailbox, result};
use emu_sim::{CpuId, SimTime};

/// Power of one cpu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Supply {
    Off,
    /// It was turned on and starts by then.
    On {
        from: SimTime,
    },
}

/// What a request does beyond its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The cpu starts.
    PowerOn {
        /// Which one.
        cpu: CpuId,
        /// Address of its first instruction.
        entry: u64,
        /// Its X0.
        context: u64,
        /// Not before this time.
        from: SimTime,
    },
    /// The machine goes off.
    SystemOff,
    /// The machine starts anew.
    SystemReset,
}

/// Answers of AFFINITY_INFO.
mod affinity_info {
    pub(super) const ON: i64 = 0;
    pub(super) const OFF: i64 = 1;
    pub(super) const ON_PENDING: i64 = 2;
}

/// The power controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Power {
    /// Affinity Aff3.Aff2.Aff1.Aff0 of each cpu.
    affinities: Vec<u32>,
    supplies: Vec<Supply>,
    /// Entry and context of the next CPU_ON of each cpu.
    arguments: Vec<[u64; 2]>,
    /// Where an entry point may lie.
    memory: Vec<Range<u64>>,
    /// Time from CPU_ON to the first instruction.
    start: SimTime,
}

impl Power {
    /// Cpu 0 is on. An entry point must lie in `memory`; a cpu starts `start` after its CPU_ON.
    #[must_use]
    pub fn new(affinities: Vec<u32>, memory: Vec<Range<u64>>, start: SimTime) -> Power {
        let cpus = affinities.len();
        let mut supplies = vec![Supply::Off; cpus];
        if let Some(boot) = supplies.first_mut() {
            *boot = Supply::On { from: SimTime::ZERO };
        }
        Power { affinities, supplies, arguments: vec![[0; 2]; cpus], memory, start }
    }

    /// Serves one access of `cpu` to the mailbox: the value read, and what follows.
    pub fn access(
        &mut self,
        cpu: CpuId,
        addr: u64,
        write: Option<u64>,
        now: SimTime,
    ) -> (u64, Option<Effect>) {
        let affinity = (addr & 0xffff_ffff) as u32;
        match (addr >> 40, write) {
            (mailbox::ARGUMENT, Some(value)) => {
                let slot = usize::from(affinity != 0);
                if let Some(arguments) = self.arguments.get_mut(cpu.0 as usize) {
                    arguments[slot] = value;
                }
                (0, None)
            }
            (mailbox::CPU_ON, None) => match self.turn_on(cpu, affinity, now) {
                Ok(effect) => (result::SUCCESS as u64, Some(effect)),
                Err(refusal) => (refusal as u64, None),
            },
            (mailbox::AFFINITY_INFO, None) => (self.info(affinity, now) as u64, None),
            (mailbox::CPU_OFF, Some(_)) => {
                if let Some(supply) = self.supplies.get_mut(cpu.0 as usize) {
                    *supply = Supply::Off;
                }
                (0, None)
            }
            (mailbox::SYSTEM_OFF, Some(_)) => (0, Some(Effect::SystemOff)),
            (mailbox::SYSTEM_RESET, Some(_)) => (0, Some(Effect::SystemReset)),
            _ => (result::NOT_SUPPORTED as u64, None),
        }
    }

    fn find(&self, affinity: u32) -> Option<usize> {
        self.affinities.iter().position(|&known| known == affinity)
    }

    /// "ALREADY_ON", "ON_PENDING": by what an earlier call has done; the address is looked at
    /// only when the cpu could start.
    fn turn_on(&mut self, caller: CpuId, affinity: u32, now: SimTime) -> Result<Effect, i64> {
        let target = self.find(affinity).ok_or(result::INVALID_PARAMETERS)?;
        match self.supplies[target] {
            Supply::On { from } if now < from => return Err(result::ON_PENDING),
            Supply::On { .. } => return Err(result::ALREADY_ON),
            Supply::Off => {}
        }
        let [entry, context] = self.arguments[caller.0 as usize];
        let is_memory = self.memory.iter().any(|range| range.contains(&entry));
        if !is_memory || !entry.is_multiple_of(4) {
            return Err(result::INVALID_ADDRESS);
        }
        let from = now + self.start;
        self.supplies[target] = Supply::On { from };
        Ok(Effect::PowerOn { cpu: CpuId(target as u32), entry, context, from })
    }

    fn info(&self, affinity: u32, now: SimTime) -> i64 {
        match self.find(affinity).map(|cpu| self.supplies[cpu]) {
            None => result::INVALID_PARAMETERS,
            Some(Supply::Off) => affinity_info::OFF,
            Some(Supply::On { from }) if now < from => affinity_info::ON_PENDING,
            Some(Supply::On { .. }) => affinity_info::ON,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: SimTime = SimTime::from_us(1);

    fn power() -> Power {
        let memory = std::iter::once(0x8000_0000..0x9000_0000);
        Power::new(vec![0, 1, 0x100, 0x0102_0304], memory.collect(), US)
    }

    fn at(function: u64, affinity: u64) -> u64 {
        mailbox::access(function, affinity, None).addr
    }

    fn cpu_on(power: &mut Power, caller: u32, target: u64, entry: u64, now: SimTime) -> i64 {
        power.access(CpuId(caller), at(mailbox::ARGUMENT, 0), Some(entry), now);
        power.access(CpuId(caller), at(mailbox::ARGUMENT, 8), Some(7), now);
        power.access(CpuId(caller), at(mailbox::CPU_ON, target), None, now).0 as i64
    }

    fn info(power: &mut Power, target: u64, now: SimTime) -> i64 {
        power.access(CpuId(0), at(mailbox::AFFINITY_INFO, target), None, now).0 as i64
    }

    #[test]
    fn a_cpu_is_pending_until_it_starts_and_then_on() {
        let mut power = power();
        assert_eq!([info(&mut power, 0, US), info(&mut power, 1, US)], [0, 1]);
        power.access(CpuId(0), at(mailbox::ARGUMENT, 0), Some(0x8000_0040), US);
        power.access(CpuId(0), at(mailbox::ARGUMENT, 8), Some(9), US);
        let (answer, effect) = power.access(CpuId(0), at(mailbox::CPU_ON, 0x100), None, US);
        let cpu = CpuId(2);
        let expected = Effect::PowerOn { cpu, entry: 0x8000_0040, context: 9, from: US + US };
        assert_eq!((answer, effect), (0, Some(expected)));
        assert_eq!(info(&mut power, 0x100, US), 2);
        assert_eq!(cpu_on(&mut power, 1, 0x100, 0x8000_0000, US), result::ON_PENDING);
        assert_eq!(info(&mut power, 0x100, US + US), 0);
        assert_eq!(cpu_on(&mut power, 1, 0x100, 0x8000_0000, US + US), result::ALREADY_ON);
    }

    #[test]
    fn a_call_is_refused_for_a_stranger_or_a_bad_address() {
        let mut power = power();
        let table = [
            (2, 0x8000_0000, result::INVALID_PARAMETERS),
            (1, 0x8000_0002, result::INVALID_ADDRESS),
            (1, 0x0900_0000, result::INVALID_ADDRESS),
            (1, 0x9000_0000, result::INVALID_ADDRESS),
            (0, 0x8000_0000, result::ALREADY_ON),
            (0x0102_0304, 0x8fff_fffc, result::SUCCESS),
        ];
        for (target, entry, answer) in table {
            assert_eq!(cpu_on(&mut power, 0, target, entry, US), answer, "{target:#x} {entry:#x}");
        }
        assert_eq!(info(&mut power, 2, US), result::INVALID_PARAMETERS);
    }

    #[test]
    fn arguments_belong_to_the_caller_and_off_can_be_turned_on_again() {
        let mut power = power();
        power.access(CpuId(0), at(mailbox::ARGUMENT, 0), Some(0x8000_1000), US);
        assert_eq!(cpu_on(&mut power, 1, 0x100, 0x8000_2000, US), 0);
        let (_, effect) = power.access(CpuId(0), at(mailbox::CPU_ON, 1), None, US);
        assert!(matches!(effect, Some(Effect::PowerOn { entry: 0x8000_1000, .. })));
        assert_eq!(power.access(CpuId(1), at(mailbox::CPU_OFF, 0), Some(0), US + US), (0, None));
        assert_eq!(info(&mut power, 1, US + US), 1);
        assert_eq!(cpu_on(&mut power, 0, 1, 0x8000_0000, US + US), 0);
    }

    #[test]
    fn the_machine_ends_or_restarts_and_what_is_no_function_is_refused() {
        let mut power = power();
        let mut ask = |function, write| power.access(CpuId(3), at(function, 0), write, US);
        assert_eq!(ask(mailbox::SYSTEM_OFF, Some(0)), (0, Some(Effect::SystemOff)));
        assert_eq!(ask(mailbox::SYSTEM_RESET, Some(0)), (0, Some(Effect::SystemReset)));
        for (function, write) in [(6, None), (6, Some(1)), (1, Some(1)), (4, None), (1 << 20, None)]
        {
            assert_eq!(ask(function, write), (u64::MAX, None), "{function}");
        }
    }
}
