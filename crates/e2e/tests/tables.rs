//! Exported tables in the tools that people open them with: DuckDB for Parquet, polars for Arrow.

use std::process::Command;

use anyhow::{Context, ensure};
use vramscope_e2e::{root, vramscope};

/// Recordings that are compared, one with several pools and one with a late start among them.
const RECORDINGS: [&str; 4] = ["llama_python", "cudagraph_pools", "late_start", "oom"];

/// The highest of each counter by SQL, and what is live at the end by joining tables.
const SCRIPT: &str = "
import json, sys, duckdb, polars
folder, want = sys.argv[1], json.loads(sys.argv[2])
for counter in ('requested', 'allocated', 'active', 'reserved'):
    parquet = duckdb.sql(f\"select max({counter}) from '{folder}/events.parquet'\").fetchone()[0]
    arrow = polars.read_ipc(f'{folder}/events.arrow', memory_map=False)[counter].max()
    start = want['start'][counter]
    assert max(parquet, start) == max(arrow, start) == want['peak'][counter]['bytes'], (counter, parquet, arrow)
live = duckdb.sql(f\"select coalesce(sum(requested), 0) from '{folder}/allocations.parquet' where free_event is null\").fetchone()[0]
assert live == want['end']['requested'], live
frames = duckdb.sql(f\"select count(*) from '{folder}/stacks.parquet' s join '{folder}/frames.parquet' f on s.frame = f.frame\").fetchone()[0]
rows = duckdb.sql(f\"select count(*) from '{folder}/stacks.parquet'\").fetchone()[0]
assert frames == rows, (frames, rows)
csv = duckdb.sql(f\"select max(requested) from read_csv('{folder}/events.csv')\").fetchone()[0]
assert max(csv, want['start']['requested']) == want['peak']['requested']['bytes'], csv
";

#[test]
fn duckdb_and_polars_read_the_numbers_of_pytorch() -> anyhow::Result<()> {
    let python = root().join("target/python/bin/python");
    for recording in RECORDINGS {
        let path = root().join(format!("testdata/recordings/{recording}.pickle.xz"));
        let folder = tempfile::tempdir()?;
        let tables =
            [("events", "parquet"), ("events", "arrow"), ("events", "csv"), ("allocations", "parquet")];
        for (table, format) in tables.into_iter().chain([("stacks", "parquet"), ("frames", "parquet")]) {
            let file = folder.path().join(format!("{table}.{format}"));
            let mut export = vramscope()?;
            export.arg("export").arg(&path).args(["--table", table, "--format", format, "-o"]).arg(file);
            ensure!(export.status()?.success(), "export of {recording}.{table} as {format} failed");
        }
        let summary = vramscope()?.arg("summary").arg(&path).args(["--json", "--no-cache"]).output()?;
        let summary: serde_json::Value = serde_json::from_slice(&summary.stdout)?;
        let device = summary["files"][0]["devices"][0].to_string();
        let mut check = Command::new(&python);
        check.args(["-c", SCRIPT]).arg(folder.path()).arg(device);
        let status = check.status().context("DuckDB and polars: `cargo xtask setup` installs them")?;
        ensure!(status.success(), "{recording}: the tables do not give PyTorch's numbers");
    }
    Ok(())
}
