#!/bin/sh
# What `fsprobe trace` costs a program that does 200,000 preads of 4 KiB (bench/preads.c), in one interleaved run: under
# `sample` at most 1.02 times as long as unwatched, under `preload` 1.10; under `ptrace` no longer than under
# `strace -f --seccomp-bpf -o /dev/null -e trace=pread64`. Ends with an error where that is missed.
#
#   bench/trace.sh              21 rounds of every way
#   bench/trace.sh quick        5 rounds
#   bench/trace.sh WAY…         21 rounds of these ways: sample, preload, ptrace
#
# The program times its preads itself, so what fsprobe does before and after does not count. Figures hold for an idle
# machine. FSPROBE names the binary (target/release/fsprobe), TRACE the command that a way's name and `--` are put
# behind (fsprobe trace --simulate zen3 --via), CC the C compiler (cc).
set -eu
cd "$(dirname "$0")/.."
fsprobe="${FSPROBE:-${CARGO_TARGET_DIR:-target}/release/fsprobe}"
rounds=21
[ "${1:-}" = quick ] && { rounds=5; shift; }
[ $# -eq 0 ] && set -- sample preload ptrace
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
trap 'exit 130' INT TERM
"${CC:-cc}" -std=c11 -O2 -Wall -Wextra -o "$folder/preads" bench/preads.c
head -c 64K /dev/urandom >"$folder/source"

python3 - "${TRACE:-$fsprobe trace --simulate zen3 --via}" "$folder" "$rounds" "$@" <<'END'
import random, shutil, statistics, subprocess, sys
trace, folder, rounds, ways = sys.argv[1].split(), sys.argv[2], int(sys.argv[3]), sys.argv[4:]
program = [f"{folder}/preads", f"{folder}/source", "200000", f"{folder}/ns"]
strace = ["strace", "-f", "--seccomp-bpf", "-o", "/dev/null", "-e", "trace=pread64"]
commands = {"alone": []} | {way: [*trace, way, "--"] for way in ways}
if "ptrace" in ways:
    if not shutil.which("strace"):
        sys.exit("strace, which ptrace is compared with, is not installed")
    commands["strace"] = strace

def nanoseconds(before):
    ended = subprocess.run([*before, *program], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if ended.returncode != 0:
        sys.exit(f"{' '.join(before)}: {ended.stderr or ended.returncode}")
    with open(f"{folder}/ns") as result:
        return int(result.read())

taken = {name: [] for name in commands}
for turn in range(rounds + 1):
    for name in random.sample(list(commands), len(commands)):
        ns = nanoseconds(commands[name])
        if turn > 0:
            taken[name].append(ns)

print(f"200,000 preads of 4 KiB, {rounds} rounds")
for name, ns in taken.items():
    print(f"  {name:<8} {statistics.median(ns) / 1e6:9.1f} ms")
missed = False
for way in ways:
    base, most = {"sample": ("alone", 1.02), "preload": ("alone", 1.10), "ptrace": ("strace", 1.0)}[way]
    # of each round's two times, so that what disturbs a round disturbs both
    ratios = sorted(own / other for own, other in zip(taken[way], taken[base]))
    ratio, quarter = statistics.median(ratios), len(ratios) // 4
    missed |= ratio > most
    print(f"  {way} over {base}: {ratio:.3f} (quartiles {ratios[quarter]:.3f} to {ratios[-1 - quarter]:.3f}; "
          f"at most {most}: {'ok' if ratio <= most else 'MISSED'})")
sys.exit(missed)
END
