//! One node of the explored machine: a real core, a real LLC or a real home, moved by one input at
//! a time, with its name under each symmetry.

use std::hash::{DefaultHasher, Hasher};

use emu_cpu::config::{Atomics, CoreConfig, IdleCost, MemoryOrder};
use emu_cpu::node::{Core, CoreItem, Out};
use emu_cpu::thread::{Pending, RunState};
use emu_cpu::timing::{CLASSES, Class, CoreTiming};
use emu_cpu::wait::Signal;
use emu_mem::cache::Geometry;
use emu_mem::directory::phase_of;
use emu_mem::home::Home;
use emu_mem::llc::Llc;
use emu_mem::msg::{Envelope, LineMsg, Perm};
use emu_mem::paths::Paths;
use emu_mem::phys::Phys;
use emu_mem::shadow::Data;
use emu_observe::IpiId;
use emu_sim::mutant::Mutation;
use emu_sim::{Chance, CpuId, Freq, Key, LineAddr, NodeRef, Phase, SimTime};

use super::script::{Op, Script, address};
use super::{Case, Symmetry};

/// Cycles of everything that must outlast whatever else happens: holds.
const FAR: u64 = 1_000_000_000;
/// Cycles between two inputs of a core when all that is not `FAR` is to be over by then.
const GAP: u64 = 100;
/// An answer that comes late, as the core sleeps: picoseconds.
const SLOW: u64 = 1_000_000_000;
/// Lines at most.
pub const LINES: usize = 2;

/// What moves a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    Msg(NodeRef, u8, LineMsg, Data),
    /// An operation of a core begins.
    Op(Op),
    /// The next time that a core waits for has come: the end of a hold.
    Time,
    /// An LLC evicts a line.
    Evict(u8),
}

/// A message that leaves a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    pub to: NodeRef,
    pub line: u8,
    pub msg: LineMsg,
    pub data: Data,
    /// Of a sleeping core: others may overtake it.
    pub is_slow: bool,
}

/// What the search asks of a node.
#[derive(Clone, Copy, Debug, Default)]
pub struct View {
    pub perm: [Option<Perm>; LINES],
    pub watches: [bool; LINES],
    pub has_data: [bool; LINES],
    /// A core that may begin an operation.
    pub is_free: bool,
    pub stores: usize,
    /// Time will bring something by itself.
    pub has_time: bool,
    /// Nothing is under way here.
    pub is_quiet: bool,
}

/// Requests in order of arrival that are not served yet, per line: who, and whether to read.
type Waiting = [Vec<(NodeRef, bool)>; LINES];

#[derive(Clone, Debug)]
pub enum Node {
    Core(Box<Core<Script>>),
    Llc(Box<Llc>, Waiting),
    Home(Box<Home>, Waiting),
}

pub fn config(case: &Case, mutation: Mutation) -> CoreConfig {
    let mut latency = [1; CLASSES];
    latency[Class::Rmw as usize] = FAR as u32;
    let cache = Geometry { sets: 1, ways: case.core_ways };
    CoreConfig {
        freq: Freq::from_khz(1_000_000),
        timing: CoreTiming {
            width: 1,
            window: 1,
            store_buffer: 4,
            in_order: true,
            mispredict: 0,
            l1_latency: 1,
            l2_latency: 1,
            latency,
        },
        l1d: cache,
        l1i: Geometry { sets: 1, ways: 1 },
        l2: cache,
        core_llc: 0,
        core_device: 0,
        smt_handover: 0,
        line_keep: if case.keeps { FAR } else { 0 },
        ipi_self: 1,
        own_store_triggers: false,
        order: MemoryOrder::Total,
        atomics: Atomics::default(),
        exclusive_hold: 0,
        exclusive_failure: 0,
        fill_buffers: case.fill_buffers,
        cpus: 1,
        idle: vec![IdleCost {
            name: "lost".into(),
            entry: SimTime::ZERO,
            is_abortable: true,
            exit_store: SimTime::ZERO,
            exit_interrupt: SimTime::ZERO,
            flushes: true,
            timer_stops: false,
            is_told: false,
            snoop: SimTime(SLOW),
        }],
        window_ps: FAR * 1_000_000,
        elide_spins: false,
        mutation,
    }
}

/// What a transition needs besides the node.
pub struct World {
    pub paths: Paths,
    pub phys: Phys,
    pub lines: u8,
    /// Messages reach a core between any two of its cycles, not only when it has come to rest.
    pub is_fine: bool,
}

impl World {
    /// Makes flat memory what it is in a state: a bit for each line.
    pub fn set_values(&self, values: u32) {
        for line in 0..self.lines {
            self.phys.store(address(line), 8, u64::from(values >> line & 1));
        }
    }

    pub fn values(&self) -> u32 {
        (0..self.lines).map(|line| (self.phys.load(address(line), 8) as u32 & 1) << line).sum()
    }

    fn gap(&self) -> u64 {
        if self.is_fine { 1 } else { GAP }
    }
}

const CHANCE: Chance = Chance::new(0);

impl Node {
    /// Runs a core through the cycle of `from`, or until only what is `FAR` is left.
    fn settle(core: &mut Core<Script>, from: SimTime, world: &World) {
        let cycles = world.gap().div_ceil(2);
        core.run_until(&mut (), &world.phys, SimTime(from.ps() + cycles * 1000));
    }

    pub fn start(core: Core<Script>, world: &World) -> Node {
        let mut core = Box::new(core);
        Node::settle(&mut core, SimTime::ZERO, world);
        Node::Core(core)
    }

    /// Moves the node; what it sends is appended to `sent`.
    pub fn apply(&mut self, input: Input, world: &World, sent: &mut Vec<Sent>) {
        match self {
            Node::Core(core) => {
                let at = SimTime(core.last_time().ps() + world.gap() * 1000);
                let key = |phase| Key::at(at.ps(), phase);
                match input {
                    Input::Msg(_, line, msg, data) => {
                        let line = LineAddr(line.into());
                        core.deliver(key(phase_of(&msg)), CoreItem::Line { line, msg, data });
                    }
                    Input::Op(op) => {
                        core.isa_mut(0).op = Some(op);
                        let id = IpiId { from: CpuId(0), n: 0 };
                        let item = CoreItem::Signal { smt: 0, signal: Signal::Nmi, id };
                        core.deliver(key(Phase::Signal), item);
                    }
                    Input::Time | Input::Evict(_) => {}
                }
                let from = if input == Input::Time { core.next_time() } else { at };
                Node::settle(core, from, world);
                let now = core.last_time().ps();
                for out in core.take_out() {
                    let Out::Line(Envelope { key, to, line, msg, data, .. }) = out else {
                        panic!("core sent {out:?}")
                    };
                    let is_slow = key.time >= now + SLOW / 2;
                    sent.push(Sent { to, line: line.0 as u8, msg, data, is_slow });
                }
            }
            Node::Llc(llc, waiting) => {
                let mut out = Vec::new();
                match input {
                    Input::Msg(from, line, msg, data) => {
                        let e = envelope(from, line, msg, data);
                        arrives(waiting, &e);
                        llc.handle(&e, &world.paths, CHANCE, &mut out);
                    }
                    Input::Evict(line) => {
                        llc.evict(LineAddr(line.into()), 0, &world.paths, CHANCE, &mut out);
                    }
                    _ => panic!("LLC got {input:?}"),
                }
                served(waiting, &out, |to| matches!(to, NodeRef::Core(_)));
                sent.extend(out.iter().map(plain));
            }
            Node::Home(home, waiting) => {
                let Input::Msg(from, line, msg, data) = input else { panic!("home got {input:?}") };
                let mut out = Vec::new();
                let e = envelope(from, line, msg, data);
                arrives(waiting, &e);
                home.handle(&e, &world.paths, CHANCE, &mut out);
                served(waiting, &out, |_| true);
                sent.extend(out.iter().map(plain));
            }
        }
    }

    pub fn view(&self, world: &World) -> View {
        let lines = || (0..usize::from(world.lines)).map(|l| (l, LineAddr(l as u64)));
        let mut v = View::default();
        match self {
            Node::Core(core) => {
                for (l, line) in lines() {
                    (v.perm[l], v.watches[l]) = (core.perm(line), core.watches(line));
                }
                let th = core.thread(0);
                v.stores = core.buffered_stores(0);
                v.is_free =
                    matches!(th.run_state(), RunState::Waiting(_)) && core.isa(0).op.is_none();
                v.has_time = core.next_time() != SimTime::NEVER;
                v.is_quiet = v.is_free
                    && v.stores == 0
                    && !v.has_time
                    && core.requested().next().is_none()
                    && th.pending() == Pending::None;
            }
            Node::Llc(llc, _) => {
                for (l, line) in lines() {
                    v.has_data[l] = llc.record(line, &world.paths).has_data;
                }
                v.is_quiet = llc.is_idle();
            }
            Node::Home(home, _) => v.is_quiet = home.is_idle(),
        }
        v
    }

    /// The node's state under other names of cores, LLCs and lines.
    pub fn name(&self, lines: &[u8], sym: &Symmetry, llc: usize, world: &World) -> u64 {
        // `FxHasher` gives nodes of unlike states one name.
        let mut h = DefaultHasher::new();
        let per = world.paths.cores_of_llc[0].len();
        let rename_llc = |l: emu_sim::LlcId| emu_sim::LlcId(sym.llcs[l.index()].into());
        // Lines in the order of their new names.
        let mut order = lines.to_vec();
        order.sort_unstable_by_key(|l| sym.lines[usize::from(*l)]);
        let who = |n: &NodeRef| match n {
            NodeRef::Core(c) => sym.cores[c.index()],
            NodeRef::Llc(l) => sym.llcs[l.index()],
            _ => u8::MAX,
        };
        let queue = |waiting: &Waiting, line: u8, h: &mut DefaultHasher| {
            for (n, is_read) in &waiting[usize::from(line)] {
                h.write_u16(u16::from(who(n)) << 1 | u16::from(*is_read));
            }
            h.write_u8(u8::MAX);
        };
        match self {
            Node::Core(core) => {
                core.hash_state(|l| LineAddr(sym.lines[l.0 as usize].into()), &mut h);
            }
            Node::Llc(node, waiting) => {
                let place = |p: u8| sym.cores[llc * per + usize::from(p)] % per as u8;
                for line in order {
                    node.hash_line(LineAddr(line.into()), place, rename_llc, &mut h);
                    queue(waiting, line, &mut h);
                }
            }
            Node::Home(node, waiting) => {
                for line in order {
                    node.hash_line(LineAddr(line.into()), rename_llc, &mut h);
                    queue(waiting, line, &mut h);
                }
            }
        }
        h.finish()
    }
}

/// A message to a node that does not ask whether it is meant.
fn envelope(from: NodeRef, line: u8, msg: LineMsg, data: Data) -> Envelope {
    let (key, line) = (Key::at(0, Phase::Grant), LineAddr(line.into()));
    Envelope { key, to: NodeRef::Machine, from, line, msg, data }
}

fn plain(e: &Envelope) -> Sent {
    Sent { to: e.to, line: e.line.0 as u8, msg: e.msg, data: e.data, is_slow: false }
}

fn arrives(waiting: &mut Waiting, e: &Envelope) {
    let is_read = e.msg == LineMsg::Get { write: false };
    if is_read || matches!(e.msg, LineMsg::Get { .. } | LineMsg::Flush) {
        waiting[e.line.0 as usize].push((e.from, is_read));
    }
}

/// L1: first in, first out, but for reads side by side. A request is served when its grant leaves,
/// or the order to grant it.
fn served(waiting: &mut Waiting, out: &[Envelope], is_below: impl Fn(NodeRef) -> bool) {
    for e in out {
        let whom = match e.msg {
            LineMsg::Grant(_) | LineMsg::FlushDone if is_below(e.to) => e.to,
            LineMsg::Snoop { grant_to: Some(llc), .. } => NodeRef::Llc(llc),
            _ => continue,
        };
        let queue = &mut waiting[e.line.0 as usize];
        if let Some(at) = queue.iter().position(|(who, _)| *who == whom) {
            let is_read = queue[at].1;
            let is_fair = queue[..at].iter().all(|(_, earlier_reads)| *earlier_reads && is_read);
            assert!(is_fair, "{e:?} overtakes {queue:?}");
            queue.remove(at);
        }
    }
}
