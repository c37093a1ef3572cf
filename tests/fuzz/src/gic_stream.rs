//! `gic_stream`: accesses of a distributor, three redistributors and three CPU interfaces, lines
//! and SGIs, in any order, by the registers of GICv3 or of GICv2.
//!
//! What the distributor tells a cpu comes at once, or later and behind what the cpu does meanwhile.
//!
//! After each step: reads have changed nothing; an SPI is forwarded to whom its registers name
//! while it is enabled, pending and not active, else to nobody, and on GICv3 no two cpus have it;
//! what may be taken is above mask and running priority and says so in every register, and an SPI
//! was told as its registers say or a message about it is on its way; an acknowledgement gives just
//! that and makes it active; only acknowledgements, ends and writes of active bits change what is
//! active.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use arbitrary::{Arbitrary, Unstructured};
use emu_arm64::gic::{
    GicConfig, INTID_NONE, IccReg, LocalGic, Pending, SPI_FIRST, SgiTarget, message,
};
use emu_machine::dev::gicd::Gicd;
use emu_machine::dev::gicv2::Gicv2;
use emu_machine::dev::spi::Effect;
use emu_machine::map::INTIDS;
use emu_sim::CpuId;

/// Most steps of an input.
const STEPS_MAX: usize = 256;
const CPUS: u32 = 3;
const AFFINITIES: [u32; CPUS as usize] = [0, 1, 0x0102_0304];
/// Banks of registers in a distributor, GICD_IROUTER and GICD_SGIR among them.
const BANKS: [u64; 14] = [
    0x000, 0x080, 0x100, 0x180, 0x200, 0x280, 0x300, 0x380, 0x400, 0x800, 0xc00, 0xf00, 0xf20,
    0x6100,
];
/// GICD_ISENABLER, GICD_ISPENDR, GICD_ISACTIVER, GICD_ICACTIVER.
const ENABLED: u64 = 0x100;
const PENDING: u64 = 0x200;
const ACTIVE: u64 = 0x300;
const NOT_ACTIVE: u64 = 0x380;
const PRIORITY: u64 = 0x400;
/// GICD_IGROUPR, GICD_ITARGETSR, GICD_IROUTER.
const GROUP: u64 = 0x080;
const TARGETS: u64 = 0x800;
const ROUTER: u64 = 0x6000;
/// GICD_IROUTER: any cpu.
const ANY: u64 = 1 << 31;
/// The page of SGIs and PPIs in the frames of a redistributor.
const SGI_FRAME: u64 = 0x1_0000;
/// The CPU interface of GICv2, behind its distributor.
const INTERFACE: u64 = 0x1_0000;
/// GICC_EOIR, GICC_DIR.
const END: u64 = 0x1_0010;
const DEACTIVATE: u64 = 0x1_1000;

#[derive(Arbitrary, Debug)]
enum Step {
    Read {
        cpu: u8,
        place: Place,
        size: u8,
    },
    Write {
        cpu: u8,
        place: Place,
        size: u8,
        value: u64,
    },
    ReadIcc {
        cpu: u8,
        register: u8,
    },
    WriteIcc {
        cpu: u8,
        register: u8,
        value: u64,
    },
    Acknowledge {
        cpu: u8,
        group: bool,
    },
    /// Ends what was acknowledged last and has not ended, or any.
    End {
        cpu: u8,
        register: u8,
        intid: Option<u16>,
    },
    Line {
        intid: u8,
        is_up: bool,
    },
    PrivateLine {
        cpu: u8,
        intid: u8,
        is_up: bool,
    },
    Sgi {
        from: u8,
        value: u64,
    },
    /// The next message to a cpu comes.
    Come {
        cpu: u8,
    },
}

/// A place in the distributor, or in the frames of a cpu.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Place {
    Bank { bank: u8, at: u8 },
    Any(u32),
    Frame { bank: u8, at: u8 },
    Frames(u32),
}

#[derive(Clone, Debug, PartialEq)]
enum Distributor {
    V3(Gicd),
    V2(Gicv2),
}

#[derive(Clone, Debug, PartialEq)]
struct World {
    distributor: Distributor,
    cpus: Vec<LocalGic>,
    /// Messages of the distributor that have not come, by cpu: all come at once, or by a step.
    coming: Vec<VecDeque<Effect>>,
    is_slow: bool,
    /// Whom the distributor has told of an SPI.
    told: BTreeMap<u32, BTreeSet<u32>>,
    /// Acknowledged and not ended, by cpu.
    taken: Vec<Vec<u32>>,
}

pub(crate) fn run(data: &[u8]) {
    let mut bytes = Unstructured::new(data);
    let Ok(kind) = u8::arbitrary(&mut bytes) else { return };
    let mut world = World::new(kind & 1 != 0, kind & 2 != 0);
    for _ in 0..STEPS_MAX {
        if bytes.is_empty() {
            return;
        }
        let Ok(step) = Step::arbitrary(&mut bytes) else { return };
        let before = world.clone();
        world.step(&step);
        world.check(&before, &step);
    }
}

impl World {
    /// Three cpus after reset.
    fn new(is_v2: bool, is_slow: bool) -> World {
        let config = |n: u32| GicConfig {
            affinity: AFFINITIES[n as usize],
            number: n as u16,
            is_last: n + 1 == CPUS,
        };
        let new = if is_v2 { LocalGic::for_v2 } else { LocalGic::new };
        let cpus = (0..CPUS).map(|n| new(config(n))).collect();
        let distributor = if is_v2 {
            Distributor::V2(Gicv2::new(CPUS as usize))
        } else {
            Distributor::V3(Gicd::new(AFFINITIES.to_vec(), true))
        };
        let coming = vec![VecDeque::new(); CPUS as usize];
        let taken = vec![Vec::new(); CPUS as usize];
        World { distributor, cpus, coming, is_slow, told: BTreeMap::new(), taken }
    }

    fn is_v2(&self) -> bool {
        matches!(self.distributor, Distributor::V2(_))
    }

    fn step(&mut self, step: &Step) {
        let cpu_of = |cpu: u8| u32::from(cpu) % CPUS;
        match *step {
            Step::Read { cpu, place, size } => {
                let value = self.read(cpu_of(cpu), place, 1 << (size % 4));
                assert_eq!(value & !(u64::MAX >> (64 - (8 << (size % 4)))), 0, "{step:?}");
            }
            Step::Write { cpu, place, size, value } => {
                self.write(cpu_of(cpu), place, 1 << (size % 4), value);
            }
            Step::ReadIcc { cpu, register } => {
                let _ = self.cpus[cpu_of(cpu) as usize].read(icc(register));
            }
            Step::WriteIcc { cpu, register, value } => {
                self.write_icc(cpu_of(cpu), icc(register), value);
            }
            Step::Acknowledge { cpu, group } => self.acknowledge(cpu_of(cpu), group.into()),
            Step::End { cpu, register, intid } => {
                let cpu = cpu_of(cpu);
                let last = self.taken[cpu as usize].pop();
                let Some(intid) = intid.map(|i| u32::from(i) & 0x3ff).or(last) else { return };
                let registers = [IccReg::Eoir(0), IccReg::Eoir(1), IccReg::Dir];
                self.end(cpu, registers[usize::from(register) % 3], intid);
            }
            Step::Line { intid, is_up } => {
                let intid = SPI_FIRST + u32::from(intid) % (INTIDS - SPI_FIRST);
                let effects = match &mut self.distributor {
                    Distributor::V3(gicd) => gicd.set_line(intid, is_up),
                    Distributor::V2(gicd) => gicd.set_line(intid, is_up),
                };
                self.carry_out(effects);
            }
            Step::PrivateLine { cpu, intid, is_up } => {
                let intid = 16 + u32::from(intid) % 16;
                self.cpus[cpu_of(cpu) as usize].redistributor.set_line(intid, is_up);
            }
            Step::Sgi { from, value } => self.send(cpu_of(from), value),
            Step::Come { cpu } => self.come(cpu_of(cpu)),
        }
    }

    /// Reads, and finds nothing changed by it.
    fn read(&mut self, cpu: u32, place: Place, size: u8) -> u64 {
        let (offset, is_frame) = self.place(place);
        let gic = &self.cpus[cpu as usize];
        match &self.distributor {
            Distributor::V3(_) if is_frame => gic.redistributor.read(offset, size),
            Distributor::V2(_) if !LocalGic::is_shared_v2(offset) => gic.read_v2(offset, size),
            _ => self.shared(offset, size),
        }
    }

    fn write(&mut self, cpu: u32, place: Place, size: u8, value: u64) {
        let (offset, is_frame) = self.place(place);
        let gic = &mut self.cpus[cpu as usize];
        let effects = match &mut self.distributor {
            Distributor::V3(_) if is_frame => {
                return gic.redistributor.write(offset, size, value);
            }
            Distributor::V3(gicd) => gicd.write(offset, size, value),
            Distributor::V2(gicd) if LocalGic::is_shared_v2(offset) => {
                gicd.write(CpuId(cpu), offset, size, value)
            }
            Distributor::V2(_) => {
                let intid = (value & 0x3ff) as u32;
                return match (offset, size) {
                    (END, 4) => self.end(cpu, IccReg::Eoir(1), intid),
                    (DEACTIVATE, 4) => self.end(cpu, IccReg::Dir, intid),
                    _ => gic.write_v2(offset, size, value),
                };
            }
        };
        self.carry_out(effects);
    }

    /// Offset, and whether it is one in the frames of a redistributor.
    fn place(&self, place: Place) -> (u64, bool) {
        let bank = |bank: u8, at: u8| BANKS[usize::from(bank) % BANKS.len()] + u64::from(at);
        let interface = if self.is_v2() { INTERFACE } else { SGI_FRAME };
        match place {
            Place::Bank { bank: b, at } => (bank(b, at) & 0xffff, false),
            Place::Any(offset) => (u64::from(offset) & 0xffff, false),
            Place::Frame { bank: b, at } => (interface + bank(b, at) % 0x1000, true),
            Place::Frames(offset) => (u64::from(offset) & 0x1_ffff, true),
        }
    }

    /// As the core writes it.
    fn write_icc(&mut self, cpu: u32, register: IccReg, value: u64) {
        let gic = &mut self.cpus[cpu as usize];
        match register {
            IccReg::Eoir(_) | IccReg::Dir => self.end(cpu, register, value as u32 & 0xff_ffff),
            IccReg::Sgi => self.send(cpu, value),
            IccReg::Igrpen(group) => {
                let is_changed = gic.read(register) != value & 1;
                gic.write(register, value);
                if is_changed {
                    self.tell(cpu, message::GROUP_ENABLE, group.into(), value & 1);
                }
            }
            _ => gic.write(register, value),
        }
    }

    /// As the core acknowledges: the distributor first, which a GICv2 asks.
    fn acknowledge(&mut self, cpu: u32, group: u8) {
        let pending = self.cpus[cpu as usize].pending();
        let (intid, pending) = if self.is_v2() {
            let asked = self.cpus[cpu as usize].ask().intid;
            let is_granted = self.tell(cpu, message::ACKNOWLEDGED, asked, 0) != 0;
            let value = self.cpus[cpu as usize].answer(is_granted);
            let is_late = !is_granted && self.is_coming(cpu, asked);
            (value as u32 & 0x3ff, pending.filter(|_| !is_late))
        } else {
            let pending = pending.filter(|p| p.group == group);
            if let Some(spi) = pending.filter(|p| p.intid >= SPI_FIRST) {
                self.tell(cpu, message::ACKNOWLEDGED, spi.intid, 0);
            }
            (self.cpus[cpu as usize].acknowledge(group), pending)
        };
        let expected = pending.map_or(INTID_NONE, |p| p.intid);
        assert_eq!(intid, expected, "what was pending is what was taken");
        let Some(pending) = pending else { return };
        assert!(self.is_active(cpu, intid), "{pending:?}");
        let running = self.cpus[cpu as usize].read(IccReg::Rpr);
        assert_eq!(running, self.group_priority(cpu, pending), "{pending:?}");
        self.taken[cpu as usize].push(intid);
    }

    /// Priority that counts in preemption, by the binary point.
    fn group_priority(&self, cpu: u32, pending: Pending) -> u64 {
        let gic = &self.cpus[cpu as usize];
        let is_common = gic.read(IccReg::Ctlr) & 1 != 0;
        let bits = match pending.group {
            1 if !is_common => gic.read(IccReg::Bpr(1)),
            _ => gic.read(IccReg::Bpr(0)) + 1,
        };
        u64::from(pending.priority) >> bits << bits
    }

    fn end(&mut self, cpu: u32, register: IccReg, intid: u32) {
        let gic = &mut self.cpus[cpu as usize];
        let before = gic.read(IccReg::Rpr);
        gic.end(register, intid);
        assert!(gic.read(IccReg::Rpr) >= before, "an end drops the priority");
        if (SPI_FIRST..1020).contains(&intid) && gic.deactivates(register) {
            self.tell(cpu, message::DEACTIVATED, intid, 0);
        }
    }

    fn send(&mut self, from: u32, value: u64) {
        let (target, intid) = SgiTarget::from_register(value);
        for (cpu, gic) in self.cpus.iter_mut().enumerate() {
            let is_meant = match target {
                SgiTarget::AllButSelf => cpu as u32 != from,
                SgiTarget::List { .. } => target.contains(AFFINITIES[cpu]),
            };
            if is_meant {
                gic.redistributor.set_pending(intid);
            }
        }
    }

    fn tell(&mut self, cpu: u32, kind: u64, which: u32, value: u64) -> u64 {
        let addr = kind << 16 | u64::from(which);
        let (answer, effects) = match &mut self.distributor {
            Distributor::V3(gicd) => (0, gicd.hear(CpuId(cpu), addr, value)),
            Distributor::V2(gicd) => gicd.hear(CpuId(cpu), addr),
        };
        // On GICv2 it is taken back from who got it, too.
        if kind == message::ACKNOWLEDGED
            && !self.is_v2()
            && let Some(told) = self.told.get_mut(&which)
        {
            told.remove(&cpu);
        }
        self.carry_out(effects);
        answer
    }

    /// Sends what the distributor tells.
    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            let (cpu, intid) = subject(effect);
            let told = self.told.entry(intid).or_default();
            match effect {
                Effect::Forward { .. } => {
                    told.insert(cpu);
                }
                Effect::Retract { .. } | Effect::Withdraw { .. } => {
                    assert!(told.remove(&cpu), "{cpu} was not told of {intid}");
                }
                Effect::Sgi { .. } => {}
            }
            self.coming[cpu as usize].push_back(effect);
            if !self.is_slow {
                self.come(cpu);
            }
        }
    }

    /// The cpu hears its next message. What it gives back, the distributor hears at once.
    fn come(&mut self, cpu: u32) {
        let Some(effect) = self.coming[cpu as usize].pop_front() else { return };
        let gic = &mut self.cpus[cpu as usize];
        match effect {
            Effect::Forward { intid, priority, group, .. } => {
                gic.forward(Pending { intid: intid.into(), group, priority });
            }
            Effect::Retract { intid, .. } => gic.retract(intid.into()),
            Effect::Withdraw { intid, .. } => {
                gic.retract(intid.into());
                self.tell(cpu, message::RELEASED, intid.into(), 0);
            }
            Effect::Sgi { intid, source, .. } => {
                gic.redistributor.set_pending_from(intid, source.0 as u8);
            }
        }
    }

    /// Whether a message about an interrupt is on its way to a cpu.
    fn is_coming(&self, cpu: u32, intid: u32) -> bool {
        self.coming[cpu as usize].iter().any(|effect| subject(*effect) == (cpu, intid))
    }

    /// Whether an SPI was taken back from a cpu that has not heard so.
    fn is_withdrawn(&self, intid: u32) -> bool {
        let is_it = |effect: &Effect| match effect {
            Effect::Withdraw { .. } => subject(*effect).1 == intid,
            _ => false,
        };
        self.coming.iter().flatten().any(is_it)
    }

    /// Whom the registers name for an SPI that is ready; nothing if any cpu will do.
    fn targets(&self, intid: u32) -> Option<BTreeSet<u32>> {
        let (group, routing) = match &self.distributor {
            Distributor::V3(gicd) => {
                let group = u32::from(self.bit(0, GROUP, intid));
                (group, gicd.read(ROUTER + 8 * u64::from(intid), 8))
            }
            Distributor::V2(gicd) => (0, gicd.read(TARGETS + u64::from(intid), 1)),
        };
        let is_on = self.shared(0, 4) >> group & 1 != 0;
        if !is_on || self.is_withdrawn(intid) {
            return Some(BTreeSet::new());
        }
        if routing & ANY != 0 {
            return None;
        }
        let affinity = (routing >> 32 << 24 | routing & 0xff_ffff) as u32;
        let is_target = |cpu: &u32| match self.is_v2() {
            true => routing >> cpu & 1 != 0,
            false => AFFINITIES[*cpu as usize] == affinity,
        };
        Some((0..CPUS).filter(is_target).collect())
    }

    /// Reads a register of the distributor proper.
    fn shared(&self, offset: u64, size: u8) -> u64 {
        match &self.distributor {
            Distributor::V3(gicd) => gicd.read(offset, size),
            Distributor::V2(gicd) => gicd.read(offset, size),
        }
    }

    /// The bits of 32 interrupts, in the registers of a bank.
    fn word(&self, cpu: u32, bank: u64, nth: u32) -> u64 {
        let offset = bank + u64::from(nth) * 4;
        match nth {
            0 => self.cpus[cpu as usize].redistributor.read(SGI_FRAME + offset, 4),
            _ => self.shared(offset, 4),
        }
    }

    fn bit(&self, cpu: u32, bank: u64, intid: u32) -> bool {
        self.word(cpu, bank, intid / 32) >> (intid % 32) & 1 != 0
    }

    fn is_active(&self, cpu: u32, intid: u32) -> bool {
        self.bit(cpu, ACTIVE, intid)
    }

    fn priority(&self, cpu: u32, intid: u32) -> u64 {
        let offset = PRIORITY + u64::from(intid);
        match intid {
            0..SPI_FIRST => self.cpus[cpu as usize].redistributor.read(SGI_FRAME + offset, 1),
            _ => self.shared(offset, 1),
        }
    }

    fn active(&self) -> Vec<u64> {
        let of = |cpu| (0..INTIDS / 32).map(move |nth| self.word(cpu, ACTIVE, nth));
        (0..CPUS).flat_map(of).collect()
    }

    fn check(&self, before: &World, step: &Step) {
        if matches!(step, Step::Read { .. } | Step::ReadIcc { .. }) {
            assert!(self == before, "{step:?} changed something");
        }
        self.check_told(step);
        for (cpu, gic) in (0..CPUS).zip(&self.cpus) {
            let Some(p) = gic.pending() else { continue };
            let running = gic.read(IccReg::Rpr);
            let is_above = self.group_priority(cpu, p) < running;
            let priority = u64::from(p.priority);
            assert!(priority < gic.read(IccReg::Pmr) && is_above, "{step:?}: {p:?}");
            assert_eq!(gic.read(IccReg::Igrpen(p.group)), 1, "{step:?}: cpu {cpu} {p:?}");
            assert_eq!(gic.read(IccReg::Hppir(p.group)), u64::from(p.intid), "{step:?}: {p:?}");
            assert!(!gic.wake_request(), "{step:?}: cpu {cpu} takes {p:?} asleep");
            if p.intid >= SPI_FIRST && self.is_coming(cpu, p.intid) {
                continue;
            }
            let is = |bank| self.bit(cpu, bank, p.intid);
            assert!(is(ENABLED) && is(PENDING) && !is(ACTIVE), "{step:?}: cpu {cpu} {p:?}");
            assert_eq!(self.priority(cpu, p.intid), priority, "{step:?}: cpu {cpu} {p:?}");
            let is_told = self.told.get(&p.intid).is_some_and(|told| told.contains(&cpu));
            assert!(p.intid < SPI_FIRST || is_told, "{step:?}: cpu {cpu} has {p:?}");
        }
        self.check_active(before, step);
    }

    /// Whom the distributor has told of each SPI.
    fn check_told(&self, step: &Step) {
        let word = |bank, nth| self.word(0, bank, nth);
        let ready = |nth| word(ENABLED, nth) & word(PENDING, nth) & !word(ACTIVE, nth);
        let ready: Vec<u64> = (0..INTIDS / 32).map(ready).collect();
        for intid in SPI_FIRST..INTIDS {
            let told = self.told.get(&intid).cloned().unwrap_or_default();
            let is_ready = ready[intid as usize / 32] >> (intid % 32) & 1 != 0;
            let targets = if is_ready { self.targets(intid) } else { Some(BTreeSet::new()) };
            match targets {
                Some(targets) => assert_eq!(told, targets, "{step:?}: {intid}"),
                None => assert!(told.len() < 2, "{step:?}: {intid} is told to {told:?}"),
            }
        }
    }

    fn check_active(&self, before: &World, step: &Step) {
        let may_change = match step {
            Step::Acknowledge { .. } | Step::End { .. } => true,
            Step::WriteIcc { register, .. } => {
                matches!(icc(*register), IccReg::Eoir(_) | IccReg::Dir)
            }
            Step::Write { place, .. } => {
                let (offset, _) = self.place(*place);
                let is_bits = (ACTIVE..NOT_ACTIVE + 0x80).contains(&(offset & 0xfff));
                is_bits || matches!(offset, END | DEACTIVATE)
            }
            _ => false,
        };
        assert!(may_change || self.active() == before.active(), "{step:?}");
    }
}

/// The cpu that is told, and the interrupt.
fn subject(effect: Effect) -> (u32, u32) {
    let (cpu, intid) = match effect {
        Effect::Forward { cpu, intid, .. }
        | Effect::Retract { cpu, intid }
        | Effect::Withdraw { cpu, intid } => (cpu, intid),
        Effect::Sgi { cpu, intid, .. } => (cpu, intid.into()),
    };
    (cpu.0, intid.into())
}

fn icc(register: u8) -> IccReg {
    let group = register >> 4 & 1;
    let registers = [
        IccReg::Pmr,
        IccReg::Hppir(group),
        IccReg::Bpr(group),
        IccReg::Apr(group),
        IccReg::Rpr,
        IccReg::Ctlr,
        IccReg::Igrpen(group),
        IccReg::Eoir(group),
        IccReg::Dir,
        IccReg::Sgi,
        IccReg::Sre,
    ];
    registers[usize::from(register & 15) % registers.len()]
}
