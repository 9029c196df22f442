#!/usr/bin/env bash
# The cost of a campaign beside its runs: the time outside of making, loading, asking and giving
# back the target, as a share of the whole, and the processor time of the monitor. Goals: at most 2
# %, and below 1 % of a core.
set -euo pipefail
cd "$(dirname "$0")/.."

program=${GEMELO:-target/release/gemelo}
time=${TIME:-5s}
[ -x "$program" ] || { echo "campaign: $program is missing: make build" >&2; exit 1; }
work=$(mktemp -d "${TMPDIR:-/tmp}/gemelo-bench.XXXXXX")
trap 'rm -rf "$work"' EXIT

cat >"$work/plan.toml" <<END
[campaign]
name = "cost"
repetitions = 2
[[target]]
name = "directory"
directory = {}
[[target]]
name = "volume"
volume = { size = "128m" }
[[target]]
name = "served"
volume = { size = "128m", access = "nbd" }
[[workload]]
name = "write"
bench = { file-size = "64m", time = "$time", pattern = "uniform" }
END

before=${EPOCHREALTIME/./}
"$program" campaign run "$work/plan.toml" --out "$work/out" >"$work/text" || { cat "$work/text" >&2; exit 1; }
after=${EPOCHREALTIME/./}

python3 - "$work/out" "$((after - before))" <<'END'
import glob, json, sys

runs = [json.load(open(path)) for path in glob.glob(f"{sys.argv[1]}/runs/*/run.json")]
total = int(sys.argv[2]) / 1e6
elapsed = sum(run["elapsed_ns"] for run in runs) / 1e9
phases = {}
for run in runs:
    for phase in run["phases"]:
        phases[phase["name"]] = phases.get(phase["name"], 0) + phase["length_ns"] / 1e9
loads = sum(run_figure["value"] for run in runs for run_figure in run["figures"]["figures"]
            if run_figure["name"] == "run/elapsed_ns") / 1e9
shares = [figure["value"] for run in runs for figure in run["monitor"]["figures"] if figure["name"] == "monitor/cpu_share"]
print(f"{len(runs)} runs, {total:.2f} s in all, {elapsed:.2f} s of them in runs")
for name, length in phases.items():
    print(f"  {name:<12} {length:8.3f} s")
print(f"  {'load':<12} {loads:8.3f} s, as the loads say")
rest = total - sum(phases.values())
print(f"bookkeeping: {rest:.3f} s, {100 * rest / total:.2f} % (goal: at most 2 %)")
print(f"monitor: {100 * sum(shares) / len(shares):.3f} % of a core, at most {100 * max(shares):.3f} % (goal: below 1 %)")
END
