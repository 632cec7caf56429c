//! How far simulations are.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// On stderr, and only where somebody sees it. One long simulation shows its time.
pub(super) fn bar(simulations: usize) -> ProgressBar {
    let target = ProgressDrawTarget::stderr_with_hz(4);
    let bar = ProgressBar::with_draw_target(u64::try_from(simulations).ok(), target);
    // The template is a constant; a test would show it broken.
    if let Ok(style) =
        ProgressStyle::with_template("{bar:28} {pos}/{len} simulations  {elapsed}  {msg}")
    {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(250));
    bar
}
