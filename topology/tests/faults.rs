//! Faults of files and overrides: all at once, at the right place, with a way out; never a panic.

use topology::{Machine, Report};

const EPYC: &str = include_str!("../machines/epyc-9654-2s.toml");
const TEN: &str = include_str!("data/ten-faults.toml");
const TEN_EXPECTED: &str = include_str!("data/ten-faults.expect");

fn faults(text: &str, overrides: &[&str]) -> Report {
    let overrides: Vec<String> = overrides.iter().map(|text| text.to_string()).collect();
    match Machine::from_toml(text, "bad.toml", &overrides) {
        Ok(_) => Report::default(),
        Err(report) => report,
    }
}

#[test]
fn ten_faults_are_reported_at_once_with_their_lines() {
    let report = faults(TEN, &[]);
    let found = format!("{report}\n");
    if std::env::var("BLESS").is_ok_and(|value| value == "1") {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/ten-faults.expect");
        std::fs::write(path, &found).expect("the expectation can be written");
    }
    let marks = TEN.lines().enumerate().filter(|(_, line)| line.contains("# fault"));
    let lines: Vec<usize> = marks.map(|(n, _)| n + 1).collect();
    let reported: Vec<usize> = report.faults.iter().map(|fault| fault.line).collect();
    assert_eq!(lines.len(), 10);
    assert_eq!(reported, lines, "{found}");
    assert_eq!(found, TEN_EXPECTED);
}

/// One row a rule: text replaced, text put there, message expected.
const RULES: &[(&str, &str, &str)] = &[
    ("schema = 1", "schema = 2", "schema 2 is not known"),
    ("schema = 1", "", "`schema` is missing"),
    ("id = \"epyc-9654-2s\"", "id = \"Epyc 1\"", "has letters that a name may not have"),
    ("isa = \"x86_64\"", "isa = \"mips\"", "`isa` is \"mips\""),
    ("\"mwaitx\"", "\"mwaitz\"", "no feature \"mwaitz\" on this isa; did you mean \"mwaitx\"?"),
    ("\"mwaitx\"", "\"fpu\"", "feature \"fpu\" stands twice"),
    ("\"xsave\", ", "", "feature \"avx\" needs \"xsave\""),
    ("\"x2apic\", ", "", "in x2APIC mode without the feature"),
    ("\"monitor\", ", "", "idle c1 needs MWAIT"),
    ("package = 2", "package = 0", "width 0 of level package"),
    ("complex = 12", "complex = [12, 12, 12]", "a list of 3 widths for 2 parents"),
    ("core = 8\nsmt", "core = 100\nsmt", "2400 units of level core"),
    ("numbering = \"smt-last\"", "numbering = [0, 1]", "does not list each of 0 to 383 once"),
    ("complex = 4, package", "complex = 3, package", "3 id bits do not hold 12 units of complex"),
    ("complex = 4, package", "complex = 30, package", "architectural ids need 35 bits"),
    ("[ids]\n", "[ids]\norder.complex = [0, 1]\n", "one for each of the 12 units of complex"),
    (
        "[ids]\n",
        "[ids]\norder.complex = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 16]\n",
        "does not fit 4 bits",
    ),
    ("mode = \"auto\"", "mode = \"xapic\"", "apic id 447 does not fit xAPIC (max 254)"),
    ("at = \"complex\"", "at = \"smt\"", "attached to one sibling"),
    ("[cache.l1d]\nat = \"core\"", "[cache.l1d]\nat = \"die\"", "cache l1d is shared by cores"),
    (
        "size = \"1MiB\"\nways = 8",
        "size = \"1GiB\"\nways = 8",
        "hold 196620MiB together; allowed: 4",
    ),
    ("size = \"1MiB\"\nways = 8", "size = \"1MiB\"\nways = 7", "does not divide into 7 ways"),
    ("latency = 50", "latency = 9", "a hit takes no longer in l3 than l2"),
    ("at = \"complex\"", "at = \"core\"", "no cache is shared by cores"),
    ("[cache.l3]", "[cache.l5]", "no cache is called \"l5\""),
    ("default = \"zen4\"", "default = \"zen44\"", "no core type \"zen44\"; did you mean \"zen4\"?"),
    ("entry = \"hlt\"", "entry = \"wfi\"", "entered as on another isa"),
    ("entry = \"hlt\"", "entry = \"nap\"", "\"nap\" enters no idle state"),
    ("entry = \"port 0x414\"", "entry = \"mwait 0\"", "is entered as c1 is"),
    ("entry = \"mwait 0x00\"", "entry = \"port 1\"", "arms no monitor, so no store ends it"),
    ("residency = \"2us\"", "residency = \"0us\"", "a residency below its latency"),
    ("residency = \"2us\"", "residency = \"2.5us\"", "whole microseconds"),
    ("[\"l1\", \"l2\", \"tlb\"]", "[\"l1\", \"l9\"]", "\"l9\" cannot be flushed"),
    ("core_llc_request = \"5ns\"", "core_llc_request = \"0ns\"", "leg `core_llc_request` is 0ns"),
    ("llc = \"300ns\"", "llc = \"9ns\"", "is shorter than the window 10ns"),
    ("package = \"300ns\"", "package = \"200ns\"", "ipi.wire.package is shorter than llc"),
    ("llc_service = \"1ns\"", "llc_service = \"1us2\"", "`us2` is not a unit"),
    ("llc_service = \"1ns\"", "llc_service = \"1KiB\"", "has the wrong unit"),
    ("llc_service = \"1ns\"", "llc_service = true", "is a boolean, must be a number"),
    ("lo = \"300ns\"", "lo = \"500ns\"", "lo` = 500ns is above the value 400ns"),
    ("src = \"product-page\" }   # boost", "src = \"product\" }   #", "no source \"product\""),
    ("kind = \"recalled\", src = \"product-page\" }   # base", "}   #", "has no kind and source"),
    (
        "kind = \"recalled\", src = \"product-page\" }   # base",
        "src = \"a b\" } #",
        "kind` is missing",
    ),
    ("kind = \"recalled\"", "kind = \"guessed\"", "kind` is \"guessed\""),
    ("vendor = \"AuthenticAMD\"", "vendor = \"AMD\"", "has not 12 letters"),
    ("[x86]", "[x68]", "unknown key `x68`; did you mean `x86`?"),
    ("family = 25", "family = 999", "family is 999; allowed: 0 to 270"),
    ("v = \"1GiB\"", "v = \"1000KiB\"", "memory.per_node is"),
    ("v = \"1GiB\"", "v = \"17MiB\"", "is not whole large pages"),
    ("v = \"1GiB\"", "v = \"4GiB\"", "memory.per_node is 4GiB"),
    ("node = \"package\"", "node = \"core\"", "one of package, die, complex"),
    ("[[10, 32], [32, 10]]", "[[10, 32]]", "memory.distance is not 2 x 2"),
    ("[[10, 32], [32, 10]]", "[[9, 32], [32, 10]]", "10 on the diagonal"),
    ("llc_home = {", "llc_home = { matrix = [[1, 2]],", "matrix of llc_home is not 24 x 2"),
    (
        "llc_home = { package = \"28972ps\", ",
        "llc_home = { ",
        "`latency.llc_home.package` is missing",
    ),
    (
        "llc_llc = { package = \"28972ps\", remote = \"77174ps\",",
        "llc_llc = { package = \"28972ps\",",
        "`latency.llc_llc.remote` is missing on 2 packages",
    ),
    ("v = \"2.4GHz\"", "v = \"2.4THz\"", "`THz` is not a unit"),
    ("v = \"3.7GHz\"", "v = \"3.7MHz\"", "core clock is 3.7MHz"),
    ("abortable = true", "abortable = 1", "must be true or false"),
    (
        "[monitor]",
        "[group.a]\ncores = [999]\nclock = { v = \"2GHz\", kind = \"assumed\", \
      src = \"a b\" }\n[monitor]",
        "no core 999",
    ),
    ("[monitor]", "[group.a]\ncores = [1]\n[monitor]", "the group changes nothing"),
    ("[monitor]", "[group.a]\n[monitor]", "selects nothing"),
    ("[monitor]", "[sources2]\n[monitor]", "unknown key `sources2`"),
    ("\n[levels]\n", "lonely = \"a b\"\n\n[levels]\n", "no number uses source \"lonely\""),
    ("[monitor]", "[monitor", "unclosed table"),
    ("core_llc_request = \"5ns\"", "core_llc_request = \"18000000s\"", "allowed: 1ps to 1ms"),
    ("line_keep = { v = \"16439ps\"", "line_keep = { v = \"2ms\"", "hold `line_keep` is 2ms"),
];

#[test]
fn every_rule_speaks_when_it_is_broken() {
    let mut silent = Vec::new();
    for (from, to, expected) in RULES {
        assert!(EPYC.contains(from), "the machine no longer has `{from}`");
        let text = faults(&EPYC.replacen(from, to, 1), &[]).to_string();
        if !text.contains(expected) {
            silent.push(format!("`{from}` -> `{to}`:\n{text}\nexpected: {expected}\n"));
        }
    }
    assert!(silent.is_empty(), "{}", silent.join("\n"));
}

/// The same for Arm: changes of `smp-arm.toml` below a head of two packages.
const ARM_RULES: &[(&str, &str, &str)] = &[
    ("[gic]", "[apic]\n[gic]", "[apic] belongs to another isa"),
    ("[gic]", "[monitor]\n[gic]", "[monitor] belongs to another isa"),
    ("[gic]", "[x86]\nvendor = \"AuthenticAMD\"\n[gic]", "[x86] belongs to another isa"),
    ("version = 3", "version = 4", "gic.version is 4; 2 or 3"),
    ("version = 3", "", "`gic.version` is missing"),
    ("[gic]\nversion = 3\nrange_selector = true\n", "", "table [gic] is missing"),
    ("version = 3", "version = 2", "GICv2 has 8 cpu interfaces"),
    (
        "range_selector = true",
        "",
        "Aff0 goes to 19, an SGI reaches 0 to 15; set gic.range_selector",
    ),
    (
        "[gic]",
        "[ids]\nmultithreaded = true\naffinity = { core = 0, package = 1 }\n[gic]",
        "but core is in Aff0",
    ),
    ("[gic]", "[ids]\naffinity.core = 1\n[gic]", "names no field for package"),
    ("[gic]", "[ids]\naffinity = { core = 0, package = 4 }\n[gic]", "Aff0 to Aff3, no more"),
    ("[gic]", "[ids]\nbits.core = 9\n[gic]", "Aff0 of MPIDR needs 9 bits; it has 8"),
    ("[gic]", "[ids]\nbits.core = 4\n[gic]", "4 id bits do not hold 20 units of core"),
    ("[gic]", "[ids]\norder.package = [1]\n[gic]", "one for each of the 2 units of package"),
    ("[gic]", "[ids]\norder.package = [1, 300]\n[gic]", "Aff1 of MPIDR needs 9 bits"),
    ("conduit = \"smc\"", "conduit = \"svc\"", "one of hvc, smc"),
    ("load = \"near\"", "load = \"away\"", "one of near, far, held"),
    ("features = \"generic\"", "features = \"crc32\"", "far atomics without feature \"lse\""),
    ("features = \"generic\"", "features = \"pan2\"", "feature \"pan2\" needs \"pan\""),
    ("physical_bits = 48", "physical_bits = 52", "physical_bits is 52; allowed: 32 to 48"),
    ("exclusive_failure = 0", "exclusive_failure = 1", "no store-exclusive ever succeeds"),
    ("counter = \"100MHz\"", "tsc = \"100MHz\"", "`clock.counter` is missing"),
    ("counter = \"100MHz\"", "counter = \"2GHz\"", "counter clock is 2GHz"),
    ("psci 0x0010000", "psci 0x40000002", "0x40000002 of idle cpu-sleep has reserved bits"),
    ("entry = \"wfi\"", "entry = \"hlt\"", "entered as on another isa"),
    ("entry = \"50us\"", "entry = \"0.5us\"", "whole microseconds"),
    ("default = \"generic-arm\"", "default = \"generic\"", "\"generic\" has another isa"),
];

#[test]
fn every_rule_of_arm_speaks_when_it_is_broken() {
    let head = "schema = 1\nid = \"arm\"\nname = \"a test\"\nlevels = { package = 2, core = 20 }\n";
    let common =
        include_str!("../machines/smp-arm.toml").replace("at = \"complex\"", "at = \"package\"");
    assert_eq!(faults(&format!("{head}{common}"), &[]), Report::default());
    let mut silent = Vec::new();
    for (from, to, expected) in ARM_RULES {
        assert!(common.contains(from), "the machine no longer has `{from}`");
        let text = faults(&format!("{head}{}", common.replacen(from, to, 1)), &[]).to_string();
        if !text.contains(expected) {
            silent.push(format!("`{from}` -> `{to}`:\n{text}\nexpected: {expected}\n"));
        }
    }
    assert!(silent.is_empty(), "{}", silent.join("\n"));
}

#[test]
fn an_override_is_blamed_by_name() {
    let cases = [
        ("idle.c1.exit.stoer=80ns", "unknown key `idle.c1.exit.stoer`; did you mean"),
        ("latncy.memory=80ns", "unknown key `latncy`; did you mean `latency`?"),
        ("idle.c9.exit.store=80ns", "no `idle.c9`; known: hlt, c1, c2"),
        ("latency.memory=80", "has the wrong unit; units: ps, ns, us, ms or s"),
        ("latency.memory=80 parsecs", "`parsecs` is not a unit"),
        ("latency.llc_home=60ns", "`latency.llc_home` is a string, must be a table"),
        ("latency.core_llc_request=500ns", "is shorter than the window 505ns"),
        ("cores.zen9.sys.pause=4", "no `cores.zen9`"),
        ("latency", "an override has the form KEY=VALUE"),
        ("a..b=1", "`a..b` is not a dotted key"),
        ("isa.x=1", "`isa` is not a table"),
    ];
    for (over, expected) in cases {
        let text = faults(EPYC, &[over]).to_string();
        assert!(text.contains(expected), "{over}:\n{text}");
    }
    let text = faults(EPYC, &["idle.c9.exit.store=80ns"]).to_string();
    assert!(text.starts_with("--set idle.c9.exit.store=80ns: no"), "{text}");
}

#[test]
fn an_unknown_machine_gets_the_near_name() {
    let text = Machine::load("epyc-7736-2s", &[]).err().map(|report| report.to_string());
    assert!(text.is_some_and(|text| text.contains("did you mean epyc-7763-2s?")));
    let text = Machine::load("no/such/file.toml", &[]).err().map(|report| report.to_string());
    assert!(text.is_some_and(|text| text.contains("cannot read")));
}

#[test]
fn groups_and_matrices_change_what_they_name() {
    let group = "[group.small]\ncomplexes = [1]\ncore = \"generic\"\nkind = \"assumed\"\n\
                 src = \"a test\"\nclock = \"2GHz\"\ncache.l2.size = \"256KiB\"\n\
                 cache.l3.size = \"8MiB\"\ncore_llc_request = \"4ns\"\n\n[monitor]";
    let row = |cells: [u32; 24]| format!("[{}]", cells.map(|c| c.to_string()).join(", "));
    let rows: Vec<String> =
        (0..24).map(|n| row(std::array::from_fn(|m| 10 + n + m as u32))).collect();
    let matrix = format!("llc_llc = {{ by_home = [[{0}], [{0}]], ", rows.join(", "));
    let text = EPYC.replace("[monitor]", group).replace("llc_llc = {", &matrix);
    let machine =
        Machine::from_toml(&text, "groups.toml", &[]).unwrap_or_else(|report| panic!("{report}"));
    let (big, small) = (&machine.cores[0], &machine.cores[8]);
    assert_eq!((big.core_khz, small.core_khz), (3_700_000, 2_000_000));
    assert_eq!(machine.core_types[small.core_type].name, "generic");
    assert_eq!(small.l2.as_ref().map(|l2| l2.size), Some(256 << 10));
    assert_eq!(machine.llcs[1].cache.as_ref().map(|cache| cache.size), Some(8 << 20));
    assert_eq!(machine.window_ps(), 9_000);
    assert_eq!(machine.latency.llc_llc(2, 3, 1), 15_000, "the matrix wins");
}

/// A small generator of our own, so that the test needs no seed from outside.
struct Lcg(u64);

impl Lcg {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % bound
    }
}

#[test]
fn a_mutated_file_never_panics() {
    const BITS: [&str; 12] =
        ["=", "[", "]", "{", "\"", "\n", "0", "99999999999999999999", "-1", "é", ".", "cores"];
    let mut lcg = Lcg(1);
    for _ in 0..1_500 {
        let mut text: Vec<char> = EPYC.chars().collect();
        for _ in 0..1 + lcg.below(3) {
            let at = lcg.below(text.len());
            match lcg.below(3) {
                0 => drop(text.drain(at..(at + lcg.below(20)).min(text.len()))),
                1 => drop(text.splice(at..at, BITS[lcg.below(BITS.len())].chars())),
                _ => text.swap(at, (at + 7).min(EPYC.chars().count() - 30) % 1000),
            }
        }
        let text: String = text.into_iter().collect();
        if let Err(report) = Machine::from_toml(&text, "fuzz.toml", &[]) {
            assert!(!report.faults.is_empty());
            assert!(!report.to_string().is_empty());
        }
    }
}
