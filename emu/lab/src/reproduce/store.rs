//! Measurements that are finished, in memory and in a file of one JSON document a line.
//!
//! A line is written and flushed to the disk before the measurement counts as done. A last line
//! that was cut short is measured again.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::ending::LabError;
use crate::workload::Report;

/// What is kept of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Kept {
    key: String,
    /// Why it failed, if it did.
    pub(super) error: Option<String>,
    /// Figures by name, one value a seed, the first one first.
    pub(super) figures: Vec<(String, Vec<f64>)>,
    /// Counters, mean of a run.
    pub(super) counters: BTreeMap<String, f64>,
    /// Time waited for lines of a class, in us, mean of a run.
    pub(super) waited_us: BTreeMap<String, f64>,
}

impl Kept {
    fn of(key: String, result: Result<Report, LabError>) -> Kept {
        let blank = Kept {
            key,
            error: None,
            figures: Vec::new(),
            counters: BTreeMap::new(),
            waited_us: BTreeMap::new(),
        };
        let row = match result {
            Ok(report) => report.rows.into_iter().next(),
            Err(error) => return Kept { error: Some(whole(&error)), ..blank },
        };
        let Some(row) = row else { return blank };
        let figures = row.figures.into_iter().map(|f| (f.name.to_owned(), f.stats.values));
        Kept {
            figures: figures.collect(),
            counters: row.counters,
            waited_us: row.lines.iter().map(|l| (l.class.to_owned(), l.waited_us)).collect(),
            ..blank
        }
    }

    /// Values of a figure, or of a counter that has no figure of its name; the first figure when
    /// no name is given.
    pub(super) fn values(&self, name: Option<&str>) -> Option<Vec<f64>> {
        let Some(name) = name else { return self.figures.first().map(|f| f.1.clone()) };
        let figure = self.figures.iter().find(|figure| figure.0 == name);
        let counter = || self.counters.get(name).map(|&value| vec![value]);
        figure.map(|figure| figure.1.clone()).or_else(counter)
    }
}

/// An error with its causes, on one line.
fn whole(error: &LabError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text.replace('\n', " ")
}

/// All that was measured.
pub(super) struct Store {
    kept: Mutex<BTreeMap<String, Kept>>,
    file: Option<Mutex<File>>,
}

impl Store {
    /// Reads a file of earlier results, or begins one; none keeps results in memory only.
    ///
    /// Errors: `Input` for a file that cannot be read or written, or that is something else.
    pub(super) fn open(path: Option<&Path>) -> Result<Store, LabError> {
        let Some(path) = path else {
            return Ok(Store { kept: Mutex::default(), file: None });
        };
        let wrong = |error: String| LabError::input(format!("{}: {error}", path.display()));
        let text = if path.exists() {
            std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?
        } else {
            String::new()
        };
        let mut kept = BTreeMap::new();
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        for (n, line) in text[..whole].lines().enumerate() {
            let line: Kept = serde_json::from_str(line)
                .map_err(|error| wrong(format!("line {}: {error}; remove the line", n + 1)))?;
            // A failure is tried again.
            if line.error.is_none() {
                kept.insert(line.key.clone(), line);
            }
        }
        let file = OpenOptions::new().create(true).append(true).open(path);
        let mut file = file.map_err(|error| wrong(error.to_string()))?;
        if whole != text.len() {
            let end = file.set_len(whole as u64);
            end.map_err(|error| wrong(error.to_string()))?;
        }
        file.flush().map_err(|error| wrong(error.to_string()))?;
        Ok(Store { kept: Mutex::new(kept), file: Some(Mutex::new(file)) })
    }

    /// Finds a measurement.
    pub(super) fn find(&self, key: &str) -> Option<Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// Keeps a measurement; returns the guest instructions that it took.
    pub(super) fn keep(&self, key: String, result: Result<Report, LabError>) -> u64 {
        let mut kept = Kept::of(key, result);
        if let Some(file) = &self.file {
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            let line = serde_json::to_string(&kept).unwrap_or_default() + "\n";
            let written = file.write_all(line.as_bytes()).and_then(|()| file.sync_data());
            if let Err(error) = written {
                kept.error = Some(format!("the result could not be kept: {error}"));
            }
        }
        let executed = kept.counters.get("instructions").copied().unwrap_or(0.0);
        let mut all = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(kept.key.clone(), kept);
        executed as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_is_found_again_and_a_cut_line_is_measured_again() {
        let path = std::env::temp_dir().join(format!("crosscall-store-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let store = Store::open(Some(&path)).expect("a new file");
        store.keep("done".to_owned(), Err(LabError::input("of no use")));
        let mut kept = Kept::of("good".to_owned(), Err(LabError::input("")));
        kept.error = None;
        kept.figures = vec![("time".to_owned(), vec![1.5, 2.5])];
        let line = serde_json::to_string(&kept).expect("a line") + "\n";
        let mut text = std::fs::read_to_string(&path).expect("written");
        assert_eq!(text.lines().count(), 1);
        text.push_str(&line);
        text.push_str(&line[..line.len() / 2]);
        std::fs::write(&path, &text).expect("written");
        let store = Store::open(Some(&path)).expect("the cut line is dropped");
        assert_eq!(store.find("good").and_then(|kept| kept.values(None)), Some(vec![1.5, 2.5]));
        assert!(store.find("done").is_none(), "a failure is tried again");
        assert_eq!(std::fs::read_to_string(&path).expect("there").lines().count(), 2);
        std::fs::write(&path, "not ours\n").expect("written");
        let error = Store::open(Some(&path)).err().map(|error| error.to_string());
        assert!(error.is_some_and(|error| error.contains("line 1: ")), "says where");
        std::fs::remove_file(&path).expect("removed");
    }
}
