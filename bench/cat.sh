#!/bin/sh
# How fast `fsprobe cat` passes a file through a pipe into a reader that drains it, beside GNU cat and fastcat's way
# (bench/fastcat.c), in one interleaved run: at least 1.5 times GNU cat, and at least each of fastcat's loops. Ends with
# an error where that is missed.
#
#   bench/cat.sh         21 rounds over a file of 1 GiB, in memory where /dev/shm has room
#   bench/cat.sh quick   7 rounds
#
# Writers run on one CPU and the reader on another, where two are allowed. Figures hold for an idle machine. FSPROBE names the
# binary (target/release/fsprobe), CAT the cat (cat), CC the C compiler (cc), FOLDER where the file goes.
set -eu
cd "$(dirname "$0")/.."
fsprobe="${FSPROBE:-${CARGO_TARGET_DIR:-target}/release/fsprobe}"
rounds=21
[ "${1:-}" = quick ] && rounds=7
place="${FOLDER:-}"
if [ -z "$place" ]; then
    place="${TMPDIR:-/tmp}"
    free=$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }')
    [ "${free:-0}" -gt $((4 << 20)) ] && place=/dev/shm
fi
folder=$(mktemp -d "$place/fsprobe-cat.XXXXXX")
trap 'rm -r "$folder"' EXIT
trap 'exit 130' INT TERM
"${CC:-cc}" -std=c11 -O2 -Wall -Wextra -o "$folder/fastcat" bench/fastcat.c
head -c 1G /dev/urandom >"$folder/1G"

python3 - "$fsprobe" "${CAT:-cat}" "$folder" "$rounds" <<'END'
import os, random, statistics, subprocess, sys, time
fsprobe, cat, folder, rounds = *sys.argv[1:4], int(sys.argv[4])
file = f"{folder}/1G"
size = os.path.getsize(file)
programs = {
    "fsprobe cat": [fsprobe, "cat"],
    "cat": [cat],
    "fastcat, direct": [f"{folder}/fastcat", "direct"],
    "fastcat, through a pipe": [f"{folder}/fastcat", "through"],
}
cpus = sorted(os.sched_getaffinity(0))
writer, reader = {cpus[-2 if len(cpus) > 1 else -1]}, {cpus[-1]}
buffer = bytearray(128 << 10)

def seconds(command):
    out, into = os.pipe()
    os.sched_setaffinity(0, writer)
    began = time.perf_counter()
    child = subprocess.Popen([*command, file], stdout=into, stdin=subprocess.DEVNULL)
    os.close(into)
    os.sched_setaffinity(0, reader)
    passed = 0
    while count := os.readv(out, [buffer]):
        passed += count
    took = time.perf_counter() - began
    os.close(out)
    if child.wait() != 0 or passed != size:
        sys.exit(f"{command[0]} passed {passed} of {size} bytes")
    return took

taken = {name: [] for name in programs}
for turn in range(rounds + 1):
    for name in random.sample(list(programs), len(programs)):
        took = seconds(programs[name])
        if turn > 0:
            taken[name].append(took)

version = subprocess.run([cat, "--version"], capture_output=True, text=True).stdout.partition("\n")[0]
print(f"1 GiB in {os.path.dirname(folder)}, {rounds} rounds, writer on CPU {min(writer)}, reader on CPU {min(reader)}; {version}")
for name, times in taken.items():
    print(f"  {name:<24} {size / statistics.median(times) / 1e9:6.2f} GB/s")
missed = False
for name, least in (("cat", 1.5), ("fastcat, direct", 1.0), ("fastcat, through a pipe", 1.0)):
    # of each round's two times, so that what disturbs a round disturbs both
    ratios = sorted(theirs / own for theirs, own in zip(taken[name], taken["fsprobe cat"]))
    ratio = statistics.median(ratios)
    quarter = len(ratios) // 4
    met = ratio >= least
    missed |= not met
    print(f"  over {name:<24} {ratio:.2f} (quartiles {ratios[quarter]:.2f} to {ratios[-1 - quarter]:.2f}; "
          f"at least {least}: {'ok' if met else 'MISSED'})")
sys.exit(missed)
END
