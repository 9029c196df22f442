//! Tests of reads that are left because they would wait for the medium.

use super::*;

/// Contents in memory are read although others wait, and each read is counted when it is done.
#[test]
fn reads_that_would_wait_are_left_by_the_store_below() {
    let (store, buffer) = buffer(8, false);
    write(&buffer, &[(3, 30), (4, 40)]);
    buffer.sync().unwrap();
    store.below.lock().contents.insert(9, content(90));
    for below in [&*store as &dyn Store, &buffer] {
        let mut buffers = vec![[0u8; BLOCK]; 4];
        let pairs = [8, 3, 9, 4].into_iter().zip(&mut buffers);
        let mut reads: Vec<ContentRead<'_>> =
            pairs.map(|(number, buffer)| ContentRead::new(pbn(number), 0, buffer)).collect();
        store.below.lock().cold = [3, 4, 8].into();
        let before = buffer.cache_figures();
        below.read_ready(&mut reads);
        let left: Vec<bool> = reads.iter().map(ContentRead::is_left).collect();
        let figures = buffer.cache_figures();
        let counted = (figures.hits - before.hits, figures.misses - before.misses);
        if std::ptr::addr_eq(below, &raw const buffer) {
            assert_eq!((left, counted), (vec![true, false, false, false], (2, 1)));
            assert!(buffers[1..].concat() == [content(30), content(90), content(40)].concat());
        } else {
            assert_eq!((left, counted), (vec![true, true, false, true], (0, 0)));
        }
    }
    let held = Arc::new(crate::Contents::from([(pbn(8), content(80))]));
    let overlaid = crate::OverlaidStore::over(store, held);
    let mut buffers = [[0u8; BLOCK]; 2];
    let [first, second] = &mut buffers;
    let mut reads = [ContentRead::new(pbn(8), 0, first), ContentRead::new(pbn(4), 0, second)];
    overlaid.read_ready(&mut reads);
    assert_eq!(reads.map(|read| read.is_left()), [false, true]);
    assert!(buffers[0][..] == content(80));
}
