//! Tests that the schemas describe the figures of pools in the words of their tables, from which
//! text and metrics come.

use gemelo_base::{Stat, StatTable};
use serde_json::Value;
use std::path::Path;

/// The tables whose figures a pool shows, by the name of their struct.
fn tables() -> Vec<(&'static str, Vec<Stat>)> {
    vec![
        ("VolumeStat", gemelo_volume::VolumeStat::default().table()),
        ("PoolActivity", gemelo_volume::PoolActivity::default().table()),
        ("BufferStats", gemelo_store::BufferStats::default().table()),
        ("FinderStats", gemelo_volume::FinderStats::default().table()),
        ("RememberedStats", gemelo_volume::RememberedStats::default().table()),
        ("VolumeLayout", gemelo_volume::VolumeLayout::default().table()),
        ("LoadStat", gemelo_volume::LoadStat::default().table()),
        ("ServerStat", gemelo_serve::ServerStat::default().table()),
    ]
}

/// Compares each object of a schema that has all figures of a table. Returns their number.
fn compare(schema: &Value, name: &str, table: &[Stat], problems: &mut Vec<String>) -> usize {
    let mut found = 0;
    if let Some(properties) = schema.get("properties").and_then(Value::as_object)
        && table.iter().all(|stat| properties.contains_key(stat.name))
    {
        found += 1;
        for stat in table {
            let described = properties[stat.name].get("description").and_then(Value::as_str);
            if described != Some(stat.help) {
                problems.push(format!("{name}.{}: {described:?}, not {:?}", stat.name, stat.help));
            }
        }
    }
    let below: Vec<&Value> = match schema {
        Value::Object(map) => map.values().collect(),
        Value::Array(values) => values.iter().collect(),
        _ => Vec::new(),
    };
    found + below.into_iter().map(|part| compare(part, name, table, problems)).sum::<usize>()
}

#[test]
fn schemas_describe_each_figure_as_its_table_does() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/schemas");
    let (mut problems, mut found) = (Vec::new(), vec![0; tables().len()]);
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let schema: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        for ((name, table), found) in tables().iter().zip(&mut found) {
            *found += compare(&schema, name, table, &mut problems);
        }
    }
    problems.dedup();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    for ((name, _), found) in tables().iter().zip(found) {
        assert!(found > 0, "no schema has the figures of {name}");
    }
}
