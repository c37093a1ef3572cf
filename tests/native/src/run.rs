//! A run: cases of all forms in turn, on both, compared.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;

use iced_x86::Code;

use crate::case::{Case, End, Outcome};
use crate::compare;
use crate::emulate::{self, Emulator};
use crate::forms;
use crate::generate::{self, Generated};
use crate::host::{Native, Processor};
use crate::rng::Rng;
use crate::row;
use crate::shrink::shrink;
use crate::undefined::{Table, Undefined};

/// Cases that the child gets at once.
const BATCH: usize = 256;
/// Most failures of one mnemonic that are shown.
const SHOWN_PER_MNEMONIC: u64 = 2;
/// Tries to make an instance of a form, for one case.
const TRIES: u64 = 8;

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Number of cases.
    pub cases: u64,
    /// Seed of them.
    pub seed: u64,
    /// Forms, in turn.
    pub codes: Vec<Code>,
}

/// What came out.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Cases that ran.
    pub cases: u64,
    /// Of these, how many ended in an exception, by vector.
    pub faults: BTreeMap<u8, u64>,
    /// Cases by form.
    pub by_form: BTreeMap<String, u64>,
    /// Forms that did not run, by the feature that the host lacks.
    pub skipped: BTreeMap<String, Vec<String>>,
    /// Differences by mnemonic.
    pub failures: BTreeMap<String, u64>,
    /// Cases that differ in undefined flags alone, by mnemonic.
    pub undefined: BTreeMap<String, u64>,
    /// Texts of the failures that are shown.
    pub shown: Vec<String>,
}

impl Report {
    /// The report in a few lines, and the failures in full.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        let failed: u64 = self.failures.values().sum();
        let (cases, forms) = (self.cases, self.by_form.len());
        let _ = writeln!(text, "{cases} cases of {forms} forms, {failed} differ");
        let _ = writeln!(text, "exceptions by vector: {:?}", self.faults);
        let _ = writeln!(text, "undefined flags differ: {:?}", self.undefined);
        for (feature, forms) in &self.skipped {
            let _ = writeln!(text, "skipped: needs {feature}: {} forms", forms.len());
        }
        for failure in &self.shown {
            let _ = writeln!(text, "{failure}");
        }
        if failed > 0 {
            let _ = writeln!(text, "differences by mnemonic: {:?}", self.failures);
            let how = "to keep a row, add it to tests/isa/x86/native.ins and fix emu_x86 \
                       until `cargo test -p emu_x86 rows_hold` passes";
            let _ = writeln!(text, "{how}");
        }
        text
    }
}

/// A host and an emulator that run the same cases.
#[derive(Debug)]
pub struct Pair {
    native: Native,
    emulator: Emulator,
    table: Table,
    processor: Processor,
}

/// What a case is called where it matters.
#[derive(Clone, Debug)]
struct Queued {
    generated: Generated,
    number: u64,
}

impl Pair {
    /// Pairs a started child with an emulator of the same kind of processor.
    ///
    /// # Errors
    /// When the table of undefined flags cannot be read.
    pub fn new(native: Native, processor: Processor) -> io::Result<Self> {
        let emulator = Emulator::new(processor.vendor, processor.has_la57());
        let table = Table::read().map_err(io::Error::other)?;
        Ok(Pair { native, emulator, table, processor })
    }

    /// Runs a plan.
    ///
    /// # Errors
    /// When the child cannot be started again.
    pub fn run(&mut self, plan: &Plan) -> io::Result<Report> {
        let mut report = Report::default();
        let codes = self.offered(plan, &mut report);
        let mut queue = Vec::new();
        for number in 0..plan.cases {
            let Some(code) = codes.get((number % codes.len().max(1) as u64) as usize) else {
                break;
            };
            let mut rng = Rng::new(plan.seed, number);
            let tries = (0..TRIES).find_map(|_| generate::case(*code, &mut rng));
            let runs = |generated: &Generated| {
                let instruction = &generated.instruction;
                forms::missing_feature(instruction, &self.processor.flags).is_none()
            };
            let Some(generated) = tries.filter(runs) else { continue };
            queue.push(Queued { generated, number });
            if queue.len() == BATCH {
                self.flush(&mut queue, &mut report)?;
            }
        }
        self.flush(&mut queue, &mut report)?;
        Ok(report)
    }

    /// The forms that the host has.
    fn offered(&self, plan: &Plan, report: &mut Report) -> Vec<Code> {
        let mut codes = Vec::new();
        for code in &plan.codes {
            let mut rng = Rng::new(plan.seed, u64::MAX);
            let instance = (0..64).find_map(|_| generate::instance(*code, &mut rng));
            let Some((instruction, _)) = instance else { continue };
            match forms::missing_feature(&instruction, &self.processor.flags) {
                None => codes.push(*code),
                Some(feature) => {
                    report.skipped.entry(feature).or_default().push(format!("{code:?}"));
                }
            }
        }
        codes
    }

    fn flush(&mut self, queue: &mut Vec<Queued>, report: &mut Report) -> io::Result<()> {
        let cases: Vec<Case> = queue.iter().map(|queued| queued.generated.case.clone()).collect();
        let outcomes = self.native.run(&cases)?;
        for (queued, host) in queue.drain(..).zip(outcomes) {
            self.judge(&queued, &host, report)?;
        }
        Ok(())
    }

    fn undefined(&self, case: &Case) -> Undefined {
        self.table.of(case, &generate::decode(&case.code), &emulate::decode(&case.code))
    }

    fn judge(&mut self, queued: &Queued, host: &Outcome, report: &mut Report) -> io::Result<()> {
        let Generated { case, instruction, op } = &queued.generated;
        let emulated = self.emulator.run(case);
        let mnemonic = format!("{:?}", instruction.mnemonic());
        report.cases += 1;
        *report.by_form.entry(format!("{:?}", instruction.code())).or_default() += 1;
        if let End::Fault(vector, ..) = host.end {
            *report.faults.entry(vector).or_default() += 1;
        }
        let undefined = self.undefined(case);
        let text = compare::differences(case, op, undefined, host, &emulated);
        if (host.rflags ^ emulated.rflags) & undefined.flags != 0 {
            *report.undefined.entry(mnemonic.clone()).or_default() += 1;
        }
        if text.is_empty() {
            return Ok(());
        }
        let count = report.failures.entry(mnemonic).or_default();
        *count += 1;
        if *count <= SHOWN_PER_MNEMONIC {
            let shown = self.explain(queued, &text)?;
            report.shown.push(shown);
        }
        Ok(())
    }

    /// A failure with its smallest case.
    fn explain(&mut self, queued: &Queued, text: &str) -> io::Result<String> {
        let case = &queued.generated.case;
        let mut failed = None;
        let Generated { instruction, op, .. } = &queued.generated;
        let small = shrink(case, |case| match self.differs(case) {
            _ if generate::splits_lock(case, instruction, op) => false,
            Ok(text) => !text.is_empty(),
            Err(error) => {
                failed = Some(error);
                false
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
        let host = self.native.run(std::slice::from_ref(&small))?.remove(0);
        let small_text = self.differs(&small)?;
        let code = queued.generated.instruction.code();
        let number = queued.number;
        Ok(format!(
            "case {number}, {code:?}, host/emulated:{text}\n  shrunk:{small_text}\n  {}",
            row::row(&small, &host)
        ))
    }

    /// Differences of one case, run now; empty when both agree.
    ///
    /// # Errors
    /// When the child cannot be started again.
    pub fn differs(&mut self, case: &Case) -> io::Result<String> {
        let host = self.native.run(std::slice::from_ref(case))?.remove(0);
        let emulated = self.emulator.run(case);
        let op = emulate::decode(&case.code);
        Ok(compare::differences(case, &op, self.undefined(case), &host, &emulated))
    }
}
