//! What was typed becomes what it means: times, sizes, rules, switches.

use emu_lab::{Dimension, LabError, Switches, time_of};
use emu_machine::{PointAction, PointRule};
use emu_sim::{CpuId, SimTime};

/// Reads a simulated time, naming its flag in the error.
pub(crate) fn time(flag: &str, text: &str) -> Result<SimTime, LabError> {
    time_of(text).map_err(|error| error.during(flag.to_owned()))
}

/// Reads a size in bytes: a number, or one with KiB, MiB, GiB.
pub(crate) fn size(flag: &str, text: &str) -> Result<u64, LabError> {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10), ("", 0)];
    let (number, shift) = units
        .iter()
        .find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)))
        .unwrap_or((text, 0));
    let bytes = number.trim().parse::<u64>().ok().and_then(|n| n.checked_mul(1 << shift));
    bytes.ok_or_else(|| LabError::input(format!("{flag} {text}: write it as 4096 or 16MiB")))
}

/// Reads an address, decimal or with 0x.
pub(crate) fn address(flag: &str, text: &str) -> Result<u64, LabError> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.map_err(|_| LabError::input(format!("{flag} {text}: write it as 0x80080000")))
}

/// Reads a point rule.
pub(crate) fn point_rule(text: &str) -> Result<PointRule, LabError> {
    let wrong = || {
        LabError::input(format!(
            "--point-rule {text}: write it as 1:idle_woken:delay=50ns or \
             1:idle_woken:hold=any:call_pushed:2"
        ))
    };
    let mut parts = text.splitn(3, ':');
    let (Some(cpu), Some(point), Some(action)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(wrong());
    };
    let (verb, what) = action.split_once('=').ok_or_else(wrong)?;
    let action = match verb {
        "delay" => PointAction::Delay(time("--point-rule", what)?),
        "delay-up-to" => PointAction::DelayUpTo(time("--point-rule", what)?),
        "hold" => {
            let parts: Vec<&str> = what.split(':').collect();
            let &[cpu, point, times] = parts.as_slice() else { return Err(wrong()) };
            let times = times.parse().map_err(|_| wrong())?;
            let cpu = cpu_or_any(cpu).ok_or_else(wrong)?;
            PointAction::HoldUntil { cpu, point: point.to_owned(), times }
        }
        _ => return Err(wrong()),
    };
    let cpu = cpu_or_any(cpu).ok_or_else(wrong)?;
    Ok(PointRule { cpu, point: point.to_owned(), action })
}

fn cpu_or_any(text: &str) -> Option<Option<CpuId>> {
    if text == "any" { Some(None) } else { text.parse().ok().map(CpuId).map(Some) }
}

/// Collects boot switches: those of flags first, so that `--guest` can change them.
pub(crate) fn switches(flags: &[(&str, String)], guest: &[String]) -> Result<Switches, LabError> {
    let mut switches = Switches::default();
    for (key, value) in flags {
        switches.set(key, value).map_err(|error| error.during(format!("--{key}")))?;
    }
    switches.set_all(guest).map_err(|error| error.during("--guest"))?;
    Ok(switches)
}

/// Reads all `--vary`.
pub(crate) fn dimensions(texts: &[String]) -> Result<Vec<Dimension>, LabError> {
    let parse = |text: &String| Dimension::parse(text).map_err(|error| error.during("--vary"));
    texts.iter().map(parse).collect()
}

/// Host threads to use.
pub(crate) fn jobs(asked: Option<usize>) -> usize {
    asked.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_binary_units() {
        assert_eq!(size("", "16MiB"), Ok(16 << 20));
        assert_eq!(size("", "10"), Ok(10));
        assert!(size("", "1.5MiB").is_err() && size("", "99999999999GiB").is_err());
    }

    #[test]
    fn addresses_are_decimal_or_hexadecimal() {
        assert_eq!(address("", "0x8008_0000").ok(), None);
        assert_eq!((address("", "0x80080000"), address("", "12")), (Ok(0x8008_0000), Ok(12)));
    }

    #[test]
    fn point_rules_are_read() {
        let rule = point_rule("1:idle_woken:hold=any:call_pushed:2").expect("rule");
        assert_eq!(rule.cpu, Some(CpuId(1)));
        let action =
            PointAction::HoldUntil { cpu: None, point: "call_pushed".to_owned(), times: 2 };
        assert_eq!(rule.action, action);
        let rule = point_rule("any:x:delay=1.5ns").expect("rule");
        assert_eq!((rule.cpu, rule.action), (None, PointAction::Delay(SimTime(1500))));
        for wrong in ["1:x", "1:x:wait=1ns", "one:x:delay=1ns", "1:x:hold=any:y"] {
            assert!(point_rule(wrong).is_err(), "{wrong}");
        }
    }
}
