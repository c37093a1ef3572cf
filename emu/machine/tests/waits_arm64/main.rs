//! Waits of arm64 and what ends them, as tables: `tests/wait/arm64/*.seq` on whole machines.

#[path = "../common/sweep.rs"]
mod sweep;
#[path = "../common/table.rs"]
mod table;
#[path = "../common/words.rs"]
mod words;

mod code;
mod world;

use sweep::{Places, run_folder};
use table::Table;
use world::{Rig, Role};

/// The table's roles on each of its machines.
fn boot(table: &Table) -> Result<Places<'_>, String> {
    let mut names: Vec<char> = table.steps.iter().map(|step| step.0).collect();
    names.sort_unstable();
    names.dedup();
    let role = |(n, &name): (usize, &char)| Role {
        name,
        cpu: table.on.iter().find(|on| on.0 == name.to_string()).map_or(n, |on| on.1 as usize),
        steps: table
            .steps
            .iter()
            .filter(|s| s.0 == name)
            .map(|s| (s.1.clone(), s.2.clone()))
            .collect(),
    };
    let roles: Vec<Role> = names.iter().enumerate().map(role).collect();
    let letters: Vec<String> = names.iter().map(char::to_string).collect();
    let delayed = table.delays.iter().map(|delay| delay.0.as_str());
    let points = letters.iter().map(String::as_str).chain(delayed);
    let points: Vec<&str> = points.chain([table.sweep.0.as_str(), "end"]).collect();
    let mut places: Places<'_> = Vec::new();
    for machine in &table.at {
        let topology = topology::Machine::load(machine, &table.set).map_err(|e| e.to_string())?;
        let rig = Rig::new(&topology, &roles, &points)?;
        let outcome_at = move |at| {
            let delays = table.delays.iter().map(|delay| (delay.0.as_str(), delay.1));
            let delays: Vec<_> = delays.chain([(table.sweep.0.as_str(), at)]).collect();
            rig.run(&delays, table.shows_exits)
        };
        places.push((machine.clone(), Box::new(outcome_at)));
    }
    Ok(places)
}

#[test]
fn races_of_arm64_end_as_written_at_every_cycle() {
    run_folder("tests/wait/arm64", boot);
}
