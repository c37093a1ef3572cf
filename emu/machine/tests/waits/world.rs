//! Machines whose boot CPU and one other CPU run a few assembled instructions each.
//!
//! Both roles begin after a common start: CPU 0 is role `a`, wakes role `b`, and stops the run at
//! a region mark once both are up. A case is a fork from there. The points `a` and `b` mark the
//! first instruction of each role, so that a test can delay either by whole cycles. A role that
//! runs off its end halts with interrupts off; when both have, the run ends as stalled.

use emu_machine::load::{Point, Segment, Symbols};
use emu_machine::{Image, Machine, Options, PointAction, PointRule, Stop, Until, handover};
use emu_observe::{Event, Observer, Record, WakeCause, Wanted};
use emu_sim::{CpuId, PhysAddr, SimTime};
use iced_x86::BlockEncoderOptions;
use iced_x86::code_asm::{CodeAssembler, CodeLabel, *};

const TRAMPOLINE: u64 = 0x8_0000;
const CODE: u64 = 0x10_0000;
const DATA: u64 = 0x20_0000;
const DATA_BYTES: u64 = 0x10_0000;
const IDT: u64 = DATA;
const IDTR: u64 = DATA + 0x1000;
const READY: u64 = DATA + 0x1100;
const GO: u64 = DATA + 0x1200;
const STACK: u64 = DATA + 0x4000;
const APIC: u64 = 0xfee0_0000;
const TEST_DEVICE: u64 = 0xfed8_0000;
const REGION_BEGIN: i32 = 0x20;

/// The line that is watched, alone on its page.
pub(crate) const LINE: u64 = DATA + 0x8000;
/// Interrupts of `VECTOR` taken.
pub(crate) const IRQS: u64 = DATA + 0x1300;
/// Non-maskable interrupts taken.
pub(crate) const NMIS: u64 = DATA + 0x1340;
/// Vector + 1 of an exception that nobody expected.
pub(crate) const FAULT: u64 = DATA + 0x1380;
/// Count of entries of handlers that log, and from 64 bytes on: return address, vector.
pub(crate) const LOG: u64 = DATA + 0x5000;
/// Words that roles may use as they like, a line each.
pub(crate) const fn word(n: u64) -> u64 {
    DATA + 0x2000 + 64 * n
}
/// The vector that has a handler, mark `irq41`.
pub(crate) const VECTOR: u32 = 0x41;

/// ICR of a start-up message to the code of role `b`.
pub(crate) const STARTUP: u32 = 0x4600 | (TRAMPOLINE >> 12) as u32;
const ALL_BUT_SELF: u32 = 0xc_0000;

/// What a role is written with.
pub(crate) struct Role<'a> {
    pub(crate) a: &'a mut CodeAssembler,
    is_x2apic: bool,
    marks: &'a mut Vec<(String, CodeLabel)>,
}

impl Role<'_> {
    /// Names the address of the next instruction.
    pub(crate) fn mark(&mut self, name: &str) {
        let mut label = self.a.create_label();
        self.a.set_label(&mut label).unwrap();
        self.marks.push((name.to_owned(), label));
        // A label needs an instruction of its own, as two may not stand at one.
        self.a.nop().unwrap();
    }

    /// Writes the interrupt command register.
    pub(crate) fn send(&mut self, apic_id: u32, low: u32) {
        let a = &mut *self.a;
        if self.is_x2apic {
            a.mov(ecx, 0x830).unwrap();
            a.mov(edx, apic_id).unwrap();
            a.mov(eax, low).unwrap();
            a.wrmsr().unwrap();
        } else {
            a.mov(rdx, APIC).unwrap();
            a.mov(dword_ptr(rdx + 0x310), apic_id << 24).unwrap();
            a.mov(dword_ptr(rdx + 0x300), low).unwrap();
        }
    }

    /// Writes another register of the local APIC, by its offset in the page.
    pub(crate) fn apic(&mut self, register: u32, value: u32) {
        let a = &mut *self.a;
        if self.is_x2apic {
            a.mov(ecx, 0x800 + (register >> 4)).unwrap();
            a.xor(edx, edx).unwrap();
            a.mov(eax, value).unwrap();
            a.wrmsr().unwrap();
        } else {
            a.mov(rdx, APIC).unwrap();
            a.mov(dword_ptr(rdx + register), value).unwrap();
        }
    }

    /// MONITOR of `address`.
    pub(crate) fn monitor(&mut self, address: u64) {
        self.a.mov(rax, address).unwrap();
        self.a.xor(ecx, ecx).unwrap();
        self.a.xor(edx, edx).unwrap();
        self.a.monitor().unwrap();
    }

    /// MWAIT with hint and extensions.
    pub(crate) fn mwait(&mut self, hint: u32, extensions: u32) {
        self.a.mov(eax, hint).unwrap();
        self.a.mov(ecx, extensions).unwrap();
        self.a.mwait().unwrap();
    }

    /// Runs for about `cycles`.
    pub(crate) fn spend(&mut self, cycles: u32) {
        let mut again = self.a.create_label();
        self.a.mov(ecx, cycles).unwrap();
        self.a.set_label(&mut again).unwrap();
        self.a.dec(ecx).unwrap();
        self.a.jne(again).unwrap();
    }

    /// Waits by spinning until the word is not 0.
    pub(crate) fn spin_until_set(&mut self, address: u64) {
        let mut again = self.a.create_label();
        self.a.set_label(&mut again).unwrap();
        self.a.pause().unwrap();
        self.a.cmp(qword_ptr(address), 0).unwrap();
        self.a.je(again).unwrap();
    }

    /// Reads the watched line, so that it is there.
    pub(crate) fn warm(&mut self) {
        self.a.mov(rbx, qword_ptr(LINE)).unwrap();
        self.a.lfence().unwrap();
    }

    /// Sleeps for good.
    pub(crate) fn halt(&mut self) {
        let mut again = self.a.create_label();
        // A label may end the role, and two do not go to one instruction.
        self.a.nop().unwrap();
        self.a.set_label(&mut again).unwrap();
        self.a.cli().unwrap();
        self.a.hlt().unwrap();
        self.a.jmp(again).unwrap();
    }
}

/// All records of a run.
#[derive(Default)]
pub(crate) struct Log(pub(crate) Vec<Record>);

impl Observer for Log {
    fn wanted(&self) -> Wanted {
        Wanted { wakes: true, lines: true, steps: false }
    }
    fn record(&mut self, r: &Record) {
        self.0.push(*r);
    }
}

/// An end of a wait, as recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exit {
    pub(crate) at: SimTime,
    pub(crate) cause: WakeCause,
    pub(crate) state: Option<u8>,
    pub(crate) since: SimTime,
    pub(crate) resumes: SimTime,
}

/// A machine at the common start of both roles.
#[derive(Clone)]
pub(crate) struct Rig {
    pub(crate) machine: Machine,
    marks: Vec<(String, u64)>,
    /// The cpu of role `b`.
    pub(crate) b: CpuId,
}

/// How a case ended.
pub(crate) struct Run {
    pub(crate) machine: Machine,
    pub(crate) stop: Stop,
    pub(crate) log: Log,
    delays: [SimTime; 2],
}

impl Run {
    /// The ends of a cpu's waits, except that of its last halt, which has none.
    pub(crate) fn exits(&self, cpu: CpuId) -> Vec<Exit> {
        let exit = |r: &Record| match r.event {
            Event::IdleExit { cause, state, since, resumes } if r.cpu == cpu => {
                Some(Exit { at: r.time, cause, state, since, resumes })
            }
            _ => None,
        };
        self.log.0.iter().filter_map(exit).collect()
    }

    /// Records come in order of time, and each wait begins before it ends.
    fn check_order(&self) {
        let records = &self.log.0;
        assert!(records.windows(2).all(|w| w[0].time <= w[1].time), "records out of order");
        let mut since = vec![None; self.machine.cpus()];
        for r in records {
            let wait = &mut since[r.cpu.index()];
            match r.event {
                Event::IdleEnter { .. } => assert_eq!(wait.replace(r.time), None, "{r:?}"),
                // The first start-up message ends a wait that began before the run.
                Event::IdleExit { cause: WakeCause::Reset, .. } => *wait = None,
                Event::IdleExit { since, .. } => assert_eq!(wait.take(), Some(since), "{r:?}"),
                _ => {}
            }
        }
    }

    /// When a cpu began its role, the delay being over.
    pub(crate) fn begins(&self, cpu: CpuId) -> SimTime {
        let mut records = self.log.0.iter().filter(|r| r.cpu == cpu);
        let passed = records.find(|r| matches!(r.event, Event::Point { .. }));
        passed.expect("the role began").time + self.delays[usize::from(cpu != CpuId(0))]
    }

    /// What every started cpu does, for messages.
    pub(crate) fn describe(&self) -> String {
        let cpus = (0..self.machine.cpus() as u32).map(CpuId);
        let line = |cpu: CpuId| {
            let (state, pc) = (self.machine.run_state(cpu), self.machine.pc(cpu));
            format!("\n{cpu} at {pc:#x}: {state:?}")
        };
        cpus.map(line).collect()
    }

    /// A word of guest memory.
    pub(crate) fn word(&self, address: u64) -> u64 {
        self.machine.read_guest_u64(address)
    }
}

impl Rig {
    /// Boots `topology` with these roles; role `b` runs on cpu `b`.
    pub(crate) fn new(
        topology: &topology::Machine,
        b: u32,
        role_a: impl FnOnce(&mut Role<'_>),
        role_b: impl FnOnce(&mut Role<'_>),
    ) -> Rig {
        let (role_a, role_b) = (marked("a", role_a), marked("b", role_b));
        Rig::with_handlers(topology, b, role_a, role_b, handlers, &["a", "b"])
    }

    /// As `new`, with marks `a` and `b` where the roles put them, and with handlers of their own:
    /// marks `irq` and a vector in hexadecimal, `nmi`, `fault`. The marks in `points` are points.
    pub(crate) fn with_handlers(
        topology: &topology::Machine,
        b: u32,
        role_a: impl FnOnce(&mut Role<'_>),
        role_b: impl FnOnce(&mut Role<'_>),
        handlers: impl FnOnce(&mut Role<'_>),
        points: &[&str],
    ) -> Rig {
        let whom = (topology.cpus[b as usize].apic_id, 0, 1);
        Rig::boot(topology, b, whom, (role_a, role_b, handlers), points)
    }

    /// Boots `topology` with role `b` on all cpus but cpu 0. They share a stack.
    pub(crate) fn with_all(
        topology: &topology::Machine,
        role_a: impl FnOnce(&mut Role<'_>),
        role_b: impl FnOnce(&mut Role<'_>),
    ) -> Rig {
        let whom = (0, ALL_BUT_SELF, topology.cpus.len() as i32 - 1);
        let (role_a, role_b) = (marked("a", role_a), marked("b", role_b));
        Rig::boot(topology, 1, whom, (role_a, role_b, handlers), &["a", "b"])
    }

    fn boot(
        topology: &topology::Machine,
        b: u32,
        whom: (u32, u32, i32),
        (role_a, role_b, handlers): (
            impl FnOnce(&mut Role<'_>),
            impl FnOnce(&mut Role<'_>),
            impl FnOnce(&mut Role<'_>),
        ),
        points: &[&str],
    ) -> Rig {
        let is_x2apic = topology.apic.mode == topology::ApicMode::X2apic;
        let mut assembler = CodeAssembler::new(64).unwrap();
        let mut labels = Vec::new();
        let mut role = Role { a: &mut assembler, is_x2apic, marks: &mut labels };
        start(&mut role, whom);
        role_a(&mut role);
        role.halt();
        start_other(&mut role);
        role_b(&mut role);
        role.halt();
        handlers(&mut role);
        let options = BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS;
        let code = assembler.assemble_options(CODE, options).unwrap();
        let marks: Vec<(String, u64)> = labels
            .into_iter()
            .map(|(name, label)| (name, code.label_ip(&label).unwrap()))
            .collect();
        let image = image(topology, &code.inner.code_buffer, &marks, points);
        let mut machine = Machine::new(topology, Options::default()).unwrap();
        machine.load(&image, "").unwrap();
        let until = Until { time: SimTime::from_us(100), regions: true };
        let stop = machine.run(&until, &mut ());
        assert!(matches!(stop, Stop::Region { id: 1, .. }), "both roles start: {stop:?}");
        let mut rig = Rig { machine, marks, b: CpuId(b) };
        // Most of the way to the start, once for all forks.
        let time = rig.machine.now() + rig.cycles(2500);
        rig.machine.run(&Until { time, regions: false }, &mut ());
        assert_eq!(rig.machine.read_guest_u64(GO), 0, "nobody has begun");
        rig
    }

    /// Address of a mark.
    pub(crate) fn address(&self, name: &str) -> u64 {
        self.marks.iter().find(|m| m.0 == name).expect("a mark").1
    }

    /// The last mark at or before an address, with a plus behind it.
    pub(crate) fn place(&self, address: u64) -> String {
        let before = self.marks.iter().filter(|m| m.1 <= address);
        match before.max_by_key(|m| m.1) {
            Some((name, at)) if *at == address => name.clone(),
            Some((name, _)) => format!("{name}+"),
            None => "nowhere".to_owned(),
        }
    }

    /// Duration of so many cycles of the machine's clock, which is that of every core here.
    pub(crate) fn cycles(&self, n: u64) -> SimTime {
        let khz = self.machine.topology().cores[0].core_khz;
        emu_sim::Freq::from_khz(khz).edge(n)
    }

    /// Runs a fork: role `a` starts `delay_a` cycles late, `b` `delay_b`. It has to end stalled.
    pub(crate) fn run(&self, delay_a: u64, delay_b: u64) -> Run {
        let run = self.run_with(delay_a, delay_b, |_| {});
        assert_eq!(run.stop, Stop::Stalled, "delays {delay_a}, {delay_b}; {}", run.describe());
        run
    }

    /// As `run`, with guest memory changed first, and any end.
    pub(crate) fn run_with(
        &self,
        delay_a: u64,
        delay_b: u64,
        prepare: impl FnOnce(&mut Machine),
    ) -> Run {
        self.run_delayed(&[("a", delay_a), ("b", delay_b)], prepare)
    }

    /// As `run_with`, with a delay at any points.
    pub(crate) fn run_delayed(
        &self,
        delays: &[(&str, u64)],
        prepare: impl FnOnce(&mut Machine),
    ) -> Run {
        let mut machine = self.machine.clone();
        prepare(&mut machine);
        let rule = |(point, cycles): &(&str, u64)| PointRule {
            cpu: None,
            point: (*point).to_owned(),
            action: PointAction::Delay(self.cycles(*cycles)),
        };
        let rules: Vec<PointRule> = delays.iter().map(rule).collect();
        machine.set_rules(&rules).unwrap();
        let mut log = Log::default();
        let time = machine.now() + SimTime::from_us(500);
        let stop = machine.run(&Until { time, regions: false }, &mut log);
        let of = |name| delays.iter().find(|d| d.0 == name).map_or(0, |d| d.1);
        let at_start = [of("a"), of("b")].map(|cycles| self.cycles(cycles));
        let run = Run { machine, stop, log, delays: at_start };
        assert_eq!(run.word(FAULT), 0, "an exception; {delays:?}");
        assert_eq!(run.machine.check_laws(), Ok(()));
        run.check_order();
        run
    }
}

/// Two packages of two LLCs of two cores of two cpus.
pub(crate) fn cluster() -> topology::Machine {
    let set = [
        "smp.packages=2",
        "smp.llc_width=2",
        "smp.smt=2",
        // Small caches make cheap forks.
        "cache.l1d.size=8KiB",
        "cache.l2.size=32KiB",
        "cache.l3.size=256KiB",
    ];
    topology::Machine::load("smp-16", &set.map(str::to_owned)).unwrap()
}

/// A cpu of `cluster` at each distance from cpu 0, by name.
pub(crate) fn distances(t: &topology::Machine) -> [(&'static str, u32); 4] {
    let core = |cpu: usize| t.cpus[cpu].core;
    let llc = |cpu: usize| t.cores[core(cpu)].llc;
    let is_near = |cpu: usize| t.ipi_wire(0, cpu) != t.ipi_wire.remote;
    let find = |f: &dyn Fn(usize) -> bool| (1..16).find(|c| f(*c)).expect("a cpu there") as u32;
    [
        ("sibling", find(&|c| core(c) == core(0))),
        ("same LLC", find(&|c| core(c) != core(0) && llc(c) == llc(0))),
        ("same package", find(&|c| llc(c) != llc(0) && is_near(c))),
        ("other package", find(&|c| !is_near(c))),
    ]
}

/// Cycles that a window goes on behind a change: beyond MWAIT and the entry of its state.
const AFTER: u64 = 450;

/// Runs `outcome` at every delay near a change of its result, found with a coarse `step` first;
/// returns how often it changes from one cycle to the next in those windows.
pub(crate) fn sweep_around(
    range: std::ops::Range<u64>,
    step: u64,
    mut outcome: impl FnMut(u64) -> bool,
) -> usize {
    let mut changes = 0;
    let mut before = outcome(range.start);
    let mut at = range.start;
    while at + step < range.end {
        let next = outcome(at + step);
        if next != before {
            let fine: Vec<bool> =
                (at.saturating_sub(step)..at + step + AFTER).map(&mut outcome).collect();
            changes += fine.windows(2).filter(|w| w[0] != w[1]).count();
        }
        (before, at) = (next, at + step);
    }
    changes
}

/// A role with a mark at its first instruction.
fn marked(name: &str, role: impl FnOnce(&mut Role<'_>)) -> impl FnOnce(&mut Role<'_>) {
    move |r| {
        r.mark(name);
        role(r);
    }
}

/// `whom`: APIC id or 0, shorthand or 0, number of cpus.
fn start(role: &mut Role<'_>, whom: (u32, u32, i32)) {
    let (apic_id, shorthand, cpus) = whom;
    role.a.lidt(ptr(IDTR)).unwrap();
    role.apic(0xf0, 0x1ff);
    role.send(apic_id, shorthand | 0x4500);
    role.send(apic_id, shorthand | STARTUP);
    let mut again = role.a.create_label();
    role.a.set_label(&mut again).unwrap();
    role.a.pause().unwrap();
    role.a.cmp(qword_ptr(READY), cpus).unwrap();
    role.a.jne(again).unwrap();
    role.a.mov(rdx, TEST_DEVICE).unwrap();
    role.a.mov(qword_ptr(rdx + REGION_BEGIN), 1).unwrap();
    // The mark stops the run a while after it is written.
    role.spend(4000);
    role.a.mov(qword_ptr(GO), 1).unwrap();
    role.a.mfence().unwrap();
}

fn start_other(role: &mut Role<'_>) {
    let mut entry = role.a.create_label();
    role.a.set_label(&mut entry).unwrap();
    role.marks.push(("other".to_owned(), entry));
    role.a.mov(eax, 0x10).unwrap();
    role.a.mov(ds, eax).unwrap();
    role.a.mov(es, eax).unwrap();
    role.a.mov(ss, eax).unwrap();
    role.a.mov(rsp, STACK).unwrap();
    role.a.lidt(ptr(IDTR)).unwrap();
    role.apic(0xf0, 0x1ff);
    role.a.lock().inc(qword_ptr(READY)).unwrap();
    role.spin_until_set(GO);
}

/// Handlers: `VECTOR` and NMI count, everything else is a fault of the test.
fn handlers(role: &mut Role<'_>) {
    for (name, counter) in [("irq41", IRQS), ("nmi", NMIS)] {
        role.mark(name);
        for register in [rax, rcx, rdx] {
            role.a.push(register).unwrap();
        }
        role.a.inc(qword_ptr(counter)).unwrap();
        if name != "nmi" {
            role.apic(0xb0, 0);
        }
        for register in [rdx, rcx, rax] {
            role.a.pop(register).unwrap();
        }
        role.a.iretq().unwrap();
    }
    role.mark("fault");
    role.a.mov(qword_ptr(FAULT), 1).unwrap();
    role.halt();
}

fn image(
    topology: &topology::Machine,
    code: &[u8],
    marks: &[(String, u64)],
    points: &[&str],
) -> Image {
    let at = |name: &str| marks.iter().find(|m| m.0 == name).expect("a mark").1;
    let gate = |address: u64| {
        let mut gate = [0u8; 16];
        gate[..2].copy_from_slice(&(address as u16).to_le_bytes());
        gate[2..6].copy_from_slice(&[8, 0, 0, 0x8e]);
        gate[6..12].copy_from_slice(&(address >> 16).to_le_bytes()[..6]);
        gate
    };
    let mut data = vec![0; 0x1010];
    for vector in 0..256 {
        let named = if vector == 2 { "nmi".to_owned() } else { format!("irq{vector:x}") };
        let handler = marks.iter().find(|m| m.0 == named).map_or_else(|| at("fault"), |m| m.1);
        data[16 * vector..16 * vector + 16].copy_from_slice(&gate(handler));
    }
    data[0x1000..0x1002].copy_from_slice(&0xfffu16.to_le_bytes());
    data[0x1002..0x100a].copy_from_slice(&IDT.to_le_bytes());
    let segment = |index, base, bytes: Vec<u8>, size| Segment {
        index,
        base: PhysAddr(base),
        size,
        bytes,
        virtual_base: base,
        is_executable: true,
        is_writable: true,
    };
    let trampoline = trampoline(topology, at("other"));
    let segments = vec![
        segment(0, TRAMPOLINE, trampoline.clone(), trampoline.len() as u64),
        segment(1, CODE, code.to_vec(), code.len() as u64),
        segment(2, DATA, data, DATA_BYTES),
    ];
    let points = points.iter().map(|name| Point { address: at(name), name: (*name).to_owned() });
    Image {
        isa: topology::Isa::X86_64,
        entry: PhysAddr(CODE),
        segments,
        symbols: Symbols::default(),
        points: points.collect(),
        origin: None,
    }
}

/// Start-up code of role `b`: from real mode to the 64-bit code at `entry` in one jump, with the
/// tables of the hand-over.
fn trampoline(topology: &topology::Machine, entry: u64) -> Vec<u8> {
    let tree = emu_machine::fdt::build(topology, topology.cpus.len(), "").unwrap();
    let e = handover::x86(topology, PhysAddr(CODE), tree).unwrap().entry;
    let low = |value: u64| (value as u32).to_le_bytes();
    let mov_eax = |value: u64| [&[0x66, 0xb8][..], &low(value)].concat();
    let lma = 1 << 10;
    let mut code = [
        &[0xfa][..],                                         // cli
        &mov_eax(e.cr4),                                     //
        &[0x0f, 0x22, 0xe0],                                 // mov cr4, eax
        &mov_eax(e.cr3),                                     //
        &[0x0f, 0x22, 0xd8],                                 // mov cr3, eax
        &[0x66, 0xb9, 0x80, 0, 0, 0xc0],                     // mov ecx, EFER
        &[0x66, 0x31, 0xd2],                                 // xor edx, edx
        &mov_eax(e.efer & !lma),                             //
        &[0x0f, 0x30],                                       // wrmsr
        &[0x2e, 0x0f, 0x01, 0x16, 0, 0],                     // lgdt cs:[..]
        &mov_eax(e.cr0),                                     //
        &[0x0f, 0x22, 0xc0],                                 // mov cr0, eax
        &[&[0x66, 0xea][..], &low(entry), &[8, 0]].concat(), // jmp 8:entry
    ]
    .concat();
    let table = code.len() as u16;
    let lgdt = code.windows(4).position(|w| w == [0x2e, 0x0f, 0x01, 0x16]).expect("just written");
    code[lgdt + 4..lgdt + 6].copy_from_slice(&table.to_le_bytes());
    code.extend(e.gdt_limit.to_le_bytes());
    code.extend(low(e.gdt_base));
    code
}
