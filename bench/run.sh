#!/bin/sh
# What fsprobe costs, against its goals.
#
#   bench/run.sh        one table of figures (benches/costs), then the ticket's program beside two sweeps; ends with an
#                       error where a goal is missed
#   bench/run.sh rates  the judge's error rates on simulated machines, FSPROBE_SEEDS (200) seeds a model
#
# Figures hold for an idle machine. The C loop that sampling is compared with is built by $CC (cc).
set -eu
cd "$(dirname "$0")/.."

costs() {
    folder="${CARGO_TARGET_DIR:-$PWD/target}/bench"
    mkdir -p "$folder"
    if command -v "${CC:-cc}" >/dev/null; then
        "${CC:-cc}" -std=c11 -O2 -Wall -Wextra -o "$folder/offsets" bench/offsets.c
        FSPROBE_YARDSTICK="$(cd "$folder" && pwd)/offsets"
        export FSPROBE_YARDSTICK
    else
        echo "no C compiler: the C loop is left out" >&2
    fi
    cargo bench --bench costs
    bench/reproducer.sh
}

rates() {
    FSPROBE_SEEDS="${FSPROBE_SEEDS:-200}" cargo test --release --test judging -- --nocapture
}

case "${1:-costs}" in
    costs) costs ;;
    rates) rates ;;
    *)
        echo "usage: bench/run.sh [costs|rates]" >&2
        exit 2
        ;;
esac
