//! Arrays of one value a round, loaded into no more memory than they need.

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use std::fmt;
use std::marker::PhantomData;

/// More rounds than any run takes: `--rounds` ends at 1000, and recordings have dozens.
const MOST_ROUNDS: usize = 1 << 16;

/// At most [`MOST_ROUNDS`] values, without room to spare: hundreds of thousands of samples stand in a report.
pub fn bounded<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    from.deserialize_seq(Rounds(PhantomData))
}

struct Rounds<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Rounds<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence of one value a round")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Vec<T>, A::Error> {
        let mut taken = Vec::new();
        while let Some(value) = values.next_element()? {
            if taken.len() == MOST_ROUNDS {
                return Err(A::Error::custom(format_args!("more than {MOST_ROUNDS} rounds")));
            }
            taken.push(value);
        }
        taken.shrink_to_fit();
        Ok(taken)
    }
}
