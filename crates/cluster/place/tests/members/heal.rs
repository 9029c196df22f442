//! A member whose own block rots has the content back from the domain, by a scrub and by a repair.

use crate::domain::{BLOCK, Domain, Process, content, expect};
use gemelo_base::{Silent, StopFlag};
use gemelo_check::{CheckOptions, check};
use gemelo_disk::DiskAccess;
use gemelo_objects::Objects;
use gemelo_place::PoolPlace;
use gemelo_volume::{LossChoice, RepairOptions, ScrubOptions, repair, repair_outlook};

/// Flips a bit of every stored copy of a content but the first. Returns the number of copies.
fn rot_all_but_first(process: &Process, id: u64) -> usize {
    let (store, wanted) = (&process.store, content(id));
    let mut copies = 0;
    for object in store.list("data.").unwrap() {
        let mut bytes = vec![0; 4 << 20];
        let filled = store.read(&object, 0, &mut bytes).unwrap();
        bytes.truncate(filled);
        for (number, block) in bytes.chunks(BLOCK).enumerate() {
            if block == wanted {
                copies += 1;
                if copies > 1 {
                    let offset = (number * BLOCK + 7) as u64;
                    store.write(&object, offset, &[block[7] ^ 1]).unwrap();
                }
            }
        }
    }
    copies
}

#[test]
fn what_another_member_has_heals_a_member() {
    for repairs in [true, false] {
        let domain = Domain::new();
        let (first, second) = (domain.process(), domain.process());
        let one = first.filled("one", 1..=8);
        one.share(&StopFlag::new()).unwrap();
        // The second member has not shared yet, so it has blocks of its own.
        second.filled("two", 5..=12).close().unwrap();
        assert_eq!(rot_all_but_first(&second, 6), 2);
        if repairs {
            let place = PoolPlace::Member(Box::new(second.place("two")));
            let held = place.open_disks(DiskAccess::Exclusive).unwrap();
            let (disks, stop) = (held.disks(), StopFlag::new());
            let found = check(&disks, CheckOptions { data: true }, &Silent, &stop).unwrap();
            let outlook = repair_outlook(&disks, true, &Silent, &stop).unwrap();
            assert_eq!(outlook.roll_back.healed_blocks, found.damaged_blocks);
            let options = RepairOptions { data: true, choice: LossChoice::Skip };
            let plan = repair(&disks, options, &Silent, &stop).unwrap();
            assert_eq!((plan.costs, plan.healed_blocks), (Vec::new(), found.damaged_blocks));
            let found = check(&disks, CheckOptions { data: true }, &Silent, &stop).unwrap();
            assert!(found.is_sound(), "{:?}", found.problems);
            drop(disks);
            held.release().unwrap();
        }
        let two = second.serve("two");
        if !repairs {
            let options = ScrubOptions { heals: true, ..ScrubOptions::default() };
            let report = two.pool().scrub(options, &Silent, &StopFlag::new()).unwrap();
            assert_eq!((report.is_clean(), report.healed_contents), (true, 1), "{report:?}");
        }
        expect(&two, 5..=12);
        two.share(&StopFlag::new()).unwrap();
        expect(&two, 5..=12);
        two.close().unwrap();
        one.close().unwrap();
    }
}
