//! Tells the program which target and commit it was built from, and builds the object that `trace` puts
//! into programs.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let target = std::env::var("TARGET").unwrap_or_else(|_| "unknown".into());
    println!("cargo::rustc-env=FSPROBE_TARGET={target}");
    println!("cargo::rustc-env=FSPROBE_COMMIT={}", commit().unwrap_or_default());
    println!("cargo::rerun-if-changed=build.rs");
    // A file that is not there would have cargo build everything anew each time.
    for file in ["HEAD", "logs/HEAD"].iter().filter_map(|name| git(&["--git-path", name])) {
        if Path::new(&file).exists() {
            println!("cargo::rerun-if-changed={file}");
        }
    }
    println!("cargo::rerun-if-changed=preload");
    // Without the object everything else works: the program says why it is not there.
    let object = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it")).join("preload.so");
    let missing = build_object(&target, &object).err().unwrap_or_default();
    if !missing.is_empty() {
        std::fs::write(&object, []).expect("cargo's folder is writable");
    }
    println!("cargo::rustc-env=FSPROBE_NO_PRELOAD={missing}");
}

/// The short commit, where this is a git checkout and git is installed.
fn commit() -> Option<String> {
    git(&["--short=12", "HEAD"])
}

/// What `git rev-parse` answers of this very checkout; a repository that it merely lies in is another project's.
fn git(args: &[&str]) -> Option<String> {
    if !Path::new(".git").exists() {
        return None;
    }
    let output = Command::new("git").arg("rev-parse").args(args).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Builds preload/*.c into one shared object.
///
/// # Errors
/// Why not, in words that go on from "it was built ".
fn build_object(target: &str, object: &Path) -> Result<(), String> {
    if !(target.starts_with("x86_64-") && target.ends_with("-linux-gnu")) {
        return Err(format!("for {target}, not for glibc on x86-64"));
    }
    let compiler = cc::Build::new().opt_level(2).cargo_metadata(false).try_get_compiler();
    let compiler = compiler.map_err(|_| "without a C compiler".to_owned())?;
    let folder = std::fs::read_dir("preload").map_err(|error| format!("without its sources ({error})"))?;
    let mut sources: Vec<PathBuf> = folder.filter_map(|entry| Some(entry.ok()?.path())).collect();
    sources.retain(|path| path.extension().is_some_and(|extension| extension == "c"));
    sources.sort();
    // No call of a library function may be made of a loop: it would be one of the object's own.
    let output = compiler
        .to_command()
        .args(["-std=c11", "-O2", "-g0", "-fPIC", "-shared", "-fvisibility=hidden", "-U_FORTIFY_SOURCE"])
        .args(["-fno-builtin", "-fno-tree-loop-distribute-patterns", "-fno-stack-protector"])
        .args(["-Wl,-z,now", "-Wl,-Bsymbolic", "-Wl,-s", "-o"])
        .arg(object)
        .args(&sources)
        .arg("-ldl")
        .output();
    match output {
        Err(_) => Err("without a C compiler".into()),
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let error = said.lines().find(|line| line.contains("error")).unwrap_or("it gave no reason");
            Err(format!("with a C compiler that refused ({})", error.trim()))
        }
    }
}
