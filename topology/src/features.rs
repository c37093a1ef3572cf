//! The names of features that a machine file may list, and the set `generic`.
//!
//! x86 names are those of Linux's `/proc/cpuinfo`, Arm names those of the architecture manual in
//! lower case. A name here says that a machine can have the feature, not that it is implemented.

use crate::model::Isa;

/// x86 features; the set `generic` has all but those of `NOT_GENERIC`.
const X86: &[&str] = &[
    "abm",
    "adx",
    "aes",
    "apic",
    "arat",
    "avx",
    "avx2",
    "bmi1",
    "bmi2",
    "clflush",
    "clflushopt",
    "clwb",
    "clzero",
    "cmov",
    "cx16",
    "cx8",
    "de",
    "erms",
    "f16c",
    "fma",
    "fpu",
    "fsgsbase",
    "fsrm",
    "fxsr",
    "invpcid",
    "la57",
    "lahf_lm",
    "lm",
    "mca",
    "mce",
    "mmx",
    "monitor",
    "movbe",
    "msr",
    "mtrr",
    "mwaitx",
    "nonstop_tsc",
    "nx",
    "pae",
    "pat",
    "pcid",
    "pclmulqdq",
    "pdpe1gb",
    "pge",
    "pku",
    "popcnt",
    "pse",
    "pse36",
    "rdpid",
    "rdrand",
    "rdseed",
    "rdtscp",
    "serialize",
    "sha_ni",
    "smap",
    "smep",
    "sse",
    "sse2",
    "sse3",
    "sse4_1",
    "sse4_2",
    "sse4a",
    "ssse3",
    "syscall",
    "topoext",
    "tsc",
    "tsc_adjust",
    "tsc_deadline",
    "umip",
    "vaes",
    "vme",
    "vpclmulqdq",
    "waitpkg",
    "x2apic",
    "xgetbv1",
    "xsave",
    "xsavec",
    "xsaveopt",
    "xsaves",
    "avx512f",
    "avx512bw",
    "avx512cd",
    "avx512dq",
    "avx512vl",
];

/// Features that `generic` leaves out: state or modes that no plan of ours has.
const NOT_GENERIC: &[&str] =
    &["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "la57", "sse4a", "xsaves"];

const ARM: &[&str] = &[
    "aes", "asimd", "asimddp", "crc32", "dit", "ecv", "fp", "fp16", "gicv2", "gicv3", "lrcpc",
    "lse", "lse2", "pan", "pmull", "rcpc", "sha1", "sha2", "uao", "vhe", "wfxt",
];

/// Returns every name that a machine of `isa` may list.
pub fn feature_names(isa: Isa) -> &'static [&'static str] {
    match isa {
        Isa::X86_64 => X86,
        Isa::Aarch64 => ARM,
    }
}

/// Returns the set `generic`: everything that the emulator means to implement.
pub(crate) fn generic(isa: Isa) -> impl Iterator<Item = &'static str> {
    feature_names(isa).iter().copied().filter(|name| !NOT_GENERIC.contains(name))
}
