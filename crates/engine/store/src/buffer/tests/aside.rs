//! Tests of contents that are set aside for their owner to replace.

use super::*;

/// The owner of a block adds to its own version of it. Whatever another write has put there
/// meanwhile, such as a healed content, is not in that version.
#[test]
fn a_content_that_another_write_has_replaced_is_not_replaced_by_its_owner() {
    let (store, buffer) = buffer(8, false);
    let set_aside = |id: u64| {
        let first = content(id);
        let mut write = ContentWrite::new(pbn(5), &first);
        buffer.write_aside(&mut write);
        write.outcome.unwrap();
    };
    set_aside(50);
    assert!(buffer.replace_aside(pbn(5), &content(51)));
    assert!(buffer.replace_aside(pbn(5), &content(52)), "its own version stays replaceable");
    write(&buffer, &[(5, 53)]);
    assert!(!buffer.replace_aside(pbn(5), &content(54)));
    assert_eq!(read(&buffer, &[5]), [53]);
    buffer.sync().unwrap();
    // A content of the block is healed, and waits as the owner's version did.
    write(&buffer, &[(5, 55)]);
    assert!(!buffer.replace_aside(pbn(5), &content(56)), "it was never set aside");
    assert_eq!(read(&buffer, &[5]), [55]);
    buffer.sync().unwrap();
    assert!(store.below.lock().durable[&5] == content(55));
    set_aside(57);
    assert!(buffer.replace_aside(pbn(5), &content(58)));
}
