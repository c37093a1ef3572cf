//! `apic_stream`: accesses of a local APIC and an I/O APIC, messages and time, in any order.
//!
//! After each step: a vector enters service from the IRR only, above all in service; what was
//! accepted is pending, in service, ended or was reset; the priority is what TPR and ISR say;
//! registers read what the state is; no timer ends early; an I/O pin in service sends nothing.

use arbitrary::{Arbitrary, Unstructured};
use emu_machine::dev::ioapic::{IoApic, Message, PINS};
use emu_sim::{ApicId, Freq, SimTime};
use emu_x86::apic::{
    Accept, Arrival, Delivery, Destination, Effects, Ipi, LocalApic, LocalApicConfig, LvtEntry,
    Mode, Trigger,
};

/// Most steps of an input.
const STEPS_MAX: usize = 256;
const ID: ApicId = ApicId(1);
const MSR_APIC_BASE: u32 = 0x1b;
const MSR_TSC_DEADLINE: u32 = 0x6e0;
const X2APIC_FIRST: u32 = 0x800;
const ISR_OFFSET: u64 = 0x100;
const IRR_OFFSET: u64 = 0x200;
const MASKED: u32 = 1 << 16;
const LEVEL: u32 = 1 << 15;
const REMOTE_IRR: u32 = 1 << 14;

/// Sources of the local vector table that something outside fires.
const SOURCES: [LvtEntry; 5] =
    [LvtEntry::Cmci, LvtEntry::Thermal, LvtEntry::Performance, LvtEntry::Lint0, LvtEntry::Lint1];

#[derive(Arbitrary, Debug)]
enum Step {
    Read {
        register: u8,
        byte: u8,
        size: u8,
    },
    Write {
        register: u8,
        byte: u8,
        size: u8,
        value: u32,
    },
    /// An aligned write of 32 bits, by whichever way the mode has.
    Set {
        register: u8,
        value: u32,
    },
    ReadMsr(Msr),
    WriteMsr(Msr, u64),
    /// Next mode: disabled, xAPIC, x2APIC.
    SetMode(u8),
    Receive {
        vector: u8,
        delivery: u8,
        destination: u32,
        kind: u8,
        is_level: bool,
    },
    Raise(u8),
    Acknowledge,
    Eoi,
    SetCr8(u8),
    /// Picoseconds, by scale.
    Pass {
        bits: u8,
        low: u8,
    },
    Expire,
    SetTscOffset(u64),
    Init,
    SetPin {
        pin: u8,
        is_high: bool,
    },
    SetEntry {
        pin: u8,
        low: u32,
        high: u8,
    },
    AccessIoApic {
        offset: u8,
        value: u32,
    },
}

#[derive(Arbitrary, Debug)]
enum Msr {
    Base,
    Deadline,
    X2(u8),
    Any(u32),
}

impl Msr {
    fn number(&self) -> u32 {
        match *self {
            Msr::Base => MSR_APIC_BASE,
            Msr::Deadline => MSR_TSC_DEADLINE,
            Msr::X2(n) => X2APIC_FIRST + u32::from(n),
            Msr::Any(n) => n,
        }
    }
}

struct World {
    apic: LocalApic,
    io: IoApic,
    now: SimTime,
}

pub(crate) fn run(data: &[u8]) {
    let mut bytes = Unstructured::new(data);
    let Ok(config) = config(&mut bytes) else { return };
    let mut world = World { apic: LocalApic::new(config), io: IoApic::new(), now: SimTime::ZERO };
    for _ in 0..STEPS_MAX {
        if bytes.is_empty() {
            return;
        }
        let Ok(step) = Step::arbitrary(&mut bytes) else { return };
        let before = world.apic.clone();
        world.step(&step);
        world.check(&before, &step);
    }
}

fn config(bytes: &mut Unstructured<'_>) -> arbitrary::Result<LocalApicConfig> {
    let [has_cmci, can_suppress, can_lowest, has_x2apic, has_tsc_deadline]: [bool; 5] =
        bytes.arbitrary()?;
    Ok(LocalApicConfig {
        id: ID,
        is_bsp: true,
        version: 0x14,
        has_cmci,
        can_suppress_eoi_broadcast: can_suppress,
        can_send_lowest_priority: can_lowest,
        has_x2apic,
        has_tsc_deadline,
        phys_addr_bits: 46,
        timer_freq: Freq::from_khz(100_000),
        tsc_freq: Freq::from_khz(2_450_000),
    })
}

impl World {
    fn step(&mut self, step: &Step) {
        let (apic, now) = (&mut self.apic, self.now);
        match *step {
            Step::Read { register, byte, size } => {
                let size = 1 << (size % 4);
                apic.mmio_read(place(register, byte, size), size, now);
            }
            Step::Write { register, byte, size, value } => {
                let size = 1 << (size % 4);
                let place = place(register, byte, size);
                let effects = apic.mmio_write(place, size, value.into(), now);
                self.take(effects.unwrap_or_default());
            }
            Step::Set { register, value } => {
                let msr = X2APIC_FIRST + u32::from(register);
                let effects = match apic.mode() {
                    Mode::X2Apic => apic.msr_write(msr, value.into(), now).unwrap_or_default(),
                    _ => apic
                        .mmio_write(place(register, 0, 4), 4, value.into(), now)
                        .unwrap_or_default(),
                };
                self.take(effects);
            }
            Step::ReadMsr(ref msr) => drop(apic.msr_read(msr.number(), now)),
            Step::WriteMsr(ref msr, value) => {
                let effects = apic.msr_write(msr.number(), value, now);
                self.take(effects.unwrap_or_default());
            }
            Step::SetMode(mode) => {
                let base = 0xfee0_0000 | [0, 0x800, 0xc00][usize::from(mode % 3)];
                let effects = apic.msr_write(MSR_APIC_BASE, base, now);
                self.take(effects.unwrap_or_default());
            }
            Step::Receive { vector, delivery, destination, kind, is_level } => {
                let Some(delivery) = Delivery::from_bits(delivery.into()) else { return };
                let trigger = if is_level { Trigger::Level } else { Trigger::Edge };
                let destination = address(kind, destination);
                self.deliver(&Ipi { destination, vector, delivery, trigger });
            }
            Step::Raise(n) => {
                let _ = apic.raise(SOURCES[usize::from(n) % SOURCES.len()]);
            }
            Step::Acknowledge => drop(apic.acknowledge()),
            Step::Eoi => {
                let effects = apic.eoi();
                self.take(effects);
            }
            Step::SetCr8(value) => {
                let effects = apic.set_cr8(value.into());
                self.take(effects.unwrap_or_default());
            }
            Step::Pass { bits, low } => {
                let by = u64::from(low | 1) << (bits % 56);
                self.now = SimTime(now.ps().saturating_add(by).min(u64::MAX - 1));
            }
            Step::Expire => drop(apic.expire(now)),
            Step::SetTscOffset(offset) => {
                let effects = apic.set_tsc_offset(offset, now);
                self.take(effects);
            }
            Step::Init => apic.init(),
            Step::SetPin { .. } | Step::SetEntry { .. } | Step::AccessIoApic { .. } => {
                self.io_step(step);
            }
        }
    }

    fn io_step(&mut self, step: &Step) {
        match *step {
            Step::SetPin { pin, is_high } => {
                let entry = self.entry(pin);
                let messages = self.io.set_pin(pin, is_high);
                assert!(messages.len() <= 1, "{messages:?}");
                let is_silent =
                    entry & MASKED != 0 || entry & (LEVEL | REMOTE_IRR) == LEVEL | REMOTE_IRR;
                assert!(!is_silent || messages.is_empty(), "{entry:#x}: {messages:?}");
                assert!(is_high || messages.is_empty(), "{messages:?}");
                self.send(&messages);
            }
            Step::SetEntry { pin, low, high } => {
                let pin = pin % PINS as u8;
                for (index, value) in
                    [(0x11 + 2 * pin, u32::from(high) << 24), (0x10 + 2 * pin, low)]
                {
                    self.io.write(0, index.into());
                    let messages = self.io.write(0x10, value);
                    self.send(&messages);
                }
            }
            Step::AccessIoApic { offset, value } => {
                let _ = self.io.read(offset.into());
                let messages = self.io.write(offset.into(), value);
                assert!(messages.len() <= PINS);
                self.send(&messages);
            }
            _ => {}
        }
    }

    /// The low half of a redirection entry.
    fn entry(&mut self, pin: u8) -> u32 {
        let index = self.io.read(0);
        self.io.write(0, 0x10 + 2 * u32::from(pin % PINS as u8));
        let entry = self.io.read(0x10);
        self.io.write(0, index);
        entry
    }

    fn send(&mut self, messages: &[Message]) {
        for message in messages {
            let (address, data) = message.to_msi();
            if let Ok(ipi) = Ipi::from_msi(address.into(), data) {
                self.deliver(&ipi);
            }
            // In service until its end is told.
            let entry = self.entry(message.pin);
            assert_eq!(message.is_level, entry & (LEVEL | REMOTE_IRR) == LEVEL | REMOTE_IRR);
        }
    }

    fn deliver(&mut self, ipi: &Ipi) {
        if !self.apic.matches(ipi.destination) {
            return;
        }
        let (irr, is_on) = (*self.apic.irr(), self.apic.is_software_enabled());
        let arrival = self.apic.receive(ipi);
        let has = self.apic.irr().contains(ipi.vector);
        match arrival {
            Arrival::Vector(Accept::Accepted) => assert!(is_on && has && !irr.contains(ipi.vector)),
            Arrival::Vector(Accept::Merged) => assert!(is_on && irr.contains(ipi.vector)),
            Arrival::Vector(Accept::Rejected) => assert!(!is_on || ipi.vector < 16),
            Arrival::Init => self.apic.init(),
            Arrival::Smi
            | Arrival::Nmi
            | Arrival::StartUp { .. }
            | Arrival::ExtInt
            | Arrival::Ignored => assert_eq!(irr, *self.apic.irr()),
        }
    }

    /// Does what a write asks of its surroundings.
    fn take(&mut self, effects: Effects) {
        if let Some(ipi) = effects.ipi {
            self.deliver(&ipi);
        }
        if let Some(vector) = effects.eoi_broadcast {
            let messages = self.io.eoi(vector);
            assert!(messages.iter().all(|message| message.vector == vector && message.is_level));
            self.send(&messages);
        }
    }

    fn check(&mut self, before: &LocalApic, step: &Step) {
        let apic = &self.apic;
        let (irr, isr) = (apic.irr(), apic.isr());
        assert!(irr.iter().chain(isr.iter()).all(|vector| vector >= 16), "{step:?}: {apic:?}");
        assert!(apic.tmr().iter().all(|vector| vector >= 16), "{step:?}: {apic:?}");
        let was_reset = *apic == reset(apic);
        // What is in service now came from the IRR; it left service by an EOI, the highest first.
        for vector in isr.iter().filter(|vector| !before.isr().contains(*vector)) {
            assert!(matches!(step, Step::Acknowledge), "{step:?}");
            assert!(before.pending() == Some(vector) && !irr.contains(vector), "{step:?}");
        }
        let ended = before.isr().iter().filter(|vector| !isr.contains(*vector)).count();
        assert!(ended <= 1 || was_reset, "{step:?}: {before:?} {apic:?}");
        assert!(ended == 0 || was_reset || before.isr().highest() != isr.highest(), "{step:?}");
        let lost = before.irr().iter().filter(|vector| !irr.contains(*vector)).count();
        let is_taken = matches!(step, Step::Acknowledge);
        assert!(
            lost == usize::from(is_taken && before.pending().is_some()) || was_reset,
            "{step:?}"
        );
        // The priority, and what it lets through.
        let class = isr.highest().map_or(0, |vector| vector >> 4).max((apic.cr8() & 0xf) as u8);
        assert_eq!(apic.ppr() >> 4, class, "{step:?}: {apic:?}");
        if let Some(vector) = apic.pending() {
            assert!(irr.highest() == Some(vector) && vector >> 4 > class, "{step:?}: {apic:?}");
            assert!(apic.is_software_enabled(), "{step:?}: {apic:?}");
        }
        let classes: Vec<u8> = isr.iter().map(|vector| vector >> 4).collect();
        assert!(classes.windows(2).all(|pair| pair[0] < pair[1]), "{step:?}: {apic:?}");
        self.check_registers(step);
        self.check_time(step);
    }

    /// IRR and ISR read what they are, by whichever way the mode has.
    fn check_registers(&mut self, step: &Step) {
        let sets = [(ISR_OFFSET, *self.apic.isr()), (IRR_OFFSET, *self.apic.irr())];
        for (offset, set) in sets {
            for n in 0..8u8 {
                let offset = offset + 0x10 * u64::from(n);
                let read = match self.apic.mode() {
                    Mode::Disabled => continue,
                    Mode::XApic => self.apic.mmio_read(offset, 4, self.now),
                    Mode::X2Apic => {
                        self.apic.msr_read(X2APIC_FIRST + (offset >> 4) as u32, self.now).ok()
                    }
                };
                let expected = (0..32u8)
                    .filter(|bit| set.contains(32 * n + bit))
                    .fold(0u64, |word, bit| word | 1 << bit);
                assert_eq!(read, Some(expected), "{step:?}");
            }
        }
    }

    /// A timer that is not due does nothing; one that is ends, and what it does next lies ahead.
    fn check_time(&mut self, step: &Step) {
        let next = self.apic.next_expiry();
        if next.is_none_or(|next| next > self.now) {
            let before = self.apic.clone();
            assert_eq!(self.apic.expire(self.now), None, "{step:?}");
            assert_eq!(before, self.apic, "{step:?}");
        } else if matches!(step, Step::Expire) {
            panic!("due again at {next:?}, now {:?}", self.now);
        }
    }
}

/// What a reset of this APIC would leave.
fn reset(apic: &LocalApic) -> LocalApic {
    let mut apic = apic.clone();
    apic.init();
    apic
}

/// A place in the register page where `size` bytes lie on one side of a line of 16.
fn place(register: u8, byte: u8, size: u8) -> u64 {
    u64::from(register) << 4 | u64::from(byte & 15 & !(size - 1))
}

fn address(kind: u8, to: u32) -> Destination {
    match kind % 8 {
        0 => Destination::AllIncludingSelf,
        1 => Destination::SelfOnly(ID),
        2 => Destination::AllExcludingSelf(ApicId(to)),
        3 => Destination::Physical(to),
        4 => Destination::Logical(to as u8),
        5 => Destination::LogicalX2 { cluster: (to >> 16) as u16, mask: to as u16 },
        _ => Destination::Physical(ID.0),
    }
}
