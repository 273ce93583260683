#!/bin/sh
# Whether the C program of a ticket shows what the sweeps around it show: its ratio of the slow to the fast offset has to lie
# within that of two sweeps, one before and one after it, give or take 10 %. Ends with an error where it does not.
#
# FSPROBE names the binary (target/release/fsprobe), CC the C compiler (cc).
set -eu
cd "$(dirname "$0")/.."
fsprobe="${FSPROBE:-${CARGO_TARGET_DIR:-target}/release/fsprobe}"
command -v "${CC:-cc}" >/dev/null || { echo "no C compiler: the ticket's program is left out" >&2; exit 0; }
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT

sweep() { # report
    "$fsprobe" sweep --quiet --paths pread --len 64K --allocators pages --output "$1" >/dev/null
}

sweep "$folder/before.json"
"$fsprobe" report "$folder/before.json" --format ticket >"$folder/ticket.txt"
# the program is the last thing in a ticket, and begins with its only definition
sed -n '/^#define _GNU_SOURCE/,$p' "$folder/ticket.txt" >"$folder/program.c"
"${CC:-cc}" -O2 -o "$folder/program" "$folder/program.c"
for turn in 1 2 3 4 5; do "$folder/program"; done >"$folder/said.txt"
sweep "$folder/after.json"

python3 - "$folder" <<'END'
import json, re, statistics, sys
folder = sys.argv[1]
said = open(f"{folder}/said.txt").read()
ratio = statistics.median(float(r) for r in re.findall(r"ratio: ([0-9.]+)", said))
slow, fast = (int(at, 16) for at in re.findall(r"buffer at 0x([0-9a-f]+)", said)[:2])
def of_sweep(name):
    cells = json.load(open(f"{folder}/{name}.json"))["cells"]
    def ns(dst):
        samples = [c["ns"] for c in cells if c["dst"] == dst and c["src"] == 0 and c["run"] == 0]
        return statistics.median(n for row in samples for n in row if n)
    return ns(slow) / ns(fast)
sweeps = sorted(of_sweep(name) for name in ("before", "after"))
met = sweeps[0] * 0.9 <= ratio <= sweeps[1] * 1.1
print(f"a ticket's program, slow {slow:#05x} over fast {fast:#05x}: {ratio:.3f}; two sweeps around it: "
      f"{sweeps[0]:.3f} to {sweeps[1]:.3f} (within 10 %: {'ok' if met else 'MISSED'})")
sys.exit(not met)
END
