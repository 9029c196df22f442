//! Damaged pools that were passed over in silence, or stopped the program.
