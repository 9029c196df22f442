//! Defects that were found and mended, one test each: the test builds the input that showed the
//! defect, and fails without the mend. Each module has the defects of one part of the program,
//! and `elsewhere` names the tests that are beside the parts.

mod advice;
mod answers;
mod background;
mod campaigns;
mod damage;
mod elsewhere;
mod exchanged;
mod features;
mod filebench;
mod killed;
mod lengths;
mod loss;
mod memory;
mod papers;
mod pruned;
mod resumed;
mod serving;
mod stops;
mod traces;
mod verified;
mod waiting;
