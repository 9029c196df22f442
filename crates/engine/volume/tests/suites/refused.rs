//! Changes that contradict the state are refused: the command fails, and the pool goes on.

use crate::common::hold::Call;
use crate::common::simulated::{METADATA, Simulation};
use crate::common::{BLOCK, content, open, options_with, read, tuning, write};
use gemelo_base::{Silent, StopFlag};
use gemelo_format::{DedupMode, Policy};
use gemelo_volume::Pool;

/// A resize that fails after the volume has its new size leaves LBNs mapped beyond the end. They
/// are no references that the arranger may change.
#[test]
fn blocks_are_arranged_after_a_shrink_that_failed_halfway() {
    for policy in Policy::ALL {
        for fails in [false, true] {
            let simulation = Simulation::new(1);
            Pool::format(&simulation.disks(), &options_with(policy, 400)).unwrap();
            let pool = open(&simulation.disks(), tuning()).unwrap();
            for name in ["a", "b"] {
                pool.create_volume(name, 60 * BLOCK as u64, DedupMode::Inline).unwrap();
            }
            let (a, b) = (pool.volume("a").unwrap(), pool.volume("b").unwrap());
            for lbn in (0..60).map(|number| number * 37 % 60) {
                write(&a, lbn * BLOCK as u64, &content(lbn + 1, BLOCK)).unwrap();
            }
            for lbn in 0..60 {
                write(&b, lbn * BLOCK as u64, &content(lbn + 1, BLOCK)).unwrap();
            }
            pool.checkpoint().unwrap();
            if fails {
                simulation.fail_next(METADATA, Call::Write, 0..u64::MAX);
            }
            assert_eq!(pool.resize_volume("b", 10 * BLOCK as u64).is_err(), fails, "{policy:?}");
            let arranged = pool.arrange(None, &Silent, &StopFlag::new()).unwrap();
            // A block with a reference beyond the end has one that is not known, and stays.
            assert!(fails || arranged.moved_blocks > 0, "{policy:?}");
            assert_eq!(pool.stopped(), None);
            assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new(), "{policy:?} {fails}");
            pool.flush().unwrap();
            // LBNs beyond the end do not come back.
            pool.resize_volume("b", 60 * BLOCK as u64).unwrap();
            for lbn in 0..60 {
                assert!(read(&a, lbn * BLOCK as u64, BLOCK).unwrap() == content(lbn + 1, BLOCK));
                let expected = if lbn < 10 { lbn + 1 } else { 0 };
                assert!(read(&b, lbn * BLOCK as u64, BLOCK).unwrap() == content(expected, BLOCK));
            }
            assert_eq!(pool.prove(10).unwrap(), Vec::<String>::new());
        }
    }
}
