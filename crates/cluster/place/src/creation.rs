//! The creation of a pool that is a member. It never overwrites anything that it was not told to.

use crate::error::Result;
use crate::member::MemberPlace;
use crate::removal::{expect_no_borrowers, remove};
use gemelo_base::Monitor;
use gemelo_base::units::format_counted;
use gemelo_domain::{MemberId, count_entries_of};
use gemelo_format::{FormatError, read_superblock};
use gemelo_member::{DomainClient, MemberDisk, MemberError, Service};
use gemelo_volume::{Pool, PoolOptions, VolumeError};
use std::fmt;

/// The objects of a member that are there before its pool is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Remains {
    contents: u64,
    metadata: u64,
    ledger: u64,
    /// Contents for which the index names the member as their home.
    lent: u64,
}

impl Remains {
    /// Lists the objects of a member. An error, such as a time-out, is no answer.
    fn find(client: &DomainClient, member: MemberId) -> Result<Self> {
        let (index, data) = (client.index(), client.data_objects());
        let count = |listed: gemelo_objects::Result<Vec<String>>| -> Result<u64> {
            Ok(listed.map_err(MemberError::from)?.len() as u64)
        };
        Ok(Self {
            contents: count(data.list(&MemberDisk::Data.prefix(member)))?,
            metadata: count(index.list(&MemberDisk::Metadata.prefix(member)))?,
            ledger: count(index.list(&format!("ledger.{member}")))?,
            lent: count_entries_of(index, member).map_err(MemberError::from)?,
        })
    }

    fn are_none(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Remains {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { contents, metadata, ledger, lent } = *self;
        write!(
            formatter,
            "{} of contents, {} of metadata, {} of its ledger, and {} that the domain expects \
             there",
            format_counted(contents, "object"),
            format_counted(metadata, "object"),
            format_counted(ledger, "object"),
            format_counted(lent, "content"),
        )
    }
}

impl MemberPlace {
    /// Creates a pool, and registers the member if the domain has none of this name. The blocks and
    /// the fingerprints are those of the domain. `texts` are kept with it. With `options.force`,
    /// what is there is destroyed, and the monitor is told before what that is.
    ///
    /// # Errors
    /// Fails if the member has objects and it was not forced, if other members use contents of it
    /// or it is not known whether they do, if it is not known what is there, if
    /// an option is out of range, or if the store fails.
    pub fn create(
        &self,
        options: &PoolOptions,
        texts: &[(&str, &str)],
        monitor: &dyn Monitor,
    ) -> Result<PoolOptions> {
        let client = self.client()?;
        let (config, shared) = (client.config(), client.shared());
        let options = PoolOptions {
            block_bytes: config.block_bytes,
            fingerprint: shared.fingerprint,
            key: Some(shared.key),
            ..options.clone()
        };
        if options.is_wide() {
            return Err(VolumeError::BadOption {
                what: "a member with room for 2^32 blocks or more".into(),
                rule: "give less, or larger blocks when the domain is created".into(),
            }
            .into());
        }
        client.register(&self.uri().name)?;
        let mut service = self.take()?;
        service.note_use();
        let remains = Remains::find(&client, service.member())?;
        if !remains.are_none() && !service.is_being_created()? {
            if !options.force {
                return Err(self.refusal(&service, &remains).into());
            }
            expect_no_borrowers(&client, service.member())?;
            monitor.warn(&format!("{}: destroying what is there: {remains}", self.uri()));
            service = self.replace(service)?;
        }
        service.begin_creation()?;
        for (name, text) in texts {
            service.set_value(name, text.as_bytes())?;
        }
        Pool::format(&service.disks(), &options)?;
        service.finish_creation()?;
        service.release()?;
        Ok(options)
    }

    /// Returns the error about a member that has objects.
    fn refusal(&self, service: &Service, remains: &Remains) -> MemberError {
        let name = self.uri().name.clone();
        let disks = service.disks();
        match read_superblock(&*disks.metadata, &mut Vec::new()) {
            Ok(_)
            | Err(
                FormatError::Damaged { .. }
                | FormatError::LostHeads { .. }
                | FormatError::ReadableOnly { .. }
                | FormatError::Unknown { .. },
            ) => MemberError::PoolExists { name },
            Err(FormatError::NotAPool { .. } | FormatError::Io { .. }) => {
                MemberError::Remains { name, remains: remains.to_string() }
            }
        }
    }

    /// Removes the objects of a member, and registers its name with another number. The entries of
    /// the index that name the old number lead to nothing, and never to blocks of the new pool.
    fn replace(&self, old: Service) -> Result<Service> {
        let (client, name, member) = (self.client()?, &self.uri().name, old.member());
        remove(&old, name)?;
        old.release()?;
        let number = client.register(name)?;
        assert_ne!(number, member, "a number is not used twice");
        let service = self.take()?;
        service.note_use();
        Ok(service)
    }
}
