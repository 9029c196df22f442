//! Jobs that several hosts run together. Each kind of job says what the part of a host is, and how
//! the results of the parts become one; all else is the same for every kind.

use gemelo_record::{Provenance, ResultFile};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The result of one host.
pub type HostFile<'a, Job> =
    gemelo_record::HostFile<'a, <Job as FleetJob>::Input, <Job as FleetJob>::Measured>;

/// The result of all hosts together.
pub type FleetFile<Job> = ResultFile<<Job as FleetJob>::Input, <Job as FleetJob>::Measured>;

/// The input, the figures and the warnings of the result of all hosts.
pub type Merged<Job> = (<Job as FleetJob>::Input, <Job as FleetJob>::Measured, Vec<String>);

/// A job that several hosts run together.
pub trait FleetJob {
    /// The part of one host, as it is sent there.
    type Part: Serialize + DeserializeOwned;
    /// What a host makes of its part. The hosts compare it before any of them begins.
    type Plan: DeserializeOwned;
    /// The input of a result.
    type Input: DeserializeOwned;
    /// The figures of a result.
    type Measured: DeserializeOwned;
    /// The schema of a result.
    const SCHEMA: &'static str;

    /// Returns the parts of the hosts, in their order.
    fn parts(&self) -> Vec<Self::Part>;

    /// Compares what the hosts make of their parts.
    ///
    /// # Errors
    /// Names the first difference that makes a common result meaningless.
    fn agree(&self, hosts: &[String], plans: &[Self::Plan]) -> Result<(), String> {
        let _ = (hosts, plans);
        Ok(())
    }

    /// Returns the target, or the directory, as the user named it for all hosts.
    fn target(&self) -> Option<String>;

    /// Merges the results of the hosts that have one, of which there is at least one.
    fn merge(&self, files: &[HostFile<'_, Self>]) -> Option<Merged<Self>>;

    /// Returns the rate by which hosts are compared.
    fn rate(measured: &Self::Measured) -> f64;

    /// Returns whether the job did all of its work, and every block that was checked was right.
    fn is_success(measured: &Self::Measured) -> bool;

    /// Makes one result file of those of the hosts that have one; [`None`] if none has.
    fn file(
        &self,
        files: &[HostFile<'_, Self>],
        mut provenance: Provenance,
    ) -> Option<FleetFile<Self>> {
        provenance.target = self.target();
        provenance.seed = files.first()?.file.provenance.seed;
        let (input, result, warnings) = self.merge(files)?;
        Some(ResultFile { schema: Self::SCHEMA.to_owned(), provenance, input, result, warnings })
    }
}
