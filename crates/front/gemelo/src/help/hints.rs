//! Hints for what people type who know other programs.

const ONE_DEVICE: &str =
    "nothing: a pool has one device. Put it on LVM or md, and gemelo pool grow follows them";

/// Words in the place of a command: the command before, the word, and what to type here.
const COMMANDS: &[(&str, &str, &str)] = &[
    ("", "list", "gemelo pool ls DIRECTORY, or gemelo volume ls POOL"),
    ("", "ls", "gemelo pool ls DIRECTORY, or gemelo volume ls POOL"),
    ("", "stat", "gemelo pool stat, or gemelo volume stat"),
    ("", "create", "gemelo pool create, or gemelo volume create"),
    ("", "destroy", "gemelo pool rm, or gemelo volume rm"),
    ("", "delete", "gemelo pool rm, or gemelo volume rm"),
    ("", "rm", "gemelo pool rm, or gemelo volume rm"),
    ("", "find", "gemelo pool dedup"),
    ("", "dedup", "gemelo pool dedup"),
    ("", "defrag", "gemelo pool defrag"),
    ("", "grow", "gemelo pool grow, or gemelo volume resize"),
    ("", "shrink", "gemelo pool shrink, or gemelo volume resize"),
    ("", "snapshot", "gemelo volume snapshot"),
    ("", "clone", "gemelo volume clone"),
    ("", "rollback", "gemelo volume rollback"),
    ("", "send", "gemelo volume send, or gemelo volume copy"),
    ("", "receive", "gemelo volume receive, or gemelo volume copy"),
    ("", "scrub", "gemelo pool scrub"),
    ("", "status", "gemelo pool status"),
    ("", "check", "gemelo pool check"),
    ("", "set", "gemelo pool set, or gemelo volume set"),
    ("", "get", "gemelo pool get, or gemelo volume get"),
    ("", "mount", "gemelo serve POOL --ublk, then mount /dev/gemelo/POOL/VOLUME"),
    ("", "fio", "gemelo bench"),
    ("pool", "find", "gemelo pool dedup"),
    ("pool", "arrange", "gemelo pool defrag"),
    ("pool", "destroy", "gemelo pool rm"),
    ("pool", "delete", "gemelo pool rm"),
    ("pool", "remove", "gemelo pool rm"),
    ("pool", "list", "gemelo pool ls"),
    ("pool", "show", "gemelo pool stat, or gemelo pool get"),
    ("pool", "info", "gemelo pool stat, or gemelo pool status"),
    ("pool", "resize", "gemelo pool grow, or gemelo pool shrink"),
    ("pool", "extend", "gemelo pool grow"),
    ("pool", "add-device", ONE_DEVICE),
    ("pool", "remove-device", ONE_DEVICE),
    ("pool", "add", ONE_DEVICE),
    ("pool", "trim", "gemelo pool gc"),
    ("pool", "repair", "gemelo pool check --repair"),
    ("pool", "rollback", "gemelo volume rollback"),
    ("pool", "snapshot", "gemelo volume snapshot"),
    ("pool", "compress", "gemelo pool recompress"),
    ("pool", "serve", "gemelo serve POOL"),
    ("volume", "destroy", "gemelo volume rm"),
    ("volume", "delete", "gemelo volume rm"),
    ("volume", "remove", "gemelo volume rm"),
    ("volume", "list", "gemelo volume ls POOL"),
    ("volume", "show", "gemelo volume stat, or gemelo volume get"),
    ("volume", "info", "gemelo volume stat"),
    ("volume", "shrink", "gemelo volume resize --size SIZE --force"),
    ("volume", "grow", "gemelo volume resize --size SIZE"),
    ("volume", "extend", "gemelo volume resize --size SIZE"),
    ("volume", "schedule", "gemelo volume set POOL/NAME --every 1h --keep '24h 7d 4w'"),
    ("volume", "find", "gemelo pool dedup POOL"),
    ("volume", "dedup", "gemelo pool dedup POOL"),
    ("volume", "promote", "nothing: a clone does not need its snapshot"),
    ("domain", "list", "gemelo domain ls"),
    ("domain", "destroy", "gemelo domain rm"),
];

/// Options of fio, and those of `gemelo bench` in their place.
const OF_FIO: &[(&str, &str)] = &[
    ("rw", "--operation write, read or mixed, and --pattern sequential or uniform"),
    ("readwrite", "--operation write, read or mixed, and --pattern sequential or uniform"),
    ("rwmixread", "--operation mixed --write-share PERCENT"),
    ("rwmixwrite", "--operation mixed --write-share PERCENT"),
    ("bs", "--request-size SIZE; --block-size is the unit of duplicates"),
    ("iodepth", "--queue-depth N"),
    ("numjobs", "--processes N"),
    ("size", "--file-size SIZE for each process, or --bytes SIZE in all"),
    ("runtime", "--time DURATION"),
    ("time_based", "--time DURATION"),
    ("ramp_time", "--ramp-up DURATION"),
    ("filename", "--target FILE"),
    ("directory", "--target DIRECTORY"),
    ("ioengine", "--engine psync or io-uring"),
    ("direct", "--sync direct"),
    ("rate_iops", "--rate OPS for each process"),
    (
        "dedupe_percentage",
        "--distribution NAME, such as the one that gemelo distribution fit makes",
    ),
    ("buffer_compress_percentage", "--compressibility PERCENT"),
    ("output-format", "--json FILE"),
];

/// Options that people look for, and those of `gemelo volume set` in their place.
const OF_VOLUMES: &[(&str, &str)] = &[
    ("limit", "--iops COUNT, or --bytes-per-second SIZE"),
    ("rate", "--iops COUNT, or --bytes-per-second SIZE"),
    ("ops", "--iops COUNT"),
    ("bandwidth", "--bytes-per-second SIZE"),
    ("refquota", "--quota SIZE"),
    ("reservation", "--reserve SIZE"),
    ("schedule", "--every DURATION, and --keep COUNTS"),
    ("snapshots", "--every DURATION, and --keep COUNTS"),
    ("retention", "--keep COUNTS"),
];

/// Returns whether a word is an option of all commands, which may stand anywhere.
fn is_for_all(word: &str) -> bool {
    matches!(word, "-q" | "--quiet")
}

/// Returns what to type in the place of words that the program does not know.
pub(crate) fn hint(words: &[String]) -> Option<String> {
    let words: Vec<&String> = words.iter().filter(|word| !is_for_all(word)).collect();
    let plain =
        |at: usize| words.get(at).map(|word| word.as_str()).filter(|word| !word.starts_with('-'));
    let of = |before: &str, word: &str| {
        let found = COMMANDS.iter().find(|(parent, name, _)| *parent == before && *name == word);
        found.map(|(_, _, here)| (*here).to_owned())
    };
    let (first, second) = (plain(0)?, plain(1));
    if let Some(here) = of("", first).or_else(|| of(first, second?)) {
        return Some(here);
    }
    if let ("pool" | "volume", Some("set")) = (first, second)
        && let Some((name, value)) = words.iter().skip(2).find_map(|word| word.split_once('='))
        && gemelo_serve::setting(name).is_some()
    {
        return Some(format!("--{name} {value}"));
    }
    let options = match (first, second) {
        ("bench" | "suite", _) => OF_FIO,
        ("volume", Some("set")) => OF_VOLUMES,
        _ => return None,
    };
    words.iter().skip(1).find_map(|word| {
        let name = word.strip_prefix("--")?;
        let name = name.split('=').next().unwrap_or(name);
        let (_, here) = options.iter().find(|(theirs, _)| *theirs == name)?;
        Some((*here).to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::Arguments;
    use clap::CommandFactory;

    fn hint_for(line: &str) -> Option<String> {
        hint(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn words_of_other_programs_lead_to_commands_that_exist() {
        assert_eq!(hint_for("pool find p").unwrap(), "gemelo pool dedup");
        assert_eq!(hint_for("volume set p/a every=1h").unwrap(), "--every 1h");
        assert!(hint_for("bench --target null: --bs=4k").unwrap().contains("--request-size"));
        assert!(hint_for("volume set p/a --limit 500").unwrap().contains("--iops"));
        assert_eq!(hint_for("pool create --bs 4k"), None);
        assert_eq!(hint_for("nothing at all"), None);
        let command = Arguments::command();
        for (parent, word, here) in COMMANDS {
            let before = match *parent {
                "" => Some(&command),
                name => command.find_subcommand(name),
            };
            assert!(before.is_some_and(|before| before.find_subcommand(word).is_none()), "{word}");
            assert!(here.starts_with("gemelo ") || here.starts_with("nothing"), "{here}");
        }
        let bench = command.find_subcommand("bench").unwrap();
        for (_, here) in OF_FIO {
            let option = here.split(' ').next().unwrap().trim_start_matches("--");
            let has = bench.get_arguments().any(|argument| argument.get_long() == Some(option));
            assert!(has, "{option}");
        }
        for (theirs, here) in OF_VOLUMES {
            let option = here.split(' ').next().unwrap().trim_start_matches("--");
            assert!(gemelo_serve::setting(option).is_some(), "{option}");
            assert!(gemelo_serve::setting(theirs).is_none(), "{theirs}");
        }
    }
}
