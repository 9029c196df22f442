//! Simulated campaigns with a known truth: verdicts that are wrong, and intervals that miss.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    dead_code,
    reason = "a test fails by panicking and uses a part"
)]

mod common;

use common::{campaign, noise, repetitions, target};
use gemelo_base::random::Random;
use gemelo_compare::{
    Groups, Place, Repetition, Row, Slowdown, Standards, Verdict, compare_targets, limited,
};
use gemelo_record::CampaignRecord;
use gemelo_stats::PlannedLooks;

const SEED: u64 = 5;

/// Noise of a round, which both targets have, and of a run.
const DRIFT: f64 = 0.2;

/// A campaign of a baseline and targets whose true ratios to it are known.
struct Simulated<'a> {
    campaign: CampaignRecord,
    ratios: &'a [f64],
    deviation: f64,
}

impl<'a> Simulated<'a> {
    fn new(ratios: &'a [f64], deviation: f64, [fewest, most]: [u32; 2]) -> Self {
        let mut targets = vec![target("base", None)];
        targets.extend((0..ratios.len()).map(|number| target(&name(number), None)));
        targets[0].is_baseline = true;
        let mut campaign = campaign(targets, &["load"]);
        campaign.workloads[0].main_figure = Some("write/operations_per_s".to_owned());
        (campaign.repetitions, campaign.max_repetitions) = (fewest, most);
        Self { campaign, ratios, deviation }
    }

    /// Measures up to a number of rounds, and compares.
    fn compare(&self, values: &mut Vec<Vec<f64>>, rounds: u32, random: &mut Random) -> Vec<Row> {
        values.resize(self.ratios.len() + 1, Vec::new());
        while values[0].len() < rounds as usize {
            let drift = noise(random, DRIFT);
            for (values, ratio) in values.iter_mut().zip([1.0].iter().chain(self.ratios)) {
                values.push(1000.0 * ratio * drift * noise(random, self.deviation));
            }
        }
        let mut groups = Groups::default();
        let names = std::iter::once("base".to_owned()).chain((0..self.ratios.len()).map(name));
        for (name, values) in names.zip(values) {
            let runs: Vec<Repetition> = repetitions(values);
            runs.into_iter().for_each(|run| groups.add(Place::new("load", &name), run));
        }
        compare_targets(&self.campaign, &groups, Standards::of(&self.campaign).unwrap())
    }

    /// Measures until everything is decided, or for the most repetitions.
    fn run(&self, random: &mut Random) -> Vec<Row> {
        let looks = PlannedLooks::new(self.campaign.repetitions, self.campaign.max_repetitions);
        let mut values = Vec::new();
        let mut rows = Vec::new();
        for rounds in looks.counts() {
            rows = self.compare(&mut values, *rounds, random);
            if rows.iter().all(|row| row.verdict != Verdict::Undecided) {
                break;
            }
        }
        assert_eq!(rows.len(), self.ratios.len());
        rows
    }
}

fn name(number: usize) -> String {
    format!("target-{number}")
}

fn share(count: u32, of: u32) -> f64 {
    f64::from(count) / f64::from(of)
}

/// Most of a rate of 5 % by chance, at four deviations.
fn max_by_chance(trials: u32) -> f64 {
    0.05 + 4.0 * (0.05 * 0.95 / f64::from(trials)).sqrt()
}

#[test]
fn identical_targets_rarely_differ() {
    const CAMPAIGNS: u32 = 1000;
    let mut random = Random::new(SEED);
    for repetitions in [2, 3, 5] {
        let simulated = Simulated::new(&[1.0; 12], 0.05, [repetitions; 2]);
        let differs = |row: &Row| matches!(row.verdict, Verdict::Better | Verdict::Worse);
        let wrong = (0..CAMPAIGNS).filter(|_| simulated.run(&mut random).iter().any(differs));
        let share = share(wrong.count() as u32, CAMPAIGNS);
        println!("{repetitions} repetitions, 12 identical targets with a difference: {share}");
        assert!(share <= max_by_chance(CAMPAIGNS), "{share}, seed {SEED}");
    }
}

/// True losses at and beyond the margin: "the same" and a permitted loss are wrong answers.
#[test]
fn true_losses_are_not_called_the_same_and_do_not_pass_a_limit() {
    const CAMPAIGNS: u32 = 2000;
    let mut random = Random::new(SEED);
    for (ratio, deviation) in [(0.9, 0.02), (0.9, 0.1), (0.8, 0.1), (0.8, 0.3)] {
        let simulated = Simulated::new(std::slice::from_ref(&ratio), deviation, [5, 5]);
        let (mut same, mut passed, mut found) = (0, 0, 0);
        for _ in 0..CAMPAIGNS {
            let rows = simulated.run(&mut random);
            let answer = limited(&rows, Slowdown::new(0.05).unwrap());
            same += u32::from(rows[0].verdict == Verdict::Same);
            passed += u32::from(answer.is_decided() && answer.slower.is_empty());
            found += u32::from(rows[0].verdict == Verdict::Worse);
        }
        let [same, passed, found] = [same, passed, found].map(|count| share(count, CAMPAIGNS));
        println!("ratio {ratio}, noise {deviation}: {same} the same, {passed} pass, {found} found");
        assert!(same <= 0.05 && passed <= 0.05, "{same} {passed}, seed {SEED}");
    }
}

/// Campaigns that add repetitions until they are decided keep their level: the data choose the
/// moment, but not the level. Also with the settings of the plans that ship.
#[test]
fn repetitions_that_are_added_until_a_decision_keep_the_level() {
    const CAMPAIGNS: u32 = 3000;
    let mut random = Random::new(SEED);
    for limits in [[3, 10], [5, 10], [5, 20]] {
        for (ratio, deviation) in [(1.0, 0.03), (1.0, 0.1), (1.0, 0.3), (0.9, 0.1), (0.7, 0.3)] {
            let simulated = Simulated::new(std::slice::from_ref(&ratio), deviation, limits);
            let (mut missed, mut differ, mut same) = (0, 0, 0);
            for _ in 0..CAMPAIGNS {
                let rows = simulated.run(&mut random);
                let interval = rows[0].ratio.unwrap().interval.unwrap();
                missed += u32::from(!interval.contains(ratio));
                differ += u32::from(matches!(rows[0].verdict, Verdict::Better | Verdict::Worse));
                same += u32::from(rows[0].verdict == Verdict::Same);
            }
            let [missed, differ, same] = [missed, differ, same].map(|n| share(n, CAMPAIGNS));
            println!(
                "{limits:?}, ratio {ratio}, noise {deviation}: {missed} missed, {differ} differ, \
                 {same} the same"
            );
            let place = format!("{limits:?}, {ratio}, {deviation}, seed {SEED}");
            assert!(missed <= 0.06, "95 % intervals cover at least 94 %: {missed} {place}");
            let wrong = if ratio == 1.0 { differ } else { same };
            assert!(wrong <= 0.05, "{wrong} {place}");
        }
    }
}
