//! The names of the measured allocators and quantities.

/// The reference, and the knob that the document is about.
pub(super) const PRESET: &str = "linux-4.10";
pub(super) const POINT: &str = "frag_free";

pub(super) const BUDDY: &str = "reference:buddy";
pub(super) const PCP: &str = "reference:pcp";
pub(super) const ENGINE: &str = "pageyard";
pub(super) const PROFILE: &str = "published:profile";
pub(super) const MODEL: &str = "model";

pub(super) const ONE: &str = "packets per second, 1 CPU";
pub(super) const TWO: &str = "packets per second, 2 CPUs";
pub(super) const SHARE: &str = "zone lock wait share";

/// Other work whose time has changed by more, in percent, is reported.
pub(super) const DRIFT: f64 = 15.0;
