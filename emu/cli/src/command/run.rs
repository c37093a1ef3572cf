//! `run`: an image on a machine, with traces, ledger and counters.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use emu_lab::run::{self, Request};
use emu_lab::{Ending, LabError, Rig, ipistorm, kernel, load_machine};
use emu_machine::load::MAX_IMAGE_BYTES;
use emu_machine::{Machine, Options};
use emu_observe::{ChromeTrace, Ledger, PointTable, TextTrace, Wanted};
use emu_sim::SimTime;

use crate::args::{EntryLevel, ExitCodeOf, Format, RunArgs};
use crate::command::bench::ledger_table;
use crate::meaning;
use crate::output::{Failure, Outcome, print, print_json, print_line_to_stderr};
use crate::progress::Bar;
use crate::table::table;
use crate::terminal::Console;

/// Simulated time after which a run ends that no limit is given for.
const LIMIT: SimTime = SimTime::from_us(10_000_000);

/// What is read before a run.
#[derive(Debug, Default)]
pub(crate) struct Files {
    /// The image; none for the guest kernel, which is that of the machine.
    image: Option<Vec<u8>>,
    initrd: Option<Vec<u8>>,
    symbols: Option<Vec<u8>>,
    input: Option<Vec<u8>>,
}

/// Runs the command.
pub(crate) fn run(args: &RunArgs) -> Outcome {
    let mut files = Files::read(args)?;
    let input = files.input.take();
    let mut request = request(args, &files)?;
    let mut rig: Machine =
        run::build(&request).map_err(|error| error.during(args.image.display().to_string()))?;
    let traces = Traces::open(args, rig.points())?;
    let mut observers = (args.ledger.then(Ledger::new), traces);
    let mut console = Console::new(args.format == Format::Text, input);
    if console.is_interactive() && args.limit.is_none() {
        request.limit = SimTime::NEVER;
    }
    let ending = run::run(&mut rig, request.limit, &mut observers, &Bar::new(), &mut console);
    let is_new_line = console.finish()?;
    let (ledger, traces) = observers;
    traces.finish()?;
    let mut ledger = ledger.unwrap_or_default();
    ledger.finish();
    let lines = ipistorm::ledger_lines(&ledger.summary());
    let report = run::report(&rig, &request, &ending, lines)?;
    match args.format {
        Format::Text => {
            print_text(args, &report, &ending, is_new_line)?;
        }
        Format::Json => print_json(&report)?,
        Format::Csv => print(&run::csv(&report))?,
    }
    if !report.breaches.is_empty() {
        return Err(Failure::Lab(LabError::Laws(emu_lab::check_machine(&rig))));
    }
    Ok(exit_code(args, &ending))
}

fn exit_code(args: &RunArgs, ending: &Ending) -> u8 {
    match (args.exit_code, ending.guest_code()) {
        (ExitCodeOf::Guest, Some(code)) => code.to_le_bytes()[0],
        _ => ending.exit_code(),
    }
}

impl Files {
    fn read(args: &RunArgs) -> Result<Files, LabError> {
        let is_kernel = args.image == Path::new("kern") && !args.image.exists();
        let optional = |path: &Option<PathBuf>| path.as_deref().map(file).transpose();
        Ok(Files {
            image: if is_kernel { None } else { Some(file(&args.image)?) },
            initrd: optional(&args.initrd)?,
            symbols: optional(&args.symbols)?,
            input: optional(&args.input)?,
        })
    }
}

fn file(path: &Path) -> Result<Vec<u8>, LabError> {
    let read = || {
        let mut bytes = Vec::new();
        // A byte more than an image may have, which is refused then: a device may have no end.
        File::open(path)?.take(MAX_IMAGE_BYTES + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().map_err(|error: io::Error| LabError::input(format!("{}: {error}", path.display())))
}

/// What the command asks for, but for the image's being one.
///
/// Errors: `Input` for what cannot be meant.
pub(crate) fn request<'a>(args: &RunArgs, files: &'a Files) -> Result<Request<'a>, LabError> {
    let machine = load_machine(&args.machine, &args.on.set)?;
    emu_lab::cpu_count(&machine, args.on.cpus)?;
    let switches = meaning::switches(&[], &args.guest)?;
    let bootargs = [vec![switches.bootargs_on(machine.isa)?], args.append.clone()].concat();
    let options = Options {
        cpus: args.on.cpus,
        seed: args.seed,
        max_output: meaning::size("--max-output", &args.max_output)?,
        entry_level: match args.entry_level {
            EntryLevel::El1 => 1,
            EntryLevel::El2 => 2,
        },
        ..Options::default()
    };
    let image = files.image.as_deref().unwrap_or(kernel(machine.isa));
    let load_at = args.load_at.as_deref().map(|text| meaning::address("--load-at", text));
    Ok(Request {
        machine,
        overrides: args.on.set.clone(),
        options,
        bootargs: bootargs.join(" ").trim().to_owned(),
        rules: args.point_rule.iter().map(|r| meaning::point_rule(r)).collect::<Result<_, _>>()?,
        limit: args.limit.as_ref().map_or(Ok(LIMIT), |text| meaning::time("--limit", text))?,
        image,
        load_at: load_at.transpose()?,
        initrd: files.initrd.as_deref(),
        symbols: files.symbols.as_deref(),
    })
}

fn print_text(
    args: &RunArgs,
    report: &run::Report,
    ending: &Ending,
    is_new_line: bool,
) -> std::io::Result<()> {
    if !is_new_line {
        print("\n")?;
    }
    if ending.exit_code() == 0 {
        print(&format!("{ending}\n"))?;
    } else {
        print_line_to_stderr(&format!("crosscall: {ending}"));
    }
    if args.counters {
        let rows: Vec<Vec<String>> = report
            .counters
            .iter()
            .map(|(name, value)| vec![name.clone(), value.to_string()])
            .collect();
        print(&table(&["counter", "sum over cpus"], &rows, 1))?;
    }
    if args.ledger {
        print(&ledger_table(&report.ledger))?;
    }
    Ok(())
}

type Out = BufWriter<File>;

/// The trace that was asked for, in its form.
enum Traces {
    None,
    Text(TextTrace<Out>),
    Chrome(ChromeTrace<Out>),
}

impl Traces {
    fn open(args: &RunArgs, points: PointTable) -> Result<Traces, LabError> {
        let Some(path) = &args.trace else { return Ok(Traces::None) };
        let wanted = Wanted { wakes: true, lines: args.trace_lines, steps: args.trace_steps };
        let file = File::create(path)
            .map_err(|error| LabError::input(format!("--trace {}: {error}", path.display())))?;
        let out = BufWriter::new(file);
        let is_json = path.extension().is_some_and(|extension| extension == "json");
        Ok(if is_json {
            Traces::Chrome(ChromeTrace::new(out, points, wanted))
        } else {
            Traces::Text(TextTrace::new(out, points, wanted))
        })
    }

    fn finish(self) -> std::io::Result<()> {
        let out = match self {
            Traces::None => return Ok(()),
            Traces::Text(trace) => trace.finish()?,
            Traces::Chrome(trace) => trace.finish()?,
        };
        out.into_inner().map_err(std::io::IntoInnerError::into_error)?.flush()
    }
}

impl emu_observe::Observer for Traces {
    fn wanted(&self) -> Wanted {
        match self {
            Traces::None => Wanted::default(),
            Traces::Text(trace) => trace.wanted(),
            Traces::Chrome(trace) => trace.wanted(),
        }
    }

    fn record(&mut self, record: &emu_observe::Record) {
        match self {
            Traces::None => {}
            Traces::Text(trace) => trace.record(record),
            Traces::Chrome(trace) => trace.record(record),
        }
    }
}
