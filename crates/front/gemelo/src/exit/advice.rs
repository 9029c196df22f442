//! Advice on failures, in the words of the command line.
//!
//! Libraries do not know the options of the command line. They state a [`Remedy`], and this module
//! names the options that bring it about.

use gemelo_base::Remedy;
use std::borrow::Cow;

/// Returns the advice that names the options which help. It follows the text of the failure after a
/// colon.
pub(super) fn text(remedy: &Remedy) -> Cow<'static, str> {
    Cow::Borrowed(match remedy {
        Remedy::Overwrite => "name another device, or use --force to overwrite it",
        Remedy::OverwriteFile => "give another target, or use --force to overwrite the file",
        Remedy::OverwriteTarget => "give another target, or use --force to overwrite it",
        Remedy::TargetVolume { pool, volume } => {
            let pool = pool.as_deref().unwrap_or("DIR");
            let volume = volume.as_deref().unwrap_or("VOLUME");
            let target = format!("pool:{pool}/{volume}");
            return format!("give {target} as target for a volume of it, or another place").into();
        }
        Remedy::ForceRemoval => "use --force to remove it",
        Remedy::ForceRollback => "use --force to disconnect them and to roll it back",
        Remedy::ForceCut => "use --force to cut it",
        Remedy::UseNewer => "use the version of gemelo that the pool was made with, or a newer one",
        Remedy::Check => "run `gemelo pool check` to see what is left",
        Remedy::Salvage => "--salvage exports the rest, with zeros in place of bad blocks",
        Remedy::Encrypt => "encrypt with --tls-certificate and --tls-key, or use --insecure",
        Remedy::Listen => {
            "give --listen unix:PATH, --listen tcp:HOST:PORT, --vhost-user DIR or --ublk"
        }
        Remedy::Serve => "run `gemelo serve POOL --ublk` as root, or its unit",
        Remedy::ListenAtFile => {
            "give --listen unix:PATH, or leave out --socket-mode and --socket-group"
        }
        Remedy::MemoryForClients => {
            "raise --client-memory, or allow fewer clients with --max-connections"
        }
        Remedy::MemoryForTrace => "raise --memory, or count fewer records or devices",
        Remedy::NoDirect => "use --sync none or --sync fsync, and leave out --direct",
        Remedy::UsePsync => "use --engine psync",
        Remedy::UseIoUring => "use --engine io-uring",
        Remedy::OneProcess => "use --processes 1",
        Remedy::VerifyFinal => "use --verify final",
        Remedy::VerifyNothing => "use --verify none",
        Remedy::CheckNoReads => "leave out --verify",
        Remedy::SkipMalformed => "use --skip-malformed to skip such lines",
        Remedy::NameFormat => "give its format with --format",
        Remedy::MergeTraces => "merge some of the files first with `gemelo trace convert`",
        Remedy::BlockSize(bytes) => {
            return format!("use --block-size {bytes}, or a multiple of it").into();
        }
        Remedy::FoldOrDense => "use --map fold or --map dense, or a larger target",
        Remedy::FoldToSize => "give --size with --map fold",
        Remedy::ReuseFileset => {
            "add reuse to the fileset to use the existing files, or use --force to remove them"
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gemelo_base::Classified;
    use gemelo_replay::PlanError;
    use gemelo_serve::RequestFailure;
    use gemelo_target::TargetError;
    use gemelo_trace::BlockError;

    #[test]
    fn the_advice_on_an_error_of_a_library_names_the_option_that_helps() {
        let of = |error: &dyn Classified| text(&error.remedy().unwrap()).into_owned();
        assert!(of(&TargetError::Exists { path: "x".into() }).contains("--force"));
        assert!(of(&gemelo_load::JobError::SynchronousDepth).contains("--engine io-uring"));
        let block = BlockError { hash_bytes: 512, block_bytes: 100 };
        assert!(of(&block).contains("--block-size 512"));
        assert!(of(&PlanError::Block(block)).contains("--block-size 512"));
        let refused = RequestFailure::refused("x");
        assert_eq!(refused.remedy(), None);
        assert!(of(&refused.with_remedy(Remedy::Encrypt)).contains("--tls-key"));
    }
}
