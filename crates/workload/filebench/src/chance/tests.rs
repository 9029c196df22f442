//! Tests that every distribution passes a test of fit, and that this test can fail.

use super::*;

const DRAWS: usize = 40_000;

/// Returns the natural logarithm of the gamma function (Lanczos's approximation, g = 5).
fn ln_gamma(x: f64) -> f64 {
    const C: [f64; 6] = [
        76.180_091_729_471_46,
        -86.505_320_329_416_77,
        24.014_098_240_830_91,
        -1.231_739_572_450_155,
        0.120_865_097_386_617_9e-2,
        -0.539_523_938_495_3e-5,
    ];
    let series: f64 = C.iter().enumerate().map(|(i, c)| c / (x + 1.0 + i as f64)).sum();
    let base = x + 5.5;
    (x + 0.5) * base.ln() - base
        + (2.506_628_274_631_000_5 * (1.000_000_000_190_015 + series) / x).ln()
}

/// Returns the lower incomplete gamma function over the complete one, by its power series.
pub(crate) fn gamma_cdf(shape: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let mut term = 1.0 / shape;
    let mut sum = term;
    for n in 1..2000 {
        term *= x / (shape + f64::from(n));
        sum += term;
        if term < sum * 1e-15 {
            break;
        }
    }
    (sum * (shape * x.ln() - x - ln_gamma(shape)).exp()).min(1.0)
}

/// Returns the standard normal distribution function, from the incomplete gamma function of shape
/// 1/2.
fn normal_cdf(z: f64) -> f64 {
    let half = gamma_cdf(0.5, z * z / 2.0) / 2.0;
    if z < 0.0 { 0.5 - half } else { 0.5 + half }
}

/// Returns the largest distance between the draws and the distribution (Kolmogorov and Smirnov),
/// times the root of the number of draws. It exceeds 1.95 once in a thousand.
pub(crate) fn kolmogorov(mut values: Vec<f64>, cdf: impl Fn(f64) -> f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = values.len() as f64;
    let distance = values
        .iter()
        .enumerate()
        .map(|(rank, value)| {
            let law = cdf(*value);
            (law - rank as f64 / n).abs().max(((rank + 1) as f64 / n - law).abs())
        })
        .fold(0.0, f64::max);
    distance * n.sqrt()
}

fn check(law: Law, cdf: impl Fn(f64) -> f64) {
    let variable = RandomVariable::new(law);
    let mut random = Random::new(20_101);
    let values: Vec<f64> = (0..DRAWS).map(|_| variable.draw(&mut random)).collect();
    let statistic = kolmogorov(values, cdf);
    assert!(statistic < 1.95, "{:?}: {statistic}", variable.law);
}

#[test]
fn the_test_rejects_a_law_that_is_slightly_off() {
    let variable = RandomVariable::new(Law::Gamma { shape: 1.5, scale: 1.0, offset: 0.0 });
    let mut random = Random::new(3);
    let values: Vec<f64> = (0..DRAWS).map(|_| variable.draw(&mut random)).collect();
    assert!(kolmogorov(values, |x| gamma_cdf(1.65, x * 1.65 / 1.5)) > 1.95);
}

#[test]
fn gamma_fits() {
    for shape in [0.1, 0.5, 1.0, 1.5, 2.5, 20.0] {
        check(Law::Gamma { shape, scale: 16_384.0 / shape, offset: 0.0 }, |x| {
            gamma_cdf(shape, x * shape / 16_384.0)
        });
    }
    check(Law::Gamma { shape: 1.5, scale: 2.0, offset: 100.0 }, |x| {
        gamma_cdf(1.5, (x - 100.0) / 2.0)
    });
}

#[test]
fn erlang_fits() {
    for order in [1, 3, 7] {
        check(Law::Erlang { order, mean: 5.0 }, |x| {
            gamma_cdf(f64::from(order), x * f64::from(order) / 5.0)
        });
    }
}

#[test]
fn exponential_fits() {
    check(Law::Exponential { mean: 7.0 }, |x| 1.0 - (-x / 7.0).exp());
}

#[test]
fn normal_and_lognormal_fit() {
    check(Law::Normal { mean: 10.0, sigma: 3.0 }, |x| normal_cdf((x - 10.0) / 3.0));
    check(Law::LogNormal { shape: 0.5, scale: 2.0 }, |x| normal_cdf((x.ln() - 2.0) / 0.5));
}

#[test]
fn triangular_fits() {
    let (lower, upper, mode) = (2.0, 12.0, 4.0);
    check(Law::Triangular { lower, upper, mode }, |x| {
        if x <= mode {
            (x - lower).powi(2) / ((upper - lower) * (mode - lower))
        } else {
            1.0 - (upper - x).powi(2) / ((upper - lower) * (upper - mode))
        }
    });
}

#[test]
fn uniform_and_weibull_fit() {
    check(Law::Uniform { lower: 4096.0, upper: 8192.0 }, |x| (x - 4096.0) / 4096.0);
    check(Law::Weibull { shape: 1.7, scale: 30.0 }, |x| 1.0 - (-(x / 30.0).powf(1.7)).exp());
}

#[test]
fn a_table_keeps_its_shares() {
    let rows = vec![
        TableRow { cumulative: 0.0, from: 1.0, to: 2.0 },
        TableRow { cumulative: 0.8, from: 10.0, to: 20.0 },
        TableRow { cumulative: 1.0, from: 20.0, to: 70.0 },
    ];
    check(Law::Table(rows), |x| {
        if x < 20.0 { 0.8 * (x - 10.0) / 10.0 } else { 0.8 + 0.2 * (x - 20.0) / 50.0 }
    });
}

#[test]
fn values_are_rounded_and_bounded() {
    let variable = RandomVariable {
        min: 0.0,
        max: 12.0,
        round: 4.0,
        ..RandomVariable::new(Law::Normal { mean: 6.0, sigma: 9.0 })
    };
    let mut random = Random::new(5);
    let values: Vec<f64> = (0..1000).map(|_| variable.draw(&mut random)).collect();
    for expected in [0.0, 4.0, 8.0, 12.0] {
        assert!(values.contains(&expected));
    }
    assert!(values.iter().all(|value| value % 4.0 == 0.0 && (0.0..=12.0).contains(value)));
}
