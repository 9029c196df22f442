#!/usr/bin/env bash
# The plans that repeat papers, one after the other, on a quiet machine: a plan waits, and says so,
# while other programs keep the machine busy. Each call goes on where the last one ended, so that
# hours can be divided into parts: with HOURS, the call ends after that time, and the run that is
# under way is repeated by the next call. A plan that is complete costs seconds.
#
#   scripts/papers.sh DIR [PLAN...]          all plans, or these, in DIR/PLAN
#   HOURS=1 scripts/papers.sh DIR [PLAN...]  at most an hour of each plan
#
# OPTIONS has further options of `gemelo campaign run`, the same in every call, such as
# OPTIONS="--set size=1g". It needs root, as the plans do, and the release program.
set -euo pipefail
[ "$#" -gt 0 ] || { sed -n '2,12s/^# \{0,1\}//p' "$0" >&2; exit 2; }
gemelo="${GEMELO:-$(cd "$(dirname "$0")/.." && pwd)/target/release/gemelo}"
out=$1
shift
[ "$#" -gt 0 ] || set -- dmdedup-2014 entropy-2010 dedisbench-2012 dedis-2016 vm-pool-2017
mkdir -p "$out"
read -ra options <<<"${OPTIONS:-}"
status=0
for plan in "$@"; do
    resume=()
    [ ! -e "$out/$plan/campaign.json" ] || resume=(--resume)
    # SIGINT ends a campaign in good order.
    timeout --foreground --signal=INT "${HOURS:-0}h" "$gemelo" campaign run "$plan" --out "$out/$plan" \
        --wait-for-quiet "${resume[@]}" "${options[@]}" || status=1
    [ ! -e "$out/$plan/campaign.json" ] || "$gemelo" campaign report "$out/$plan" || status=1
done
exit "$status"
