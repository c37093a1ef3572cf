//! A machine of a few cores behind one LLC and one home, and an instruction set of a few
//! operations on eight registers. Items are handled one by one in order of time.

use std::sync::Arc;

use emu_cpu::config::{Atomics, CoreConfig, MemoryOrder};
use emu_cpu::isa::{Flow, Isa, Received};
use emu_cpu::node::{Core, CoreItem, Far, Out};
use emu_cpu::port::{self, Fence, Order, Port, Target, Wait};
use emu_cpu::timing::{CLASSES, Class, CoreTiming, OpTiming};
use emu_cpu::wait::{Signal, WaitReason, WaitRequest, WakeCause};
use emu_mem::cache::Geometry;
use emu_mem::home::Home;
use emu_mem::llc::Llc;
use emu_mem::msg::{Envelope, LineMsg};
use emu_mem::paths::Paths;
use emu_mem::phys::Phys;
use emu_mem::shadow::Data;
use emu_sim::mutant::Mutation;
use emu_sim::{
    Agenda, Chance, CoreId, CpuId, Freq, HomeId, Key, LlcId, NodeRef, Phase, PhysAddr, SimTime,
};

/// Leg between a core and the LLC, and between cores, in cycles of 1 ns.
pub const LEG: u64 = 10;
const LEG_PS: u64 = LEG * 1000;

/// An operation; registers by number, memory in words of 8 bytes by address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Load(usize, u64, Order),
    Store(u64, u64, Order),
    /// Adds a number to memory; the register has what was there before.
    Add(usize, u64, u64, Order),
    /// The same, near or far.
    Update(usize, u64, u64, Order),
    /// The same without result.
    Post(u64, u64, Order),
    LoadEx(usize, u64),
    /// Stores a register plus a number; the other register is 1 if it did.
    StoreEx(usize, u64, usize, u64),
    ClearEx,
    Fence(Fence),
    Invalidate(u64),
    /// Takes this many cycles.
    Work(u32),
    /// Goes on at a place of the program if the register is zero, or is not.
    IfZero(usize, usize),
    IfNot(usize, usize),
    /// Adds to a register.
    Count(usize, u64),
    /// Waits for the fall of the reservation.
    WaitForEvent,
}

pub use Op::*;
pub use Order::Plain;

/// A cpu that runs a program once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    pub ops: Arc<[Op]>,
    pub at: usize,
    pub regs: [u64; 8],
    /// Invalidations received.
    pub invalidations: Vec<u64>,
}

fn sleep(reason: WaitReason) -> Flow {
    Flow::Sleep(WaitRequest { reason, state: None, wake_on_masked: false, deadline: None })
}

impl Isa for Program {
    type Unit = ();

    fn step<P: Port>(&mut self, (): &mut (), port: &mut P) -> Result<Flow, Wait> {
        let Some(op) = self.ops.get(self.at).copied() else {
            port.dispatch(&OpTiming::default());
            return Ok(sleep(WaitReason::Halt));
        };
        let class = if matches!(op, Add(..)) { Class::Rmw } else { Class::Alu };
        port.dispatch(&OpTiming { class, ..OpTiming::default() });
        self.at = match op {
            Load(r, pa, order) => {
                port.order(order);
                self.regs[r] = port.load(PhysAddr(pa), 8)?;
                self.at + 1
            }
            Store(pa, value, order) => {
                port.order(order);
                port.store(PhysAddr(pa), 8, value)?;
                self.at + 1
            }
            Add(r, pa, n, order) => {
                port.order(order);
                let add = &mut |old: u128| Some(u128::from((old as u64).wrapping_add(n)));
                self.regs[r] = port.rmw(PhysAddr(pa), 8, add)? as u64;
                self.at + 1
            }
            Op::Update(r, pa, n, order) => {
                port.order(order);
                self.regs[r] = port.update(PhysAddr(pa), 8, port::Update::Add(n), true)?;
                self.at + 1
            }
            Post(pa, n, order) => {
                port.order(order);
                port.update(PhysAddr(pa), 8, port::Update::Add(n), false)?;
                self.at + 1
            }
            LoadEx(r, pa) => {
                self.regs[r] = port.load_exclusive(PhysAddr(pa), 8)? as u64;
                self.at + 1
            }
            StoreEx(r, pa, from, n) => {
                let value = u128::from(self.regs[from].wrapping_add(n));
                self.regs[r] = u64::from(port.store_exclusive(PhysAddr(pa), 8, value)?);
                self.at + 1
            }
            ClearEx => {
                port.disarm_monitor();
                self.at + 1
            }
            Op::Fence(fence) => {
                port.fence(fence)?;
                self.at + 1
            }
            Invalidate(n) => {
                let signal = Signal::Invalidate { what: [n, 0] };
                port.signal(Target::AllButSelf, signal, false)?;
                self.at + 1
            }
            Work(cycles) => {
                port.extra_latency(cycles);
                port.serialise();
                self.at + 1
            }
            IfZero(r, to) if self.regs[r] == 0 => to,
            IfNot(r, to) if self.regs[r] != 0 => to,
            IfZero(..) | IfNot(..) => self.at + 1,
            Count(r, n) => {
                self.regs[r] = self.regs[r].wrapping_add(n);
                self.at + 1
            }
            WaitForEvent => {
                self.at += 1;
                return Ok(sleep(WaitReason::Monitor));
            }
        };
        Ok(Flow::Next)
    }

    fn receive(&mut self, signal: Signal, _: SimTime) -> Received {
        if let Signal::Invalidate { what } = signal {
            self.invalidations.push(what[0]);
        }
        Received::Accepted
    }

    fn timer(&mut self, _: SimTime) -> Option<SimTime> {
        None
    }

    fn wake_cause(&self, _: &WaitRequest) -> Option<WakeCause> {
        None
    }

    fn interrupt_ready(&self) -> bool {
        false
    }

    fn pc(&self) -> u64 {
        self.at as u64 * 4
    }

    fn registers(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    fn same_state(&self, other: &Self) -> bool {
        self == other
    }
}

/// Two cores or more.
pub struct World {
    pub cores: Vec<Core<Program>>,
    pub phys: Phys,
    llc: Llc,
    home: Home,
    paths: Paths,
    uncore: Agenda<Envelope>,
    now: SimTime,
    /// Atomics on their way to the home, by the device that stands for them.
    far: Vec<Far>,
}

const CHANCE: Chance = Chance::new(1);

fn config(order: MemoryOrder, cores: usize) -> CoreConfig {
    let mut latency = [1; CLASSES];
    latency[Class::Rmw as usize] = 4;
    CoreConfig {
        freq: Freq::from_khz(1_000_000),
        timing: CoreTiming {
            width: 2,
            window: 32,
            store_buffer: 8,
            in_order: false,
            mispredict: 10,
            l1_latency: 4,
            l2_latency: 12,
            latency,
        },
        l1d: Geometry { sets: 16, ways: 4 },
        l1i: Geometry { sets: 1, ways: 1 },
        l2: Geometry { sets: 64, ways: 4 },
        core_llc: LEG_PS,
        core_device: LEG_PS,
        smt_handover: 4,
        line_keep: 0,
        ipi_self: 5,
        own_store_triggers: false,
        order,
        atomics: Atomics::default(),
        exclusive_hold: 0,
        exclusive_failure: 0,
        fill_buffers: 4,
        cpus: cores as u32,
        idle: Vec::new(),
        window_ps: 2 * LEG_PS,
        elide_spins: false,
        mutation: Mutation::default(),
    }
}

impl World {
    pub fn new(order: MemoryOrder, programs: &[&[Op]]) -> World {
        World::with(order, programs, |_| {})
    }

    /// With constants of the cores changed.
    pub fn with(
        order: MemoryOrder,
        programs: &[&[Op]],
        change: impl FnOnce(&mut CoreConfig),
    ) -> World {
        let n = programs.len();
        let mut config = config(order, n);
        change(&mut config);
        let config = Arc::new(config);
        let paths = Paths {
            llc_of_core: vec![LlcId(0); n],
            cores_of_llc: vec![(0..n as u32).map(CoreId).collect()],
            core_llc: vec![LEG_PS; n],
            llc_core: vec![LEG_PS; n],
            llc_lookup: 5_000,
            llc_service: 1_000,
            llc_home: vec![vec![LEG_PS]],
            home_llc: vec![vec![LEG_PS]],
            home_device: vec![LEG_PS],
            llc_llc: vec![vec![LEG_PS]],
            home_lookup: 5_000,
            home_service: 1_000,
            memory: 50_000,
            llc_geometry: vec![(64, 8)],
            has_owned_state: true,
            home_ends: vec![1 << 20],
            mutation: Mutation::default(),
        };
        let core = |(c, ops): (usize, &&[Op])| {
            let isa = Program { ops: (*ops).into(), ..Program::default() };
            let cpu = CpuId(c as u32);
            let cpus = vec![(cpu, cpu.0, isa)];
            Core::new(CoreId(cpu.0), LlcId(0), config.clone(), cpus, Some(cpu), CHANCE)
        };
        World {
            cores: programs.iter().enumerate().map(core).collect(),
            phys: Phys::new(1 << 20),
            llc: Llc::new(LlcId(0), &paths),
            home: Home::new(HomeId(0), &paths),
            paths,
            uncore: Agenda::default(),
            now: SimTime::ZERO,
            far: Vec::new(),
        }
    }

    /// Runs until nothing is left to do, or `limit` in cycles.
    pub fn run(&mut self, limit: u64) -> &mut World {
        loop {
            let times = self.cores.iter().map(Core::next_time).enumerate();
            let (c, at) = times.min_by_key(|(_, at)| *at).unwrap();
            let uncore = self.uncore.next_key().time;
            if at.ps().min(uncore) >= limit * 1000 {
                return self;
            }
            if uncore <= at.ps() {
                self.handle_uncore();
                continue;
            }
            self.now = at;
            self.cores[c].run_until(&mut (), &self.phys, SimTime(at.ps() + 1));
            let outs: Vec<Out> = self.cores[c].take_out().collect();
            outs.into_iter().for_each(|out| self.route(c, out));
        }
    }

    fn route(&mut self, c: usize, out: Out) {
        let source = NodeRef::Core(CoreId(c as u32)).rank();
        let key = |sent: SimTime, phase, seq| Key {
            time: sent.ps() + 2 * LEG_PS,
            phase,
            tie: 0,
            source,
            seq,
        };
        match out {
            Out::Line(e) => self.uncore.push(e.key, e),
            Out::Signal { id, signal, sent, .. } => {
                for to in (0..self.cores.len()).filter(|to| *to != c) {
                    let item = CoreItem::Signal { smt: 0, signal, id };
                    self.cores[to].deliver(key(sent, Phase::Signal, id.n), item);
                }
            }
            Out::Far { far, sent, seq } => {
                let from = NodeRef::Device(self.far.len() as u32);
                self.far.push(far);
                let (time, phase) = (sent.ps() + 2 * LEG_PS, Phase::Request);
                let key = Key { time, phase, tie: 0, source, seq };
                let (to, msg) = (NodeRef::Home(HomeId(0)), LineMsg::Access { write: true });
                let (line, data) = (far.pa.line(), Data::default());
                self.uncore.push(key, Envelope { key, to, from, line, msg, data });
            }
            Out::Answered { id, to, sent } => {
                let item = CoreItem::Answered { smt: 0 };
                self.cores[to.index()].deliver(key(sent, Phase::Answer, id.n), item);
            }
            other => panic!("{other:?} in this machine"),
        }
    }

    fn handle_uncore(&mut self) {
        let (_, e) = self.uncore.pop().unwrap();
        let mut out = Vec::new();
        match e.to {
            NodeRef::Llc(_) => self.llc.handle(&e, &self.paths, CHANCE, &mut out),
            _ => {
                self.home.begin_shadow(e.line, &self.phys);
                self.home.handle(&e, &self.paths, CHANCE, &mut out);
            }
        }
        for i in 0..out.len() {
            let (until_here, behind) = out.split_at_mut(i + 1);
            let e = until_here[i];
            if let NodeRef::Core(c) = e.to {
                let item = CoreItem::Line { line: e.line, msg: e.msg, data: e.data };
                self.cores[c.index()].deliver(e.key, item);
            } else if let NodeRef::Device(index) = e.to {
                let Far { cpu, pa, size, update, store } = self.far[index as usize];
                let (phys, mut old) = (&self.phys, 0);
                let change = || {
                    old = phys.load(pa, size);
                    if let Some(new) = update.apply(old, size) {
                        phys.store(pa, size, new);
                    }
                };
                self.home.access(e.line, phys, change, behind);
                let item = match store {
                    Some(n) => CoreItem::FarStored { smt: 0, n },
                    None => CoreItem::DeviceDone { smt: 0, value: Some(old) },
                };
                self.cores[cpu.index()].deliver(Key { phase: Phase::Grant, ..e.key }, item);
            } else {
                self.uncore.push(e.key, e);
            }
        }
    }

    pub fn cpu(&self, c: usize) -> &Program {
        self.cores[c].isa(0)
    }

    /// Whether every program has ended.
    pub fn is_over(&self) -> bool {
        (0..self.cores.len()).all(|c| self.cpu(c).at == self.cpu(c).ops.len())
    }

    pub fn word(&self, pa: u64) -> u64 {
        self.phys.load(PhysAddr(pa), 8)
    }

    /// Cycle that the run has come to.
    pub fn cycle(&self) -> u64 {
        self.now.ps() / 1000
    }
}
