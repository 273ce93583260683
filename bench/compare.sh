#!/bin/sh
# Whether `fsprobe compare` claims a change between back-to-back sweeps of this machine, where there is none.
#
#   bench/compare.sh         100 pairs of short sweeps, half of them with memory-bound programs beside one of the two
#   bench/compare.sh quick   10 pairs
#
# Ends with an error where a change is claimed. That it cannot be told is an honest answer under load, and counted. Reports of
# a pair that fails are kept in the folder named. FSPROBE names the binary (target/release/fsprobe).
set -eu
cd "$(dirname "$0")/.."
fsprobe="${FSPROBE:-${CARGO_TARGET_DIR:-target}/release/fsprobe}"
pairs=100
[ "${1:-}" = quick ] && pairs=10
folder=$(mktemp -d)
hog=
finish() {
    [ -z "$hog" ] || kill "$hog" 2>/dev/null || true
    # only reports of pairs that failed are left
    rmdir "$folder" 2>/dev/null || echo "kept: $folder"
}
trap finish EXIT
trap 'exit 130' INT TERM

sweep() { # report
    "$fsprobe" sweep --quiet --len 4K,64K --paths read,rep-movsb,memcpy --output "$1" >/dev/null
}

load() {
    python3 bench/memory_bound.py &
    hog=$!
    sleep 1
}

unload() {
    kill "$hog"
    wait "$hog" 2>/dev/null || true
    hog=
}

claimed=0
untold=0
pair=0
while [ "$pair" -lt "$pairs" ]; do
    pair=$((pair + 1))
    before="$folder/$pair-before.json"
    after="$folder/$pair-after.json"
    # in turn: idle, load beside the later one, idle, load beside the earlier one
    case $((pair % 4)) in
    1 | 3) how=idle; sweep "$before"; sweep "$after" ;;
    2) how="load beside the later"; sweep "$before"; load; sweep "$after"; unload ;;
    0) how="load beside the earlier"; load; sweep "$before"; unload; sweep "$after" ;;
    esac
    code=0
    answer=$("$fsprobe" compare "$before" "$after") || code=$?
    word=${answer%%:*}
    case $word in
    UNAFFECTED | "NOT FIXED") rm -f "$before" "$after" ;;
    "CANNOT TELL") untold=$((untold + 1)); rm -f "$before" "$after" ;;
    *) claimed=$((claimed + 1)) ;;
    esac
    printf '%3d  %-24s %s (exit %d)\n' "$pair" "$how" "$word" "$code"
    case $word in UNAFFECTED | "NOT FIXED") ;; *) echo "$answer" | head -n 6 ;; esac
done
printf '%d pairs: %d claim a change (at most 0), %d cannot be told\n' "$pairs" "$claimed" "$untold"
[ "$claimed" -eq 0 ]
