//! The text about what a repair of a pool gives up.

use gemelo_base::units::format_counted;
use gemelo_format::LostHistory;
use gemelo_volume::{RenamedVolume, RepairCost, RepairOutlook, RepairPlan};

/// Returns whether a repair gives up anything.
pub(super) fn gives_up(outlook: &RepairOutlook) -> bool {
    outlook.lost_history.is_some() || !outlook.roll_back.costs.is_empty()
}

/// Says what a repair gives up, a line for each volume; empty if that is nothing. With a choice,
/// says what each gives up.
pub(super) fn describe(outlook: &RepairOutlook) -> String {
    if !gives_up(outlook) {
        return String::new();
    }
    let lost = outlook.lost_history.as_ref();
    match &outlook.skip {
        None => {
            let changes = lost.map(|lost| changes_of(lost) + "\n").unwrap_or_default();
            format!("a repair gives up:\n{changes}{}", describe_plan(&outlook.roll_back))
        }
        Some(skip) => {
            let changes = lost.map(changes_of).unwrap_or_default();
            format!(
                "a repair gives up, with --lost-commit skip, which keeps later commits:\n\
                 {changes}: what only they changed goes back to what it held before, or is lost\n{}\
                 a repair gives up, with --lost-commit roll-back, which goes back to the state before:\n\
                 {changes}, and all later ones\n{}",
                describe_plan(skip),
                describe_plan(&outlook.roll_back)
            )
        }
    }
}

/// A line about lost commits.
fn changes_of(lost: &LostHistory) -> String {
    let commits = format_counted(lost.commits, "lost commit");
    let (holds, has) = match lost.commits {
        1 => ("its length holds", "its length is"),
        _ => ("their length hold", "their length is"),
    };
    match lost.max_changes {
        Some(most) => {
            let changes = format_counted(most, "change");
            format!("  {commits}, which by {holds} at most {changes} of blocks or volumes")
        }
        None => format!("  {commits} with an unknown number of changes: {has} lost, too"),
    }
}

fn describe_plan(plan: &RepairPlan) -> String {
    let mut text: String = plan.costs.iter().map(describe_cost).collect();
    if plan.left_out_changes > 0 {
        let changes = format_counted(plan.left_out_changes, "change");
        text += &format!("  {changes} of later commits, of what only the lost ones made\n");
    }
    for RenamedVolume { before, after } in &plan.renamed {
        let (before, after) = (before.escape_debug(), after.escape_debug());
        text += &format!(
            "  the name of a volume '{before}' that the lost commits removed or renamed: it is kept as \
             '{after}'\n"
        );
    }
    text
}

fn describe_cost(cost: &RepairCost) -> String {
    let RepairCost { volume, lost_blocks, undone_blocks } = cost;
    let mut parts = Vec::new();
    if *lost_blocks > 0 {
        let blocks = format_counted(*lost_blocks, "block");
        parts.push(format!("{blocks} whose content is lost: reads fail until they are written"));
    }
    if *undone_blocks > 0 {
        let blocks = format_counted(*undone_blocks, "block");
        parts.push(format!("up to {blocks} written last: they go back to what they held before"));
    }
    format!("  volume '{}': {}\n", volume.escape_debug(), parts.join("; "))
}
