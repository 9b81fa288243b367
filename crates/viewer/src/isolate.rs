//! One group alone on the chart, piled up from zero; and bytes that follow what is shown.

use vramscope_analysis::Counter;
use vramscope_engine::{AskCurve, AskLevels, Group, SetLevels, Which};

use crate::app::App;
use crate::requests::Slot;
use crate::view::View;

/// A view must rest for this many seconds before its bytes are fitted.
const REST: f64 = 0.10;
/// Room above the highest.
const ROOM: f64 = 1.10;
/// A difference that is not worth a movement.
const NEAR: f64 = 0.02;

/// The allocations that are shown alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Isolated {
    pub(crate) which: Which,
    /// What they are called.
    pub(crate) name: String,
}

impl App {
    /// The allocations that the chart shows; all if nothing is isolated.
    pub(crate) fn only(&self) -> Which {
        self.isolated.as_ref().map(|isolated| isolated.which.clone()).unwrap_or_default()
    }

    /// Shows a group alone; everything again if it is alone already.
    pub(crate) fn isolate(&mut self, group: Group, name: &str) {
        self.isolate_which(Which { group: Some(group), ..Which::default() }, name);
    }

    /// The same for all that a filter keeps.
    pub(crate) fn isolate_which(&mut self, which: Which, name: &str) {
        let isolated = Isolated { which, name: name.to_owned() };
        self.isolated = if self.isolated.as_ref() == Some(&isolated) { None } else { Some(isolated) };
        self.camera.locked = false;
    }

    /// Whether this group is alone on the chart.
    pub(crate) fn is_isolated(&self, group: &Group) -> bool {
        self.isolated.as_ref().is_some_and(|isolated| isolated.which.group.as_ref() == Some(group))
    }

    /// Shows everything again. Says whether something was alone.
    pub(crate) fn show_all(&mut self) -> bool {
        self.camera.locked &= self.isolated.is_none();
        self.isolated.take().is_some()
    }

    /// The level of what is alone on the chart, once it is known.
    pub(crate) fn isolated_levels(&self) -> Option<std::sync::Arc<SetLevels>> {
        let answer = self.requests.look::<AskLevels>(Slot::Levels)?;
        let isolated = self.isolated.as_ref()?;
        (answer.request.only == isolated.which && Some(answer.request.of) == self.device().map(|(of, _)| of))
            .then_some(answer.value)
    }

    /// The highest of what is shown, for the axis of bytes: of what is isolated, else of what is stacked and of what
    /// is reserved, unless that is far above.
    fn highest_shown(&self) -> Option<f64> {
        let view = self.camera.view;
        if self.isolated.is_some() {
            let levels = self.isolated_levels().filter(|levels| levels.stretch.x == view.x)?;
            return Some(levels.most.iter().flatten().max().map_or(0.0, |most| *most as f64));
        }
        let answer = self.requests.look::<AskCurve>(Slot::Curve)?;
        let (of, _) = self.device()?;
        if !answer.fresh || answer.request.of != of || answer.value.stretch.x != view.x {
            return None;
        }
        let most = |counter: Counter| {
            answer.value.most.iter().flatten().map(|counters| counters[counter]).max().map(|most| most as f64)
        };
        let (stacked, held) = (most(self.settings.counter)?, most(Counter::Reserved)?);
        let beside = self.files.beside().map_or(0.0, |other| other.peak(self.settings.counter).bytes as f64);
        let pools = app_pools(self);
        Some(if pools || held < stacked * 2.5 { held.max(stacked) } else { stacked }.max(beside))
    }

    /// Fits the bytes to what is shown, once it rests, unless they were chosen by hand.
    pub(crate) fn follow_bytes(&mut self, held: bool) -> bool {
        if self.camera.locked || held || self.camera.converting.is_some() {
            return false;
        }
        let Some(most) = self.highest_shown() else { return false };
        let (view, top) = (self.camera.view, most.max(1.0) * ROOM);
        let off = ((view.y.1 - top) / top).abs() > NEAR || view.y.0 != 0.0;
        if !off {
            return false;
        }
        if self.camera.rested(self.now) >= REST {
            self.glide(View { y: (0.0, top), ..view });
        }
        true
    }
}

/// Whether the picture is as high as what private pools hold.
fn app_pools(app: &App) -> bool {
    app.settings.pools && app.device().is_some_and(|(_, summary)| !summary.envelopes.is_empty())
}
