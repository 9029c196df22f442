#!/usr/bin/env python3
"""Writes the answers of SciPy to random cases, with which the tests of the crate `stats` compare.

Usage: scripts/statistics-reference.py > crates/comparison/stats/tests/scipy.json

It needs Python 3 with SciPy (pip install scipy). The cases follow from a seed, so the same version
of SciPy writes the same file. SciPy is the reference for distributions and tests; the formulas of
Fieller and Hedges, which it lacks, are written here from their definitions: Fieller's ends are
found as the roots of the condition itself, and not by the solved formula.
"""

import json
import math

import numpy
import scipy
from scipy import optimize, special, stats

CASES = 200
SEED = 20260101
CONFIDENCE = 0.95


def draw(random):
    """Returns a pair of samples of one of several shapes, rounded to four significant digits."""
    shape = random.choice(["normal", "lognormal", "ties", "outlier", "small"])
    first, second = (int(n) for n in random.integers(2, 5 if shape == "small" else 16, 2))
    scale = 10.0 ** random.integers(-3, 10)
    effect = random.choice([1.0, 1.02, 1.5])

    def values(count, factor):
        if shape == "ties":
            return factor * random.integers(3, 8, count)
        if shape == "lognormal":
            return factor * random.lognormal(1.0, 0.5, count)
        drawn = factor * random.normal(10.0, random.choice([0.1, 1.0]), count)
        if shape == "outlier":
            drawn[0] *= 4
        return drawn

    def rounded(drawn):
        return [float(f"{scale * value:.4g}") for value in drawn]

    return rounded(values(first, 1.0)), rounded(values(second, effect))


def fieller(base, changed):
    """Returns the ends of Fieller's interval by search, or None if it is not bounded."""
    x, y = numpy.mean(base), numpy.mean(changed)
    u, v = numpy.var(base, ddof=1) / len(base), numpy.var(changed, ddof=1) / len(changed)
    ratio = y / x
    parts = [ratio**2 * u, v]
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / (len(base) - 1) + parts[1] ** 2 / (len(changed) - 1))
    factor = stats.t.ppf((1 + CONFIDENCE) / 2, freedom)
    if factor**2 * u >= x**2:
        return None

    def excess(rho):
        return (y - rho * x) ** 2 - factor**2 * (v + rho**2 * u)

    def end(direction):
        step = abs(ratio) * 1e-6 + 1e-12
        while excess(ratio + direction * step) < 0:
            step *= 2
        low, high = sorted([ratio, ratio + direction * step])
        return optimize.brentq(excess, low, high, xtol=1e-15 * abs(ratio), rtol=1e-14)

    return [end(-1), end(1)]


def hedges(base, changed):
    """Returns Hedges' g by the exact correction."""
    freedom = len(base) + len(changed) - 2
    squares = sum((len(part) - 1) * numpy.var(part, ddof=1) for part in (base, changed))
    correction = math.exp(special.gammaln(freedom / 2) - special.gammaln((freedom - 1) / 2))
    difference = numpy.mean(changed) - numpy.mean(base)
    return correction / math.sqrt(freedom / 2) * difference / math.sqrt(squares / freedom)


def case(random):
    base, changed = draw(random)
    while min(numpy.var(base), numpy.var(changed)) == 0:
        base, changed = draw(random)
    welch = stats.ttest_ind(changed, base, equal_var=False)
    logs = stats.ttest_ind(numpy.log(changed), numpy.log(base), equal_var=False)
    has_ties = len(set(base + changed)) < len(base) + len(changed)
    method = "asymptotic" if has_ties else "exact"
    ranks = stats.mannwhitneyu(changed, base, method=method)
    mean = stats.t.interval(CONFIDENCE, len(base) - 1, numpy.mean(base), stats.sem(base))
    return {
        "base": base,
        "changed": changed,
        "mean": numpy.mean(base),
        "median": numpy.median(base),
        "deviation": numpy.std(base, ddof=1),
        "mean_interval": list(mean),
        "welch": [welch.statistic, welch.pvalue],
        "log_welch": [logs.statistic, logs.pvalue],
        "paired": paired(base, changed),
        "difference_interval": list(welch.confidence_interval(CONFIDENCE)),
        "log_ratio_interval": [math.exp(end) for end in logs.confidence_interval(CONFIDENCE)],
        "fieller": fieller(base, changed),
        "ranks": [ranks.statistic, ranks.pvalue],
        "has_ties": has_ties,
        "hedges_g": hedges(base, changed),
        "cliffs_delta": 2 * ranks.statistic / (len(base) * len(changed)) - 1,
    }


def paired(base, changed):
    """Returns the test and the interval of the ratios of rounds: the values in their order."""
    rounds = min(len(base), len(changed))
    logs = numpy.log(changed[:rounds]) - numpy.log(base[:rounds])
    if numpy.ptp(logs) < 1e-12:
        return None
    found = stats.ttest_1samp(logs, 0.0)
    ends = [math.exp(end) for end in found.confidence_interval(CONFIDENCE)]
    return {"t": found.statistic, "p": found.pvalue, "interval": ends}


def power(random):
    """Returns the power of Student's test by the noncentral t distribution."""
    count, is_paired = int(random.integers(2, 30)), bool(random.integers(0, 2))
    deviation, ratio = (float(f"{x:.4g}") for x in (random.uniform(0.01, 0.3), random.uniform(0.7, 1.4)))
    freedom = count - 1 if is_paired else 2 * count - 2
    shift = math.sqrt(count) * abs(math.log(ratio)) / deviation
    factor = stats.t.ppf((1 + CONFIDENCE) / 2, freedom)
    # SciPy has no number for a lower tail that is far below the smallest that counts here.
    low = numpy.nan_to_num(stats.nct.cdf(-factor, freedom, shift))
    found = float(stats.nct.sf(factor, freedom, shift) + low)
    return {
        "count": count,
        "is_paired": is_paired,
        "deviation": deviation,
        "ratio": ratio,
        "power": found,
    }


def main():
    random = numpy.random.default_rng(SEED)
    cases = [case(random) for _ in range(CASES)]
    answers = {
        "scipy": scipy.__version__,
        "confidence": CONFIDENCE,
        "cases": cases,
        "powers": [power(random) for _ in range(100)],
    }
    print(json.dumps(answers, separators=(",", ":")).replace('{"base"', '\n{"base"'))


main()
