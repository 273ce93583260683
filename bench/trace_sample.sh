#!/bin/sh
# What `fsprobe trace --via sample` costs a program: 200,000 preads of 4 KiB (bench/trace_sample.c) with and without it, in turn.
#
#   bench/trace_sample.sh [ROUNDS [READS]]   (31 rounds of 200,000); ends with an error above 1.02 times
#
# Figures hold for an idle machine. WATCH names what is put before the command
# (target/release/fsprobe trace --via sample --), CC the C compiler (cc).
set -eu
cd "$(dirname "$0")/.."
watch="${WATCH:-${CARGO_TARGET_DIR:-target}/release/fsprobe trace --via sample --}"
program=$(mktemp)
trap 'rm -f "$program"' EXIT
trap 'exit 130' INT TERM
${CC:-cc} -std=c11 -O2 -Wall -Wextra -o "$program" bench/trace_sample.c

python3 - "$program" "${1:-31}" "${2:-200000}" $watch <<'END'
import random, statistics, subprocess, sys

program, rounds, reads, watch = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:]
GOAL = 1.02
ways = {"alone": [], "watched": watch}
times = {way: [] for way in ways}
for _ in range(rounds):
    for way in random.sample(list(ways), len(ways)):
        command = [*ways[way], program, reads, "64"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
        # The program's own line comes first; what fsprobe tells comes behind it.
        times[way].append(int(done.stdout.split()[0]))
quotients = sorted(b / a for a, b in zip(times["alone"], times["watched"]))
quotient = statistics.median(quotients)
alone, watched = (statistics.median(times[way]) / 1e6 for way in ways)
print(f"{reads} preads: alone {alone:.1f} ms, watched {watched:.1f} ms, quotient {quotient:.3f} "
      f"(quarters {quotients[len(quotients) // 4]:.3f} to {quotients[3 * len(quotients) // 4]:.3f})  "
      f"{'met' if quotient <= GOAL else 'MISSED'}")
sys.exit(quotient > GOAL)
END
