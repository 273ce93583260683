#!/usr/bin/env bash
# What watching through the object costs: 200,000 preads of 4 KiB and as many reads, without and with it, by turns;
# the smallest time of each, and their ratio. Usage: bench/trace_preload.sh [ROUNDS]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
fsprobe=${FSPROBE:-${CARGO_TARGET_DIR:-target}/release/fsprobe}
rounds=${1:-15}

folder=$(mktemp -d)
export OUT="$folder/out"
trap 'rm -rf "$folder"' EXIT
cc -O2 -Wall -Wextra -o "$folder/preads" bench/trace_preload.c
head -c 1M /dev/urandom > "$folder/file"

for call in "" read; do
    plain=() watched=()
    for ((i = 0; i < rounds; i++)); do
        plain+=("$("$folder/preads" "$folder/file" $call 2>&1)")
        # the report goes to standard output, the program's own line to the file
        "$fsprobe" trace --via preload --simulate clean -- \
            sh -c 'exec "$0" "$@" 2>"$OUT"' "$folder/preads" "$folder/file" $call >/dev/null 2>&1 || exit
        watched+=("$(cat "$OUT")")
    done
    least() { printf '%s\n' "$@" | sort -n | head -1; }
    a=$(least "${plain[@]}") b=$(least "${watched[@]}")
    awk -v call="${call:-pread}" -v a="$a" -v b="$b" \
        'BEGIN { printf "%-6s %6.1f ms without, %6.1f ms with the object: %.3f\n", call, a / 1e6, b / 1e6, b / a }'
done
