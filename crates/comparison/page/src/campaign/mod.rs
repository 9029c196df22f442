//! The report of a campaign.

mod answer;
mod claims;
mod data;
mod doubts;
mod hosts;
mod judgement;
mod over_time;
mod overview;
mod runs;
mod sets;
mod space;
mod workload;

pub(crate) use data::Data;
pub(crate) use over_time::{TimeLine, is_drawn, time_picture};
pub(crate) use workload::latency_picture;

use crate::document::{Compared, Document, Item, Section, Text};
use crate::origin;
use gemelo_compare::{Groups, SettingsError};
use gemelo_record::{Paper, RecordError};
use judgement::CampaignStatistics;
use std::path::Path;

/// Reads the campaign in a directory.
pub(crate) fn read(directory: &Path) -> Result<Data, RecordError> {
    let plan = gemelo_record::read_campaign(directory)?;
    let runs = gemelo_record::read_runs(directory, &plan)?;
    let groups = Groups::of_runs(&runs);
    Ok(Data { plan, runs, groups })
}

/// Returns the report of the campaign in a directory.
///
/// # Errors
/// Fails if the record has an invalid level or margin.
pub(crate) fn document(data: &Data, directory: &Path) -> Result<Document, SettingsError> {
    let judged = CampaignStatistics::new(data)?;
    let mut sections = vec![answer::section(data, &judged)];
    sections.extend(claims::section(data, &judged));
    sections.push(overview::section(data, &judged));
    sections.extend(sets::section(data, &judged));
    sections.extend(
        data.plan.workloads.iter().map(|load| workload::section(data, &judged, load, directory)),
    );
    sections.extend(space::section(data));
    sections.extend(runs::warnings(data));
    sections.push(runs::origin(data));
    sections.push(runs::section(data));
    if let (Some(paper), Some(answer)) = (&data.plan.paper, sections.first_mut()) {
        answer.items.push(Item::Paragraph(cited(paper)));
    }
    Ok(Document {
        title: data.plan.title.clone(),
        subtitle: format!(
            "Campaign {}, started {} on {}",
            data.plan.name,
            origin::readable_time(&data.plan.provenance.started_at),
            data.plan.provenance.host
        ),
        targets: data
            .targets()
            .map(|(_, target)| Compared {
                name: target.name.clone(),
                is_measured: data.complete().any(|run| run.target == target.name),
            })
            .collect(),
        sections: sections.into_iter().filter(has_items).collect(),
    })
}

fn has_items(section: &Section) -> bool {
    !section.items.is_empty()
}

fn cited(paper: &Paper) -> Text {
    Text::new().plain(format!(
        "The plan repeats experiments of {}: {}. {}, {}.",
        paper.authors.join(", "),
        paper.title,
        paper.venue,
        paper.year
    ))
}
