//! Machines whose cpus run the roles of a table, up to a common start from which each case forks.
//!
//! Role `a` runs on cpu 0, the others on cpus of the table's choice. Cpu 0 starts them, waits
//! until all are there, stops the run at a region mark, and lets them go by a store. Points of the
//! names of roles mark the first instruction of each role. A role that runs off its end waits for
//! good; when all have, the run ends as stalled. Translation stays off.

use emu_machine::load::Point;
use emu_machine::{Machine, Options, PointAction, PointRule, Stop, Until};
use emu_observe::{Event, Observer, Record, WakeCause, Wanted, cause_name};
use emu_sim::{CpuId, Freq, SimTime};
use topology::GicVersion;

use crate::code::*;
use crate::words;

const DATA: u64 = 0x8020_0000;
const GO: u64 = DATA;
/// The word that exclusives reserve and stores hit.
pub(crate) const LINE: u64 = DATA + 0x1000;
/// A page for each role: lines in its log, and from 64 bytes on each line's kind and value.
const LOGS: u64 = DATA + 0x2000;
const TEST_DEVICE: u64 = 0x0900_0000;
const GICD: u64 = 0x0800_0000;
const GICC: u64 = GICD + 0x1_0000;
const GICR: u64 = 0x0a00_0000;
const CPU_ON: u64 = 0xc400_0003;
const CPU_SUSPEND: u64 = 0xc400_0001;
const CPU_OFF: u64 = 0x8400_0002;

/// Kinds of lines in a log.
const UP: u64 = 1;
const TAKEN: u64 = 2;
const FOUND: u64 = 3;
const ANSWER: u64 = 4;
const RESUMED: u64 = 5;
const SAW: u64 = 6;
const DONE: u64 = 7;
const STORED: u64 = 8;

/// A step of a role: name and arguments.
pub(crate) type Step = (String, Vec<String>);

/// A role: its letter, its cpu, its steps.
pub(crate) struct Role {
    pub(crate) name: char,
    pub(crate) cpu: usize,
    pub(crate) steps: Vec<Step>,
}

/// A machine at the common start of its roles.
pub(crate) struct Rig {
    machine: Machine,
    marks: Vec<(String, u64)>,
    roles: Vec<(char, CpuId)>,
}

struct Maker<'a> {
    code: Code,
    topology: &'a topology::Machine,
    roles: &'a [Role],
}

impl Maker<'_> {
    fn is_v2(&self) -> bool {
        self.topology.arm.gic.version == GicVersion::V2
    }

    fn mpidr(&self, cpu: usize) -> u64 {
        self.topology.cpus[cpu].mpidr & 0xff_00ff_ffff
    }

    /// What a role needs whenever its cpu comes up: its log, vectors, an open interrupt controller.
    fn set_up(&mut self, n: usize) {
        let cpu = self.roles[n].cpu as u64;
        let vectors = self.code.marks.iter().find(|m| m.0 == "vectors").expect("made first").1;
        let is_v2 = self.is_v2();
        let c = &mut self.code;
        c.mov(19, LOGS + 0x1000 * n as u64);
        c.mov(21, LINE);
        c.set(VBAR, vectors);
        if is_v2 {
            c.store_word(GICD + 0x100, 0xffff_ffff);
            c.store_word(GICC + 4, 0xf0);
            c.store_word(GICC, 1);
        } else {
            let own = GICR + 0x2_0000 * cpu;
            c.store_word(own + 0x14, 0);
            c.store_word(own + 0x1_0080, 0xffff_ffff);
            c.store_word(own + 0x1_0100, 0xffff_ffff);
            c.set(ICC_PMR, 0xff);
            c.set(ICC_IGRPEN1, 1);
        }
        c.put(&[ISB]);
    }

    /// X12 = what is acknowledged.
    fn acknowledge(&mut self) {
        match self.is_v2() {
            true => self.code.load_word(GICC + 0xc),
            false => self.code.mrs(12, ICC_IAR1),
        }
    }

    /// Ends what X12 says.
    fn end(&mut self) {
        let is_v2 = self.is_v2();
        let c = &mut self.code;
        if is_v2 {
            c.mov(9, GICC + 0x10);
            c.put(&[0xb900_0000 | 9 << 5 | 12]);
        } else {
            c.msr(ICC_EOIR1, 12);
        }
    }

    /// Two interrupts at most reach a handler at once; an exception ends the test.
    fn vectors(&mut self) {
        self.code.align(2048);
        self.code.mark("vectors");
        while self.code.here() % 2048 != 0x280 {
            self.code.put(&[0]);
        }
        self.acknowledge();
        self.code.put(&[0xaa0c_03ed]); // mov x13, x12
        self.code.log(FOUND);
        self.code.mrs(12, ELR);
        self.code.log(TAKEN);
        self.code.put(&[0xaa0d_03ec]); // mov x12, x13
        self.end();
        self.code.put(&[ERET]);
        self.code.align(2048);
    }

    fn firmware(&mut self, function: u64, arguments: [u64; 2], context: u64) {
        for (register, value) in [(0, function), (1, arguments[0]), (2, arguments[1])] {
            self.code.mov(register, value);
        }
        self.code.mov(3, context);
        self.code.put(&[SMC]);
    }

    /// Steps of role `n`, whose cpu is there.
    fn body(&mut self, n: usize) -> Result<(), String> {
        self.set_up(n);
        self.code.put(&[DSB]);
        self.code.put(&[0xaa00_03ec]); // mov x12, x0
        self.code.log(UP);
        if n == 0 {
            self.start_others();
        }
        self.code.mov(8, GO);
        let again = self.code.here();
        self.code.load(1, 8);
        self.code.loop_while_zero(1, again);
        let role = &self.roles[n];
        self.code.mark(&role.name.to_string());
        for (step, arguments) in &role.steps {
            self.step(n, step, arguments)?;
        }
        self.code.mark("end");
        let c = &mut self.code;
        c.put(&[MASK]);
        c.set(CNTV_CTL, 0);
        c.set(CNTKCTL, 0);
        c.log(DONE);
        let again = c.here();
        c.put(&[WFE]);
        c.branch(again);
        Ok(())
    }

    fn start_others(&mut self) {
        let is_v2 = self.is_v2();
        self.code.store_word(GICD, if is_v2 { 1 } else { 1 << 4 | 1 << 1 });
        self.code.store_word(GICD + 0x84, 2);
        self.code.store_word(GICD + 0x104, 2);
        for n in 1..self.roles.len() {
            let name = format!("role{n}");
            let entry = self.code.marks.iter().find(|m| m.0 == name).expect("made first").1;
            let target = self.mpidr(self.roles[n].cpu);
            self.firmware(CPU_ON, [target, entry], 0);
            self.code.mov(8, LOGS + 0x1000 * n as u64);
            let again = self.code.here();
            self.code.load(1, 8);
            self.code.loop_while_zero(1, again);
        }
        self.code.mov(9, TEST_DEVICE + 0x20);
        self.code.store(9, 9);
        // The mark stops the run a while after it is written.
        self.code.spend(1500);
        self.code.mov(8, GO);
        self.code.store(8, 8);
    }

    /// Waits of the firmware: where the cpu goes on, and what it finds there.
    fn suspend(&mut self, n: usize, state: u64) {
        let from = self.code.jump();
        let resume = self.code.here();
        self.code.put(&[0xaa00_03ed]); // mov x13, x0
        self.set_up(n);
        self.code.put(&[0xaa0d_03ec]); // mov x12, x13
        self.code.log(RESUMED);
        let over = self.code.jump();
        self.code.land(from);
        self.firmware(CPU_SUSPEND, [state, resume], 0x70 + n as u64);
        self.code.put(&[0xaa00_03ec]); // mov x12, x0
        self.code.log(ANSWER);
        self.code.land(over);
        self.code.put(&[NOP]);
    }

    fn step(&mut self, n: usize, step: &str, arguments: &[String]) -> Result<(), String> {
        let text = |at: usize| arguments.get(at).map_or("", String::as_str);
        let number = |at: usize| text(at).parse::<u64>().map_err(|_| format!("{step}: a number"));
        let hex = |at: usize| u64::from_str_radix(text(at), 16).map_err(|_| format!("{step}: hex"));
        let role = |at: usize| {
            let found = self.roles.iter().position(|r| text(at) == r.name.to_string());
            found.ok_or_else(|| format!("{step}: a role"))
        };
        match step {
            "wfe" => self.code.put(&[WFE]),
            "wfi" => self.code.put(&[WFI]),
            "sev" => self.code.put(&[SEV]),
            "sevl" => self.code.put(&[SEVL]),
            "mask" => self.code.put(&[MASK]),
            "unmask" => self.code.put(&[UNMASK]),
            "clrex" => self.code.put(&[CLREX]),
            "mark" => self.code.mark(text(0)),
            "spend" => self.code.spend(number(0)?),
            // Until a time from now, in ticks of the counter.
            "wfet" | "wfit" => {
                self.code.mov(6, number(0)?);
                let op = if step == "wfet" { 0xd503_1005 } else { 0xd503_1025 };
                self.code.put(&[CNTVCT | 5, 0x8b06_00a5, op]); // add x5, x5, x6
            }
            "timer" => {
                self.code.set(CNTV_TVAL, number(0)?);
                self.code.set(CNTV_CTL, 1);
                self.code.put(&[ISB]);
            }
            // Events at rising edges of this bit of the counter.
            "stream" => self.code.set(CNTKCTL, number(0)? << 4 | 1 << 2),
            "eret" => {
                let next = self.code.here() + 4 * 11;
                self.code.set(ELR, next);
                self.code.set(SPSR, 0x3c5);
                self.code.put(&[ERET]);
            }
            "ldxr" => self.code.put(&[0xc85f_7ea1]), // ldxr x1, [x21]
            "stxr" => {
                self.code.put(&[0xc80c_7ea1]); // stxr w12, x1, [x21]
                self.code.log(STORED);
            }
            "store" => self.code.put(&[0xf900_02b5, DSB]), // str x21, [x21]
            "warm" => self.code.put(&[0xf940_02a1, DSB]),  // ldr x1, [x21]
            "look" => {
                self.code.put(&[0xf940_02ac]); // ldr x12, [x21]
                let skip = self.code.jump_if_set(12);
                let over = self.code.jump();
                self.code.land(skip);
                self.code.log(SAW);
                self.code.land(over);
                self.code.put(&[NOP]);
            }
            "sgi" => {
                let cpu = self.roles[role(0)?].cpu;
                let intid = number(1)?;
                self.code.put(&[DSB]);
                if self.is_v2() {
                    self.code.store_word(GICD + 0xf00, 1 << (16 + cpu) | intid as u32);
                } else {
                    let m = self.mpidr(cpu);
                    let cluster = (m >> 32) << 48 | (m >> 16 & 0xff) << 32 | (m >> 8 & 0xff) << 16;
                    let bit = (m >> 4 & 15) << 44 | 1 << (m & 15);
                    self.code.set(ICC_SGI1R, cluster | bit | intid << 24);
                }
                self.code.put(&[ISB]);
            }
            // Shared interrupt 33, which is enabled: its target; made pending.
            "route" => {
                let cpu = self.roles[role(0)?].cpu;
                if self.is_v2() {
                    self.code.store_word(GICD + 0x820, 1 << (8 + cpu));
                } else {
                    self.code.mov(9, GICD + 0x6000 + 8 * 33);
                    self.code.mov(10, self.mpidr(cpu));
                    self.code.store(10, 9);
                }
            }
            "pend" => self.code.store_word(GICD + 0x204, 2),
            // Acknowledges without taking.
            "accept" => {
                self.acknowledge();
                self.code.put(&[0xaa0c_03ed]); // mov x13, x12
                self.code.log(FOUND);
                self.code.put(&[0xaa0d_03ec]); // mov x12, x13
                self.end();
            }
            "suspend" => self.suspend(n, hex(0)?),
            "off" => self.firmware(CPU_OFF, [0, 0], 0),
            _ => return Err(format!("unknown step `{step}`")),
        }
        Ok(())
    }
}

impl Rig {
    /// Boots a machine with these roles; marks among `points` are points.
    pub(crate) fn new(
        topology: &topology::Machine,
        roles: &[Role],
        points: &[&str],
    ) -> Result<Rig, String> {
        let code = Code::at(words::START);
        let mut maker = Maker { code, topology, roles };
        let start = maker.code.jump();
        maker.vectors();
        for n in (1..roles.len()).rev() {
            maker.code.mark(&format!("role{n}"));
            maker.body(n)?;
        }
        maker.code.land(start);
        maker.body(0)?;
        let Code { marks, .. } = &maker.code;
        let mut image = words::image(maker.code.words());
        let is_point = |m: &&(String, u64)| points.contains(&m.0.as_str());
        let point = |m: &(String, u64)| Point { address: m.1, name: m.0.clone() };
        image.points = marks.iter().filter(is_point).map(point).collect();
        let mut machine = Machine::new(topology, Options::default()).map_err(|e| e.to_string())?;
        machine.load(&image, "").map_err(|e| format!("{e:?}"))?;
        let until = Until { time: SimTime::from_us(2_000), regions: true };
        let stop = machine.run(&until, &mut ());
        if !matches!(stop, Stop::Region { id, .. } if id != 0) {
            return Err(format!("the roles do not start: {stop:?} at {:x}", machine.pc(CpuId(0))));
        }
        assert_eq!(machine.read_guest_u64(GO), 0, "nobody has begun");
        let roles = roles.iter().map(|role| (role.name, CpuId(role.cpu as u32))).collect();
        Ok(Rig { machine, marks: marks.clone(), roles })
    }

    /// The last mark at or before an address, with a plus behind it.
    fn place(&self, address: u64) -> String {
        let before = self.marks.iter().filter(|m| m.1 <= address);
        match before.max_by_key(|m| m.1) {
            Some((name, at)) if *at == address => name.clone(),
            Some((name, _)) => format!("{name}+"),
            None => "nowhere".to_owned(),
        }
    }

    /// Runs a fork with these delays at points, in cycles; what became of each role.
    pub(crate) fn run(&self, delays: &[(&str, u64)], shows_exits: bool) -> String {
        let mut machine = self.machine.clone();
        let freq = Freq::from_khz(machine.topology().cores[0].core_khz);
        let rule = |(point, cycles): &(&str, u64)| PointRule {
            cpu: None,
            point: (*point).to_owned(),
            action: PointAction::Delay(freq.edge(*cycles)),
        };
        machine.set_rules(&delays.iter().map(rule).collect::<Vec<_>>()).expect("marks are points");
        let end = machine.point_names().iter().position(|name| name == "end").expect("a point");
        let mut log = Log { end: end as u32, ..Log::default() };
        let time = machine.now() + SimTime::from_us(50_000);
        let stop = machine.run(&Until { time, regions: false }, &mut log);
        let pcs: Vec<String> =
            self.roles.iter().map(|r| format!("{:x}", machine.pc(r.1))).collect();
        assert_eq!(stop, Stop::Stalled, "{delays:?} {pcs:?}");
        assert_eq!(machine.check_laws(), Ok(()));
        let role = |n: usize| {
            let mut words = log.exits(self.roles[n].1, shows_exits);
            self.lines(&machine, n, &mut words);
            if machine.arm64(self.roles[n].1).gic.pending().is_some() {
                words.push("left".to_owned());
            }
            if words.is_empty() {
                words.push("nothing".to_owned());
            }
            words.join(" ")
        };
        let all: Vec<String> = (0..self.roles.len()).map(role).collect();
        // Roles at the end that only come to their end are no news.
        let told = all.iter().rposition(|text| text != "done").map_or(1, |last| last + 1);
        all[..told].join(" / ")
    }

    /// What role `n` has logged.
    fn lines(&self, machine: &Machine, n: usize, words: &mut Vec<String>) {
        let log = LOGS + 0x1000 * n as u64;
        for line in 1..machine.read_guest_u64(log) {
            let at = log + 64 + 16 * line;
            let value = machine.read_guest_u64(at + 8);
            words.push(match machine.read_guest_u64(at) {
                FOUND => match value & 0x3ff {
                    1020.. => "none".to_owned(),
                    intid => intid.to_string(),
                },
                TAKEN => format!("@{}", self.place(value)),
                ANSWER => format!("answer={}", value as i64),
                RESUMED => format!("resumed={value:x}"),
                STORED if value == 0 => "stored".to_owned(),
                STORED => "failed".to_owned(),
                SAW => "saw".to_owned(),
                DONE => "done".to_owned(),
                _ => "again".to_owned(),
            });
        }
    }
}

/// The ends of waits.
#[derive(Default)]
struct Log {
    end: u32,
    ended: Vec<CpuId>,
    exits: Vec<(CpuId, WakeCause, SimTime)>,
}

impl Observer for Log {
    fn wanted(&self) -> Wanted {
        Wanted { wakes: true, ..Wanted::default() }
    }

    fn record(&mut self, r: &Record) {
        match r.event {
            Event::Point { index } if index == self.end => self.ended.push(r.cpu),
            Event::IdleExit { cause, resumes, .. } if !self.ended.contains(&r.cpu) => {
                self.exits.push((r.cpu, cause, resumes - r.time));
            }
            _ => {}
        }
    }
}

impl Log {
    /// Causes for which a cpu left its waits, with the time until it ran where that is shown.
    fn exits(&self, cpu: CpuId, shows_time: bool) -> Vec<String> {
        let own = self.exits.iter().filter(|exit| exit.0 == cpu);
        own.map(|(_, cause, took)| {
            let name = cause_name(*cause);
            match shows_time {
                true => format!("{name}+{}us", took.ps().div_ceil(1_000_000)),
                false => name.to_owned(),
            }
        })
        .collect()
    }
}
