//! Times of exponential distribution, in integers.

/// Logarithm to base 2 of a number, which is not 0, in 2^-16.
const fn log2(number: u64) -> u64 {
    let zeros = number.leading_zeros();
    let mut log = (63 - zeros as u64) << 16;
    // The leading bits as a number from 1 to below 2, in 2^-31: each squaring gives a bit.
    let mut mantissa = (number << zeros) >> 32;
    let mut bit = 1 << 15;
    while bit != 0 {
        mantissa = (mantissa * mantissa) >> 31;
        if mantissa >> 32 != 0 {
            mantissa >>= 1;
            log |= bit;
        }
        bit >>= 1;
    }
    log
}

/// Natural logarithm of 2, in 2^-16.
const LN_2: u64 = 45_426;

/// The time that belongs to a number of uniform distribution, around a mean of less than 2^42.
pub const fn sample(uniform: u32, mean: u64) -> u64 {
    let log = (32 << 16) - log2(uniform as u64 + 1);
    (((mean * log) >> 16) * LN_2) >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_distribution() {
        let cases = [
            (u32::MAX, 0),
            // e^-1, 1/2, 1/4, e^-5 of the range.
            (1_580_030_168, 1_000_000),
            (1 << 31, 693_147),
            (1 << 30, 1_386_294),
            (28_939_260, 5_000_000),
            (0, 22_180_710),
        ];
        for (uniform, time) in cases {
            let found = sample(uniform, 1_000_000);
            assert!(found.abs_diff(time) <= time / 2000 + 50, "{uniform}: {found}, not {time}");
        }
    }

    #[test]
    fn the_mean_is_the_mean() {
        let count = 1 << 16;
        let sum: u64 = (0..count).map(|n| sample((n << 16) | (1 << 15), 70_000)).sum();
        let mean = sum / u64::from(count);
        assert!(mean.abs_diff(70_000) < 70, "{mean}");
    }
}
