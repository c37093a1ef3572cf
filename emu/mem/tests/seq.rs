//! Runs `tests/line/*.seq`: a script of model cores, and the trace that must follow from it.
//!
//! ```text
//! ;! claim = what the file shows            first the rule, then the numbers
//! ;! shape = 2x2x1                          LLCs x cores per LLC x homes
//! ;! memory = 70                            any field of `Legs`, in ps; `owned = yes` for O
//! ;! show = all                             or `performs`: no messages; no loads of big machines
//! at 100 core0 load 0x1000                  load store evict flush watch forget
//! at 0   core1 delay 30                     answers snoops 30 ps late from the start on
//! at 0   core* load 0x1000                  all cores
//! at 200 llc0 evict 0x1000
//! at 0   llc0 leg 300                       its messages to homes take 300 ps from the start on
//! at 300 dev read 0x1000                    read write: an access at the home
//! ; 110 llc0  get   line=0x40 from=core0 write=no
//! ```
//!
//! Below the trace stand the records of the lines and the counters that are not zero. `BLESS=1`
//! rewrites the expectation in place.
#![allow(clippy::unwrap_used, reason = "tests")]

mod model;

use std::fmt::Write;
use std::path::Path;

use emu_mem::home::Home;
use emu_mem::llc::Llc;
use emu_mem::msg::{Envelope, LineMsg};
use emu_sim::{CoreId, Key, LineAddr, LlcId, NodeRef, Phase, PhysAddr};
use model::{Event, Item, Legs, Op, World, paths};

fn name(n: NodeRef) -> String {
    match n {
        NodeRef::Core(c) => c.to_string(),
        NodeRef::Llc(l) => l.to_string(),
        NodeRef::Home(h) => h.to_string(),
        NodeRef::Device(_) => "dev".into(),
        other => format!("{other:?}"),
    }
}

fn yes(b: bool) -> &'static str {
    if b { "yes" } else { "no" }
}

fn message(e: &Envelope) -> String {
    let (kind, rest) = match e.msg {
        LineMsg::Get { write } => ("get", format!(" write={}", yes(write))),
        LineMsg::Put { dirty, watch } => {
            ("put", format!(" dirty={} watch={}", yes(dirty), yes(watch)))
        }
        LineMsg::Flush => ("flush", String::new()),
        LineMsg::Snoop { kind, grant_to } => {
            let to = grant_to.map_or(String::new(), |l| format!(" grant_to={l}"));
            ("snoop", format!(" kind={kind:?}{to}"))
        }
        LineMsg::Ack { kept, dirty, watch, forwarded } => {
            let flags = [(kept, "kept"), (dirty, "dirty"), (watch, "watch"), (forwarded, "fwd")];
            let left: Vec<&str> = flags.iter().filter(|f| f.0).map(|f| f.1).collect();
            ("ack", format!(" left={}", if left.is_empty() { "-".into() } else { left.join("+") }))
        }
        LineMsg::Grant(perm) => ("grant", format!(" perm={perm:?}")),
        LineMsg::Done => ("done", String::new()),
        LineMsg::FlushDone => ("flushed", String::new()),
        LineMsg::Access { write } => ("access", format!(" write={}", yes(write))),
        LineMsg::AccessDone => ("accessed", String::new()),
    };
    format!("{:<6} {kind:<8} line={} from={}{rest}", name(e.to), e.line, name(e.from))
}

/// The header of a file.
struct Head {
    shape: (u32, u32, u32),
    legs: Legs,
    shows_messages: bool,
}

fn head(text: &str) -> Head {
    let mut h = Head { shape: (2, 2, 1), legs: Legs::default(), shows_messages: true };
    for line in text.lines().filter_map(|l| l.strip_prefix(";!")) {
        let (key, value) = line.split_once('=').unwrap();
        let value = value.split('#').next().unwrap().trim();
        let number = || value.parse::<u64>().unwrap();
        match key.trim() {
            "claim" => {}
            "shape" => {
                let n: Vec<u32> = value.split('x').map(|n| n.parse().unwrap()).collect();
                h.shape = (n[0], n[1], n[2]);
            }
            "owned" => h.legs.has_owned_state = value == "yes",
            "show" => h.shows_messages = value == "all",
            "core" => h.legs.core = number(),
            "home" => h.legs.home = number(),
            "llc" => h.legs.llc = number(),
            "llc_lookup" => h.legs.llc_lookup = number(),
            "llc_service" => h.legs.llc_service = number(),
            "home_lookup" => h.legs.home_lookup = number(),
            "home_service" => h.legs.home_service = number(),
            "memory" => h.legs.memory = number(),
            "sets" => h.legs.sets = number() as u32,
            "ways" => h.legs.ways = number() as u32,
            other => panic!("unknown header {other}"),
        }
    }
    h
}

fn line_of(text: &str) -> LineAddr {
    PhysAddr(u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap()).line()
}

fn script(text: &str, w: &mut World) {
    let body = text.lines().map(|l| l.split('#').next().unwrap());
    for (n, line) in body.filter(|l| l.starts_with("at ")).enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, time, who, verb, arg] = words[..] else { panic!("cannot read `{line}`") };
        let time: u64 = time.parse().unwrap();
        if let Some(llc) = who.strip_prefix("llc") {
            let llc = LlcId(llc.parse().unwrap());
            if verb == "leg" {
                w.paths.llc_home[llc.index()].fill(arg.parse().unwrap());
                continue;
            }
            assert_eq!(verb, "evict");
            let key = Key { seq: n as u64, ..Key::at(time, Phase::Observe) };
            w.agenda.push(key, Item::LlcEvict(llc, line_of(arg)));
            continue;
        }
        if who == "dev" {
            let key = Key { seq: n as u64, ..Key::at(time, Phase::Observe) };
            let write = match verb {
                "read" => false,
                "write" => true,
                other => panic!("unknown operation {other}"),
            };
            w.agenda.push(key, Item::Access(line_of(arg), write));
            continue;
        }
        let cores = match who.strip_prefix("core").unwrap() {
            "*" => 0..w.cores.len() as u32,
            n => n.parse().unwrap()..n.parse::<u32>().unwrap() + 1,
        };
        let op = match verb {
            "load" => Op::Load,
            "store" => Op::Store,
            "evict" => Op::Evict,
            "flush" => Op::Flush,
            "watch" => Op::Watch,
            "forget" => Op::Forget,
            "delay" => {
                cores.for_each(|c| w.answer_delay[c as usize] = arg.parse().unwrap());
                continue;
            }
            other => panic!("unknown operation {other}"),
        };
        cores.for_each(|c| w.op(time, CoreId(c), line_of(arg), op));
    }
}

fn list<T: ToString>(of: &[T]) -> String {
    match of.len() {
        0 => "-".into(),
        1..=4 => of.iter().map(T::to_string).collect::<Vec<_>>().join(","),
        n => format!("{n}"),
    }
}

fn records(w: &World, out: &mut String) {
    for line in w.touched.keys() {
        for (h, home) in w.homes.iter().enumerate() {
            let r = home.record(*line);
            if w.paths.home_of(line.base()).index() == h {
                let owner = r.owner.map_or("-".into(), |o| o.to_string());
                let state = if r.is_writable { "writes" } else { "reads" };
                let sharers = list(&r.sharers);
                writeln!(out, "; end home{h} line={line} owner={owner} {state} sharers={sharers}")
                    .unwrap();
            }
        }
        for (l, llc) in w.llcs.iter().enumerate() {
            let r = llc.record(*line, &w.paths);
            if r != emu_mem::llc::LlcRecord::default() {
                let owner = r.owner.map_or("-".into(), |o| o.to_string());
                let (up, data, dirty) = (r.up, yes(r.has_data), yes(r.is_dirty));
                let sharers = list(&r.sharers);
                writeln!(
                    out,
                    "; end llc{l}  line={line} up={up:?} owner={owner} sharers={sharers} \
                     data={data} dirty={dirty}"
                )
                .unwrap();
            }
        }
    }
}

/// The fields of a counter struct that are not zero, from its debug form.
fn counters(w: &World, out: &mut String) {
    let text = |debug: String| {
        let fields = debug.split_once('{').unwrap().1.trim_end_matches('}').trim().to_string();
        let set = fields.split(", ").filter(|f| !f.ends_with(": 0"));
        set.map(|f| f.replace(": ", "=")).collect::<Vec<_>>().join(" ")
    };
    for (h, home) in w.homes.iter().map(Home::counters).enumerate() {
        writeln!(out, "; sum home{h} {}", text(format!("{home:?}"))).unwrap();
    }
    for (l, llc) in w.llcs.iter().map(Llc::counters).enumerate().take(2) {
        writeln!(out, "; sum llc{l}  {}", text(format!("{llc:?}"))).unwrap();
    }
}

fn trace(text: &str) -> String {
    let head = head(text);
    let mut w = World::new(paths(head.shape, head.legs), 1);
    script(text, &mut w);
    w.run();
    let mut out = String::new();
    for (time, event) in &w.events {
        let line = match event {
            Event::Msg(e) if head.shows_messages => message(e),
            Event::Msg(_) => continue,
            Event::Performed(_, _, Op::Load) if w.cores.len() > 64 => continue,
            Event::Performed(c, line, op) => {
                format!("{:<6} performs line={line} {op:?}", c.to_string())
            }
            Event::Triggered(c, line) => format!("{:<6} trigger  line={line}", c.to_string()),
        };
        writeln!(out, "; {time:>4} {line}").unwrap();
    }
    records(&w, &mut out);
    counters(&w, &mut out);
    out
}

/// Stimulus and expectation of a file: the expectation starts at the first plain `; `.
fn split(text: &str) -> (&str, &str) {
    let at = text.find("\n; ").map_or(text.len(), |n| n + 1);
    text.split_at(at)
}

fn check(path: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(path).unwrap();
    let (stimulus, expected) = split(&text);
    let found = trace(stimulus);
    if found == expected {
        return Ok(());
    }
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, format!("{}\n{found}", stimulus.trim_end())).unwrap();
        return Ok(());
    }
    let mut diff = format!("{} differs (BLESS=1 rewrites it)\n", path.display());
    let (a, b): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), found.lines().collect());
    let same = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    for (sign, lines) in [("-", &a), ("+", &b)] {
        for l in &lines[same.min(lines.len())..(same + 6).min(lines.len())] {
            writeln!(diff, "{sign}{l}").unwrap();
        }
    }
    Err(diff)
}

#[test]
fn traces_are_as_written() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/line");
    let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|f| f.unwrap().path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "seq"));
    files.sort();
    assert!(files.len() >= 10);
    let failed: Vec<String> = files.iter().filter_map(|f| check(f).err()).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// The trace of a hand-over across LLCs, added up by hand once: request, snoop, direct data.
#[test]
fn a_hand_over_across_llcs_costs_its_legs() {
    let legs = Legs::default();
    let mut w = World::new(paths((2, 2, 1), legs), 1);
    w.op(0, CoreId(0), LineAddr(1), Op::Store);
    w.op(1000, CoreId(2), LineAddr(1), Op::Store);
    w.run();
    let up = legs.core + legs.llc_lookup + legs.home + legs.home_lookup;
    let down = legs.home + legs.llc_lookup + legs.core;
    let data = legs.core + legs.llc + legs.core;
    let performed = w.events.iter().rev().find_map(|(t, e)| match e {
        Event::Performed(c, ..) if *c == CoreId(2) => Some(*t),
        _ => None,
    });
    assert_eq!(performed, Some(1000 + up + down + data));
    assert_eq!(w.llcs[1].record(LineAddr(1), &w.paths).owner, Some(CoreId(2)));
}
