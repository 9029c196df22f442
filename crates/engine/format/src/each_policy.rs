//! A test for each policy of the metadata.

use crate::Policy;

const _: () = assert!(Policy::ALL.len() == 4, "`test_each_policy` has a test for each");

/// Makes a module of tests, one for each policy, which call a function with it. So a policy
/// that is added later is tested by every suite.
#[macro_export]
macro_rules! test_each_policy {
    ($module:ident, $test:ident) => {
        mod $module {
            use $crate::Policy;

            #[test]
            fn inram() {
                super::$test(Policy::InRam);
            }

            #[test]
            fn dtb() {
                super::$test(Policy::Dtb);
            }

            #[test]
            fn cbt() {
                super::$test(Policy::Cbt);
            }

            #[test]
            fn compact() {
                super::$test(Policy::Compact);
            }
        }
    };
}
