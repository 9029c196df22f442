//! Command lines and configurations of DEDISbench as it documents them, and wrong ones.

use super::*;
use crate::dedisbench::ini;
use proptest::prelude::*;

fn line(text: &str) -> Result<DedisbenchJob, DedisbenchError> {
    command_line(&text.split_whitespace().collect::<Vec<_>>())
}

fn configured(text: &str) -> Result<DedisbenchJob, DedisbenchError> {
    DedisbenchJob::default().with_configuration(text)
}

#[test]
fn the_documented_command_lines_are_understood() {
    let job = line("-p -w -t5").unwrap();
    assert_eq!(
        (job.load, job.operation, job.minutes),
        (Some(DedisbenchLoad::Peak), Some(DedisbenchOperation::Write), Some(5))
    );
    let job = line("-n300 -r -s 10 -fconfig.ini").unwrap();
    assert_eq!((job.load, job.megabytes), (Some(DedisbenchLoad::Nominal { rate: 300 }), Some(10)));
    assert_eq!(job.configuration.as_deref(), Some("config.ini"));
    let job = line("-m -nr100 -nw50 -t8").unwrap();
    assert_eq!(job.load, Some(DedisbenchLoad::NominalMixed { reads: Some(100), writes: Some(50) }));
    assert!(!job.has_older_flags);
}

#[test]
fn the_older_flags_are_understood() {
    let job = line("-p -w -t1 -b1024 -c1 -vabc123 -a0").unwrap();
    assert_eq!((job.block_bytes, job.processes), (Some(1024), Some(1)));
    assert_eq!(
        (job.pattern, job.seed.as_deref()),
        (Some(DedisbenchPattern::Sequential), Some("abc123"))
    );
    assert!(job.has_older_flags);
}

#[test]
fn wrong_flags_are_named() {
    for (text, message) in [
        ("-x", "-x: not a DEDISbench flag"),
        ("--write", "--write: not a DEDISbench flag"),
        ("write", "write: not a DEDISbench flag"),
        ("-dtmp", "-dtmp: a flag of 2012: write tempfilespath=DIRECTORY"),
        ("-i/dev/sdx", "-i/dev/sdx: a flag of 2013: write rawdevice=DEVICE"),
        ("-h", "-h: DEDISbench's help"),
        ("-f2048", "-f2048: -f names the configuration file since 2013: write filesize=MB"),
        ("-wr", "-wr: not a DEDISbench flag"),
        ("-", "-: not a DEDISbench flag"),
        ("-w -r", "-r: give one of"),
        ("-p -n5", "-n5: give only one load"),
        ("-n5 -p", "-p: -p and -n exclude"),
        ("-p -nr5", "-nr5: give only one load"),
        ("-t", "-t: the flag takes a value"),
        ("-t0", "-t0: must be at least 1"),
        ("-tx", "-tx: 'x' is not a whole number"),
        ("-a3", "-a3: must be from 0 to 2, not 3"),
        ("-c4294967296", "-c4294967296: 4294967296 processes"),
        ("-t99999999999999999999", "-t99999999999999999999: '99999999999999999999' is not"),
    ] {
        let error = line(text).unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
}

#[test]
fn every_documented_key_is_understood() {
    let job = configured(
        "[execution]\ndistfile=conf/dist_personalfiles\naccess_type=2\nnprocs=8\nfilesize=4096\nblocksize=8192\n\
         populate=2\nsync=3\nrawdevice=/dev/x\nintegritycheck=1\nseed=7\n[results]\ntempfilespath=./t\nlogging=1\n\
         dist_results=d\naccess_results=a\ngeneral_results=o:ut:5:6\n[structure]\ncleantemp=0\nkeep_dbs=1\n",
    )
    .unwrap();
    assert_eq!(
        (job.pattern, job.processes, job.file_megabytes),
        (Some(DedisbenchPattern::Nurand), Some(8), Some(4096))
    );
    assert_eq!((job.populate, job.sync), (Some(DedisbenchPopulate::Zero), Some(Sync::Both)));
    assert_eq!((job.integrity, job.seed.as_deref()), (Some(Integrity::Final), Some("7")));
    let results = GeneralResults { file: "o:ut".to_owned(), ramp_up_s: 5, cool_down_s: 6 };
    assert_eq!(job.general_results, Some(results));
    assert_eq!((job.removes_files, job.keeps_databases), (Some(false), Some(true)));
    assert_eq!((job.logs_operations, job.directory.as_deref()), (Some(true), Some("./t")));
}

#[test]
fn wrong_keys_and_values_are_named_by_their_line() {
    for (text, message) in [
        (
            "[execution]\nblok=1\n",
            "line 2: blok: the section [execution] of DEDISbench does not have this key",
        ),
        (
            "[nowhere]\nseed=1\n",
            "line 2: seed: the section [nowhere] of DEDISbench does not have this key",
        ),
        ("[execution]\n\nsync=4\n", "line 3: sync: must be from 0 to 3, not 4"),
        ("[execution]\nnprocs=0\n", "line 2: nprocs: must be at least 1"),
        ("[execution]\ndistfile=\n", "line 2: distfile: has no value"),
        ("[results]\ngeneral_results=out\n", "line 2: general_results: expected FILE:RU:CD"),
    ] {
        let error = configured(text).unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
}

#[test]
fn flags_go_before_the_configuration() {
    let entries = ini::parse("[execution]\nnprocs=8\nblocksize=8192\n").unwrap();
    let job = line("-c2").unwrap().with_entries(&entries).unwrap();
    assert_eq!((job.processes, job.block_bytes), (Some(2), Some(8192)));
}

proptest! {
    #[test]
    fn no_words_make_the_parser_panic(words in proptest::collection::vec("-?[a-z]?\\PC{0,6}", 0..6)) {
        let _ = command_line(&words);
    }

    #[test]
    fn no_values_make_the_configuration_panic(
        key in "distfile|access_type|nprocs|filesize|blocksize|populate|sync|integrity|seed", value in "\\PC{0,12}"
    ) {
        let _ = configured(&format!("[execution]\n{key}={value}\n"));
    }
}
