//! Machines by name, with overrides, and small arithmetic on them.

use topology::Machine;

use crate::ending::LabError;

/// Loads a machine by name or path, with overrides written as `KEY=VALUE`.
///
/// Errors: `Input` with every fault of the file.
pub fn load(name: &str, overrides: &[String]) -> Result<Machine, LabError> {
    Machine::load(name, overrides).map_err(|report| LabError::input(report.to_string()))
}

/// Returns how many cpus exist when `asked` are asked for.
///
/// Errors: `Input` for none or more than the file has.
pub fn cpu_count(machine: &Machine, asked: Option<u32>) -> Result<usize, LabError> {
    let all = machine.cpus.len();
    match asked {
        None => Ok(all),
        Some(n) if (1..=all).contains(&(n as usize)) => Ok(n as usize),
        Some(n) => Err(LabError::input(format!(
            "--cpus {n}: {} has {all} cpus; smp-{n} is a generated machine of any size up to 1024",
            machine.id
        ))),
    }
}

/// Converts ticks of the TSC to picoseconds, rounded down.
#[must_use]
pub(crate) fn ticks_to_ps(ticks: u64, tsc_khz: u64) -> u64 {
    let ps = u128::from(ticks) * 1_000_000_000 / u128::from(tsc_khz.max(1));
    u64::try_from(ps).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    #[test]
    fn ticks_of_the_base_clock_are_exact() {
        assert_eq!(super::ticks_to_ps(2_450_000, 2_450_000), 1_000_000_000);
        assert_eq!(super::ticks_to_ps(1, 2_450_000), 408);
    }
}
