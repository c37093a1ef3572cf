//! Quantities in machine files: decimal numbers with units, converted exactly.
//!
//! A number is decimal with an optional fraction. It must come out whole in the base unit of its
//! dimension (ps, bytes, Hz, cycles), so that nothing is rounded unseen.

/// What a quantity measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dim {
    /// Base unit ps.
    Time,
    /// Base unit byte.
    Bytes,
    /// Base unit Hz.
    Frequency,
    /// Base unit core cycle; a time is accepted too.
    Cycles,
    /// A plain number.
    Count,
}

/// A value in the base unit of a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quantity {
    pub(crate) dim: Dim,
    pub(crate) value: u64,
}

const UNITS: [(&str, Dim, u64); 17] = [
    ("ps", Dim::Time, 1),
    ("ns", Dim::Time, 1_000),
    ("us", Dim::Time, 1_000_000),
    ("ms", Dim::Time, 1_000_000_000),
    ("s", Dim::Time, 1_000_000_000_000),
    ("B", Dim::Bytes, 1),
    ("KiB", Dim::Bytes, 1 << 10),
    ("MiB", Dim::Bytes, 1 << 20),
    ("GiB", Dim::Bytes, 1 << 30),
    ("TiB", Dim::Bytes, 1 << 40),
    ("Hz", Dim::Frequency, 1),
    ("kHz", Dim::Frequency, 1_000),
    ("MHz", Dim::Frequency, 1_000_000),
    ("GHz", Dim::Frequency, 1_000_000_000),
    ("cycles", Dim::Cycles, 1),
    ("cycle", Dim::Cycles, 1),
    ("", Dim::Count, 1),
];

/// Returns the units of a dimension for a message.
pub(crate) fn units_of(dim: Dim) -> &'static str {
    match dim {
        Dim::Time => "ps, ns, us, ms or s",
        Dim::Bytes => "B, KiB, MiB, GiB or TiB",
        Dim::Frequency => "Hz, kHz, MHz or GHz",
        Dim::Cycles => "cycles, or ns to be converted at the core clock",
        Dim::Count => "no unit",
    }
}

/// Parses `24.9ns`, `32 KiB`, `12cycles`, `1_000` or `0x40`.
pub(crate) fn parse(text: &str) -> Result<Quantity, String> {
    let text = text.trim();
    if let Some(hex) = text.strip_prefix("0x") {
        return u64::from_str_radix(hex, 16)
            .map(|value| Quantity { dim: Dim::Count, value })
            .map_err(|_| format!("`{text}` is not a hexadecimal number"));
    }
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'));
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let (mantissa, decimals) =
        decimal(number).ok_or_else(|| format!("`{text}` is not a number with a unit"))?;
    let unit = unit.trim();
    let (_, dim, scale) = *UNITS
        .iter()
        .find(|(name, ..)| *name == unit)
        .ok_or_else(|| format!("`{unit}` is not a unit"))?;
    let scaled = mantissa.checked_mul(u128::from(scale));
    let divisor = 10_u128.pow(decimals);
    match scaled {
        Some(scaled) if scaled % divisor == 0 => u64::try_from(scaled / divisor)
            .map(|value| Quantity { dim, value })
            .map_err(|_| format!("`{text}` is too large")),
        Some(_) => Err(format!("`{text}` is finer than the smallest unit")),
        None => Err(format!("`{text}` is too large")),
    }
}

/// Splits a decimal number into its digits and the count of those behind the point.
fn decimal(number: &str) -> Option<(u128, u32)> {
    let plain: String = number.chars().filter(|&c| c != '_').collect();
    let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
    let is_bad = whole.is_empty()
        || (plain.contains('.') && fraction.is_empty())
        || whole.len() + fraction.len() > 24;
    if is_bad {
        return None;
    }
    let mantissa = format!("{whole}{fraction}").parse().ok()?;
    Some((mantissa, u32::try_from(fraction.len()).ok()?))
}

/// Writes a time with the unit that reads best, exactly.
pub(crate) fn show_time(ps: u64) -> String {
    let (unit, scale) = match ps {
        0 => return "0ns".to_string(),
        1..1_000 => ("ps", 1),
        1_000..1_000_000 => ("ns", 1_000),
        1_000_000..1_000_000_000 => ("us", 1_000_000),
        _ => ("ms", 1_000_000_000),
    };
    format!("{}{unit}", show_decimal(ps, scale))
}

/// Writes bytes in the largest unit that divides them.
pub(crate) fn show_bytes(bytes: u64) -> String {
    let (unit, scale) =
        [("TiB", 1_u64 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)]
            .into_iter()
            .find(|&(_, scale)| bytes != 0 && bytes.is_multiple_of(scale))
            .unwrap_or(("B", 1));
    format!("{}{unit}", bytes / scale)
}

/// Writes a frequency in the largest unit below it, exactly.
pub(crate) fn show_frequency(hz: u64) -> String {
    let (unit, scale) = match hz {
        0..1_000 => ("Hz", 1),
        1_000..1_000_000 => ("kHz", 1_000),
        1_000_000..1_000_000_000 => ("MHz", 1_000_000),
        _ => ("GHz", 1_000_000_000),
    };
    format!("{}{unit}", show_decimal(hz, scale))
}

/// Writes a quantity of any dimension.
pub(crate) fn show(quantity: Quantity) -> String {
    match quantity.dim {
        Dim::Time => show_time(quantity.value),
        Dim::Bytes => show_bytes(quantity.value),
        Dim::Frequency => show_frequency(quantity.value),
        Dim::Cycles => format!("{} cycles", quantity.value),
        Dim::Count => quantity.value.to_string(),
    }
}

fn show_decimal(value: u64, scale: u64) -> String {
    let digits = scale.ilog10() as usize;
    let text = format!("{}.{:0digits$}", value / scale, value % scale);
    if scale == 1 {
        return value.to_string();
    }
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_convert_exactly() {
        let cases = [
            ("24.9ns", Dim::Time, 24_900),
            ("1us", Dim::Time, 1_000_000),
            ("512 KiB", Dim::Bytes, 512 << 10),
            ("2.45GHz", Dim::Frequency, 2_450_000_000),
            ("12cycles", Dim::Cycles, 12),
            ("1_024", Dim::Count, 1024),
            ("0x814", Dim::Count, 0x814),
        ];
        for (text, dim, value) in cases {
            assert_eq!(parse(text), Ok(Quantity { dim, value }), "{text}");
        }
        for text in
            ["", "ns", "1.ns", "0.1ps", "1 parsec", "99999999999TiB", "-1ns", "1..2ns", "0x"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shown_quantities_parse_back() {
        for ps in [1, 999, 1_000, 24_900, 83_001, 1_500_000, 22_000_000, 1_000_000_000] {
            assert_eq!(parse(&show_time(ps)), Ok(Quantity { dim: Dim::Time, value: ps }));
        }
        assert_eq!(show_bytes(1 << 30), "1GiB");
        assert_eq!(show_frequency(2_450_000_000), "2.45GHz");
    }
}
