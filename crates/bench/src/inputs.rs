//! `bench inputs`: a million rows of a profile in each format, read beside a plain scan of the same file.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, ensure};

use crate::measure::Stage;
use crate::read::{in_own_process, mib};

/// Blocks that live at once.
const LIVE: u64 = 500;
const OPERATORS: [&str; 6] =
    ["aten::mul", "aten::mm", "aten::empty_strided", "aten::cat", "npu::npu_fusion_attention", ""];

pub(crate) fn run(rows: u64, runs: u32) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let csv = folder.path().join("operator_memory.csv");
    let kineto = folder.path().join("trace.json");
    let database = folder.path().join("ascend_pytorch_profiler_0.db");
    write_csv(&csv, rows)?;
    write_kineto(&kineto, rows)?;
    println!(
        "{:28}{:>9}{:>9}{:>11}{:>11}{:>12}{:>11}",
        "", "MiB", "events", "scan s", "read s", "open s", "peak MiB"
    );
    bench("operator_memory.csv", &csv, runs)?;
    match write_database(&csv, &database) {
        Ok(seconds) => {
            bench("database (SQLite)", &database, runs)?;
            println!("{:28}{seconds:>29.3}   s: the rows of OP_MEMORY, by Python's sqlite3", "");
        }
        Err(error) => println!("database: {error:#}"),
    }
    bench("Kineto [memory]", &kineto, runs)?;
    println!(
        "\nscan: tokens of the CSV (csv-core) or JSON (serde_json) and nothing else; bytes of the database"
    );
    Ok(())
}

fn bench(name: &str, file: &Path, runs: u32) -> anyhow::Result<()> {
    let [scan, read, open] =
        [Stage::Scan, Stage::Read, Stage::Open].map(|stage| in_own_process(stage, file, runs));
    let (scan, read, open) = (scan?, read?, open?);
    println!(
        "{name:28}{:>9.1}{:>9}{:>11.3}{:>11.3}{:>12.3}{:>11.1}   read / scan {:.2}",
        mib(fs::metadata(file)?.len()),
        read.events,
        scan.seconds,
        read.seconds,
        open.seconds,
        mib(open.peak_bytes),
        read.seconds / scan.seconds,
    );
    Ok(())
}

/// When the nth block comes and goes, in nanoseconds, and its size: one comes every microsecond, and each lives
/// as long as it takes for others to come.
fn block(row: u64) -> (u64, u64, u64) {
    let start = 1_790_000_000_000_000_000 + row * 1000;
    (start, start + LIVE * 1000 + 500, 512 * (1 + row * 7919 % 4096))
}

fn write_csv(path: &Path, rows: u64) -> anyhow::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    out.write_all(
        b"Name,Size(KB),Allocation Time(us),Release Time(us),Active Release Time(us),Duration(us),\
          Active Duration(us),Allocation Total Allocated(MB),Allocation Total Reserved(MB),Allocation Total Active(MB),\
          Release Total Allocated(MB),Release Total Reserved(MB),Release Total Active(MB),Stream Ptr,Device Type\r\n",
    )?;
    let size = |row: u64| block(row).2;
    let mut total = 12_000_u64 << 20;
    let mut line = String::new();
    let mib = |bytes: u64| bytes as f64 / (1 << 20) as f64;
    let us = |ns: u64| format!("{}.{:03}", ns / 1000, ns % 1000);
    for row in 0..rows {
        let (start, end, bytes) = block(row);
        // The block that came LIVE + 1 before went half a microsecond ago.
        if let Some(gone) = row.checked_sub(LIVE + 1) {
            total -= size(gone);
        }
        total += bytes;
        let at_start = total;
        // Until this one goes, LIVE others come, and all before it go.
        let at_end =
            (12_000 << 20) + (row + 1..=row + LIVE).filter(|other| *other < rows).map(size).sum::<u64>();
        let name = OPERATORS[(row % 6) as usize];
        line.clear();
        let (a, r) = (mib(at_start), mib(at_end));
        write!(line, "{name},{},{}\t,{}\t,{}\t,", bytes as f64 / 1024.0, us(start), us(end), us(end - 120))?;
        write!(line, "500.500\t,500.380\t,{a},40000.0,{a},{r},40000.0,{r},6,NPU:0\r\n")?;
        out.write_all(line.as_bytes())?;
    }
    Ok(out.flush()?)
}

fn write_kineto(path: &Path, rows: u64) -> anyhow::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    out.write_all(
        b"{\"schemaVersion\": 1, \"profile_memory\": 1, \"baseTimeNanoseconds\": 0, \"traceEvents\": [\n",
    )?;
    let mut total = 12_u64 << 30;
    let mut separator = "";
    for row in 0..rows.div_ceil(2) {
        let (start, _, bytes) = block(row);
        let us = |ns: u64| format!("{}.{:03}", ns / 1000, ns % 1000);
        let name = OPERATORS[(row % 5) as usize];
        writeln!(
            out,
            "{separator}{{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"{name}\", \"pid\": 1, \"tid\": 1, \"ts\": {}, \"dur\": 0.4, \
             \"args\": {{\"External id\": {row}, \"Record function id\": 0, \"Input Dims\": [[32, 64], []], \"Ev Idx\": {row}}}}}",
            us(start - 100)
        )?;
        separator = ",";
        let mut event = |at: u64, addr: u64, bytes: i64| {
            total = total.saturating_add_signed(bytes);
            writeln!(
                out,
                ",{{\"ph\": \"i\", \"cat\": \"cpu_instant_event\", \"s\": \"t\", \"name\": \"[memory]\", \"pid\": 1, \"tid\": 1, \
                 \"ts\": {}, \"args\": {{\"Total Reserved\": 42949672960, \"Total Allocated\": {total}, \"Bytes\": {bytes}, \
                 \"Device Id\": 0, \"Device Type\": 1, \"Addr\": {addr}, \"Ev Idx\": {row}}}}}",
                us(at)
            )
        };
        event(start, 0x7f00_0000_0000 + row * 512, bytes as i64)?;
        if let Some(gone) = row.checked_sub(LIVE) {
            event(start + 500, 0x7f00_0000_0000 + gone * 512, -(block(gone).2 as i64))?;
        }
    }
    out.write_all(b"], \"traceName\": \"trace.json\"}\n")?;
    Ok(out.flush()?)
}

/// The same rows as a database, by Python. Says how long Python takes to read them again.
fn write_database(csv: &Path, database: &Path) -> anyhow::Result<f64> {
    let script = "
import csv, sqlite3, sys, time
db = sqlite3.connect(sys.argv[2])
db.execute('create table STRING_IDS(id INTEGER, value TEXT)')
columns = ['name','size','allocationTime','releaseTime','activeReleaseTime','duration','activeDuration',
  'allocationTotalAllocated','allocationTotalReserved','allocationTotalActive','releaseTotalAllocated',
  'releaseTotalReserved','releaseTotalActive','streamPtr','deviceId']
db.execute('create table OP_MEMORY(' + ','.join(c + ' INTEGER' for c in columns) + ')')
names = {}
ns = lambda t: int(t.strip().replace('.', ''))
mib = lambda t: round(float(t) * (1 << 20))
def rows():
    for r in csv.reader(open(sys.argv[1])):
        if r[0] == 'Name': continue
        name = names.setdefault(r[0], 536870912 + len(names))
        yield (name, round(float(r[1]) * 1024), *map(ns, r[2:7]), *map(mib, r[7:13]), 6, 0)
db.executemany('insert into OP_MEMORY values(' + ','.join('?' * 15) + ')', rows())
db.executemany('insert into STRING_IDS values(?, ?)', [(i, n) for n, i in names.items()])
db.commit()
best = 1e9
for _ in range(3):
    began = time.perf_counter()
    for row in db.execute('select * from OP_MEMORY'): pass
    best = min(best, time.perf_counter() - began)
print(best)";
    let began = Instant::now();
    let output =
        Command::new("python3").args(["-c", script]).arg(csv).arg(database).output().context("python3")?;
    ensure!(output.status.success(), "python3: {}", String::from_utf8_lossy(&output.stderr));
    eprintln!("wrote the database in {:.1} s", began.elapsed().as_secs_f64());
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}
