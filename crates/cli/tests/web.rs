//! `report` and `serve` without a browser: what they write, and whom they answer. `crates/e2e` looks at
//! the page itself; here a page of two lines stands in its place.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use base64::prelude::{BASE64_STANDARD, Engine};
use vramscope_analysis::Counter;
use vramscope_engine::{AskSummary, AskTile, Axis, News, Request, Response, Source, Stretch, decode, encode};
use vramscope_snapshot::embedded;

const PAGE: &str = "<!doctype html>\n<html lang=\"en\"><meta content=\"connect-src 'self' https: http:;\"><title>vramscope</title><body><!--data--><script>const version = \"0badcafe\";</script></body></html>\n";

fn site(folder: &Path) -> PathBuf {
    let site = folder.join("site");
    fs::create_dir_all(&site).unwrap();
    fs::write(site.join("index.html"), PAGE).unwrap();
    fs::write(site.join("vramscope.wasm.gz"), b"\x1f\x8bmodule").unwrap();
    site
}

fn vramscope(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vramscope"));
    command.env("VRAMSCOPE_WEB", site(folder));
    command
}

fn recording() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/recordings/oom.pickle.xz")
}

fn report(folder: &Path, more: &[&str]) -> String {
    let file = folder.join("report.html");
    let _ = fs::remove_file(&file);
    let output =
        vramscope(folder).arg("report").arg(recording()).arg("-o").arg(&file).args(more).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::read_to_string(file).unwrap()
}

/// The snapshot that a report carries.
fn inside(page: &str) -> vramscope_snapshot::Snapshot {
    let (_, script) = page.split_once("data-snapshot=").unwrap();
    let (_, data) = script.split_once('>').unwrap();
    let packed = BASE64_STANDARD.decode(data.split_once('<').unwrap().0).unwrap();
    let mut data = Vec::new();
    flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut data).unwrap();
    embedded::decode(&data).unwrap()
}

#[test]
fn a_report_holds_the_module_the_data_a_summary_and_a_picture() {
    let folder = tempfile::tempdir().unwrap();
    let page = report(folder.path(), &[]);
    assert!(page.contains("<script id=\"module\" type=\"text/plain\">H4ttb2R1bGU=</script>"));
    assert!(page.contains("\"connect-src 'self';\""), "a page with data reaches nothing else");
    assert!(page.contains("<title>oom.pickle.xz · vramscope report</title>"));
    // Both axes have numbers.
    assert!(page.contains("%\">2 GiB</i>") && page.contains("%\">10 000</b>"));
    assert!(page.contains("11 823 events") && page.contains("modeling_llama.py:175 forward"));
    // The rows of `whatif` for the ready-made settings.
    assert!(page.contains("self-check: all 162 device calls of the recording are reproduced"));
    assert!(page.contains("<tr><td>expandable_segments:True</td>"));
    assert!(page.contains("<img alt=\"Memory timeline of ") && page.contains("data:image/png;base64,iVBOR"));
    assert_eq!(inside(&page).traces[0].events.len(), 11_823);
}

/// A report is an input like the recording that it was made of.
#[test]
fn a_report_can_be_read_again() {
    let folder = tempfile::tempdir().unwrap();
    report(folder.path(), &[]);
    let summary = |input: &Path| -> serde_json::Value {
        let output =
            vramscope(folder.path()).args(["summary", "--no-cache", "--json"]).arg(input).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let (again, first) = (summary(&folder.path().join("report.html")), summary(&recording()));
    let file = |of: &serde_json::Value| of["files"][0].clone();
    assert_eq!(file(&again)["devices"], file(&first)["devices"]);
    assert_eq!(file(&again)["format"], format!("html, gzip, {}", file(&first)["format"].as_str().unwrap()));
    // Of several recordings the first is read, and the others are counted.
    let both = folder.path().join("both.html");
    let retry = recording().with_file_name("alloc_retry.pickle.xz");
    let status =
        vramscope(folder.path()).arg("report").args([recording(), retry]).arg("-o").arg(&both).status();
    assert!(status.unwrap().success());
    let again = summary(&both);
    assert_eq!(file(&again)["devices"], file(&first)["devices"]);
    assert!(
        file(&again)["warnings"].to_string().contains("the report holds 2 recordings; this is the first")
    );
    // Cut inside the recording, or made to unpack without end, it is refused and nothing hangs.
    let page = fs::read(folder.path().join("report.html")).unwrap();
    let cut = folder.path().join("cut.html");
    fs::write(&cut, &page[..page.len() - page.len() / 4]).unwrap();
    let output = vramscope(folder.path()).arg("summary").arg(&cut).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A binary without the page writes what needs no script, and says how to have the viewer.
#[test]
fn a_report_without_the_page_has_summary_pictures_and_findings() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.html");
    let mut command = Command::new(env!("CARGO_BIN_EXE_vramscope"));
    command.env("VRAMSCOPE_WEB", "").arg("report").arg(recording()).arg("-o").arg(&file);
    let output = command.output().unwrap();
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complained}");
    assert_eq!(complained.lines().count(), 1, "{complained}");
    assert!(complained.contains("no interactive viewer") && complained.contains("cargo xtask web"));
    let page = fs::read_to_string(file).unwrap();
    assert!(!page.contains("<script") && !page.contains("data-snapshot"));
    // A picture for each theme, findings with their advice, the lines of the peak, and everything as text.
    assert_eq!(page.matches("data:image/png;base64,iVBOR").count(), 2);
    assert!(page.contains("<li class=\"high\">") && page.contains("out of memory at event 11 822"));
    assert!(page.contains("modeling_llama.py:175 forward") && page.contains("<pre>"));
    assert!(page.ends_with("</html>\n"));
}

#[test]
fn a_report_never_overwrites_unless_told_to() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.html");
    fs::write(&file, "precious").unwrap();
    let run = |more: &[&str]| {
        vramscope(folder.path())
            .arg("report")
            .arg(recording())
            .arg("-o")
            .arg(&file)
            .args(more)
            .output()
            .unwrap()
    };
    assert_eq!(run(&[]).status.code(), Some(2));
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    assert!(run(&["--force"]).status.success());
}

#[test]
fn a_redacted_report_has_the_sizes_but_not_the_names() {
    let folder = tempfile::tempdir().unwrap();
    let (open, redacted) =
        (inside(&report(folder.path(), &[])), inside(&report(folder.path(), &["--redact"])));
    assert_eq!(open.traces, redacted.traces, "events and sizes are as they were");
    let is_library =
        |text: &&str| text.starts_with("site-packages/") || text.starts_with("python/lib/python");
    assert!(redacted.strings.iter().any(|text| is_library(&text)));
    assert!(redacted.strings.iter().all(|text| !text.starts_with('/')), "no folder of the machine is left");
    let own = open.strings.iter().find(|text| text.ends_with(".py") && !text.contains("-packages/")).unwrap();
    assert!(redacted.strings.iter().all(|text| text != own), "{own} is gone");
}

/// A snapshot in which every text that the format has is a marker, or a public name with one in it.
fn markers() -> serde_json::Value {
    let frames = [
        ("MARK1", "/home/MARK2/MARK3.py"),
        ("MARK4", "/home/MARK/site-packages/torch/nn/MARK5.py"),
        ("MARK6", "/home/MARK/site-packages/torch/nn/functional.py"),
        ("MARK7", "/home/MARK/site-packages/transformers/MARK8.py"),
        ("MARK9", "/home/MARK/site-packages/MARK10/MARK11.py"),
        ("forward", "/home/site-packages/../MARK12.py"),
        ("MARK13", "/home/MARK/lib/python3.12/MARK14.py"),
        ("MARK15", "C:\\Users\\MARK\\Lib\\site-packages\\torch\\MARK16.py"),
        ("MARK17", "/home/MARK/c10/MARK18.cpp"),
        ("MARK19", "/usr/lib/MARK20.so"),
        ("MARK21", "<MARK22>"),
        ("MARK23", "<frozen MARK24>"),
        ("at::native::MARK25(at::Tensor)", "??"),
        ("aten::MARK26", ""),
        ("torch::autograd::CppNode<MARK27>::apply", "??"),
        ("autograd::engine::evaluate_function: MARK28", ""),
        ("MARK29 std::function<void (MARK30)>", "??"),
        ("_Py_MARK31", "??"),
        ("nn.Module: MARK32", ""),
        ("MARK33Backward0", "/tmp/torchinductor_MARK/MARK34.py"),
    ];
    let frame = |(name, file): &(&str, &str)| {
        serde_json::json!({"name": name, "filename": file, "line": 1, "MARK35": "MARK36", "fx_node_op": "MARK37",
            "fx_node_name": "MARK38", "fx_node_target": "MARK39", "fx_original_trace": "MARK40"})
    };
    let event = |(n, at): (usize, &(&str, &str))| {
        serde_json::json!({"action": "alloc", "addr": 4096 * (n + 1), "size": 512, "stream": 0, "time_us": 1000 + n,
            "frames": [frame(at)], "compile_context": "MARK41", "user_metadata": "MARK42", "internal_metadata": "MARK43",
            "category": "MARK44", "forward_frames": ["MARK45"], "MARK46": "MARK47"})
    };
    let mut events: Vec<_> = frames.iter().enumerate().map(event).collect();
    events.push(serde_json::json!({"action": "MARK48", "addr": 1, "size": 1, "stream": 0, "frames": []}));
    events.push(
        serde_json::json!({"action": "oom", "size": 99_999_999, "device_free": 5, "stream": 0, "frames": []}),
    );
    let frames: Vec<_> = frames.iter().map(frame).collect();
    serde_json::json!({
        "segments": [{"device": 0, "address": 4096, "total_size": 2_097_152, "stream": 0, "segment_type": "MARK49",
            "segment_pool_id": [0, 0], "is_expandable": false, "frames": frames, "MARK50": "MARK51",
            "blocks": [{"address": 4096, "size": 512, "requested_size": 512, "state": "MARK52", "frames": frames, "MARK53": 1}]}],
        "device_traces": [events],
        "allocator_settings": {"MARK54": "MARK55", "PYTORCH_CUDA_ALLOC_CONF": "backend:MARK56",
            "last_allocator_settings": "MARK57", "expandable_segments": true},
        "external_annotations": [{"stage": "START", "name": "MARK58", "device": 0, "time_us": 1000},
            {"stage": "END", "name": "MARK58", "device": 0, "time_us": 1005}, {"stage": "MARK59", "name": "MARK60", "device": 0}],
        "MARK61": {"MARK62": "MARK63"},
    })
}

#[test]
fn a_redacted_report_shows_no_text_that_is_not_public() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("MARK_rank3_MARK.json");
    fs::write(&input, markers().to_string()).unwrap();
    let page = |more: &[&str]| {
        let args = ["report", "--no-cache"];
        let output = vramscope(folder.path()).args(args).arg(&input).args(more).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let whole = |page: &str| {
        let mut bytes = Vec::new();
        embedded::encode(&inside(page), &mut bytes).unwrap();
        format!("{page}{}", String::from_utf8_lossy(&bytes))
    };
    assert!(whole(&page(&[])).contains("MARK58"), "a report shows names");
    let redacted = whole(&page(&["--redact"]));
    let at = redacted.find("MARK");
    assert_eq!(at.map(|at| redacted.get(at..at + 40)), None, "no marker is left");
    assert!(
        redacted.contains("at::native::function") && redacted.contains("site-packages/transformers/file")
    );
    assert!(
        redacted.contains("site-packages/torch/nn/functional.py") && redacted.contains("expandable_segments")
    );
    let libraries = whole(&page(&["--redact", "--keep-libraries"]));
    assert!(libraries.contains("site-packages/MARK10/MARK11.py") && !libraries.contains("MARK12"));
}

struct Serving {
    child: Child,
    address: String,
    token: String,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Serving {
    fn start(folder: &Path) -> Self {
        Self::of(folder, &recording())
    }

    fn of(folder: &Path, input: &Path) -> Self {
        Self::with(folder, input, &[])
    }

    fn with(folder: &Path, input: &Path, more: &[&str]) -> Self {
        let mut child = vramscope(folder)
            .args(["serve", "--no-cache"])
            .args(more)
            .arg(input)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = lines.next().unwrap().unwrap();
        let (address, token) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
        assert!(address.starts_with("127.0.0.1:"), "only this machine can connect: {address}");
        let port = address.rsplit(':').next().unwrap();
        assert!(lines.next().unwrap().unwrap().contains(&format!("ssh -L {port}:127.0.0.1:{port} ")));
        let (address, token) = (address.to_owned(), token.trim_end_matches('/').to_owned());
        Self { child, address, token }
    }

    /// The status and the body of an answer.
    fn send(&self, line: &str, headers: &str, body: &[u8]) -> (u16, Vec<u8>) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let head = format!(
            "{line} HTTP/1.1\r\n{headers}Content-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        let status = String::from_utf8_lossy(&answer[9..12]).parse().unwrap();
        (status, answer[end + 4..].to_vec())
    }
}

#[test]
fn only_its_own_page_with_the_token_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let serving = Serving::start(folder.path());
    let (token, host) = (&serving.token, format!("Host: {}\r\n", serving.address));
    let status = |line: String, headers: &str| serving.send(&line, headers, b"").0;
    let (code, page) = serving.send(&format!("GET /{token}/"), &host, b"");
    assert_eq!(code, 200);
    assert!(String::from_utf8(page).unwrap().contains("<html data-session=\"server\" "));
    assert_eq!(status("GET /".into(), &host), 403, "no token");
    assert_eq!(status(format!("GET /{}/", "0".repeat(32)), &host), 403, "another token");
    assert_eq!(status(format!("GET /{token}/"), "Host: evil.example\r\n"), 403, "a name that leads here");
    let foreign = format!("{host}Origin: http://evil.example\r\n");
    assert_eq!(status(format!("POST /{token}/news"), &foreign), 403, "another page");
    assert_eq!(status(format!("GET /{token}/../../etc/passwd"), &host), 404, "no files");
    assert_eq!(status(format!("PUT /{token}/"), &host), 405, "nothing to write");
    assert_eq!(status(format!("POST /{token}/ask"), &host), 400, "no question");
    assert_eq!(status(format!("GET /{token}"), &host), 308, "the page is a folder");
    assert_eq!(status(format!("GET /{}", "0".repeat(32)), &host), 403, "another token without a folder");
}

/// What cannot be served ends the program before there is an address, and every path is named with its reason.
#[test]
fn paths_without_a_recording_are_not_served() {
    let folder = tempfile::tempdir().unwrap();
    let [text, empty, nothing] =
        ["notes.txt", "empty.pickle", "nothing.json"].map(|name| folder.path().join(name));
    fs::write(&text, "hello, this is no snapshot").unwrap();
    fs::write(&empty, "").unwrap();
    fs::write(&nothing, r#"{"segments": [], "device_traces": []}"#).unwrap();
    let no_files = folder.path().join("no files");
    fs::create_dir(&no_files).unwrap();
    let absent = folder.path().join("absent.pickle");
    let serve = |paths: &[&PathBuf]| {
        let output = vramscope(folder.path()).args(["serve", "--no-cache"]).args(paths).output().unwrap();
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{paths:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let reasons = [
        (&absent, "No such file"),
        (&text, "a text file that begins with \"hello, this is no snapshot\""),
        (&empty, "empty"),
        (&nothing, "there is nothing to show"),
        (&no_files, "no memory snapshot"),
    ];
    for (path, reason) in reasons {
        let said = serve(&[path]);
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(said.contains(name) && said.contains(reason), "{said}");
        assert!(said.contains("nothing to serve. Name a memory snapshot"), "{said}");
    }
    let said = serve(&[&absent, &text]);
    assert!(said.contains("absent.pickle") && said.contains("notes.txt"), "{said}");
}

/// Behind a proxy the browser names another host, and may speak https.
#[test]
fn a_proxy_is_answered_by_the_names_that_were_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let more = ["--allow-host", "GPU7.example", "--allow-host", "other.example:8443"];
    let serving = Serving::with(folder.path(), &recording(), &more);
    let status = |headers: &str| serving.send(&format!("POST /{}/news", serving.token), headers, b"0").0;
    for own in [
        "Host: gpu7.example\r\n",
        "Host: gpu7.example:8000\r\nOrigin: http://gpu7.example:8000\r\n",
        "Host: gpu7.example\r\nOrigin: https://gpu7.example\r\n",
        "Host: other.example:8443\r\nOrigin: https://other.example:8443\r\n",
        "Host: localhost:1\r\nOrigin: http://localhost:1\r\n",
    ] {
        assert_eq!(status(own), 200, "{own}");
    }
    for foreign in [
        "",
        "Host: evil.example\r\n",
        "Host: gpu7.example.evil.example\r\n",
        "Host: other.example\r\n",
        "Host: gpu7.example\r\nOrigin: https://evil.example\r\n",
        "Host: localhost\r\nOrigin: https://localhost\r\n",
    ] {
        assert_eq!(status(foreign), 403, "{foreign}");
    }
    for bad in ["https://gpu7.example", "gpu7.example/path", "", "*"] {
        let args = ["serve", "--allow-host", bad];
        let output = vramscope(folder.path()).args(args).arg(recording()).output();
        assert_eq!(output.unwrap().status.code(), Some(2), "{bad}");
    }
}

/// The module may be kept, as its address has its version; nothing else is.
#[test]
fn only_the_module_may_be_kept() {
    let folder = tempfile::tempdir().unwrap();
    let serving = Serving::start(folder.path());
    let head = |path: &str| {
        let mut stream = TcpStream::connect(&serving.address).unwrap();
        let (host, token) = (&serving.address, &serving.token);
        write!(stream, "HEAD /{token}/{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(head("vramscope.wasm.gz?0badcafe").contains("max-age=31536000, immutable"));
    for path in ["", "vramscope.wasm.gz", "vramscope.wasm.gz?another"] {
        assert!(head(path).contains("Cache-Control: no-store"), "{path}");
    }
}

#[test]
fn a_token_can_be_chosen_and_must_be_long() {
    let folder = tempfile::tempdir().unwrap();
    let chosen = "0123456789abcdefXY";
    let serving = Serving::with(folder.path(), &recording(), &["--token", chosen]);
    assert_eq!(serving.token, chosen);
    for bad in ["short", "0123456789abcdef/..", ""] {
        let output = vramscope(folder.path()).arg("serve").arg(recording()).args(["--token", bad]).output();
        assert_eq!(output.unwrap().status.code(), Some(2), "{bad}");
    }
}

#[test]
fn a_report_begins_with_the_link_that_it_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let report = |link: &str| {
        let args = ["report", "--no-cache", "--link", link];
        vramscope(folder.path()).args(args).arg(recording()).output().unwrap()
    };
    let output = report("http://127.0.0.1:8000/x/#device=0&at=12&note=12,0,a~26b+c");
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(
        page.contains("<script id=\"link\" type=\"text/plain\">device=0&at=12&note=12,0,a~26b+c</script>")
    );
    for bad in ["", "at", "at=1</script><script>alert(1)", "at=1 2"] {
        assert_eq!(report(bad).status.code(), Some(2), "{bad}");
    }
}

#[test]
fn nobody_can_keep_others_waiting_or_bring_it_down() {
    let folder = tempfile::tempdir().unwrap();
    let serving = Serving::start(folder.path());
    let (token, host) = (&serving.token, format!("Host: {}\r\n", serving.address));
    let raw = |text: &str| {
        let mut stream = TcpStream::connect(&serving.address).unwrap();
        // It may have closed before the end of what is sent.
        let _ = stream.write_all(text.as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).get(9..12).unwrap_or_default().to_owned()
    };
    // Somebody who stops in the middle of a word, or of a body.
    let stalled: Vec<_> =
        ["GET /", &format!("POST /{token}/ask HTTP/1.1\r\n{host}Content-Length: 100\r\n\r\n")]
            .repeat(10)
            .into_iter()
            .map(|text| {
                let mut stream = TcpStream::connect(&serving.address).unwrap();
                stream.write_all(text.as_bytes()).unwrap();
                stream
            })
            .collect();
    let long = |len: &str| raw(&format!("POST /{token}/ask HTTP/1.1\r\n{host}Content-Length: {len}\r\n\r\n"));
    assert_eq!(long("100000"), "413", "longer than any question");
    assert_eq!(
        long("18446744073709551615"),
        "413",
        "memory is taken for what comes, not for what is promised"
    );
    assert_eq!(long("-1"), "400");
    assert_eq!(
        raw(&format!("POST /{token}/ask HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\n\r\n")),
        "501"
    );
    assert_eq!(raw(&format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(20_000))), "431");
    assert_eq!(raw("\x16\x03\x01 hello\r\n\r\n"), "400", "TLS");
    // A picture of four thousand million pixels is cut to what fits a screen.
    let stretch = Stretch { axis: Axis::Events, x: (f64::NAN, f64::INFINITY), width: u32::MAX };
    let of = Source { file: 0, device: 0 };
    let (counter, y, height) = (Counter::Requested, (0.0, 1e10), u32::MAX);
    let only = vramscope_engine::Which::default();
    let tile = AskTile { of, counter, stretch, y, height, pools: true, categories: true, only };
    let tile = Request::from(tile);
    assert_eq!(serving.send(&format!("POST /{token}/ask"), &host, &encode(&tile)).0, 200);
    assert_eq!(serving.send(&format!("GET /{token}/"), &host, b"").0, 200, "it still answers");
    drop(stalled);
}

#[test]
fn connections_that_say_nothing_lock_nobody_out() {
    let folder = tempfile::tempdir().unwrap();
    let serving = Serving::start(folder.path());
    let (token, host) = (&serving.token, format!("Host: {}\r\n", serving.address));
    let silent: Vec<_> = (0..200).map(|_| TcpStream::connect(&serving.address).unwrap()).collect();
    assert_eq!(serving.send(&format!("GET /{token}/"), &host, b"").0, 200);
    drop(silent);
}

#[test]
fn reading_can_be_cancelled() {
    let folder = tempfile::tempdir().unwrap();
    // Standard input stays open and never says anything more.
    let mut serving = Serving::of(folder.path(), Path::new("-"));
    let mut input = serving.child.stdin.take().unwrap();
    input.write_all(b"\x80\x04").unwrap();
    let (token, host) = (&serving.token, format!("Host: {}\r\n", serving.address));
    let news = || -> Vec<News> {
        let (code, news) = serving.send(&format!("POST /{token}/news"), &host, b"0");
        assert_eq!(code, 200);
        decode(&news).unwrap()
    };
    assert!(matches!(news()[..], [News::Reading { .. }]));
    assert_eq!(serving.send(&format!("POST /{token}/cancel"), &host, b"").0, 200);
    while !news().contains(&News::Idle) {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    drop(input);
}

#[test]
fn the_answer_to_head_has_no_body() {
    let folder = tempfile::tempdir().unwrap();
    let serving = Serving::start(folder.path());
    let (token, host) = (&serving.token, format!("Host: {}\r\n", serving.address));
    assert_eq!(serving.send(&format!("HEAD /{token}/"), &host, b""), (200, Vec::new()));
    assert_eq!(serving.send("HEAD /", &host, b""), (403, Vec::new()));
}

#[test]
fn questions_are_answered_by_the_session_in_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let serving = Serving::start(folder.path());
    let (token, host) = (&serving.token, format!("Host: {}\r\n", serving.address));
    let of = Source { file: 0, device: 0 };
    let peak = loop {
        let request = encode(&Request::from(AskSummary { of }));
        let (code, answer) = serving.send(&format!("POST /{token}/ask"), &host, &request);
        assert_eq!(code, 200);
        match decode::<Response>(&answer).unwrap() {
            Response::Summary(summary) => break summary.peak(Counter::Requested).bytes,
            // It is still being read.
            _ => std::thread::sleep(std::time::Duration::from_millis(50)),
        }
    };
    let oracle = fs::read_to_string(recording().with_file_name("oom.oracle.json")).unwrap();
    let oracle: serde_json::Value = serde_json::from_str(&oracle).unwrap();
    let marks = oracle["marks"].as_array().unwrap();
    let wanted = marks.iter().filter_map(|mark| mark["requested_peak"].as_i64()).max();
    assert_eq!(Some(peak), wanted, "PyTorch's own peak");
}
