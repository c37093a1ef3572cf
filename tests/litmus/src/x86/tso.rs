//! The x86-TSO machine, explored completely: every final state that the architecture allows.
//!
//! Threads execute in program order. A store goes into the thread's buffer and leaves it, first in
//! first out, at any later time. A load takes each byte from the youngest buffered store of its
//! own thread that has it, else from memory. MFENCE and locked operations wait until the buffer is
//! empty, locked ones then read and write memory in one step (Sewell et al., "x86-TSO", CACM 53(7),
//! with mixed sizes by byte). Accesses are single-copy atomic; misaligned ones are not modelled.

use std::collections::BTreeSet;

use super::{Op, Place, Program, Source, into_register};
use crate::program::{Observed, Outcome, Test, VARIABLE_BYTES};

/// How a load meets a younger store of its thread that has only some of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partial {
    /// It takes these from the buffer and the rest from memory: all that x86-TSO allows.
    Merge,
    /// It waits until the store has left (rule X1): what this emulator does.
    Drain,
}

type Buffered = (Place, u64);

/// One state of the machine.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    at: Vec<usize>,
    registers: Vec<[u64; 4]>,
    /// What a plain read-modify-write has read and not written yet.
    read: Vec<Option<u64>>,
    buffers: Vec<Vec<Buffered>>,
    memory: Vec<[u8; VARIABLE_BYTES]>,
}

/// Returns every final state of `test`, whose threads are `program`.
#[must_use]
pub fn allowed(test: &Test, program: &Program, partial: Partial) -> BTreeSet<Outcome> {
    let threads = program.threads.len();
    let start = State {
        at: vec![0; threads],
        registers: program.registers.clone(),
        read: vec![None; threads],
        buffers: vec![Vec::new(); threads],
        memory: test.variables.iter().map(|v| v.initial.to_le_bytes()).collect(),
    };
    let mut outcomes = BTreeSet::new();
    let mut seen = BTreeSet::from([start.clone()]);
    let mut open = vec![start];
    while let Some(state) = open.pop() {
        let mut is_final = true;
        for thread in 0..threads {
            let steps = [state.drain(thread), state.execute(thread, program, partial)];
            for next in steps.into_iter().flatten() {
                is_final = false;
                if seen.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
        if is_final {
            outcomes.insert(test.outcome(&|observed| match observed {
                Observed::Register(thread, register) => state.registers[thread][register],
                Observed::Variable(v) => u64::from_le_bytes(state.memory[v]),
            }));
        }
    }
    outcomes
}

impl State {
    /// The oldest store of a thread reaches memory.
    fn drain(&self, thread: usize) -> Option<State> {
        if self.buffers[thread].is_empty() {
            return None;
        }
        let mut next = self.clone();
        let (place, value) = next.buffers[thread].remove(0);
        next.write(place, value);
        Some(next)
    }

    /// A thread makes its next step, unless it has to wait.
    fn execute(&self, thread: usize, program: &Program, partial: Partial) -> Option<State> {
        let op = *program.threads[thread].get(self.at[thread])?;
        let is_empty = self.buffers[thread].is_empty();
        let mut next = self.clone();
        let registers = &mut next.registers[thread];
        match op {
            Op::Move(r, size, source) => {
                registers[r] = into_register(size, registers[r], value(source, registers));
            }
            Op::Store(place, source) => {
                let value = value(source, registers) & place.size.mask();
                next.buffers[thread].push((place, value));
            }
            Op::Load(r, place) => {
                let value = self.load(thread, place, partial)?;
                registers[r] = into_register(place.size, registers[r], value);
            }
            Op::Mfence if !is_empty => return None,
            Op::Mfence | Op::Lfence | Op::Sfence => {}
            Op::Rmw { is_locked: true, .. } if !is_empty => return None,
            Op::Rmw { place, change, is_locked: true } => {
                let old = self.load(thread, place, partial)?;
                let new = change.apply(old, place.size, registers);
                next.write(place, new);
            }
            Op::Rmw { place, change, is_locked: false } => match next.read[thread].take() {
                None => {
                    next.read[thread] = Some(self.load(thread, place, partial)?);
                    return Some(next);
                }
                Some(old) => {
                    let new = change.apply(old, place.size, registers);
                    next.buffers[thread].push((place, new));
                }
            },
        }
        next.at[thread] += 1;
        Some(next)
    }

    /// What a load sees, or `None` while it has to wait.
    fn load(&self, thread: usize, place: Place, partial: Partial) -> Option<u64> {
        let has = |(p, _): &Buffered, byte: u8| {
            p.variable == place.variable && p.offset <= byte && byte < p.offset + p.size.0
        };
        let bytes = place.offset..place.offset + place.size.0;
        let buffer = &self.buffers[thread];
        if partial == Partial::Drain {
            let youngest = buffer.iter().rev().find(|b| bytes.clone().any(|byte| has(b, byte)));
            if youngest.is_some_and(|b| !bytes.clone().all(|byte| has(b, byte))) {
                return None;
            }
        }
        let byte = |byte: u8| match buffer.iter().rev().find(|b| has(b, byte)) {
            Some((p, value)) => value.to_le_bytes()[usize::from(byte - p.offset)],
            None => self.memory[place.variable][usize::from(byte)],
        };
        Some(bytes.rev().fold(0, |value, b| value << 8 | u64::from(byte(b))))
    }

    fn write(&mut self, place: Place, value: u64) {
        let from = usize::from(place.offset);
        let len = usize::from(place.size.0);
        let bytes = &value.to_le_bytes()[..len];
        self.memory[place.variable][from..from + len].copy_from_slice(bytes);
    }
}

fn value(source: Source, registers: &[u64; 4]) -> u64 {
    match source {
        Source::Immediate(value) => value,
        Source::Register(r) => registers[r],
    }
}
