//! The features that CPUID can show, with their places.
//!
//! Modelled: every x86 feature that a machine file may name. Not modelled: what a feature does.
//! Names are those of Linux's `/proc/cpuinfo`, as in machine files.
//! Source: [SDM-2] "CPUID", [APM-3] "CPUID". Status: spec.

/// A register of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Register {
    /// EAX.
    Eax,
    /// EBX.
    Ebx,
    /// ECX.
    Ecx,
    /// EDX.
    Edx,
}

/// Where a feature shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeatureSite {
    /// EAX of the question.
    pub leaf: u32,
    /// ECX of the question.
    pub subleaf: u32,
    /// Register of the answer.
    pub register: Register,
    /// Bit in it.
    pub bit: u32,
}

macro_rules! features {
    ($(
        $name:ident $text:literal $leaf:literal $subleaf:literal $register:ident $bit:literal,
    )*) => {
        /// A feature with a CPUID bit.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[expect(missing_docs, reason = "the names are the manuals'; `name` spells them")]
        pub enum Feature { $($name,)* }

        impl Feature {
            /// All features, by leaf, register and bit.
            pub const ALL: &'static [Feature] = &[$(Feature::$name,)*];

            /// Name in machine files.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Feature::$name => $text,)* }
            }

            /// Where CPUID shows it.
            #[must_use]
            pub const fn site(self) -> FeatureSite {
                match self { $(Feature::$name => FeatureSite {
                    leaf: $leaf,
                    subleaf: $subleaf,
                    register: Register::$register,
                    bit: $bit,
                },)* }
            }
        }
    };
}

#[rustfmt::skip]
features! {
    Sse3         "sse3"         0x1         0 Ecx  0,
    Pclmulqdq    "pclmulqdq"    0x1         0 Ecx  1,
    Monitor      "monitor"      0x1         0 Ecx  3,
    Ssse3        "ssse3"        0x1         0 Ecx  9,
    Fma          "fma"          0x1         0 Ecx 12,
    Cx16         "cx16"         0x1         0 Ecx 13,
    Pcid         "pcid"         0x1         0 Ecx 17,
    Sse41        "sse4_1"       0x1         0 Ecx 19,
    Sse42        "sse4_2"       0x1         0 Ecx 20,
    X2apic       "x2apic"       0x1         0 Ecx 21,
    Movbe        "movbe"        0x1         0 Ecx 22,
    Popcnt       "popcnt"       0x1         0 Ecx 23,
    TscDeadline  "tsc_deadline" 0x1         0 Ecx 24,
    Aes          "aes"          0x1         0 Ecx 25,
    Xsave        "xsave"        0x1         0 Ecx 26,
    Avx          "avx"          0x1         0 Ecx 28,
    F16c         "f16c"         0x1         0 Ecx 29,
    Rdrand       "rdrand"       0x1         0 Ecx 30,
    Fpu          "fpu"          0x1         0 Edx  0,
    Vme          "vme"          0x1         0 Edx  1,
    De           "de"           0x1         0 Edx  2,
    Pse          "pse"          0x1         0 Edx  3,
    Tsc          "tsc"          0x1         0 Edx  4,
    Msr          "msr"          0x1         0 Edx  5,
    Pae          "pae"          0x1         0 Edx  6,
    Mce          "mce"          0x1         0 Edx  7,
    Cx8          "cx8"          0x1         0 Edx  8,
    Apic         "apic"         0x1         0 Edx  9,
    Mtrr         "mtrr"         0x1         0 Edx 12,
    Pge          "pge"          0x1         0 Edx 13,
    Mca          "mca"          0x1         0 Edx 14,
    Cmov         "cmov"         0x1         0 Edx 15,
    Pat          "pat"          0x1         0 Edx 16,
    Pse36        "pse36"        0x1         0 Edx 17,
    Clflush      "clflush"      0x1         0 Edx 19,
    Mmx          "mmx"          0x1         0 Edx 23,
    Fxsr         "fxsr"         0x1         0 Edx 24,
    Sse          "sse"          0x1         0 Edx 25,
    Sse2         "sse2"         0x1         0 Edx 26,
    Arat         "arat"         0x6         0 Eax  2,
    Fsgsbase     "fsgsbase"     0x7         0 Ebx  0,
    TscAdjust    "tsc_adjust"   0x7         0 Ebx  1,
    Bmi1         "bmi1"         0x7         0 Ebx  3,
    Avx2         "avx2"         0x7         0 Ebx  5,
    Smep         "smep"         0x7         0 Ebx  7,
    Bmi2         "bmi2"         0x7         0 Ebx  8,
    Erms         "erms"         0x7         0 Ebx  9,
    Invpcid      "invpcid"      0x7         0 Ebx 10,
    Avx512F      "avx512f"      0x7         0 Ebx 16,
    Avx512Dq     "avx512dq"     0x7         0 Ebx 17,
    Rdseed       "rdseed"       0x7         0 Ebx 18,
    Adx          "adx"          0x7         0 Ebx 19,
    Smap         "smap"         0x7         0 Ebx 20,
    Clflushopt   "clflushopt"   0x7         0 Ebx 23,
    Clwb         "clwb"         0x7         0 Ebx 24,
    Avx512Cd     "avx512cd"     0x7         0 Ebx 28,
    ShaNi        "sha_ni"       0x7         0 Ebx 29,
    Avx512Bw     "avx512bw"     0x7         0 Ebx 30,
    Avx512Vl     "avx512vl"     0x7         0 Ebx 31,
    Umip         "umip"         0x7         0 Ecx  2,
    Pku          "pku"          0x7         0 Ecx  3,
    Waitpkg      "waitpkg"      0x7         0 Ecx  5,
    Vaes         "vaes"         0x7         0 Ecx  9,
    Vpclmulqdq   "vpclmulqdq"   0x7         0 Ecx 10,
    La57         "la57"         0x7         0 Ecx 16,
    Rdpid        "rdpid"        0x7         0 Ecx 22,
    Fsrm         "fsrm"         0x7         0 Edx  4,
    Serialize    "serialize"    0x7         0 Edx 14,
    Xsaveopt     "xsaveopt"     0xd         1 Eax  0,
    Xsavec       "xsavec"       0xd         1 Eax  1,
    Xgetbv1      "xgetbv1"      0xd         1 Eax  2,
    Xsaves       "xsaves"       0xd         1 Eax  3,
    LahfLm       "lahf_lm"      0x8000_0001 0 Ecx  0,
    Abm          "abm"          0x8000_0001 0 Ecx  5,
    Sse4a        "sse4a"        0x8000_0001 0 Ecx  6,
    Topoext      "topoext"      0x8000_0001 0 Ecx 22,
    Mwaitx       "mwaitx"       0x8000_0001 0 Ecx 29,
    Syscall      "syscall"      0x8000_0001 0 Edx 11,
    Nx           "nx"           0x8000_0001 0 Edx 20,
    Pdpe1gb      "pdpe1gb"      0x8000_0001 0 Edx 26,
    Rdtscp       "rdtscp"       0x8000_0001 0 Edx 27,
    Lm           "lm"           0x8000_0001 0 Edx 29,
    NonstopTsc   "nonstop_tsc"  0x8000_0007 0 Edx  8,
    Clzero       "clzero"       0x8000_0008 0 Ebx  0,
}

impl Feature {
    /// Returns the feature that machine files call `name`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Feature> {
        Feature::ALL.iter().copied().find(|feature| feature.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::Feature;
    use topology::Isa;

    #[test]
    fn no_two_features_share_a_bit_or_a_name() {
        for (index, a) in Feature::ALL.iter().enumerate() {
            for b in &Feature::ALL[index + 1..] {
                assert!(a.site() != b.site() && a.name() != b.name(), "{a:?} {b:?}");
            }
            assert_eq!(Feature::from_name(a.name()), Some(*a));
        }
    }

    #[test]
    fn every_name_that_a_machine_file_may_use_has_a_bit() {
        for name in topology::feature_names(Isa::X86_64) {
            assert!(Feature::from_name(name).is_some(), "{name}");
        }
    }
}
