//! `machine list`, `machine show`, `machine check`.

use emu_lab::{LabError, load_machine};

use crate::args::MachineCommand;
use crate::output::{Failure, Outcome, print};
use crate::table::table;

/// Runs the command.
pub(crate) fn run(command: &MachineCommand) -> Outcome {
    match command {
        MachineCommand::List => list(),
        MachineCommand::Show { machine, set } => {
            let machine = load_machine(machine, set)?;
            print(&machine.render(&emu_lab::implemented_features(machine.isa)))?;
            Ok(0)
        }
        MachineCommand::Check { machines } => check(machines),
    }
}

fn list() -> Outcome {
    let mut rows = Vec::new();
    for name in topology::list() {
        let row = match load_machine(name, &[]) {
            Ok(machine) => vec![name.to_owned(), machine.cpus.len().to_string(), machine.name],
            // Families such as smp-N have no size of their own.
            Err(_) => vec![name.to_owned(), "-".to_owned(), "generated".to_owned()],
        };
        rows.push(row);
    }
    print(&table(&["machine", "cpus", "description"], &rows, 3))?;
    Ok(0)
}

/// Loads the machines that a command names.
///
/// Errors: `Input` with every fault of the first that has some.
pub(crate) fn check_names(command: &MachineCommand) -> Result<(), LabError> {
    match command {
        MachineCommand::List => Ok(()),
        MachineCommand::Show { machine, set } => load_machine(machine, set).map(drop),
        MachineCommand::Check { machines } => {
            machines.iter().try_for_each(|name| load_machine(name, &[]).map(drop))
        }
    }
}

fn check(names: &[String]) -> Outcome {
    let mut faults = Vec::new();
    for name in names {
        match load_machine(name, &[]) {
            Ok(machine) => {
                let cpus = machine.cpus.len();
                print(&format!("{name}: no faults, {cpus} cpus\n"))?;
            }
            Err(error) => faults.push(error.to_string()),
        }
    }
    if faults.is_empty() { Ok(0) } else { Err(Failure::Lab(LabError::input(faults.join("\n")))) }
}
