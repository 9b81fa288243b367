//! Streams a [`Program`]'s recording of any length to a file, without keeping its events.
//!
//! A snapshot begins with the segments as they are at the *end*, so the program runs twice: first to see how it
//! ends, then to write its events as they come. What is shared and what is not is as in a real dump: one object
//! per key and per frame, a new `frames` list for every captured context, the same list for the events and the
//! live block of one context. The bytes are the same as those of [`crate::recording::Recording::pickle`].

use std::collections::HashMap;
use std::io::{self, Write};

use crate::encode::{Encoder, FRAME_TARGET, Kind, Open};
use crate::pickle::Dialect;
use crate::program::{Annotation, Ending, Program};
use crate::recording::{block_state, in_ring};
use crate::trace::{Action, Context, Counters, Event, PoolId, SegmentInfo};

/// What was written.
#[derive(Clone, Debug)]
pub struct Written {
    /// The events of each device.
    pub events: Vec<u64>,
    /// The counters of each device at the end.
    pub end: Vec<Counters>,
}

/// Writes the recording of this program as a pickle of this dialect.
pub fn write(program: &Program, dialect: Dialect, out: impl Write) -> io::Result<Written> {
    let options = &program.options;
    let endings: Vec<Ending> = (0..options.devices).map(|device| program.run(device, |_, _| ())).collect();
    let kept = |ending: &Ending| ending.events.min(options.ring.unwrap_or(u64::MAX));
    let mut writer = Writer {
        encoder: Encoder::new(out, dialect)?,
        program,
        words: HashMap::new(),
        event_words: [NONE; WORDS.len()],
        frames: vec![NONE; program.stacks.frames.len()],
        sites: vec![None; program.stacks.sites.len()],
        lists: endings.iter().map(|ending| vec![NONE; ending.contexts as usize]).collect(),
        no_frames: NONE,
    };
    let mut top = writer.encoder.open(Kind::Dict, 4)?;

    writer.key(&mut top, "segments")?;
    let mut list =
        writer.encoder.open(Kind::List, endings.iter().map(|ending| ending.segments.len()).sum())?;
    for (device, ending) in endings.iter().enumerate() {
        for segment in &ending.segments {
            writer.encoder.item(&mut list);
            writer.segment(device, segment)?;
        }
    }
    writer.encoder.close(&list, true)?;

    writer.key(&mut top, "device_traces")?;
    let mut list = writer.encoder.open(Kind::List, endings.len())?;
    for (device, ending) in endings.iter().enumerate() {
        writer.encoder.item(&mut list);
        writer.trace(device, ending.events - kept(ending), kept(ending))?;
    }
    writer.encoder.close(&list, true)?;

    writer.key(&mut top, "allocator_settings")?;
    writer.settings()?;

    writer.key(&mut top, "external_annotations")?;
    let annotations = endings.iter().flat_map(|ending| in_ring(ending.annotations.clone(), options.ring));
    let annotations: Vec<Annotation> = annotations.collect();
    let mut list = writer.encoder.open(Kind::List, annotations.len())?;
    for annotation in &annotations {
        writer.encoder.item(&mut list);
        writer.annotation(annotation)?;
    }
    writer.encoder.close(&list, true)?;
    writer.encoder.close(&top, true)?;
    writer.encoder.finish()?;
    Ok(Written { events: endings.iter().map(kept).collect(), end: endings.iter().map(|e| e.end).collect() })
}

/// Not in the memo.
const NONE: u32 = u32::MAX;

/// The strings that events refer to. Their memo is an array, because a look-up by text for each of ten strings
/// would take longer than everything else about an event.
#[derive(Clone, Copy)]
enum Word {
    Action,
    Addr,
    DeviceFree,
    Size,
    Stream,
    TimeUs,
    CompileContext,
    NotAvailable,
    UserMetadata,
    Empty,
    PoolId,
    Frames,
    /// The first of the actions, in the order of [`Action`].
    Actions,
}

const WORDS: [&str; 21] = [
    "action",
    "addr",
    "device_free",
    "size",
    "stream",
    "time_us",
    "compile_context",
    "N/A",
    "user_metadata",
    "",
    "pool_id",
    "frames",
    "alloc",
    "free_requested",
    "free_completed",
    "segment_alloc",
    "segment_free",
    "segment_map",
    "segment_unmap",
    "snapshot",
    "oom",
];

struct Writer<'a, W> {
    encoder: Encoder<W>,
    program: &'a Program,
    /// The memo of shared strings; in C++ of all strings.
    words: HashMap<String, u32>,
    event_words: [u32; WORDS.len()],
    /// The memo of each frame.
    frames: Vec<u32>,
    /// The memo GETs of each call site whose frames are all written.
    sites: Vec<Option<Box<[u8]>>>,
    /// The memo of each device's contexts.
    lists: Vec<Vec<u32>>,
    /// The memo of the shared empty list.
    no_frames: u32,
}

impl<W: Write> Writer<'_, W> {
    /// A string object that all its uses share.
    fn shared(&mut self, text: &str) -> io::Result<u32> {
        if let Some(memo) = self.words.get(text) {
            self.encoder.get(*memo)?;
            return Ok(*memo);
        }
        let memo = self.encoder.string(text)?;
        self.words.insert(text.to_owned(), memo);
        Ok(memo)
    }

    /// A string object of its own, where there is such a thing: C++ shares all equal strings.
    fn fresh(&mut self, text: &str) -> io::Result<()> {
        if self.encoder.is_cpp() {
            self.shared(text)?
        } else {
            self.encoder.string(text)?
        };
        Ok(())
    }

    #[inline]
    fn word(&mut self, index: usize) -> io::Result<()> {
        match self.event_words[index] {
            NONE => self.event_words[index] = self.shared(WORDS[index])?,
            memo => self.encoder.get(memo)?,
        }
        Ok(())
    }

    #[inline]
    fn event_key(&mut self, dict: &mut Open, key: Word) -> io::Result<()> {
        self.encoder.item(dict);
        self.word(key as usize)
    }

    fn key(&mut self, dict: &mut Open, key: &str) -> io::Result<()> {
        self.encoder.item(dict);
        self.shared(key)?;
        Ok(())
    }

    fn int(&mut self, dict: &mut Open, key: &str, value: impl Into<i128>) -> io::Result<()> {
        self.key(dict, key)?;
        self.encoder.int(value.into())
    }

    fn bool(&mut self, dict: &mut Open, key: &str, value: bool) -> io::Result<()> {
        self.key(dict, key)?;
        self.encoder.bool(value)
    }

    fn text(&mut self, dict: &mut Open, key: &str, value: &str) -> io::Result<()> {
        self.key(dict, key)?;
        self.shared(value)?;
        Ok(())
    }

    fn pool(&mut self, pool: PoolId) -> io::Result<()> {
        self.encoder.open_tuple(2)?;
        self.encoder.int(pool.0.into())?;
        self.encoder.int(pool.1.into())?;
        self.encoder.close_tuple(2, false);
        Ok(())
    }

    fn trace(&mut self, device: usize, skip: u64, len: u64) -> io::Result<()> {
        let mut list = self.encoder.open(Kind::List, len as usize)?;
        let program = self.program;
        let (mut seen, mut result) = (0, Ok(()));
        program.run(device as u32, |event, _| {
            seen += 1;
            if seen > skip && result.is_ok() {
                self.encoder.item(&mut list);
                result = self.event(device, event);
            }
        });
        result?;
        self.encoder.close(&list, false)?;
        Ok(())
    }

    fn event(&mut self, device: usize, event: &Event) -> io::Result<()> {
        let cpp = self.encoder.is_cpp();
        let pool_id = self.program.options.pool_id;
        let len = 7 + usize::from(pool_id) + usize::from(event.context.is_some());
        let mut dict = self.encoder.open(Kind::Dict, len)?;
        self.event_key(&mut dict, Word::Action)?;
        self.word(Word::Actions as usize + event.action as usize)?;
        self.event_key(&mut dict, if event.action == Action::Oom { Word::DeviceFree } else { Word::Addr })?;
        self.encoder.int(event.addr.into())?;
        self.event_key(&mut dict, Word::Size)?;
        self.encoder.int(event.size.into())?;
        self.event_key(&mut dict, Word::Stream)?;
        self.encoder.int(event.stream.into())?;
        if !cpp {
            self.event_key(&mut dict, Word::TimeUs)?;
            self.encoder.int(event.time_us.into())?;
        }
        self.event_key(&mut dict, Word::CompileContext)?;
        if cpp {
            self.word(Word::NotAvailable as usize)?;
        } else {
            self.encoder.string("N/A")?;
        }
        self.event_key(&mut dict, Word::UserMetadata)?;
        self.word(Word::Empty as usize)?;
        if cpp {
            self.event_key(&mut dict, Word::TimeUs)?;
            self.encoder.int(event.time_us.into())?;
        }
        if pool_id {
            self.event_key(&mut dict, Word::PoolId)?;
            self.pool(event.pool)?;
        }
        if let Some(context) = event.context {
            self.event_key(&mut dict, Word::Frames)?;
            self.frames(device, context)?;
        }
        self.encoder.close(&dict, event.context.is_some())?;
        Ok(())
    }

    fn frames(&mut self, device: usize, context: Context) -> io::Result<()> {
        let memo = self.lists[device][context.serial as usize];
        if memo != NONE {
            return self.encoder.get(memo);
        }
        let program = self.program;
        let (index, site) = (context.site as usize, &program.stacks.sites[context.site as usize]);
        let mut list = self.encoder.open(Kind::List, site.len())?;
        match &self.sites[index] {
            // No frame of the pickle can end inside these bytes, so they are the same as when written one by one.
            Some(gets) if self.encoder.buffer.len() + gets.len() < FRAME_TARGET => {
                self.encoder.items(&mut list, site.len(), gets);
            }
            known => {
                let known = known.is_some();
                for frame in site {
                    self.encoder.item(&mut list);
                    self.frame(*frame as usize)?;
                }
                if !known && site.len() <= 1000 {
                    let memos = site.iter().map(|frame| self.frames[*frame as usize]);
                    self.sites[index] = self.encoder.gets(memos);
                }
            }
        }
        let memo = self.encoder.close(&list, true)?;
        self.lists[device][context.serial as usize] = memo.unwrap_or(NONE);
        Ok(())
    }

    fn frame(&mut self, index: usize) -> io::Result<()> {
        if self.frames[index] != NONE {
            return self.encoder.get(self.frames[index]);
        }
        let frame = &self.program.stacks.frames[index];
        let mut dict = self.encoder.open(Kind::Dict, 3)?;
        self.key(&mut dict, "name")?;
        self.fresh(&frame.name)?;
        self.key(&mut dict, "filename")?;
        self.fresh(&frame.filename)?;
        self.int(&mut dict, "line", frame.line)?;
        self.frames[index] = self.encoder.close(&dict, true)?.unwrap_or(NONE);
        Ok(())
    }

    /// The `frames` of a segment or block.
    fn state_frames(&mut self, dict: &mut Open, device: usize, context: Option<Context>) -> io::Result<()> {
        self.key(dict, "frames")?;
        match context {
            Some(context) => self.frames(device, context)?,
            None if self.no_frames != NONE => self.encoder.get(self.no_frames)?,
            None => {
                let list = self.encoder.open(Kind::List, 0)?;
                self.no_frames = self.encoder.close(&list, true)?.unwrap_or(NONE);
            }
        }
        Ok(())
    }

    fn segment(&mut self, device: usize, segment: &SegmentInfo) -> io::Result<()> {
        let mut dict = self.encoder.open(Kind::Dict, 12)?;
        self.int(&mut dict, "device", device as u64)?;
        self.int(&mut dict, "address", segment.addr)?;
        self.int(&mut dict, "total_size", segment.bytes.reserved)?;
        self.int(&mut dict, "allocated_size", segment.bytes.allocated)?;
        self.int(&mut dict, "active_size", segment.bytes.active)?;
        self.int(&mut dict, "requested_size", segment.bytes.requested)?;
        self.int(&mut dict, "stream", segment.stream)?;
        self.text(&mut dict, "segment_type", if segment.small { "small" } else { "large" })?;
        self.key(&mut dict, "segment_pool_id")?;
        self.pool(segment.pool)?;
        self.bool(&mut dict, "is_expandable", self.program.options.allocator.expandable)?;
        if segment.context.is_none() {
            self.state_frames(&mut dict, device, None)?;
        }
        self.key(&mut dict, "blocks")?;
        let mut blocks = self.encoder.open(Kind::List, segment.blocks.len())?;
        for block in &segment.blocks {
            self.encoder.item(&mut blocks);
            let mut dict = self.encoder.open(Kind::Dict, 5)?;
            self.int(&mut dict, "address", block.addr)?;
            self.int(&mut dict, "size", block.size)?;
            self.int(&mut dict, "requested_size", block.requested)?;
            self.text(&mut dict, "state", block_state(block.state))?;
            self.state_frames(&mut dict, device, block.context)?;
            self.encoder.close(&dict, block.context.is_some())?;
        }
        self.encoder.close(&blocks, false)?;
        if segment.context.is_some() {
            self.state_frames(&mut dict, device, segment.context)?;
        }
        self.encoder.close(&dict, segment.context.is_some())?;
        Ok(())
    }

    fn settings(&mut self) -> io::Result<()> {
        let config = &self.program.options.allocator;
        let mut dict = self.encoder.open(Kind::Dict, 9)?;
        self.text(&mut dict, "PYTORCH_CUDA_ALLOC_CONF", "")?;
        self.int(&mut dict, "max_split_size", config.max_split_size.map_or(-1, i128::from))?;
        self.key(&mut dict, "garbage_collection_threshold")?;
        self.encoder.float(0.0)?;
        self.bool(&mut dict, "expandable_segments", config.expandable)?;
        self.int(&mut dict, "pinned_num_register_threads", 1)?;
        self.bool(&mut dict, "release_lock_on_cudamalloc", false)?;
        self.bool(&mut dict, "pinned_use_cuda_host_register", false)?;
        self.bool(&mut dict, "graph_capture_record_stream_reuse", false)?;
        self.key(&mut dict, "roundup_power2_divisions")?;
        let mut divisions = self.encoder.open(Kind::Dict, 16)?;
        for (i, division) in config.roundup_power2_divisions.iter().enumerate() {
            self.int(&mut divisions, &(1u32 << i).to_string(), *division)?;
        }
        self.encoder.close(&divisions, true)?;
        self.encoder.close(&dict, true)?;
        Ok(())
    }

    fn annotation(&mut self, annotation: &Annotation) -> io::Result<()> {
        let mut dict = self.encoder.open(Kind::Dict, 4)?;
        for text in [["stage", annotation.stage], ["name", annotation.name]] {
            self.encoder.item(&mut dict);
            self.fresh(text[0])?;
            self.fresh(text[1])?;
        }
        self.int(&mut dict, "device", annotation.device)?;
        self.int(&mut dict, "time_us", annotation.time_us)?;
        self.encoder.close(&dict, false)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocator::{Config, Stacks};
    use crate::program::Options;
    use crate::recording::{Device, record};

    fn options() -> Options {
        Options { events: 3000, depth: (2, 12), frames: 30, ..Options::default() }
    }

    fn check(options: &Options) {
        for dialect in [
            Dialect::Protocol(4),
            Dialect::Protocol(2),
            Dialect::Protocol(0),
            Dialect::Cpp,
            Dialect::CppTagged,
        ] {
            let mut streamed = Vec::new();
            let written = write(&Program::new(options.clone()), dialect, &mut streamed).unwrap();
            let recording = record(options);
            assert!(streamed == recording.pickle(dialect), "{dialect:?}");
            let end: Vec<Counters> = recording.devices.iter().map(Device::end).collect();
            assert_eq!(written.end, end);
        }
    }

    #[test]
    fn streaming_writes_the_same_bytes_as_the_pickler() {
        check(&options());
    }

    #[test]
    fn also_with_pools_devices_and_expandable_segments() {
        let allocator = Config { expandable: true, ..Config::default() };
        check(&Options { devices: 3, pools: 3, pool_id: true, allocator, ..options() });
    }

    #[test]
    fn also_for_incomplete_recordings() {
        check(&Options { late_start: 1500, ..options() });
        check(&Options { ring: Some(700), ..options() });
        for stacks in [Stacks::None, Stacks::State, Stacks::Alloc] {
            check(&Options { allocator: Config { stacks, ..Config::default() }, ..options() });
        }
    }
}
