//! Examples of each command, for its help and its manual page. A test reads every one as the
//! program would.

/// The lines of examples of the commands, by their words.
const EXAMPLES: &[(&str, &[&str])] = &[
    (
        "scan",
        &["gemelo scan /srv/images", "gemelo scan /dev/vg/data --block-size 8k --json scan.json"],
    ),
    ("scan merge", &["gemelo scan merge host1.set host2.set"]),
    ("distribution show", &["gemelo distribution show personal"]),
    ("distribution compare", &["gemelo distribution compare personal measured.dist"]),
    ("distribution check", &["gemelo distribution check measured.dist"]),
    ("distribution scale", &["gemelo distribution scale personal --bytes 10g --output small.dist"]),
    ("distribution convert", &["gemelo distribution convert personal --output personal.dist"]),
    (
        "distribution fit",
        &["gemelo distribution fit --unique-share 60 --duplicate-share 30 --output fit.dist"],
    ),
    ("trace stat", &["gemelo trace stat web.blkparse.gz"]),
    ("trace convert", &["gemelo trace convert mail.trace --to fiu --output mail.fiu"]),
    (
        "trace synthesize",
        &["gemelo trace synthesize --preset web --records 1000000 --output web.trace"],
    ),
    ("generate", &["gemelo generate --distribution personal --bytes 10g data.img"]),
    (
        "bench",
        &[
            "gemelo bench --target /mnt/test --file-size 1g --time 60s",
            "gemelo bench --target nbd+unix:///web?socket=/run/gemelo/vms.sock --operation mixed --pattern nurand --rate 500 --time 5m",
        ],
    ),
    ("suite", &["gemelo suite --target /mnt/test --file-size 1g --json suite.json"]),
    ("replay", &["gemelo replay web.trace --target /dev/vg/test --force"]),
    ("filebench", &["gemelo filebench fileserver.f --dir /mnt/test"]),
    ("dedisbench", &["gemelo dedisbench --dry-run -p -w -t5 -s1024"]),
    (
        "verify",
        &[
            "gemelo bench --target /mnt/test --file-size 1g --keep --json run.json",
            "gemelo verify run.json",
        ],
    ),
    ("log", &["gemelo log operations.log"]),
    (
        "compare",
        &[
            "gemelo compare before.json after.json",
            "gemelo compare before.json after.json --fail-if-slower 5",
        ],
    ),
    (
        "campaign run",
        &[
            "gemelo campaign run quick --out results --plan",
            "gemelo campaign run quick --out results",
        ],
    ),
    ("campaign ls", &["gemelo campaign ls"]),
    ("campaign clean", &["gemelo campaign clean results"]),
    ("campaign report", &["gemelo campaign report results"]),
    ("report", &["gemelo report run.json --output run.html"]),
    (
        "pool create",
        &[
            "gemelo pool create /var/lib/gemelo/vms --capacity 500g",
            "gemelo pool create /var/lib/gemelo/vms --data /dev/vg/vms --compression lz4",
        ],
    ),
    ("pool estimate", &["gemelo pool estimate --capacity 10t --dedup-ratio 3"]),
    (
        "pool stat",
        &["gemelo pool stat /var/lib/gemelo/vms", "gemelo pool stat /var/lib/gemelo/vms --json -"],
    ),
    ("pool status", &["gemelo pool status /var/lib/gemelo/vms || echo look at it"]),
    (
        "pool set",
        &[
            "gemelo pool set /var/lib/gemelo/vms --finder-window 01:00-05:00 --scrub-interval 30d",
            "gemelo pool set /var/lib/gemelo/vms --finder-window default",
        ],
    ),
    (
        "pool get",
        &[
            "gemelo pool get /var/lib/gemelo/vms",
            "gemelo pool get /var/lib/gemelo/vms cache write-buffer",
        ],
    ),
    ("pool tick", &["gemelo pool tick /var/lib/gemelo/vms"]),
    ("pool gc", &["gemelo pool gc /var/lib/gemelo/vms --rate 100m"]),
    (
        "pool dedup",
        &[
            "gemelo pool dedup /var/lib/gemelo/vms --estimate",
            "gemelo pool dedup /var/lib/gemelo/vms",
        ],
    ),
    ("pool defrag", &["gemelo pool defrag /var/lib/gemelo/vms --rate 200m"]),
    (
        "pool recompress",
        &[
            "gemelo volume set /var/lib/gemelo/vms/web --compression zstd:9",
            "gemelo pool recompress /var/lib/gemelo/vms",
        ],
    ),
    ("pool scrub", &["gemelo pool scrub /var/lib/gemelo/vms --rate 100m"]),
    (
        "pool check",
        &[
            "gemelo pool check /var/lib/gemelo/vms",
            "gemelo pool check /var/lib/gemelo/vms --repair",
        ],
    ),
    ("pool grow", &["gemelo pool grow /var/lib/gemelo/vms --capacity 1t"]),
    (
        "pool shrink",
        &[
            "gemelo pool shrink /var/lib/gemelo/vms --capacity 500g --dry-run",
            "gemelo pool shrink /var/lib/gemelo/vms --capacity 500g --rate 100m",
        ],
    ),
    (
        "pool unit",
        &[
            "gemelo pool unit /var/lib/gemelo/vms | sudo tee /etc/systemd/system/gemelo@vms.service.d/disks-of-pool.conf",
        ],
    ),
    ("pool hand-over", &["gemelo pool hand-over rados:rbd/vms/host1"]),
    ("pool ls", &["gemelo pool ls /var/lib/gemelo"]),
    ("pool rm", &["gemelo pool rm /var/lib/gemelo/old"]),
    (
        "volume create",
        &[
            "gemelo volume create /var/lib/gemelo/vms/web --size 100g",
            "gemelo volume create /var/lib/gemelo/vms/backup --size 1t --dedup offline",
        ],
    ),
    ("volume ls", &["gemelo volume ls /var/lib/gemelo/vms"]),
    ("volume stat", &["gemelo volume stat /var/lib/gemelo/vms/web"]),
    (
        "volume set",
        &[
            "gemelo volume set /var/lib/gemelo/vms/web --every 1h --keep '24h 7d 4w'",
            "gemelo volume set /var/lib/gemelo/vms/web --dedup offline --finder-delay 1m",
            "gemelo volume set /var/lib/gemelo/vms/web --iops 500 --quota 100g",
        ],
    ),
    (
        "volume get",
        &[
            "gemelo volume get /var/lib/gemelo/vms/web",
            "gemelo volume get /var/lib/gemelo/vms/web every keep",
        ],
    ),
    ("volume resize", &["gemelo volume resize /var/lib/gemelo/vms/web --size 200g"]),
    ("volume rename", &["gemelo volume rename /var/lib/gemelo/vms/web www"]),
    ("volume rm", &["gemelo volume rm /var/lib/gemelo/vms/web --force"]),
    (
        "volume snapshot",
        &[
            "gemelo volume snapshot /var/lib/gemelo/vms/web before-upgrade",
            "gemelo volume snapshot /var/lib/gemelo/vms/web web-1 /var/lib/gemelo/vms/db db-1",
        ],
    ),
    ("volume rollback", &["gemelo volume rollback /var/lib/gemelo/vms/web before-upgrade"]),
    ("volume hold", &["gemelo volume hold /var/lib/gemelo/vms/before-upgrade --tag audit"]),
    ("volume release", &["gemelo volume release /var/lib/gemelo/vms/before-upgrade --tag audit"]),
    ("volume clone", &["gemelo volume clone /var/lib/gemelo/vms/web web-test"]),
    ("volume import", &["gemelo volume import disk.raw /var/lib/gemelo/vms/web"]),
    ("volume export", &["gemelo volume export /var/lib/gemelo/vms/web disk.raw"]),
    ("volume diff", &["gemelo volume diff /var/lib/gemelo/vms/monday /var/lib/gemelo/vms/tuesday"]),
    (
        "volume send",
        &[
            "gemelo volume send /var/lib/gemelo/vms/monday | ssh backup gemelo volume receive /srv/pool/monday",
        ],
    ),
    ("volume receive", &["gemelo volume receive /srv/pool/monday <monday.stream"]),
    ("volume copy", &["gemelo volume copy /var/lib/gemelo/vms/monday backup:/srv/pool/monday"]),
    ("volume verify", &["gemelo volume verify /var/lib/gemelo/vms/monday backup:/srv/pool/monday"]),
    ("volume prune", &["gemelo volume prune /srv/pool/monday --keep '24h 7d 4w'"]),
    (
        "serve",
        &[
            "gemelo serve /var/lib/gemelo/vms --listen unix:/run/gemelo/vms.sock",
            "gemelo serve /var/lib/gemelo/vms --listen unix:/run/gemelo/vms/web.sock,volume=web-*",
            "gemelo serve /var/lib/gemelo/vms --vhost-user /run/gemelo/vhost --socket-group kvm",
            "gemelo serve /var/lib/gemelo/vms --ublk",
        ],
    ),
    ("attach", &["gemelo attach /var/lib/gemelo/vms/web"]),
    ("detach", &["gemelo detach /var/lib/gemelo/vms/web"]),
    ("domain create", &["gemelo domain create rados:rbd/vms"]),
    ("domain ls", &["gemelo domain ls rados:rbd/vms"]),
    ("domain stat", &["gemelo domain stat rados:rbd/vms"]),
    ("domain rm", &["gemelo domain rm rados:rbd/vms"]),
    ("domain check", &["gemelo domain check rados:rbd/vms"]),
    ("support", &["gemelo support /var/lib/gemelo/vms --json vms-support.json"]),
    ("completions", &["source <(gemelo completions bash)"]),
    ("manual", &["gemelo manual /usr/local/share/man/man1"]),
    ("schema", &["gemelo schema bench"]),
];

/// Returns the examples of a command.
pub(crate) fn examples_of(words: &str) -> Option<&'static [&'static str]> {
    EXAMPLES.iter().find(|(name, _)| *name == words).map(|(_, lines)| *lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::Arguments;
    use crate::commands::list::COMMANDS;
    use clap::CommandFactory;

    /// The words of the calls of the program in a line of a shell.
    fn calls(line: &str) -> Vec<Vec<String>> {
        let is_end = |c: char| matches!(c, '|' | '<' | '(' | ')');
        let parts = line.split(is_end).map(str::trim);
        let calls = parts.filter_map(|part| Some(part.split_once("gemelo ")?.1));
        let words = |call: &str| {
            let quoted = call.split('\'').enumerate();
            let words = quoted.flat_map(|(at, part)| match at % 2 {
                0 => part.split_whitespace().map(str::to_owned).collect(),
                _ => vec![part.to_owned()],
            });
            std::iter::once("gemelo".to_owned()).chain(words).collect()
        };
        calls.map(words).collect()
    }

    #[test]
    fn every_command_has_examples_that_the_program_takes() {
        for command in COMMANDS {
            let lines = examples_of(command.name);
            assert!(lines.is_some_and(|lines| !lines.is_empty()), "{}", command.name);
        }
        for (name, lines) in EXAMPLES {
            assert!(COMMANDS.iter().any(|command| command.name == *name), "{name}");
            let mut is_named = false;
            for line in *lines {
                for words in calls(line) {
                    is_named |= words[1..].join(" ").starts_with(name);
                    let parsed = Arguments::command().try_get_matches_from(&words);
                    assert!(parsed.is_ok(), "{line}: {}", parsed.err().unwrap());
                }
            }
            assert!(is_named, "{name}");
        }
    }
}
