#!/bin/sh
# Rungs of `fsprobe pipe` against bare C loops with the same buffers, pipe and pinning (bench/pipe.c), in turn.
#
#   bench/pipe.sh [ROUNDS [BYTES]]   (301 rounds of 256 MiB, two minutes); ends with an error where a rung's median
#                                    speed is below 0.97 of the loop's
#
# Rungs that wait swing by 20 % from run to run, since who wakes whom on which CPU decides: few rounds tell nothing.
# Figures hold for an idle machine. FSPROBE names the binary (target/release/fsprobe).
set -eu
cd "$(dirname "$0")/.."
fsprobe="${FSPROBE:-${CARGO_TARGET_DIR:-target}/release/fsprobe}"
loop=$(mktemp)
trap 'rm -f "$loop"' EXIT
trap 'exit 130' INT TERM
${CC:-cc} -O2 -Wall -Wextra -o "$loop" bench/pipe.c

python3 - "$fsprobe" "$loop" "${1:-301}" "${2:-268435456}" <<'END'
import json, random, statistics, subprocess, sys

fsprobe, loop, rounds, total = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
BUFFER = 256 << 10
RUNGS = ["write-read", "vmsplice-splice", "vmsplice-splice-busy"]
GOAL = 0.97


def probe(rung, cpus):
    command = [fsprobe, "pipe", "--json", "--quiet", "--rungs", rung, "--rounds", "1", "--bytes", str(total),
               "--buffer-size", str(BUFFER), *(["--cpus", ",".join(map(str, cpus))] if cpus else [])]
    pipe = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)["pipe"]
    if pipe["rungs"][0]["skipped"]:
        sys.exit(f"{rung}: {pipe['rungs'][0]['skipped']}")
    return pipe["rungs"][0]["samples"][0]["ns"], pipe


def bare(rung, pipe):
    command = [loop, rung, str(BUFFER), str(pipe["pipe_size"]), str(total), *map(str, pipe["cpus"])]
    return int(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)


_, pipe = probe(RUNGS[0], None)
times = {(rung, who): [] for rung in RUNGS for who in ("fsprobe", "loop")}
for _ in range(rounds):
    visits = list(times)
    random.shuffle(visits)
    for rung, who in visits:
        times[rung, who].append(probe(rung, pipe["cpus"])[0] if who == "fsprobe" else bare(rung, pipe))

missed = False
for rung in RUNGS:
    own, other = (total / statistics.median(times[rung, who]) for who in ("fsprobe", "loop"))
    quotients = sorted(b / a for a, b in zip(times[rung, "fsprobe"], times[rung, "loop"]))
    missed |= own < GOAL * other
    print(f"{rung:<22} fsprobe {own:6.2f} GB/s  loop {other:6.2f} GB/s  quotient {own / other:.3f}"
          f" (pairs {quotients[len(quotients) // 4]:.3f} to {quotients[3 * len(quotients) // 4]:.3f})"
          f"  {'MISSED' if own < GOAL * other else 'met'}")
sys.exit(missed)
END
