//! Stores over other stores leave most methods to the one below.

/// Writes methods of the traits of stores that a store leaves to the one in a field:
/// `forward_to!(below: blocks, enlarge);`. A method that is named nowhere does not build, so none
/// is lost in silence.
#[macro_export]
macro_rules! forward_to {
    ($($field:ident).+: $($method:ident),+ $(,)?) => {
        $crate::forward_each!(($($field).+) $($method)+);
    };
}

/// The methods of [`forward_to`], one after another.
#[doc(hidden)]
#[macro_export]
macro_rules! forward_each {
    (($($field:ident).+)) => {};
    (($($field:ident).+) $method:ident $($rest:ident)*) => {
        $crate::forward_one!($method $($field).+);
        $crate::forward_each!(($($field).+) $($rest)*);
    };
}

/// One method of [`forward_to`].
#[doc(hidden)]
#[macro_export]
macro_rules! forward_one {
    (blocks $($to:tt)+) => {
        fn blocks(&self) -> std::io::Result<u64> {
            self.$($to)+.blocks()
        }
    };
    (enlarge $($to:tt)+) => {
        fn enlarge(&self, blocks: u64) -> std::io::Result<()> {
            self.$($to)+.enlarge(blocks)
        }
    };
    (cut $($to:tt)+) => {
        fn cut(&self, blocks: std::ops::Range<u64>) -> std::io::Result<()> {
            self.$($to)+.cut(blocks)
        }
    };
    (copy_label $($to:tt)+) => {
        fn copy_label(&self, to: $crate::Pbn) -> Result<(), $crate::FormatError> {
            self.$($to)+.copy_label(to)
        }
    };
    (write_labels $($to:tt)+) => {
        fn write_labels(&self) -> Result<(), $crate::FormatError> {
            self.$($to)+.write_labels()
        }
    };
    (check_labels $($to:tt)+) => {
        fn check_labels(&self) -> Result<Vec<String>, $crate::FormatError> {
            self.$($to)+.check_labels()
        }
    };
    (content_of_form $($to:tt)+) => {
        fn content_of_form(&self, pbn: $crate::Pbn, form: &[u8]) -> Option<Vec<u8>> {
            self.$($to)+.content_of_form(pbn, form)
        }
    };
    (write_forms $($to:tt)+) => {
        fn write_forms(
            &self,
            forms: &[($crate::Pbn, &[u8])],
        ) -> std::io::Result<Vec<($crate::Pbn, Vec<u8>)>> {
            self.$($to)+.write_forms(forms)
        }
    };
    (reserve $($to:tt)+) => {
        fn reserve(&self, writes: &mut [$crate::ContentWrite<'_>]) {
            self.$($to)+.reserve(writes);
        }
    };
    (wants_reserve_ahead $($to:tt)+) => {
        fn wants_reserve_ahead(&self) -> bool {
            self.$($to)+.wants_reserve_ahead()
        }
    };
    (reserve_ahead $($to:tt)+) => {
        fn reserve_ahead(&self) {
            self.$($to)+.reserve_ahead();
        }
    };
    (discard $($to:tt)+) => {
        fn discard(&self, first: $crate::Pbn, count: u32) -> std::io::Result<()> {
            self.$($to)+.discard(first, count)
        }
    };
    (min_discard_blocks $($to:tt)+) => {
        fn min_discard_blocks(&self) -> u32 {
            self.$($to)+.min_discard_blocks()
        }
    };
    (allocated_bytes $($to:tt)+) => {
        fn allocated_bytes(&self) -> Option<u64> {
            self.$($to)+.allocated_bytes()
        }
    };
    (block_bytes $($to:tt)+) => {
        fn block_bytes(&self) -> usize {
            self.$($to)+.block_bytes()
        }
    };
    (write $($to:tt)+) => {
        fn write(&self, writes: &mut [$crate::ContentWrite<'_>]) {
            self.$($to)+.write(writes);
        }
    };
    (sync $($to:tt)+) => {
        fn sync(&self) -> std::io::Result<()> {
            self.$($to)+.sync()
        }
    };
}
