//! A report, from a disk.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::ensure;
use serde_json::{Value, json};
use vramscope_e2e::{Browser, Chromium, Files, is_open, number, pixels, root, site, vramscope};

use crate::{Place, clean, recordings};

/// What `report` takes besides snapshots: what goes into one, and its devices.
const OTHER_INPUTS: [(&[&str], u64); 2] = [
    (
        &[
            "kineto/t.json.xz",
            "kineto/mt.json.gz",
            "ascend/actor_update/worker0_4100_20261115064500000_ascend_pt/",
        ],
        3,
    ),
    (&["ascend"], 2),
];

#[test]
fn a_report_opens_from_a_disk() -> anyhow::Result<()> {
    let place = Place::new()?;
    let file = place.work.path().join("report.html");
    write(&[&place.run], &file)?;
    let overwrites =
        vramscope()?.arg("report").arg(&place.run).arg("-o").arg(&file).output()?.status.success();
    ensure!(!overwrites, "a report takes the place of another one");
    let url = format!("file://{}", file.display());
    let mut chromium = Chromium::start()?;
    chromium.open(&url)?;
    let shown = chromium.wait("the report", |shown| is_open(shown, 4))?;
    let picture = place.picture(&mut chromium, "report")?;
    pixels::bars(&picture, &shown, 4)?;
    pixels::compare(&picture, &shown, &recordings()?)?;
    let title = chromium.value("document.title")?;
    ensure!(title == "rank0_memory_snapshot.pickle · vramscope", "{title}");
    // To the summary and back.
    let is_shown = "document.getElementById('summary').offsetHeight > 0";
    ensure!(chromium.value(is_shown)? == false, "the viewer covers the summary");
    chromium.click(60.0, 19.0)?;
    chromium.wait_for(is_shown)?;
    place.picture(&mut chromium, "report-summary")?;
    chromium.value("document.getElementById('to-viewer').click()")?;
    chromium.wait("the viewer again", |shown| is_open(shown, 4))?;
    clean(&mut chromium, &url)?;
    // The page opens all that a report holds.
    let site = Files::serve(site()?)?;
    chromium.open(&site.url)?;
    chromium.wait("the start screen", |shown| shown["devices"] == 0)?;
    chromium.drop_files(&[&file])?;
    let again = chromium.wait("the report on the page", |shown| is_open(shown, 4))?;
    ensure!(again["names"] == shown["names"] && again["peak"] == shown["peak"], "{again}");

    // Without script there are the summary and the picture.
    chromium.call("Emulation.setScriptExecutionDisabled", &json!({ "value": true }))?;
    chromium.open(&format!("{url}?again"))?;
    thread::sleep(Duration::from_secs(1));
    place.picture(&mut chromium, "report-without-script")?;
    let text = chromium.value("document.getElementById('summary').innerText")?;
    let text = text.as_str().unwrap_or_default();
    ensure!(text.contains("rank10_memory_snapshot.pickle") && text.contains("peak"), "no summary: {text}");
    let pictures = "[...document.images].filter((image) => image.offsetHeight > 200 && image.naturalWidth > 1000).length";
    ensure!(chromium.value(pictures)? == 4, "not every rank has its picture");

    // As a notebook shows it: a frame that has the page as a text.
    let mut chromium = Chromium::start()?;
    chromium.open("about:blank")?;
    let html = serde_json::to_string(&fs::read_to_string(&file)?)?;
    let shown =
        "JSON.parse(document.querySelector('iframe').contentWindow.vramscope?.shown() || 'null')?.devices";
    chromium.value(&format!(
        "const frame = document.createElement('iframe'); frame.srcdoc = {html}; document.body.append(frame), 0"
    ))?;
    let until = Instant::now() + Duration::from_secs(60);
    while chromium.value(&format!(
        "document.querySelector('iframe').contentDocument.body?.classList.contains('started') ? {shown} : 0"
    ))? != 4
    {
        ensure!(Instant::now() < until, "no report in a frame: {:?}", chromium.complaints()?);
        thread::sleep(Duration::from_millis(100));
    }

    let mut chromium = Chromium::start()?;
    for (number_of, (inputs, devices)) in OTHER_INPUTS.into_iter().enumerate() {
        let file = place.work.path().join(format!("inputs-{number_of}.html"));
        let paths = inputs.iter().map(|input| root().join("testdata/inputs").join(input));
        write(&paths.collect::<Vec<_>>(), &file)?;
        chromium.open(&format!("file://{}", file.display()))?;
        let is_it = |shown: &Value| is_open(shown, devices) && number(shown, "/peak") > 0.0;
        chromium.wait(&inputs.join(", "), is_it)?;
        place.picture(&mut chromium, &format!("report-inputs-{number_of}"))?;
    }
    clean(&mut chromium, &format!("file://{}", place.work.path().display()))
}

fn write(inputs: &[impl AsRef<Path>], file: &Path) -> anyhow::Result<()> {
    let inputs = inputs.iter().map(AsRef::as_ref);
    let status = vramscope()?.arg("report").args(inputs).arg("-o").arg(file).status()?;
    ensure!(status.success(), "no report at {}", file.display());
    Ok(())
}
