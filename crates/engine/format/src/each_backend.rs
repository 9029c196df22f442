//! A test for each metadata backend.

use crate::BackendKind;

const _: () = assert!(BackendKind::ALL.len() == 5, "`test_each_backend` has a test for each");

/// Makes a module of tests, one for each backend, which call a function with its kind. So a backend
/// that is added later is tested by every suite.
#[macro_export]
macro_rules! test_each_backend {
    ($module:ident, $test:ident) => {
        mod $module {
            use $crate::BackendKind;

            #[test]
            fn log() {
                super::$test(BackendKind::Log);
            }

            #[test]
            fn ram() {
                super::$test(BackendKind::Ram);
            }

            #[test]
            fn table() {
                super::$test(BackendKind::Table);
            }

            #[test]
            fn btree() {
                super::$test(BackendKind::BTree);
            }

            #[test]
            fn compact() {
                super::$test(BackendKind::Compact);
            }
        }
    };
}
