//! Commands that gave a wrong answer about sound data.

mod fio;
mod names;
mod small;
mod zeros;
