//! The image of a test: the front end's code, and tables that the host fills and reads.
//!
//! A thread has a record for each iteration: the plan on its first line, on its second the
//! registers that the final clause observes.

use emu_machine::Image;
use emu_machine::load::{Segment, Symbols};
use emu_sim::PhysAddr;

use crate::plan::Iteration;
use crate::program::{Program, RECORDED_MAX, Test};
use crate::{arm64, x86};

// Places, from the first byte of RAM.
pub(crate) const CODE: u64 = 0x10_0000;
pub(crate) const BARRIER: u64 = 0x20_0000;
/// Translation tables, where a front end needs some.
pub(crate) const TABLES: u64 = 0x30_0000;
const RECORDS: u64 = 0x40_0000;
// A record: addresses, offset, warm, gaps; registers.
pub(crate) const AT_OFFSET: u32 = 32;
pub(crate) const AT_WARM: u32 = 40;
pub(crate) const AT_GAPS: u32 = 48;
pub(crate) const AT_REGISTERS: u32 = 64;
pub(crate) const RECORD_BYTES: u32 = 128;
const _: () = assert!(AT_REGISTERS as usize + 8 * RECORDED_MAX <= RECORD_BYTES as usize);

/// Where threads run.
#[derive(Clone, Debug)]
pub struct Seats {
    /// (cpu, architectural ID) by thread; one of them is cpu 0.
    pub seats: Vec<(usize, u64)>,
    /// First byte of RAM.
    pub ram: u64,
    /// Whether an x86 machine hands cpus over in x2APIC mode.
    pub is_x2apic: bool,
}

impl Seats {
    /// Where the records of a thread begin.
    #[must_use]
    pub fn records(&self, thread: usize, iterations: usize) -> u64 {
        self.ram + RECORDS + (thread * records_len(iterations)) as u64
    }
}

/// Bytes of a thread's records.
#[must_use]
pub fn records_len(iterations: usize) -> usize {
    iterations * RECORD_BYTES as usize
}

/// Reads a recorded register of one iteration out of a thread's records.
#[must_use]
pub fn register(records: &[u8], iteration: usize, nth: usize) -> u64 {
    let at = records_len(iteration) + AT_REGISTERS as usize + 8 * nth;
    records[at..at + 8].try_into().map_or(0, u64::from_le_bytes)
}

/// Builds the image of a test.
///
/// Errors: what the assembler says; a bug here.
pub fn build(test: &Test, plan: &[Iteration], seats: &Seats) -> Result<Image, String> {
    let iterations = plan.len();
    let mut segments = match &test.program {
        Program::X86(p) => {
            x86::guest::segments(test, p, iterations, seats).map_err(|e| e.to_string())?
        }
        Program::Arm64(p) => arm64::guest::segments(test, p, iterations, seats)?,
    };
    segments.push(segment(seats.ram + BARRIER, Vec::new(), 0x1000));
    segments.push(segment(seats.ram + RECORDS, records_of(plan), 0));
    if test.variables.iter().any(|v| v.initial != 0) {
        segments.extend(initial(test, plan));
    }
    segments.sort_by_key(|s| s.base.0);
    for (index, s) in segments.iter_mut().enumerate() {
        s.index = index;
    }
    Ok(Image {
        isa: test.program.isa(),
        entry: PhysAddr(seats.ram + CODE),
        segments,
        symbols: Symbols::default(),
        points: Vec::new(),
        origin: None,
    })
}

/// A segment of data.
pub(crate) fn segment(base: u64, bytes: Vec<u8>, size_min: u64) -> Segment {
    let size = size_min.max(bytes.len() as u64);
    Segment {
        index: 0,
        base: PhysAddr(base),
        bytes,
        size,
        virtual_base: base,
        is_executable: false,
        is_writable: true,
    }
}

/// A segment of code.
pub(crate) fn code_segment(base: u64, bytes: Vec<u8>) -> Segment {
    Segment { is_executable: true, is_writable: false, ..segment(base, bytes, 0) }
}

fn records_of(plan: &[Iteration]) -> Vec<u8> {
    let threads = plan.first().map_or(0, |i| i.threads.len());
    let mut bytes = Vec::with_capacity(threads * records_len(plan.len()));
    for thread in 0..threads {
        for iteration in plan {
            let t = iteration.threads[thread];
            let from = bytes.len();
            for word in iteration.addresses.into_iter().chain([t.offset, t.warm, t.gaps]) {
                bytes.extend(word.to_le_bytes());
            }
            bytes.resize(from + RECORD_BYTES as usize, 0);
        }
    }
    bytes
}

/// Variables that do not begin at 0, a segment each.
fn initial<'a>(test: &'a Test, plan: &'a [Iteration]) -> impl Iterator<Item = Segment> + 'a {
    plan.iter().flat_map(|iteration| {
        test.variables.iter().zip(iteration.addresses).filter(|(v, _)| v.initial != 0).map(
            |(v, at)| segment(at, v.initial.to_le_bytes()[..usize::from(v.size.0)].to_vec(), 0),
        )
    })
}
