#!/usr/bin/env bash
# Counts the differences that `gemelo compare` finds between identical targets: the share of pairs
# of sides with at least one verdict must stay below 5 % but for chance.
#
# Usage: scripts/identical-targets.sh [PAIRS [REPETITIONS]]
#
# GEMELO names the program. The runs of the two sides alternate. Each takes 0.3 s; 40 pairs of five
# repetitions take about three minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
pairs=${1:-40}
repetitions=${2:-5}
gemelo=${GEMELO:-target/release/gemelo}
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
mkdir "$place/target"

different=0
for pair in $(seq "$pairs"); do
    first=() second=()
    for repetition in $(seq "$repetitions"); do
        for side in a b; do
            "$gemelo" bench --target "$place/target" --operation mixed --pattern uniform \
                --file-size 4m --time 300ms --json "$place/$side$repetition" --force > /dev/null 2>&1
        done
        first+=("$place/a$repetition") second+=("$place/b$repetition")
    done
    "$gemelo" compare --a "${first[@]}" --b "${second[@]}" --json - > "$place/compared" 2> /dev/null
    verdicts=$(python3 -c 'import json, sys
result = json.load(open(sys.argv[1]))["result"]
print(result["better"] + result["worse"])' "$place/compared")
    if [ "$verdicts" -gt 0 ]; then
        different=$((different + 1))
        echo "pair $pair: $verdicts figures differ"
    fi
done
echo "identical targets: $different of $pairs pairs differ"
