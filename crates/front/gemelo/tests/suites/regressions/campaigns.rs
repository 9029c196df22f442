//! Campaigns that took away, compared or decided what they should not.

mod family;
mod names;
mod removal;
