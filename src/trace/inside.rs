//! Copies inside the program, which no exact way counts: when they may be what costs.

/// Below so many nanoseconds outside the kernel nothing there costs what anybody would notice, nor does the kernel tell
/// them well from those inside.
pub const MUCH_NS: u64 = 20_000_000;

/// The time within which a program's own copies happened, where it is worth a word.
pub fn within(user_ns: u64) -> Option<u64> {
    (user_ns >= MUCH_NS).then_some(user_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_not_much() {
        assert_eq!((within(MUCH_NS), within(MUCH_NS - 1)), (Some(MUCH_NS), None));
    }
}
