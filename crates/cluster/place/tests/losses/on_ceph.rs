//! The cases whose loss is the worst, on Ceph.

use crate::base::Base;
use crate::case::run;
use crate::ceph::Ceph;
use crate::faults::{Fault, cases};
use crate::matrix::judge;
use gemelo_domain::Client;
use std::sync::Arc;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(30);

#[test]
fn the_worst_losses_on_ceph() {
    let Some(ceph) = Ceph::start() else { return };
    let connect = |namespace: &str| -> Arc<dyn Client> {
        Arc::new(ceph.connect("gemelo", namespace, TIMEOUT).unwrap())
    };
    let base =
        Base::make(&|| connect("base"), &|| std::thread::sleep(Duration::from_secs(1)), None);
    let mut bad = Vec::new();
    let is_worst = |name: &str| {
        let parts =
            ["ledger.00000001", "ledger.00000002.0000", "all of meta.00000001", "member.00000001"];
        parts.iter().any(|part| name.contains(part)) && !name.contains(" key ")
    };
    let all = [Fault::Lost, Fault::Older].map(|fault| cases(&base, fault));
    let worst = all.into_iter().flatten().filter(|case| is_worst(&case.name));
    for (number, case) in worst.enumerate() {
        let namespace = format!("case{number}");
        let seen = run(&case, &base.images, &|| connect(&namespace), true);
        bad.extend(judge(&case, &seen));
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}
