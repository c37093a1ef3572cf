//! Machines made by rule: `duo`, `quad` and `smp-N`, and `duo-arm`, `quad-arm` and `smp-arm-N`, as
//! texts of the same schema.
//!
//! The text is the embedded `smp.toml` or `smp-arm.toml` below a generated head with id, name and
//! levels, so a generated machine is read, checked and overridden like any other.

use crate::model::Isa;

/// The parameters of `smp-N` and `smp-arm-N`, set by `--set smp.KEY=V`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Smp {
    pub(crate) isa: Isa,
    pub(crate) cpus: usize,
    pub(crate) packages: usize,
    /// Cores of one LLC.
    pub(crate) llc_width: usize,
    pub(crate) smt: usize,
}

/// Keys of the parameters.
pub(crate) const SMP_KEYS: [&str; 3] = ["packages", "llc_width", "smt"];

/// Reads `duo`, `quad` or `smp-N`, or the name of an Arm twin. LLCs of `smp-arm-N` have 16 cores,
/// one value of Aff1 each, as many as an SGI reaches at once.
pub(crate) fn named(name: &str) -> Option<Smp> {
    let smp = |isa, cpus, llc_width| Smp { isa, cpus, packages: 1, llc_width, smt: 1 };
    match name {
        "duo" => Some(smp(Isa::X86_64, 2, 2)),
        "quad" => Some(smp(Isa::X86_64, 4, 2)),
        "duo-arm" => Some(smp(Isa::Aarch64, 2, 2)),
        "quad-arm" => Some(smp(Isa::Aarch64, 4, 2)),
        _ => {
            let number = name.strip_prefix("smp-")?;
            let (isa, number, llc_width) = match number.strip_prefix("arm-") {
                Some(number) => (Isa::Aarch64, number, 16),
                None => (Isa::X86_64, number, 8),
            };
            let is_plain = number.bytes().all(|b| b.is_ascii_digit()) && !number.starts_with('0');
            number.parse().ok().filter(|_| is_plain).map(|cpus| smp(isa, cpus, llc_width))
        }
    }
}

/// Says why the parameters make no machine.
pub(crate) fn fault(smp: Smp) -> Option<String> {
    let max = crate::layout::CPUS_MAX;
    if smp.cpus == 0 || smp.cpus > max {
        return Some(format!("{} cpus; allowed: 1 to {max}", smp.cpus));
    }
    if smp.packages == 0 || smp.llc_width == 0 || smp.smt == 0 {
        return Some("a parameter of smp is 0; each is at least 1".to_string());
    }
    if !smp.cpus.is_multiple_of(smp.smt) {
        return Some(format!("{} cpus are not whole cores of {} siblings", smp.cpus, smp.smt));
    }
    let cores = smp.cpus / smp.smt;
    if smp.packages > cores {
        return Some(format!("{} packages for {cores} cores", smp.packages));
    }
    None
}

/// Returns the head of the file: cores dealt to packages as evenly as they go, then to LLCs.
pub(crate) fn head(name: &str, smp: Smp) -> String {
    let cores = smp.cpus / smp.smt;
    let mut complexes = Vec::new();
    let mut widths = Vec::new();
    for package in 0..smp.packages {
        let extra = usize::from(package < cores % smp.packages);
        let mut left = cores / smp.packages + extra;
        complexes.push(left.div_ceil(smp.llc_width).to_string());
        while left > 0 {
            let width = left.min(smp.llc_width);
            widths.push(width.to_string());
            left -= width;
        }
    }
    format!(
        "schema = 1\nid = \"{name}\"\n\
         name = \"{} cpus, {} packages, {} LLCs, {} siblings a core (generated)\"\n\
         levels.package = {}\nlevels.complex = [{}]\nlevels.core = [{}]\nlevels.smt = {}\n",
        smp.cpus,
        smp.packages,
        widths.len(),
        smp.smt,
        smp.packages,
        complexes.join(", "),
        widths.join(", "),
        smp.smt,
    )
}
