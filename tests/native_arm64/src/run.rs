//! Runs groups on both sides, and reports.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::io;
use std::path::Path;

use emu_arm64::decode::decode;

use crate::case::{Case, Outcome};
use crate::group::{Group, Rng};
use crate::left_out;
use crate::oracle;
use crate::world::World;

/// Records sent at once.
const BATCH: usize = 4096;
/// Failures of a group that are printed.
const FAILURES_MAX: usize = 12;
/// One record in so many runs again with waits.
const FLAKY_EVERY: u64 = 4;

/// What became of the records of one group.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Both sides ran it and agree.
    pub agreed: u64,
    /// Undefined on both sides.
    pub undefined: u64,
    /// qemu faults; not compared.
    pub faults: u64,
    /// qemu ran what the model leaves out, by reason.
    pub left_out: BTreeMap<&'static str, u64>,
    /// Forms that agreed.
    pub forms: BTreeSet<String>,
    /// Disagreements.
    pub failures: u64,
    /// Some of them, as text.
    pub texts: Vec<String>,
}

impl Tally {
    fn fail(&mut self, text: String) {
        self.failures += 1;
        if self.texts.len() < FAILURES_MAX {
            self.texts.push(text);
        }
    }
}

/// Runs `count` records of a group.
///
/// # Errors
/// Of the other side.
pub fn run(program: &Path, group: &Group, count: usize, seed: u64) -> io::Result<Tally> {
    let mut rng = Rng::new(seed);
    let mut world = World::default();
    let mut tally = Tally::default();
    let mut left = count;
    while left > 0 {
        let batch = left.min(BATCH);
        left -= batch;
        let cases: Vec<Case> =
            std::iter::repeat_with(|| group.case(&mut rng)).flatten().take(batch).collect();
        for (case, wanted) in cases.iter().zip(oracle::run(program, &cases)?) {
            compare(&mut tally, &mut world, case, &wanted, rng.number());
        }
    }
    Ok(tally)
}

fn compare(tally: &mut Tally, world: &mut World, case: &Case, wanted: &Case, random: u64) {
    if wanted.outcome == Outcome::Faults {
        tally.faults += 1;
        return;
    }
    let seed = random.is_multiple_of(FLAKY_EVERY).then_some(random);
    let found = world.run(case, seed);
    if found.outcome == Outcome::Undefined {
        if wanted.outcome == Outcome::Undefined {
            tally.undefined += 1;
        } else if let Some(reason) = left_out::reason(case.words[0]) {
            *tally.left_out.entry(reason).or_default() += 1;
        } else {
            tally.fail(format!("{:08x}: qemu executes it", case.words[0]));
        }
        return;
    }
    let text = found.differences(wanted);
    let op = decode(case.words[0]);
    if text.is_empty() {
        tally.agreed += 1;
        tally.forms.insert(op.form());
        return;
    }
    let mut line = format!("{:08x} {}: {text}", case.words[0], op.form());
    for n in [case.words[0] & 31, case.words[0] >> 5 & 31, case.words[0] >> 16 & 31] {
        let n = n as usize;
        let x = case.x.get(n).copied().unwrap_or(case.sp);
        let _ = write!(line, "\n      x{n}={x:x} v{n}={:x}", case.v[n]);
    }
    tally.fail(line);
}
