#!/bin/sh
# What `fsprobe check` costs, and whether it says the same every time.
#
#   bench/check.sh           wall and peak memory of 10 runs, then the states of 100 runs idle and of 100 runs
#                            with one memory-bound program beside them; ends with an error where a goal is missed
#   bench/check.sh quick     10 runs of each
#
# Figures hold for an idle machine. FSPROBE names the binary (target/release/fsprobe).
set -eu
cd "$(dirname "$0")/.."
fsprobe="${FSPROBE:-${CARGO_TARGET_DIR:-target}/release/fsprobe}"
runs=100
[ "${1:-}" = quick ] && runs=10
missed=0

goal() { # what, figure, limit
    if [ "$2" -le "$3" ]; then verdict=met; else verdict=MISSED; missed=1; fi
    printf '%-44s %6s  (at most %s: %s)\n' "$1" "$2" "$3" "$verdict"
}

# Median milliseconds and the highest KiB of 10 runs.
costs() {
    python3 - "$fsprobe" <<'END'
import resource, statistics, subprocess, sys, time
walls = []
for _ in range(10):
    began = time.perf_counter()
    subprocess.run([sys.argv[1], "check"], stdout=subprocess.DEVNULL, check=False)
    walls.append((time.perf_counter() - began) * 1000)
print(round(statistics.median(walls)), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
END
}

# The exit codes of so many runs, each with its count: "100 0" is a hundred times clean.
states() {
    count=0
    while [ "$count" -lt "$runs" ]; do
        code=0
        "$fsprobe" check >/dev/null || code=$?
        echo "$code"
        count=$((count + 1))
    done | sort -n | uniq -c | awk '{ printf "%s%s x %s", (NR > 1 ? ", " : ""), $1, ($2 == 0 ? "clean" : $2 == 1 ? "affected" : $2 == 3 ? "inconclusive" : "error " $2) }'
}

# Runs that differ from the state that most idle runs gave: all, and those that are wrong, not inconclusive.
judge() { # what, states, usual, runs that may be inconclusive
    printf '%-44s %s\n' "$1" "$2"
    differ=$(echo "$2" | tr ',' '\n' | awk -v usual="$usual" '$3 != usual { n += $1 } END { print n + 0 }')
    wrong=$(echo "$2" | tr ',' '\n' | awk -v usual="$usual" '$3 != usual && $3 != "inconclusive" { n += $1 } END { print n + 0 }')
    goal "  another state" "$differ" "$3"
    goal "  a wrong one" "$wrong" 0
}

figures=$(costs)
goal "wall, median of 10, ms" "${figures% *}" 150
goal "peak memory, KiB" "${figures#* }" 40960

idle=$(states)
usual=$(echo "$idle" | tr ',' '\n' | sort -rn | head -n 1 | awk '{ print $3 }')
judge "states, idle" "$idle" 0

python3 bench/memory_bound.py &
hog=$!
trap 'kill "$hog" 2>/dev/null || true' EXIT
sleep 1
judge "states, one memory-bound program beside" "$(states)" $((runs * 2 / 100))
exit "$missed"
