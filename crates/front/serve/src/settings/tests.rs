//! The settings in their file, and as the engine takes them.

use super::*;

fn values(chosen: &[(&str, &str)]) -> Values {
    let mut values = Values::default();
    for (name, text) in chosen {
        let known = setting(name).unwrap();
        values.set(known, Some(known.kind.parse(text).unwrap()));
    }
    values
}

#[test]
fn the_defaults_of_the_table_are_those_of_the_engine() {
    assert_eq!(Values::default().tuning(), Tuning::default());
    assert_eq!(Values::default().volume_tuning(), Tuning::default().volume_tuning());
    assert_eq!(Values::default().scrub_schedule(), ScrubSchedule::default());
    assert_eq!(Values::default().thresholds().reached(0.92), Thresholds::default().reached(0.92));
    assert_eq!(Values::default().snapshots(), (None, None));
}

#[test]
fn every_setting_of_the_engine_reaches_it() {
    let others = [
        ("finder-delay", "1m"),
        ("finder-max-delay", "2m"),
        ("verify-bytes", "on"),
        ("verify-reads", "off"),
        ("commit-interval", "250ms"),
        ("collect-rate", "0"),
        ("layout-rate", "20m"),
        ("finder-rate", "1m"),
        ("finder-interval", "10m"),
        ("finder-window", "22:00-06:00"),
        ("finder-cpu", "35"),
        ("finder-memory", "8m"),
        ("inline-overload", "defer"),
        ("cache", "96m"),
        ("metadata-cache", "64m"),
        ("index-sample", "32"),
        ("write-buffer", "32m"),
        ("journal-data", "128k"),
        ("io", "buffered"),
    ];
    for other in others {
        assert_ne!(values(&[other]).tuning(), Tuning::default(), "{other:?}");
    }
    let tuning = values(&others).tuning();
    assert_eq!(tuning.commit_interval, Duration::from_millis(250));
    assert_eq!((tuning.finder.busy_cpu_percent, tuning.layout.bytes_per_s), (35, 20 << 20));
    assert!(!values(&[("finder-remember", "off")]).volume_tuning().remembers_fingerprints);
    let scrubs = values(&[("scrub-interval", "7d"), ("scrub-rate", "8m")]).scrub_schedule();
    assert_eq!(scrubs.interval, Some(Duration::from_secs(604_800)));
    assert_eq!(scrubs.max_bytes_per_s, 8 << 20);
}

#[test]
fn the_file_keeps_what_was_chosen_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().into();
    assert_eq!(Settings::read(&place).unwrap(), Settings::default());
    let pool =
        values(&[("commit-interval", "250ms"), ("finder-cpu", "35"), ("warn-used", "70,80")]);
    let web = values(&[("every", "1h"), ("keep", "24h 7d 4w"), ("verify-bytes", "on")]);
    let odd = "a \"b\" 'c' #]\\";
    let volumes = [("web".to_owned(), web.clone()), (odd.to_owned(), web)].into();
    let settings = Settings { pool, volumes };
    settings.write(directory.path()).unwrap();
    assert_eq!(Settings::read(&place).unwrap(), settings);
    let path = directory.path().join(FILE);
    let text = fs::read_to_string(&path).unwrap();
    for line in ["commit-interval = \"250ms\"", "finder-cpu = \"35%\"", "keep = \"24h 7d 4w\""] {
        assert!(text.contains(line), "{text}");
    }
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, MODE);
    let refused = Settings::default().write(directory.path()).unwrap_err();
    assert!(refused.text.contains("exists already"), "{refused}");
}

#[test]
fn nonsense_is_refused_with_its_place() {
    let directory = tempfile::tempdir().unwrap();
    for (text, parts) in [
        ("\ncommit-intervall = 3", &["line 2", "commit-intervall"][..]),
        ("cache = \"much\"", &["line 1", "much"]),
        ("finder-window = \"1-5\"", &["line 1", "01:00-05:00"]),
        ("finder-cpu = 120", &["line 1", "120"]),
        ("verify-reads = 7", &["line 1", "on or off"]),
        ("io = \"fast\"", &["line 1", "direct"]),
        ("every = \"1h\"", &["line 1", "no setting of a pool", "every"]),
        ("cache = 1\ncache = 1", &["line 2", "duplicate"]),
        ("cache = [1]", &["line 1", "expected a text"]),
        ("volume = 1", &["line 1", "[volume.web]"]),
        ("[volume.web]\ncache = 1", &["line 2", "no setting of a volume", "cache"]),
        ("[volume.web]\ndedup = \"off\"", &["line 2", "dedup"]),
        ("[volume.web]\nkeep = \"1x\"", &["line 2", "24h 7d 4w"]),
        ("[", &["line 1"]),
    ] {
        fs::write(directory.path().join(FILE), text).unwrap();
        let failure = Settings::read(&directory.path().into()).unwrap_err();
        assert!(
            failure.kind == gemelo_base::FailureKind::BadInput && failure.text.contains(FILE),
            "{failure}"
        );
        assert!(parts.iter().all(|part| failure.text.contains(part)), "{failure}");
        assert!(!failure.text.contains('\n'), "{failure}");
    }
}

#[test]
fn caches_and_buffers_fit_into_the_machine_together() {
    let given = values(&[("cache", "1g"), ("write-buffer", "1g")]);
    given.fit(2 << 30).unwrap();
    let refused = given.fit((2 << 30) - 1).unwrap_err().to_string();
    assert!(
        refused.ends_with("memory, less than cache 1.00 GiB, write-buffer 1.00 GiB"),
        "{refused}"
    );
    // The defaults are taken as they are needed, so a small machine may have less memory.
    Values::default().fit(1 << 20).unwrap();
}
