//! Settings of one run: boot switches of the guest, overrides of the machine, and what varies.
//!
//! Boot switches are checked against the guest contract before anything boots: whether some guest
//! kernel has them when they are set, whether that of the machine has them when it is known. Of two
//! settings of one key the later one holds.

use guests_abi::switch::{self, Isa, SwitchError, check_switch};
use serde::Serialize;

use crate::LabError;

/// Splits `KEY=VALUE`.
///
/// Errors: `Input` when there is no `=` or no key.
pub fn split_pair(text: &str) -> Result<(&str, &str), LabError> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key, value)),
        _ => Err(LabError::input(format!("{text}: write it as KEY=VALUE"))),
    }
}

/// Boot switches, in the order in which they were first set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    pairs: Vec<(String, String)>,
}

impl Switches {
    /// Sets a switch.
    ///
    /// Errors: `Input` for a switch or value that no guest kernel knows.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), LabError> {
        let tried = [Isa::X86, Isa::Arm].map(|isa| check_switch(isa, key, value));
        if tried.iter().all(Result::is_err) {
            let mut errors = tried.into_iter().filter_map(Result::err);
            let error = errors.find(|error| !matches!(error, SwitchError::OtherIsa { .. }));
            return Err(LabError::input(error.map_or_else(String::new, |e| e.to_string())));
        }
        match self.pairs.iter_mut().find(|pair| pair.0 == key) {
            Some(pair) => value.clone_into(&mut pair.1),
            None => self.pairs.push((key.to_owned(), value.to_owned())),
        }
        Ok(())
    }

    /// Sets switches written as `KEY=VALUE`.
    ///
    /// Errors: as `set`.
    pub fn set_all(&mut self, texts: &[String]) -> Result<(), LabError> {
        texts.iter().try_for_each(|text| {
            let (key, value) = split_pair(text)?;
            self.set(key, value)
        })
    }

    /// Returns the value that was set, that of the preset, or the guest's default: that of x86-64
    /// where they differ.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.given(key)
            .or_else(|| guests_abi::preset::value(self.given("preset")?, key))
            .or_else(|| switch::SWITCHES.iter().find(|row| row.name == key).map(|row| row.default))
    }

    /// Returns the value that was set.
    #[must_use]
    pub fn given(&self, key: &str) -> Option<&str> {
        self.pairs.iter().find(|pair| pair.0 == key).map(|pair| pair.1.as_str())
    }

    /// Returns the command line for the guest kernel of an instruction set.
    ///
    /// Errors: `Input` for a switch or value that this kernel does not know.
    pub fn bootargs_on(&self, isa: topology::Isa) -> Result<String, LabError> {
        let isa = match isa {
            topology::Isa::X86_64 => Isa::X86,
            topology::Isa::Aarch64 => Isa::Arm,
        };
        for (key, value) in &self.pairs {
            check_switch(isa, key, value).map_err(|error| {
                LabError::input(error.to_string()).during(format!("a guest of {isa}"))
            })?;
        }
        Ok(self.bootargs())
    }

    /// Returns the command line.
    #[must_use]
    pub fn bootargs(&self) -> String {
        let words: Vec<String> =
            self.pairs.iter().map(|(key, value)| format!("{key}={value}")).collect();
        words.join(" ")
    }

    /// Returns the numbers of a CPU list switch, in its order and below `cpus`.
    #[must_use]
    pub fn cpu_list(&self, key: &str, cpus: usize) -> Vec<usize> {
        let mut list = Vec::new();
        if let Some(text) = self.get(key) {
            guests_abi::switch::parse_cpu_list(text, |range| {
                list.extend(range.filter(|&cpu| cpu < cpus));
            });
        }
        list
    }
}

/// What a dimension varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// A key of the machine file.
    Machine,
    /// A boot switch.
    Guest,
}

/// One `--vary`: a key and its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// Which side the key belongs to.
    pub side: Side,
    /// Key without `machine.`.
    pub key: String,
    /// Values in the order given.
    pub values: Vec<String>,
}

impl Dimension {
    /// Reads `machine.KEY=A,B` or `KEY=A,B`.
    ///
    /// Errors: `Input` for a malformed text, and for a switch or value that the guest does not
    /// know. Machine keys are checked when the machine is loaded.
    pub fn parse(text: &str) -> Result<Dimension, LabError> {
        let (key, values) = split_pair(text)?;
        let values: Vec<String> = values.split(',').map(str::to_owned).collect();
        let (side, key) = match key.strip_prefix("machine.") {
            Some(key) => (Side::Machine, key),
            None => (Side::Guest, key),
        };
        if side == Side::Guest {
            for value in &values {
                Switches::default().set(key, value)?;
            }
        }
        Ok(Dimension { side, key: key.to_owned(), values })
    }
}

/// One setting of a varied key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Key; machine keys begin with `machine.`.
    pub key: String,
    /// Value.
    pub value: String,
}

/// One point of the cross product.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// What was set, in the order of the dimensions.
    pub settings: Vec<Setting>,
}

impl Cell {
    /// Returns the machine overrides of this cell as `KEY=VALUE`.
    #[must_use]
    pub fn machine(&self) -> Vec<String> {
        let overrides = self.settings.iter().filter_map(|setting| {
            let key = setting.key.strip_prefix("machine.")?;
            Some(format!("{key}={}", setting.value))
        });
        overrides.collect()
    }

    /// Returns the boot switches of this cell.
    pub fn guest(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.settings.iter().map(|s| (s.key.as_str(), s.value.as_str()));
        pairs.filter(|(key, _)| !key.starts_with("machine."))
    }

    /// Returns the settings for people; empty when nothing varies.
    #[must_use]
    pub fn label(&self) -> String {
        let words: Vec<String> =
            self.settings.iter().map(|s| format!("{}={}", s.key, s.value)).collect();
        words.join(" ")
    }
}

/// Most cells of a cross product; each is a machine that boots.
const CELLS_MAX: usize = 1024;

/// Returns the cross product; the first dimension changes slowest.
///
/// Errors: `Input` for more than 1024 cells.
pub fn cells(dimensions: &[Dimension]) -> Result<Vec<Cell>, LabError> {
    let count = dimensions.iter().fold(1, |n: usize, d| n.saturating_mul(d.values.len()));
    if count > CELLS_MAX {
        let keys: Vec<&str> = dimensions.iter().map(|dimension| dimension.key.as_str()).collect();
        let keys = keys.join(", ");
        return Err(LabError::input(format!(
            "varying {keys} gives {count} combinations, at most {CELLS_MAX} are possible; \
             vary less at once"
        )));
    }
    let mut cells = vec![Cell::default()];
    for dimension in dimensions {
        let prefix = if dimension.side == Side::Machine { "machine." } else { "" };
        let with = |cell: &Cell, value: &String| {
            let mut cell = cell.clone();
            let key = format!("{prefix}{}", dimension.key);
            cell.settings.push(Setting { key, value: value.clone() });
            cell
        };
        let values = &dimension.values;
        let product = cells.iter().flat_map(|cell| values.iter().map(move |v| with(cell, v)));
        cells = product.collect();
    }
    Ok(cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cross_product_keeps_the_order_of_its_dimensions() {
        let dimensions = ["machine.idle.c1.exit.store=80ns,1us", "call_idle=revert,sm_idle"]
            .map(|text| Dimension::parse(text).expect("dimension"));
        let cells = cells(&dimensions).expect("few");
        let labels: Vec<String> = cells.iter().map(Cell::label).collect();
        assert_eq!(labels[1], "machine.idle.c1.exit.store=80ns call_idle=sm_idle");
        assert_eq!(labels.len(), 4);
        assert_eq!(cells[2].machine(), ["idle.c1.exit.store=1us"]);
        assert_eq!(cells[2].guest().collect::<Vec<_>>(), [("call_idle", "revert")]);
    }

    #[test]
    fn unknown_switches_are_refused_with_near_names() {
        let error = Dimension::parse("call_idl=revert").expect_err("unknown").to_string();
        assert_eq!(error, "unknown switch call_idl; did you mean call_idle");
        let mut switches = Switches::default();
        switches.set("numipi", "5").expect("legal");
        switches.set("numipi", "6").expect("legal");
        assert_eq!(switches.bootargs(), "numipi=6");
        assert_eq!(switches.get("offset"), Some("8"));
        assert!(switches.set_all(&["numipi".to_owned()]).is_err());
    }
}
