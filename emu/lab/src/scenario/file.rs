//! Scenario files: their shape, and the cases they stand for.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use emu_sim::SimTime;
use serde::Deserialize;

use super::expect::{Bound, Expression};
use crate::LabError;
use crate::settings::{Dimension, Side, Switches, cells};

/// Largest scenario file.
const FILE_BYTES_MAX: u64 = 4 << 20;

const SCHEMA: &str = "crosscall.scenario/1";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    schema: String,
    #[serde(default)]
    sets: BTreeMap<String, BTreeMap<String, CellText>>,
    #[serde(default)]
    scenario: Vec<ScenarioText>,
}

/// A machine of a set, with the switches of the cell.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct CellText {
    #[serde(default)]
    cpus: Option<u32>,
    #[serde(default)]
    guest: BTreeMap<String, Word>,
    /// Replaces what the scenario varies of these keys.
    #[serde(default)]
    vary: BTreeMap<String, Vec<Word>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScenarioText {
    id: String,
    claim: String,
    on: String,
    #[serde(default)]
    guest: BTreeMap<String, Word>,
    #[serde(default)]
    vary: BTreeMap<String, Vec<Word>>,
    #[serde(default)]
    rules: Vec<RuleText>,
    #[serde(default)]
    rules_at: RulesAt,
    #[serde(default)]
    expect: Vec<ExpectText>,
    #[serde(default)]
    exit: u64,
    #[serde(default)]
    seed: Option<u64>,
}

/// A value of a switch, or a side of an expectation: text or number.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
enum Word {
    Number(u64),
    Text(String),
}

impl Word {
    fn text(&self) -> String {
        match self {
            Word::Number(number) => number.to_string(),
            Word::Text(text) => text.clone(),
        }
    }
}

/// When the rules of a scenario begin to hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RulesAt {
    /// From the begin of the region on.
    #[default]
    Region,
    /// From reset on, for what the guest does before its region.
    Boot,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleText {
    cpu: Word,
    point: String,
    #[serde(default)]
    hold: Option<HoldText>,
    #[serde(default)]
    delay: Option<String>,
    #[serde(default)]
    delay_up_to: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HoldText {
    #[serde(default)]
    cpu: Option<Word>,
    point: String,
    times: Word,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectText {
    #[serde(default)]
    when: BTreeMap<String, Word>,
    #[serde(default)]
    sum: BTreeMap<String, Word>,
    #[serde(default)]
    callers: BTreeMap<String, Word>,
    #[serde(default)]
    targets: BTreeMap<String, Word>,
    /// By cpu list, or by the switch that holds one.
    #[serde(default)]
    at: BTreeMap<String, BTreeMap<String, Word>>,
}

/// Which cpus an expectation sums over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    All,
    /// Those of a list, with the name that reports give it.
    Cpus {
        name: String,
        list: String,
    },
}

impl Scope {
    pub(super) fn name(&self) -> &str {
        match self {
            Scope::All => "sum",
            Scope::Cpus { name, .. } => name,
        }
    }
}

/// One comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expectation {
    pub(super) scope: Scope,
    pub(super) left: Expression,
    pub(super) bound: Bound,
}

/// Which cpu a rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Who {
    Any,
    FirstCaller,
    FirstTarget,
    Cpu(u32),
}

/// What a rule does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Hold { who: Who, point: String, times: Expression },
    Delay(SimTime),
    DelayUpTo(SimTime),
}

/// A rule whose cpus are not numbers yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) who: Who,
    pub(super) point: String,
    pub(super) act: Act,
}

/// One scenario on one machine with one command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// File it comes from, without its folder.
    pub file: String,
    /// Id of the scenario.
    pub id: String,
    /// What it claims.
    pub claim: String,
    /// Machine.
    pub machine: String,
    /// Number of cpus; all when `None`.
    pub cpus: Option<u32>,
    /// Boot switches.
    pub switches: Switches,
    /// Exit code that the guest must write.
    pub exit: u64,
    /// Seed.
    pub seed: u64,
    /// When the rules begin to hold.
    pub rules_at: RulesAt,
    pub(super) rules: Vec<Rule>,
    pub(super) expect: Vec<Expectation>,
}

impl Case {
    /// Returns id, machine and command line in one line.
    #[must_use]
    pub fn label(&self) -> String {
        format!("{} on {}: {}", self.id, self.machine, self.switches.bootargs())
    }
}

/// Reads every scenario file of a folder, in order of name.
///
/// Errors: `Input` when the folder or a file cannot be read, or has no scenario.
pub fn load_dir(dir: &Path, guest: &[String]) -> Result<Vec<Case>, LabError> {
    let unreadable = |error: std::io::Error| LabError::input(format!("{}: {error}", dir.display()));
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            paths.push(path);
        }
    }
    paths.sort();
    if paths.is_empty() {
        let text = format!("{}: no scenario files (*.toml) in this folder", dir.display());
        return Err(LabError::input(text));
    }
    let mut cases = Vec::new();
    for path in paths {
        let text = read_file(&path)
            .map_err(|error| LabError::input(format!("{}: {error}", path.display())))?;
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let file = load_file(&name.unwrap_or_default(), &text, guest);
        cases.extend(file.map_err(|error| error.during(path.display().to_string()))?);
    }
    Ok(cases)
}

/// Reads a file up to a byte more than it may have: a device may have no end.
fn read_file(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let len = std::fs::File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if len as u64 > FILE_BYTES_MAX {
        return Err(std::io::Error::other("the file has more than 4 MiB"));
    }
    Ok(text)
}

/// Reads a scenario file; `guest` are switches that override those of the file.
///
/// Errors: `Input` with the place in the file for a malformed text, unknown switches or names.
pub fn load_file(name: &str, text: &str, guest: &[String]) -> Result<Vec<Case>, LabError> {
    let file: File =
        toml::from_str(text).map_err(|error| LabError::input(error.to_string().trim_end()))?;
    if file.schema != SCHEMA {
        let text = format!("schema is {:?}, this version reads {SCHEMA:?}", file.schema);
        return Err(LabError::input(text));
    }
    let mut cases = Vec::new();
    for scenario in &file.scenario {
        let set = file.sets.get(&scenario.on).ok_or_else(|| {
            let names: Vec<&str> = file.sets.keys().map(String::as_str).collect();
            let text = format!("{}: on = {:?}", scenario.id, scenario.on);
            LabError::input(format!("{text}: the file has the sets {}", names.join(", ")))
        })?;
        for (machine, cell) in set {
            let case = scenario.cases(name, machine, cell, guest);
            cases.extend(case.map_err(|error| error.during(scenario.id.clone()))?);
        }
    }
    Ok(cases)
}

impl ScenarioText {
    /// Multiplies the scenario out on one machine.
    fn cases(
        &self,
        file: &str,
        machine: &str,
        cell: &CellText,
        guest: &[String],
    ) -> Result<Vec<Case>, LabError> {
        let dimension = |(key, values): (&String, &Vec<Word>)| Dimension {
            side: Side::Guest,
            key: key.clone(),
            values: values.iter().map(Word::text).collect(),
        };
        let vary: BTreeMap<&String, &Vec<Word>> = self.vary.iter().chain(&cell.vary).collect();
        let dimensions: Vec<Dimension> = vary.into_iter().map(dimension).collect();
        let case = |varied: crate::settings::Cell| {
            let mut switches = Switches::default();
            if !self.guest.contains_key("bench") {
                switches.set("bench", "scenario")?;
            }
            for (key, value) in self.guest.iter().chain(&cell.guest) {
                switches.set(key, &value.text())?;
            }
            for (key, value) in varied.guest() {
                switches.set(key, value)?;
            }
            switches.set_all(guest)?;
            Ok(Case {
                file: file.to_owned(),
                id: self.id.clone(),
                claim: self.claim.clone(),
                machine: machine.to_owned(),
                cpus: cell.cpus,
                expect: self.expectations(&switches)?,
                switches,
                exit: self.exit,
                seed: self.seed.unwrap_or(1),
                rules_at: self.rules_at,
                rules: self.rules.iter().map(RuleText::rule).collect::<Result<_, _>>()?,
            })
        };
        cells(&dimensions)?.into_iter().map(case).collect()
    }

    /// Collects the comparisons whose condition holds for these switches.
    fn expectations(&self, switches: &Switches) -> Result<Vec<Expectation>, LabError> {
        let mut all = Vec::new();
        for expect in &self.expect {
            let holds = |(key, value): (&String, &Word)| {
                let wanted = value.text();
                switches.get(key).is_some_and(|have| wanted.split('|').any(|word| word == have))
            };
            if !expect.when.iter().all(holds) {
                continue;
            }
            let cpus = |name: &str, key: &str| {
                let list = switches.get(key).unwrap_or(key);
                if guests_abi::switch::parse_cpu_list(list, |_| ()) {
                    return Ok(Scope::Cpus { name: name.to_owned(), list: list.to_owned() });
                }
                let text = format!("at.{key}: neither a cpu list nor a switch that is set to one");
                Err(LabError::input(text))
            };
            let mut scopes = vec![(Scope::All, &expect.sum)];
            scopes.push((cpus("callers", "from")?, &expect.callers));
            scopes.push((cpus("targets", "to")?, &expect.targets));
            for (key, table) in &expect.at {
                scopes.push((cpus(&format!("at.{key}"), key)?, table));
            }
            for (scope, table) in scopes {
                for (left, right) in table {
                    let left = Expression::parse(left)?;
                    let bound = Bound::parse(&right.text())?;
                    all.push(Expectation { scope: scope.clone(), left, bound });
                }
            }
        }
        Ok(all)
    }
}

impl RuleText {
    fn rule(&self) -> Result<Rule, LabError> {
        let act = match (&self.hold, &self.delay, &self.delay_up_to) {
            (Some(hold), None, None) => Act::Hold {
                who: hold.cpu.as_ref().map_or(Ok(Who::Any), who)?,
                point: hold.point.clone(),
                times: Expression::parse(&hold.times.text())?,
            },
            (None, Some(time), None) => Act::Delay(time_of(time)?),
            (None, None, Some(time)) => Act::DelayUpTo(time_of(time)?),
            _ => {
                let text = format!("rule at {}: one of hold, delay, delay_up_to", self.point);
                return Err(LabError::input(text));
            }
        };
        Ok(Rule { who: who(&self.cpu)?, point: self.point.clone(), act })
    }
}

fn who(word: &Word) -> Result<Who, LabError> {
    match word {
        Word::Number(number) => u32::try_from(*number)
            .map(Who::Cpu)
            .map_err(|_| LabError::input(format!("cpu = {number}: no such cpu"))),
        Word::Text(text) => match text.as_str() {
            "any" => Ok(Who::Any),
            "from" => Ok(Who::FirstCaller),
            "to" => Ok(Who::FirstTarget),
            other => Err(LabError::input(format!(
                "cpu = {other:?}: a number, \"from\", \"to\", \"any\""
            ))),
        },
    }
}

/// Reads a length of simulated time such as `50ns`, `1.5us`, `2s`.
///
/// Errors: `Input` without unit, for a negative or too long time.
pub fn time_of(text: &str) -> Result<SimTime, LabError> {
    let wrong = || LabError::input(format!("{text}: a time is written as 100ps, 50ns, 1.5us, 2s"));
    let unit_at = text.find(|letter: char| letter.is_ascii_alphabetic()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(unit_at);
    let ps: u64 = match unit {
        "ps" => 1,
        "ns" => 1_000,
        "us" => 1_000_000,
        "ms" => 1_000_000_000,
        "s" => 1_000_000_000_000,
        _ => return Err(wrong()),
    };
    let (whole, fraction) = number.trim().split_once('.').unwrap_or((number.trim(), ""));
    let is_plain = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_plain(whole) || !is_plain(fraction) || fraction.len() > 12 {
        return Err(wrong());
    }
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    let mut total = whole.checked_mul(ps).ok_or_else(wrong)?;
    let mut share = ps;
    for digit in fraction.bytes() {
        share /= 10;
        total += share * u64::from(digit - b'0');
    }
    Ok(SimTime(total))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
schema = "crosscall.scenario/1"
[sets.pair]
duo = { guest = { from = "0", to = "1" } }
quad = { guest = { from = "0", to = "3" } }
[[scenario]]
id = "A2"
claim = "one_store_no_ipi"
on = "pair"
guest = { op = "call_single" }
vary = { idle = ["mwait", "poll"], call_idle = ["need_resched"] }
rules = [{ cpu = "to", point = "idle_woken", hold = { point = "call_pushed", times = "k - 1" } }]
[[scenario.expect]]
sum = { call_ipi = 0, "call_ipi + call_saved" = "n" }
[[scenario.expect]]
when = { idle = "mwait" }
targets = { idle_wake_write = 1 }
"#;

    #[test]
    fn a_scenario_is_multiplied_out_over_machines_and_switches() {
        let cases = load_file("calls.toml", FILE, &["jitter=0".to_owned()]).expect("cases");
        let labels: Vec<String> = cases.iter().map(Case::label).collect();
        assert_eq!(
            labels[1],
            "A2 on duo: bench=scenario op=call_single from=0 to=1 call_idle=need_resched \
             idle=poll jitter=0"
        );
        assert_eq!(labels.len(), 4);
        let counts: Vec<usize> = cases.iter().map(|case| case.expect.len()).collect();
        assert_eq!(counts, [3, 2, 3, 2]);
    }

    #[test]
    fn a_cell_wins_over_its_scenario() {
        let cell = "quad-arm = { guest = { from = \"1\", op = \"resched\" }, \
                    vary = { idle = [\"poll\"] } }\n[[scenario]]";
        let cases = load_file("x.toml", &FILE.replacen("[[scenario]]", cell, 1), &[]);
        let labels: Vec<String> = cases.expect("cases").iter().map(Case::label).collect();
        assert_eq!(
            labels[4..],
            ["A2 on quad-arm: bench=scenario op=resched from=1 call_idle=need_resched idle=poll"]
        );
    }

    #[test]
    fn faults_of_a_file_name_the_scenario_and_the_way_out() {
        let wrong = [
            ("call_single", "call_singl", "op=call_singl: takes call_single|"),
            ("on = \"pair\"", "on = \"pairs\"", "on = \"pairs\": the file has the sets pair"),
            ("scenario/1", "scenario/9", "this version reads \"crosscall.scenario/1\""),
            ("claim", "clam", "unknown field `clam`"),
        ];
        for (from, to, message) in wrong {
            let error = load_file("x.toml", &FILE.replace(from, to), &[]).expect_err(to);
            let mut text = error.to_string();
            let mut source = std::error::Error::source(&error);
            while let Some(inner) = source {
                text = format!("{text}: {inner}");
                source = inner.source();
            }
            assert!(text.contains(message), "{text}");
        }
    }

    #[test]
    fn times_are_exact() {
        assert_eq!(time_of("1.5us"), Ok(SimTime(1_500_000)));
        assert_eq!(time_of("2s"), Ok(SimTime(2_000_000_000_000)));
        assert_eq!(time_of("0.25ns"), Ok(SimTime(250)));
        for wrong in ["5", "ns", "-1ns", "1e3ns", "99999999999s", "1 min"] {
            assert!(time_of(wrong).is_err(), "{wrong}");
        }
    }
}
