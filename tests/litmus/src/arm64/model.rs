//! The memory model of arm64, as an axiomatic model explored completely.
//!
//! A candidate execution gives every load a store to read from and every variable an order of
//! its stores (coherence). It is kept when it passes the three requirements of \[ArmARM\] "The Arm
//! memory model": *internal visibility* (per location, program order, reads-from and coherence have
//! no cycle), *external visibility* (no cycle of observations by other threads and what is locally
//! ordered before), and *atomic* (no store of another thread between the read and the write of an
//! atomic or of a successful exclusive pair). Local order comes from dependencies, barriers,
//! acquires and releases, atomics, and a younger store to the same location.
//!
//! Where the manual's text leaves a choice, the weaker reading is taken: the status of a store
//! exclusive and the comparison of a CAS carry no dependency, a store exclusive may always fail.
//! Accesses of a variable all have its size.

use std::collections::BTreeSet;

use super::{
    Access, Acquire, Alu, Barrier, Change, Op, Operand, Program, REGISTERS, Reg, Types, ZR,
};
use crate::program::{Observed, Outcome, Size, Test, Variable};
use crate::syntax::Initial;

/// Most events of one execution: a set of them is a word.
const EVENTS_MAX: usize = 64;
/// Most ways through one thread, and most combinations of them.
const TRACES_MAX: usize = 100_000;
/// Where variables are, for the model: far apart from each other and from numbers.
const ADDRESSES: u64 = 1 << 48;
const APART: u64 = 1 << 36;

/// A set of events, by number.
type Set = u64;

/// One access of memory.
#[derive(Clone, Copy, Debug)]
struct Event {
    variable: usize,
    value: u64,
    is_write: bool,
    acquire: Acquire,
    /// A read whose value nothing gets: STADD and kin.
    is_unused: bool,
    /// Older events of the thread that are ordered before it whatever is read.
    before: Set,
    /// Reads that its address or value depends on.
    feeds: Set,
    /// The read of the same atomic or exclusive pair.
    pair: Option<usize>,
}

/// One way through a thread: what it does if its loads read these values.
#[derive(Clone, Debug)]
struct Trace {
    events: Vec<Event>,
    registers: [u64; REGISTERS],
}

/// Returns every final state of `test`, whose threads are `program`.
///
/// Errors: an access that is not of a whole variable, or a test that is too large.
pub fn allowed(test: &Test, program: &Program) -> Result<BTreeSet<Outcome>, String> {
    let threads = traces(&test.variables, program)?;
    let combinations: usize = threads.iter().map(Vec::len).product();
    if combinations > TRACES_MAX {
        return Err(format!("{combinations} ways through the threads are too many"));
    }
    let mut outcomes = BTreeSet::new();
    for choice in choices(&threads.iter().map(Vec::len).collect::<Vec<_>>()) {
        let chosen: Vec<&Trace> = threads.iter().zip(choice).map(|(t, n)| &t[n]).collect();
        Execution::of(&chosen, &test.variables)?.finals(test, &chosen, &mut outcomes);
    }
    Ok(outcomes)
}

/// All ways through every thread. What loads may read grows with what other threads write, until
/// nothing is new, or no chain of stores can be longer.
fn traces(variables: &[Variable], program: &Program) -> Result<Vec<Vec<Trace>>, String> {
    let initial: Vec<BTreeSet<u64>> =
        variables.iter().map(|v| BTreeSet::from([v.initial & v.size.mask()])).collect();
    let threads = 0..program.threads.len();
    // By thread: what the others may have written, by variable.
    let mut values = vec![initial; program.threads.len()];
    let mut rounds = program.threads.iter().map(Vec::len).sum::<usize>();
    loop {
        let thread = |t: usize| Walk::all(program, t, variables, &values[t]);
        let traces: Vec<Vec<Trace>> = threads.clone().map(thread).collect::<Result<_, _>>()?;
        let mut grown = values.clone();
        for (by, thread) in traces.iter().enumerate() {
            for event in thread.iter().flat_map(|t| &t.events).filter(|e| e.is_write) {
                for reader in threads.clone().filter(|reader| *reader != by) {
                    grown[reader][event.variable].insert(event.value);
                }
            }
        }
        if grown == values || rounds == 0 {
            return Ok(traces);
        }
        values = grown;
        rounds -= 1;
    }
}

/// A register's value, and the reads that it depends on.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    value: u64,
    from: Set,
}

/// A thread on its way. All sets are of its own events.
#[derive(Clone, Debug)]
struct Walk {
    at: usize,
    registers: [Cell; REGISTERS],
    events: Vec<Event>,
    /// Reads that a branch depended on.
    control: Set,
    /// Reads that the address of some access depended on.
    addresses: Set,
    /// What is ordered before every younger read (behind an ISB), store, or access.
    before_reads: Set,
    before_writes: Set,
    before_all: Set,
    /// Store-releases.
    releases: Set,
    /// The last load exclusive, unless its store has come.
    exclusive: Option<usize>,
}

/// An access with its operands read.
#[derive(Clone, Copy, Debug)]
struct Request {
    what: Access,
    size: Size,
    rt: Reg,
    rs: Reg,
    variable: usize,
    address: Set,
}

impl Walk {
    /// Every way through a thread, if loads read any of `values` or what the thread has written.
    fn all(
        program: &Program,
        thread: usize,
        variables: &[Variable],
        values: &[BTreeSet<u64>],
    ) -> Result<Vec<Trace>, String> {
        let cell = |initial: Initial| match initial {
            Initial::Number(value) => Cell { value, from: 0 },
            Initial::Address(v) => Cell { value: ADDRESSES + v as u64 * APART, from: 0 },
        };
        let mut open = vec![Walk {
            at: 0,
            registers: program.registers[thread].map(cell),
            events: Vec::new(),
            control: 0,
            addresses: 0,
            before_reads: 0,
            before_writes: 0,
            before_all: 0,
            releases: 0,
            exclusive: None,
        }];
        let mut traces = Vec::new();
        while let Some(mut walk) = open.pop() {
            let Some(op) = program.threads[thread].get(walk.at) else {
                traces.push(walk.end());
                continue;
            };
            walk.at += 1;
            walk.step(*op, variables, values, &mut open)
                .map_err(|e| format!("P{thread}, instruction {}: {e}", walk.at))?;
            if traces.len() + open.len() > TRACES_MAX {
                return Err(format!("P{thread} has too many ways through it"));
            }
        }
        Ok(traces)
    }

    fn end(self) -> Trace {
        Trace { registers: self.registers.map(|r| r.value), events: self.events }
    }

    fn cell(&self, r: Reg) -> Cell {
        self.registers.get(usize::from(r)).copied().unwrap_or_default()
    }

    fn set(&mut self, r: Reg, value: u64, from: Set) {
        if let Some(cell) = self.registers.get_mut(usize::from(r)) {
            *cell = Cell { value, from };
        }
    }

    /// Makes the step that follows, and puts every way it can go on `open`.
    fn step(
        &mut self,
        op: Op,
        variables: &[Variable],
        values: &[BTreeSet<u64>],
        open: &mut Vec<Walk>,
    ) -> Result<(), String> {
        match op {
            Op::Move { rd, value, .. } => self.set(rd, value.into(), 0),
            Op::Alu { what, is_wide, rd, rn, with } => {
                let (value, from) = self.alu(what, rn, with);
                self.set(rd, if is_wide { value } else { value & 0xffff_ffff }, from);
            }
            Op::Branch { is_wide, is_nonzero, rt, to } => {
                let Cell { value, from } = self.cell(rt);
                let value = if is_wide { value } else { value & 0xffff_ffff };
                self.control |= from;
                if (value != 0) == is_nonzero {
                    self.at = to;
                }
            }
            Op::Barrier(barrier) => self.barrier(barrier),
            Op::ClearExclusive => self.exclusive = None,
            Op::Access { what, size, rt, rs, base, index } => {
                let (base, index) = (self.cell(base), index.map(|r| self.cell(r)));
                let offset = index.map_or(0, |i| sxtw(i.value));
                let address = base.value.wrapping_add(offset);
                let variable = (0..variables.len())
                    .find(|v| address == ADDRESSES + *v as u64 * APART)
                    .filter(|v| variables[*v].size == size)
                    .ok_or("the access is not of a whole variable")?;
                let address = base.from | index.map_or(0, |i| i.from);
                let request = Request { what, size, rt, rs, variable, address };
                let own = self.events.iter().filter(|e| e.is_write && e.variable == variable);
                let values = values[variable].iter().copied().chain(own.map(|e| e.value)).collect();
                return self.access(&request, &values, open);
            }
        }
        open.push(self.clone());
        Ok(())
    }

    fn alu(&self, what: Alu, rn: Reg, with: Operand) -> (u64, Set) {
        let a = self.cell(rn);
        let b = match with {
            Operand::Constant(value) => Cell { value: value.into(), from: 0 },
            Operand::Register(r) => self.cell(r),
            Operand::Sxtw(r) => Cell { value: sxtw(self.cell(r).value), ..self.cell(r) },
        };
        let value = match what {
            Alu::Add => a.value.wrapping_add(b.value),
            Alu::And => a.value & b.value,
            Alu::Eor => a.value ^ b.value,
        };
        (value, a.from | b.from)
    }

    fn barrier(&mut self, barrier: Barrier) {
        let all = mask(self.events.len());
        let writes = self.set_of(|e| e.is_write);
        match barrier {
            Barrier::Isb => self.before_reads |= self.control | self.addresses,
            Barrier::Dmb(Types::All) | Barrier::Dsb(Types::All) => self.before_all |= all,
            Barrier::Dmb(Types::Loads) | Barrier::Dsb(Types::Loads) => {
                self.before_all |= all & !writes & !self.set_of(|e| e.is_unused);
            }
            Barrier::Dmb(Types::Stores) => self.before_writes |= writes,
            Barrier::Dsb(Types::Stores) => self.before_all |= writes,
        }
    }

    fn set_of(&self, is_in: impl Fn(&Event) -> bool) -> Set {
        self.events.iter().enumerate().filter(|(_, e)| is_in(e)).fold(0, |s, (n, _)| s | 1 << n)
    }

    fn access(
        &mut self,
        request: &Request,
        values: &BTreeSet<u64>,
        open: &mut Vec<Walk>,
    ) -> Result<(), String> {
        if self.events.len() + 2 > EVENTS_MAX {
            return Err("there are too many accesses".to_owned());
        }
        let Request { what, size, rt, rs, .. } = *request;
        let (stored, operand) = (self.cell(rt), self.cell(rs));
        match what {
            Access::Store { is_release } => {
                let mut next = self.clone();
                next.write(request, stored, is_release, None);
                open.push(next);
            }
            Access::StoreExclusive { is_release } => {
                let pair = self.exclusive.take();
                let mut failed = self.clone();
                failed.set(rs, 1, 0);
                open.push(failed);
                let is_same = |read: &usize| self.events[*read].variable == request.variable;
                if let Some(read) = pair.filter(is_same) {
                    let mut next = self.clone();
                    next.write(request, stored, is_release, Some(read));
                    next.set(rs, 0, 0);
                    open.push(next);
                }
            }
            Access::Load(acquire) => {
                for value in values {
                    let mut next = self.clone();
                    let read = next.read(request, *value, acquire);
                    next.set(rt, *value, 1 << read);
                    open.push(next);
                }
            }
            Access::LoadExclusive { is_acquire } => {
                for value in values {
                    let mut next = self.clone();
                    let read = next.read(request, *value, acquire_if(is_acquire));
                    next.set(rt, *value, 1 << read);
                    next.exclusive = Some(read);
                    open.push(next);
                }
            }
            Access::Atomic { change, is_acquire, is_release } => {
                for value in values {
                    let mut next = self.clone();
                    let expected = operand.value & size.mask();
                    let new = change.apply(*value, expected, stored.value).map(|v| v & size.mask());
                    next.atomic(request, change, *value, new, (is_acquire, is_release));
                    open.push(next);
                }
            }
        }
        Ok(())
    }

    fn atomic(
        &mut self,
        request: &Request,
        change: Change,
        old: u64,
        new: Option<u64>,
        (is_acquire, is_release): (bool, bool),
    ) {
        let (data, result) = match change {
            Change::Compare => (self.cell(request.rt), request.rs),
            _ => (self.cell(request.rs), request.rt),
        };
        // Without a register for the result there is no acquire; a CAS always has one.
        let is_acquire = is_acquire && (result != ZR || change == Change::Compare);
        let read = self.read(request, old, acquire_if(is_acquire));
        self.events[read].is_unused = result == ZR && change != Change::Compare;
        if let Some(value) = new {
            self.write(request, Cell { value, from: data.from }, is_release, Some(read));
            if is_acquire && is_release {
                self.before_all |= 1 << (read + 1);
            }
        }
        self.set(result, old, 1 << read);
    }

    fn read(&mut self, request: &Request, value: u64, acquire: Acquire) -> usize {
        let mut before = request.address | self.before_reads | self.before_all;
        if acquire == Acquire::Full {
            before |= self.releases;
        }
        let read = self.events.len();
        self.events.push(Event {
            variable: request.variable,
            value,
            is_write: false,
            acquire,
            is_unused: false,
            before,
            feeds: 0,
            pair: None,
        });
        self.addresses |= request.address;
        if acquire != Acquire::No {
            self.before_all |= 1 << read;
        }
        read
    }

    fn write(&mut self, request: &Request, data: Cell, is_release: bool, pair: Option<usize>) {
        let write = self.events.len();
        let mut before = request.address | data.from | self.control | self.addresses;
        before |= self.before_writes | self.before_all;
        before |= self.set_of(|e| e.variable == request.variable);
        if is_release {
            before |= mask(write);
            self.releases |= 1 << write;
        }
        self.events.push(Event {
            variable: request.variable,
            value: data.value & request.size.mask(),
            is_write: true,
            acquire: Acquire::No,
            is_unused: false,
            before,
            feeds: request.address | data.from,
            pair,
        });
        self.addresses |= request.address;
    }
}

fn acquire_if(is_acquire: bool) -> Acquire {
    if is_acquire { Acquire::Full } else { Acquire::No }
}

fn sxtw(value: u64) -> u64 {
    i64::from(value as u32 as i32) as u64
}

/// The first `n` events.
fn mask(n: usize) -> Set {
    (1 << n) - 1
}

/// One way through every thread, with the events numbered anew.
#[derive(Debug)]
struct Execution {
    events: Vec<Event>,
    threads: Vec<usize>,
    /// Stores by variable.
    writes: Vec<Vec<usize>>,
    /// What each event may read from: a store, or the initial value. Nothing for stores.
    sources: Vec<Vec<Option<usize>>>,
}

impl Execution {
    fn of(chosen: &[&Trace], variables: &[Variable]) -> Result<Execution, String> {
        let (mut events, mut threads) = (Vec::new(), Vec::new());
        for (thread, trace) in chosen.iter().enumerate() {
            let first = events.len();
            if first + trace.events.len() > EVENTS_MAX {
                return Err("there are too many accesses".to_owned());
            }
            let shifted = |e: &Event| Event {
                before: e.before << first,
                feeds: e.feeds << first,
                pair: e.pair.map(|read| read + first),
                ..*e
            };
            events.extend(trace.events.iter().map(shifted));
            threads.resize(events.len(), thread);
        }
        let writes_to = |v: usize| {
            let is_one = |e: &(usize, &Event)| e.1.is_write && e.1.variable == v;
            events.iter().enumerate().filter(is_one).map(|(n, _)| n).collect()
        };
        let writes: Vec<Vec<usize>> = (0..variables.len()).map(writes_to).collect();
        let sources_of = |read: &Event| -> Vec<Option<usize>> {
            if read.is_write {
                return Vec::new();
            }
            let variable = &variables[read.variable];
            let initial = (read.value == variable.initial & variable.size.mask()).then_some(None);
            let same = writes[read.variable].iter().filter(|w| events[**w].value == read.value);
            initial.into_iter().chain(same.map(|w| Some(*w))).collect()
        };
        let sources = events.iter().map(sources_of).collect();
        Ok(Execution { events, threads, writes, sources })
    }

    /// Adds every final state that some order of stores gives.
    fn finals(&self, test: &Test, chosen: &[&Trace], outcomes: &mut BTreeSet<Outcome>) {
        let is_read = |(event, sources): (&Event, &Vec<_>)| event.is_write || !sources.is_empty();
        if !self.events.iter().zip(&self.sources).all(is_read) {
            return;
        }
        let orders: Vec<Vec<Vec<usize>>> = self.writes.iter().map(|w| permutations(w)).collect();
        for order in choices(&orders.iter().map(Vec::len).collect::<Vec<_>>()) {
            let order: Vec<&Vec<usize>> = orders.iter().zip(order).map(|(o, n)| &o[n]).collect();
            let outcome = test.outcome(&|observed| match observed {
                Observed::Register(thread, register) => chosen[thread].registers[register],
                Observed::Variable(v) => match order[v].last() {
                    Some(write) => self.events[*write].value,
                    None => test.variables[v].initial,
                },
            });
            if !outcomes.contains(&outcome) && self.is_possible(&order) {
                outcomes.insert(outcome);
            }
        }
    }

    /// Whether loads can read from some stores in this order of stores.
    fn is_possible(&self, order: &[&Vec<usize>]) -> bool {
        let mut places = vec![0; self.events.len()];
        for writes in order {
            for (n, write) in writes.iter().enumerate() {
                places[*write] = n + 1;
            }
        }
        let reads: Vec<usize> =
            (0..self.events.len()).filter(|e| !self.events[*e].is_write).collect();
        let counts: Vec<usize> = reads.iter().map(|r| self.sources[*r].len()).collect();
        choices(&counts).any(|choice| {
            let mut source = vec![None; self.events.len()];
            let mut places = places.clone();
            for (read, n) in reads.iter().zip(choice) {
                source[*read] = self.sources[*read][n];
                places[*read] = source[*read].map_or(0, |write| places[write]);
            }
            self.is_allowed(&source, &places)
        })
    }

    /// The three requirements. `places` are those of stores in coherence order, from 1, and for
    /// loads of what they read.
    fn is_allowed(&self, source: &[Option<usize>], places: &[usize]) -> bool {
        let mut internal = vec![0; self.events.len()];
        let mut external: Vec<Set> = self.events.iter().map(|e| e.before).collect();
        for (b, younger) in self.events.iter().enumerate() {
            for (a, older) in self.events.iter().enumerate() {
                if a == b || older.variable != younger.variable {
                    continue;
                }
                let is_observed = match (older.is_write, younger.is_write) {
                    (_, true) => places[a] < places[b],
                    (true, false) => source[b] == Some(a),
                    (false, false) => false,
                };
                let is_same_thread = self.threads[a] == self.threads[b];
                if is_observed || is_same_thread && a < b {
                    internal[b] |= 1 << a;
                }
                if is_observed && !is_same_thread {
                    external[b] |= 1 << a;
                }
                let is_between = |read: usize| places[read] < places[a] && places[a] < places[b];
                if older.is_write && !is_same_thread && younger.pair.is_some_and(is_between) {
                    return false;
                }
            }
            // A load from a store of its own thread waits for what the store was made of, an
            // acquire for the store if that is the write of an atomic.
            if let Some(write) = source[b].filter(|w| self.threads[*w] == self.threads[b]) {
                external[b] |= self.events[write].feeds;
                if self.events[write].pair.is_some() && younger.acquire != Acquire::No {
                    external[b] |= 1 << write;
                }
            }
        }
        is_acyclic(&internal) && is_acyclic(&external)
    }
}

/// Whether events can be put in an order in which each comes behind those `before` it.
fn is_acyclic(before: &[Set]) -> bool {
    let mut done: Set = 0;
    loop {
        let free = |(n, b): (usize, &Set)| if b & !done == 0 { 1 << n } else { 0 };
        let now = before.iter().enumerate().map(free).fold(0, |s: Set, e: Set| s | e);
        if now == done {
            return done.count_ones() as usize == before.len();
        }
        done = now;
    }
}

fn permutations(items: &[usize]) -> Vec<Vec<usize>> {
    let Some((first, rest)) = items.split_first() else { return vec![Vec::new()] };
    let with_first = |shorter: Vec<usize>| {
        (0..=shorter.len()).map(move |at| {
            let mut longer = shorter.clone();
            longer.insert(at, *first);
            longer
        })
    };
    permutations(rest).into_iter().flat_map(with_first).collect()
}

/// Every way to choose one of so many, in each place.
fn choices(counts: &[usize]) -> impl Iterator<Item = Vec<usize>> + '_ {
    (0..counts.iter().product()).map(move |mut n| {
        let digit = |count: &usize| {
            let digit = n % count;
            n /= count;
            digit
        };
        counts.iter().map(digit).collect()
    })
}
