//! Copies inside the program, which no exact way counts: when they may be what costs.

/// From so many nanoseconds outside the kernel on, a fifth of all at least, copies there may be what costs.
pub const MUCH_NS: u64 = 20_000_000;

/// Whether a program was outside the kernel long enough for copies there to matter.
pub fn is_much(user_ns: u64, cpu_ns: u64) -> bool {
    user_ns >= MUCH_NS && user_ns >= cpu_ns / 5
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_or_a_small_part_is_not_much() {
        assert!(is_much(MUCH_NS, MUCH_NS) && is_much(2 * MUCH_NS, 10 * MUCH_NS));
        assert!(!is_much(MUCH_NS - 1, MUCH_NS - 1) && !is_much(2 * MUCH_NS, 11 * MUCH_NS));
    }
}
