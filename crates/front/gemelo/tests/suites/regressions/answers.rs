//! Commands that gave a wrong answer about sound data.
