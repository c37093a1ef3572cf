//! Files of rt-app: the subset that the guest can run, as the word of its switch.
//!
//! Read: `global.duration` and `global.default_policy`; `tasks` with `instance`, `loop`, `policy`
//! (`SCHED_OTHER`, `SCHED_IDLE`), `priority` (the nice level), `cpus`, and either events or
//! `phases`; events `run`, `sleep` and `timer`, by the first letters of their keys, times in
//! microseconds. What only says how rt-app logs is read over; anything else is an error at its
//! place in the file.

use std::fmt;
use std::marker::PhantomData;

use guests_abi::rtapp::{EVENT_US_MAX, EVENTS_MAX, PHASES_MAX, THREADS_MAX, is_legal};
use serde::Deserialize;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::ending::LabError;

/// A file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// How long it runs, us; `None`: until its loops are done.
    pub duration_us: Option<u64>,
    /// Tasks in the order of the file.
    pub tasks: Vec<Task>,
}

/// A task of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Name.
    pub name: String,
    /// Number of threads.
    pub instances: u64,
    /// SCHED_IDLE, else normal.
    pub is_idle: bool,
    /// Nice level.
    pub nice: i8,
    /// CPUs that it may use; none: all.
    pub cpus: Vec<u32>,
    /// How often its phases are gone through; 0 is for ever.
    pub loops: u64,
    /// Phases: how often, and the events in the form of the switch.
    pub phases: Vec<(u64, Vec<String>)>,
}

/// Reads a file.
///
/// Errors: `Input` with line and column, and what would be right.
pub fn read(name: &str, text: &str) -> Result<File, LabError> {
    let Document { global, tasks } = serde_json::from_str(text).map_err(|error| {
        let what = error.to_string();
        let place = format!(" at line {} column {}", error.line(), error.column());
        let what = what.strip_suffix(&place).unwrap_or(&what);
        LabError::input(format!("{name}:{}:{}: {what}", error.line(), error.column()))
    })?;
    let default_is_idle = global.default_policy.is_some_and(|Policy(is_idle)| is_idle);
    let tasks = tasks.0.into_iter().map(|(name, body)| body.task(name, default_is_idle)).collect();
    let file = File { duration_us: global.duration.and_then(|Seconds(us)| us), tasks };
    if is_legal(&file.word()) {
        return Ok(file);
    }
    Err(LabError::input(format!("{name}: more than {THREADS_MAX} threads; lower `instance`")))
}

impl File {
    /// The word of the guest's switch.
    #[must_use]
    pub fn word(&self) -> String {
        self.tasks.iter().map(Task::word).collect::<Vec<_>>().join(";")
    }
}

impl Task {
    fn word(&self) -> String {
        let cpus: Vec<String> = self.cpus.iter().map(u32::to_string).collect();
        let cpus = if cpus.is_empty() { "all".to_owned() } else { cpus.join(",") };
        let phase = |(loops, events): &(u64, Vec<String>)| format!("{loops}/{}", events.join(","));
        let phases: Vec<String> = self.phases.iter().map(phase).collect();
        let policy = if self.is_idle { 'i' } else { 'n' };
        format!(
            "{}x{policy}{}@{cpus}*{}:{}",
            self.instances,
            self.nice,
            self.loops,
            phases.join("|")
        )
    }

    /// Whether the guest records nothing of it: it only runs, for ever.
    #[must_use]
    pub fn is_endless_loop(&self) -> bool {
        guests_abi::rtapp::threads(&self.word()).any(|thread| thread.is_endless_loop())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    global: Global,
    tasks: Tasks,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Global {
    duration: Option<Seconds>,
    default_policy: Option<Policy>,
    /// Read over: how rt-app calibrates and logs. The guest calibrates on CPU 0.
    calibration: Option<IgnoredAny>,
    ftrace: Option<IgnoredAny>,
    gnuplot: Option<IgnoredAny>,
    logdir: Option<IgnoredAny>,
    log_basename: Option<IgnoredAny>,
    log_size: Option<IgnoredAny>,
    lock_pages: Option<IgnoredAny>,
    frag: Option<IgnoredAny>,
    cumulative_slack: Option<IgnoredAny>,
}

/// Whole seconds in us; -1 is no limit.
struct Seconds(Option<u64>);

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Seconds, D::Error> {
        match i64::deserialize(from)? {
            -1 => Ok(Seconds(None)),
            n @ 1..=60 => Ok(Seconds(Some(n as u64 * 1_000_000))),
            n => Err(de::Error::custom(format!("duration {n}: takes 1 to 60 s, or -1"))),
        }
    }
}

/// Whether a policy is SCHED_IDLE.
#[derive(Clone, Copy)]
struct Policy(bool);

impl<'de> Deserialize<'de> for Policy {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Policy, D::Error> {
        match String::deserialize(from)?.as_str() {
            "SCHED_OTHER" => Ok(Policy(false)),
            "SCHED_IDLE" => Ok(Policy(true)),
            other => Err(de::Error::custom(format!(
                "policy {other}: the guest has SCHED_OTHER and SCHED_IDLE"
            ))),
        }
    }
}

struct Nice(i8);

impl<'de> Deserialize<'de> for Nice {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Nice, D::Error> {
        match i64::deserialize(from)? {
            n @ -20..=19 => Ok(Nice(n as i8)),
            n => Err(de::Error::custom(format!("priority {n}: a nice level is -20 to 19"))),
        }
    }
}

/// How often; -1 is for ever.
struct Loops(u64);

impl<'de> Deserialize<'de> for Loops {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Loops, D::Error> {
        match i64::deserialize(from)? {
            -1 => Ok(Loops(0)),
            n @ 1.. => Ok(Loops(n as u64)),
            n => Err(de::Error::custom(format!("loop {n}: takes 1 or more, or -1 for ever"))),
        }
    }
}

struct Instances(u64);

impl<'de> Deserialize<'de> for Instances {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Instances, D::Error> {
        match u64::deserialize(from)? {
            n @ 1..=THREADS_MAX => Ok(Instances(n)),
            n => Err(de::Error::custom(format!("instance {n}: takes 1 to {THREADS_MAX}"))),
        }
    }
}

struct Us(u64);

impl<'de> Deserialize<'de> for Us {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Us, D::Error> {
        match u64::deserialize(from)? {
            n @ 1..=EVENT_US_MAX => Ok(Us(n)),
            n => Err(de::Error::custom(format!("{n} us: an event takes 1 to {EVENT_US_MAX} us"))),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Timer {
    /// Each thread has one timer, whatever its name.
    #[serde(rename = "ref")]
    _name: String,
    period: Us,
    #[serde(default)]
    mode: Mode,
}

#[derive(Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Mode {
    #[default]
    Relative,
    Absolute,
}

/// Tasks in the order of the file.
struct Tasks(Vec<(String, Body)>);

impl<'de> Deserialize<'de> for Tasks {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Tasks, D::Error> {
        in_order(from)
    }
}

impl InOrder for Tasks {
    fn read<'de, A: MapAccess<'de>>(mut map: A) -> Result<Tasks, A::Error> {
        let mut tasks = Vec::new();
        while let Some(task) = map.next_entry()? {
            tasks.push(task);
        }
        if tasks.is_empty() {
            return Err(de::Error::custom("no tasks; write at least one"));
        }
        Ok(Tasks(tasks))
    }
}

/// A task or a phase: events in their order, and what is said beside them.
#[derive(Default)]
struct Body {
    instances: Option<Instances>,
    loops: Option<Loops>,
    policy: Option<Policy>,
    nice: Option<Nice>,
    cpus: Vec<u32>,
    events: Vec<String>,
    phases: Vec<Body>,
}

impl Body {
    fn task(self, name: String, default_is_idle: bool) -> Task {
        let loops = self.loops.map_or(0, |Loops(n)| n);
        let turns = |body: &Body| body.loops.as_ref().map_or(1, |Loops(n)| *n);
        let (loops, phases) = if self.phases.is_empty() {
            (1, vec![(loops, self.events)])
        } else {
            let phases = self.phases.into_iter().map(|phase| (turns(&phase), phase.events));
            (loops, phases.collect())
        };
        Task {
            name,
            instances: self.instances.map_or(1, |Instances(n)| n),
            is_idle: self.policy.map_or(default_is_idle, |Policy(is_idle)| is_idle),
            nice: self.nice.map_or(0, |Nice(nice)| nice),
            cpus: self.cpus,
            loops,
            phases,
        }
    }

    /// Takes one entry of its object; phases have no phases and no scheduling of their own.
    fn take<'de, A: MapAccess<'de>>(
        &mut self,
        key: &str,
        is_phase: bool,
        map: &mut A,
    ) -> Result<(), A::Error> {
        match key {
            "loop" => self.loops = Some(map.next_value()?),
            "instance" if !is_phase => self.instances = Some(map.next_value()?),
            "policy" if !is_phase => self.policy = Some(map.next_value()?),
            "priority" | "nice" if !is_phase => self.nice = Some(map.next_value()?),
            "cpus" if !is_phase => self.cpus = map.next_value()?,
            "phases" if !is_phase => self.phases = map.next_value::<Phases>()?.0,
            _ if key.starts_with("run") => {
                let Us(us) = map.next_value()?;
                self.events.push(format!("r{us}"));
            }
            _ if key.starts_with("sleep") => {
                let Us(us) = map.next_value()?;
                self.events.push(format!("s{us}"));
            }
            _ if key.starts_with("timer") => {
                let Timer { period: Us(us), mode, .. } = map.next_value()?;
                let letter = if mode == Mode::Absolute { 'T' } else { 't' };
                self.events.push(format!("{letter}{us}"));
            }
            _ => {
                let more = if is_phase { "" } else { ", instance, policy, priority, cpus, phases" };
                return Err(de::Error::custom(format!(
                    "`{key}` is not supported; there are run, sleep, timer, loop{more}"
                )));
            }
        }
        Ok(())
    }

    fn read_map<'de, A: MapAccess<'de>>(mut map: A, is_phase: bool) -> Result<Body, A::Error> {
        let mut body = Body::default();
        while let Some(key) = map.next_key::<String>()? {
            body.take(&key, is_phase, &mut map)?;
        }
        let error = if body.events.is_empty() && body.phases.is_empty() {
            "nothing to do; write run, sleep or timer"
        } else if !body.events.is_empty() && !body.phases.is_empty() {
            "events beside phases; put them into one of the phases"
        } else if body.events.len() > EVENTS_MAX || body.phases.len() > PHASES_MAX {
            "too much: 16 events a phase and 8 phases a task are possible"
        } else {
            return Ok(body);
        };
        Err(de::Error::custom(error))
    }
}

impl InOrder for Body {
    fn read<'de, A: MapAccess<'de>>(map: A) -> Result<Body, A::Error> {
        Body::read_map(map, false)
    }
}

impl<'de> Deserialize<'de> for Body {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Body, D::Error> {
        in_order(from)
    }
}

struct Phase(Body);

impl InOrder for Phase {
    fn read<'de, A: MapAccess<'de>>(map: A) -> Result<Phase, A::Error> {
        Body::read_map(map, true).map(Phase)
    }
}

impl<'de> Deserialize<'de> for Phase {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Phase, D::Error> {
        in_order(from)
    }
}

/// Phases in the order of the file; their names say nothing.
struct Phases(Vec<Body>);

impl<'de> Deserialize<'de> for Phases {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Phases, D::Error> {
        in_order(from)
    }
}

impl InOrder for Phases {
    fn read<'de, A: MapAccess<'de>>(mut map: A) -> Result<Phases, A::Error> {
        let mut phases = Vec::new();
        while let Some((_, Phase(body))) = map.next_entry::<String, Phase>()? {
            phases.push(body);
        }
        Ok(Phases(phases))
    }
}

/// An object the order of whose keys means something.
trait InOrder: Sized {
    fn read<'de, A: MapAccess<'de>>(map: A) -> Result<Self, A::Error>;
}

struct EntryByEntry<T>(PhantomData<T>);

impl<'de, T: InOrder> Visitor<'de> for EntryByEntry<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::read(map)
    }
}

fn in_order<'de, D: Deserializer<'de>, T: InOrder>(from: D) -> Result<T, D::Error> {
    from.deserialize_map(EntryByEntry(PhantomData))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_becomes_a_word() {
        let text = r#"{
            "global": { "duration": 5, "calibration": "CPU0", "default_policy": "SCHED_OTHER" },
            "tasks": {
                "a": { "cpus": [5], "loop": 10, "run": 2333,
                    "timer": { "ref": "unique", "period": 7777 } },
                "b": { "instance": 8, "loop": -1, "policy": "SCHED_IDLE", "run": 1000 },
                "c": { "priority": -5, "loop": 2, "phases": {
                    "one": { "loop": 3, "run0": 1, "sleep": 2, "run1": 3 },
                    "two": { "timer0": { "ref": "t", "period": 9, "mode": "absolute" } } } }
            }
        }"#;
        let file = read("a.json", text).expect("a file");
        assert_eq!(file.duration_us, Some(5_000_000));
        let word = "1xn0@5*1:10/r2333,t7777;8xi0@all*1:0/r1000;1xn-5@all*2:3/r1,s2,r3|1/T9";
        assert_eq!(file.word(), word);
        let endless: Vec<bool> = file.tasks.iter().map(Task::is_endless_loop).collect();
        assert_eq!(endless, [false, true, false]);
    }

    #[test]
    fn errors_point_into_the_file_and_say_the_way_out() {
        let cases = [
            ("{", "f:1:1: EOF while parsing an object"),
            ("{}", "f:1:2: missing field `tasks`"),
            ("{\"tasks\": {}}", "f:1:12: no tasks; write at least one"),
            (
                "{\"tasks\": {\"a\": {\n \"run\": 0}}}",
                "f:2:10: 0 us: an event takes 1 to 100000000 us",
            ),
            (
                "{\"tasks\": {\"a\": {\"policy\": \"SCHED_FIFO\", \"run\": 1}}}",
                "f:1:39: policy SCHED_FIFO: the guest has SCHED_OTHER and SCHED_IDLE",
            ),
            (
                "{\"tasks\": {\"a\": {\"lock\": \"m\"}}}",
                "f:1:23: `lock` is not supported; there are run, sleep, timer, loop, instance, \
                 policy, priority, cpus, phases",
            ),
        ];
        for (text, expected) in cases {
            let error = read("f", text).expect_err(text).to_string();
            assert_eq!(error, expected, "{text}");
        }
    }
}
