//! What fsprobe itself costs, against its goals: sampling, judging, starting, memory, report size.
//!
//! Run by `bench/run.sh`, which also builds the yardstick, a bare C loop (bench/offsets.c), and names it
//! in `FSPROBE_YARDSTICK`. Prints one table; ends with 1 where a goal was missed. Figures hold for an
//! idle machine only, so the load average stands above them.

mod program;
mod sampling;
mod table;

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::error::Error;
use std::io::Write;
use std::process::ExitCode;
use table::Table;

/// Bytes of the file that is read: the default sweep's own size.
const FILE_SIZE: usize = 64 << 20;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let ended = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [sampling::ONE_SWEEP, path, file] => sampling::one_sweep(path, file).map(|()| false),
        [.., "--bench"] => measured().map(|table| {
            print!("{table}");
            table.missed()
        }),
        // `cargo test --benches` runs this program too, and is no place for figures
        _ => Ok(false),
    };
    match ended {
        Ok(missed) => ExitCode::from(u8::from(missed)),
        Err(error) => {
            eprintln!("costs: {error}");
            ExitCode::from(2)
        }
    }
}

fn measured() -> Result<Table, Box<dyn Error>> {
    let mut table = Table::default();
    if let Ok(load) = std::fs::read_to_string("/proc/loadavg") {
        println!("load average at the start: {}", load.trim());
    }
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("64M");
    std::fs::File::create(&file)?.write_all(&random_bytes(FILE_SIZE))?;
    sampling::overhead(&file, &mut table)?;
    sampling::against_the_yardstick(&file, folder.path(), &mut table)?;
    program::default_sweep(&file, folder.path(), &mut table)?;
    program::start_up(&mut table)?;
    Ok(table)
}

/// Bytes that no file system compresses or shares away.
fn random_bytes(count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    Xoshiro256PlusPlus::seed_from_u64(1).fill_bytes(&mut bytes);
    bytes
}
