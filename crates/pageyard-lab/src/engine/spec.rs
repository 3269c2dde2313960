//! An engine by name, with its knobs set.

use super::knobs::{self, did_you_mean};
use super::{LabEngine, UseEngine};
use crate::error::LabError;
use crate::limits;
use crate::text::shown;
use crate::yard::{self, Yard};
use pageyard::{MapError, MemoryMap, Pageyard, PressureAllocator, TryLock};
use pageyard_arena::rseq::{Rseq, possible_cpus};
use pageyard_linux::config::PcpPolicy;
use pageyard_linux::{Config, LinuxAllocator};
use std::sync::OnceLock;

/// The variants of the lock-free engine.
pub(super) const YARDS: [&str; 3] = ["pageyard", "pageyard-exclusive", "pageyard-trylock"];

/// An engine with its knobs set, ready to be built over a memory map.
#[derive(Clone, Debug)]
pub struct EngineSpec {
    design: Design,
    /// What was set, in the order in which it was.
    settings: Vec<(String, String)>,
}

/// Which engine it is, configured.
#[derive(Clone, Debug)]
enum Design {
    /// The reference.
    Linux(Box<Config>),
    /// The lock-free engine, one call at a time.
    Exclusive(Box<pageyard::Config>),
    /// The lock-free engine, its lists behind a lock that is tried once.
    TryLock(Box<pageyard::Config>),
    /// The lock-free engine, its lists used by restartable sequences on the CPU that a call really runs on; a try-lock
    /// where this host has none.
    Restartable(Box<pageyard::Config>),
}

impl EngineSpec {
    /// The engine that a replay uses beside the recorded kernel's when none is named: with the lists of the CPUs that
    /// the trace names, so that a replay can be repeated. Restartable sequences use those of the CPU they run on.
    pub const DEFAULT: [&'static str; 2] = ["pageyard-exclusive", "linux-6.18"];

    /// The same for a replay on several threads.
    pub const DEFAULT_THREADS: [&'static str; 2] = ["pageyard", "linux-6.18"];

    /// Returns the names of all engines.
    pub fn names() -> impl Iterator<Item = &'static str> {
        YARDS.into_iter().chain(Config::PRESETS)
    }

    /// Finds an engine and sets its knobs, each `(knob, value)`.
    ///
    /// # Errors
    /// [`LabError::NoSuchEngine`] or [`LabError::Knob`].
    pub fn parse(name: &str, knobs: &[(String, String)]) -> Result<EngineSpec, LabError> {
        let mut yard = Box::new(pageyard::Config::new(1));
        let mut linux = Config::preset(name);
        if linux.is_none() && !YARDS.contains(&name) {
            let known = EngineSpec::names().collect::<Vec<_>>().join(", ");
            let meant = did_you_mean(name, EngineSpec::names());
            return Err(LabError::NoSuchEngine { name: shown(name), meant, known });
        }
        for (knob, value) in knobs {
            let set = match &mut linux {
                _ if !knobs::has(name, knob) => Err(knobs::not_one_of(name, knob)),
                Some(config) => config.set(knob, value).map_err(|why| why.to_string()),
                None => knobs::set_yard(&mut yard, knob, value),
            };
            set.map_err(|why| LabError::Knob { engine: name.to_owned(), why: shown(&why) })?;
        }
        let design = match (linux, name) {
            (Some(config), _) => Design::Linux(Box::new(config)),
            (None, "pageyard-exclusive") => Design::Exclusive(yard),
            (None, "pageyard-trylock") => Design::TryLock(yard),
            (None, _) => Design::Restartable(yard),
        };
        Ok(EngineSpec { design, settings: knobs.to_vec() })
    }

    /// Finds engines and sets their knobs. `KNOB` is set on those of them that have it, `ENGINE:KNOB` on that engine alone.
    ///
    /// # Errors
    /// As [`EngineSpec::parse`]; [`LabError::Knob`] also where none of the engines has a knob, or `ENGINE` is none of them.
    pub fn parse_all(names: &[&str], knobs: &[(String, String)]) -> Result<Vec<EngineSpec>, LabError> {
        for name in names {
            EngineSpec::parse(name, &[])?;
        }
        for (knob, _) in knobs {
            let (only, knob) = of_engine(knob);
            let fail =
                |engine: &str, why: String| Err(LabError::Knob { engine: shown(engine), why: shown(&why) });
            match only {
                Some(engine) if !names.contains(&engine) => {
                    EngineSpec::parse(engine, &[])?;
                    return fail(
                        engine,
                        format!("it is set a knob and not used; add it to --engine {}", names.join(",")),
                    );
                }
                None if !names.iter().any(|name| knobs::has(name, knob)) => {
                    return fail(
                        &names.join(", "),
                        knobs::not_one_of(names.first().copied().unwrap_or(""), knob),
                    );
                }
                _ => {}
            }
        }
        let spec = |name: &&str| {
            let its = knobs.iter().filter_map(|(key, value)| {
                let (only, knob) = of_engine(key);
                let applies = only.map_or(knobs::has(name, knob), |engine| engine == *name);
                applies.then(|| (knob.to_owned(), value.clone()))
            });
            EngineSpec::parse(name, &its.collect::<Vec<_>>())
        };
        names.iter().map(spec).collect()
    }

    /// Says which settings apply to some of the engines only, one sentence each.
    #[must_use]
    pub fn partly_set(names: &[&str], knobs: &[(String, String)]) -> Vec<String> {
        let plain = knobs.iter().filter(|(key, _)| of_engine(key).0.is_none());
        plain
            .filter_map(|(knob, value)| {
                let (with, without): (Vec<&str>, Vec<&str>) =
                    names.iter().partition(|name| knobs::has(name, knob));
                (!without.is_empty()).then(|| {
                    format!(
                        "{} is set on {} alone; {} has no such knob",
                        shown(&format!("{knob}={value}")),
                        with.join(" and "),
                        without.join(", nor ")
                    )
                })
            })
            .collect()
    }

    /// Returns what was set, in the order in which it was.
    #[must_use]
    pub fn settings(&self) -> &[(String, String)] {
        &self.settings
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match &self.design {
            Design::Linux(config) => config.name,
            Design::Exclusive(_) => "pageyard-exclusive",
            Design::TryLock(_) => "pageyard-trylock",
            Design::Restartable(_) => "pageyard",
        }
    }

    /// Returns what the engine leaves out of what it is named after; empty where that is nothing.
    #[must_use]
    pub fn leaves_out(&self) -> &'static str {
        match &self.design {
            Design::Linux(config) => config.leaves_out,
            Design::Exclusive(_) | Design::TryLock(_) => "",
            Design::Restartable(_) => without_sequences(),
        }
    }

    /// Sets `vm.min_free_kbytes`, unless a knob has set it already.
    #[must_use]
    pub fn with_min_free_kbytes(&self, kib: Option<u64>) -> EngineSpec {
        let mut spec = self.clone();
        let watermark = match &mut spec.design {
            Design::Linux(config) => &mut config.watermark,
            Design::Exclusive(config) | Design::TryLock(config) | Design::Restartable(config) => {
                &mut config.watermark
            }
        };
        watermark.min_free_kbytes = watermark.min_free_kbytes.or(kib);
        spec
    }

    /// Turns compaction off, whatever a knob has set.
    #[must_use]
    pub(crate) fn without_compaction(&self) -> EngineSpec {
        let mut spec = self.clone();
        match &mut spec.design {
            Design::Linux(config) => config.compaction.enabled = false,
            Design::Exclusive(config) | Design::TryLock(config) | Design::Restartable(config) => {
                config.compaction.enabled = false;
            }
        }
        spec
    }

    /// Builds the engine with everything free, for calls on one thread or, with `threads`, on several.
    ///
    /// The outer result says whether it can be used that way at all.
    pub(crate) fn build(
        &self,
        map: &MemoryMap<'_>,
        cpus: u32,
        threads: bool,
    ) -> Result<Result<Box<dyn LabEngine>, MapError>, LabError> {
        self.on(map, cpus, threads, Boxed)
    }

    /// Builds the engine as [`EngineSpec::build`] does, and hands it over as what it is.
    pub(crate) fn on<U: UseEngine>(
        &self,
        map: &MemoryMap<'_>,
        cpus: u32,
        threads: bool,
        user: U,
    ) -> Result<Result<U::Output, MapError>, LabError> {
        self.check_weight(map, cpus)?;
        Ok(match &self.design {
            Design::Linux(config) => {
                LinuxAllocator::new(map, &Config { cpus, ..(**config).clone() }).map(|e| user.with(e))
            }
            Design::TryLock(config) => {
                let config = pageyard::Config { cpus, ..**config };
                Yard::new(map, config, pageyard::TryLock).map(|e| user.with(e))
            }
            Design::Restartable(config) => match Rseq::new() {
                Ok(rseq) => {
                    let cpus = cpus.max(possible_cpus());
                    Yard::new(map, pageyard::Config { cpus, ..**config }, rseq).map(|e| user.with(e))
                }
                Err(_) => {
                    let config = pageyard::Config { cpus, ..**config };
                    Yard::new(map, config, pageyard::TryLock).map(|e| user.with(e))
                }
            },
            Design::Exclusive(_) if threads => {
                return Err(LabError::OneThread { engine: self.name().to_owned() });
            }
            Design::Exclusive(config) => {
                let config = pageyard::Config { cpus, ..**config };
                yard::exclusive_on_one_thread(map, config).map(|e| user.with(e))
            }
        })
    }

    /// Refuses an engine whose tables are larger than the memory that this process may use.
    fn check_weight(&self, map: &MemoryMap<'_>, cpus: u32) -> Result<(), LabError> {
        let spanned: u64 = map.zones().map(|(_, span)| span.spanned.0).sum();
        let need = match &self.design {
            Design::Linux(config) => {
                let lists: u64 = map.zones().map(|(_, span)| list_bytes(config, span.managed.0, cpus)).sum();
                spanned * LINUX_BYTES_A_FRAME + lists
            }
            Design::Exclusive(config) | Design::TryLock(config) | Design::Restartable(config) => {
                let cpus = cpus.max(possible_cpus());
                let layout = Pageyard::<TryLock>::layout(map, &pageyard::Config { cpus, ..**config });
                layout.map_or(0, |l| l.layout.size() as u64)
            }
        };
        limits::check(
            &format!("{} for {cpus} CPUs", self.name()),
            need,
            "replay on fewer CPUs or a smaller machine",
        )
    }
}

/// Metadata of the reference.
const LINUX_BYTES_A_FRAME: u64 = 9;

/// Returns about how many bytes the reference's lists of all CPUs take in a zone.
fn list_bytes(config: &Config, managed: u64, cpus: u32) -> u64 {
    /// Lists of a CPU in a zone, what each has besides its places, and the bytes of a place.
    const LISTS: u64 = 14;
    const HEADER: u64 = 64;
    const PLACE: u64 = 8;
    let cpus = u64::from(cpus);
    let places = match config.pcp_policy {
        PcpPolicy::Classic => 256,
        // The low watermark is about a hundredth of a zone at the most.
        PcpPolicy::FreeFactor => (managed / 100 / cpus.max(1)).max(252) + 126,
        PcpPolicy::Auto => 0,
    };
    cpus * LISTS * (HEADER + places * PLACE)
}

/// Tells `ENGINE:KNOB` from `KNOB`.
fn of_engine(key: &str) -> (Option<&str>, &str) {
    match key.split_once(':') {
        Some((engine, knob)) => (Some(engine), knob),
        None => (None, key),
    }
}

/// Puts the engine into a box.
struct Boxed;

impl UseEngine for Boxed {
    type Output = Box<dyn LabEngine>;

    fn with<E: PressureAllocator + LabEngine + 'static>(self, engine: E) -> Box<dyn LabEngine> {
        Box::new(engine)
    }
}

/// Says what this host lacks for restartable sequences; empty where that is nothing.
fn without_sequences() -> &'static str {
    static WHY: OnceLock<String> = OnceLock::new();
    WHY.get_or_init(|| {
        Rseq::new().err().map_or_else(String::new, |why| format!("restartable sequences: {why}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageyard::compaction::{Knobs, Scope};

    #[test]
    fn the_engine_takes_every_knob_of_compaction_and_refuses_what_is_out_of_range() {
        let set = |knob: &str, value: &str| {
            EngineSpec::parse("pageyard", &[(knob.to_owned(), value.to_owned())]).map_err(|e| e.to_string())
        };
        for (name, takes) in Knobs::NAMES {
            let knob = format!("compaction.{name}");
            let why = set(&knob, "-1").unwrap_err();
            assert_eq!(why, format!("pageyard: `{knob}` takes {takes}, not `-1`"));
        }
        let Design::Restartable(config) = set("compaction.skip_on_failure", "all").unwrap().design else {
            panic!("the engine has this knob")
        };
        assert_eq!(config.compaction, Knobs { skip_on_failure: Scope::All, ..Knobs::engine() });
        assert!(set("compaction.speed", "1").unwrap_err().contains("there is no knob"));
    }

    fn refused(names: &[&str], key: &str, value: &str) -> String {
        let set = EngineSpec::parse_all(names, &[(key.to_owned(), value.to_owned())]);
        let why = set.unwrap_err().to_string();
        assert_eq!(why.lines().count(), 1, "{why}");
        why
    }

    #[test]
    fn a_name_that_is_nearly_right_is_answered_with_the_right_one() {
        let why = EngineSpec::parse("linux-6.8", &[]).unwrap_err().to_string();
        assert!(why.contains("did you mean `linux-6.1"), "{why}");
        let why = refused(&["linux-6.18"], "fall_back", "alike");
        assert!(why.contains("did you mean `fallback`?"), "{why}");
        let why = refused(&["linux-6.18"], "direct_free", "all");
        assert!(why.contains("did you mean `compaction.direct_free`?"), "{why}");
        assert!(!refused(&["linux-6.18"], "swappiness", "1").contains("did you mean"));
    }

    #[test]
    fn a_knob_of_other_engines_says_whose_it_is() {
        let why = refused(&["pageyard-exclusive"], "fallback", "alike");
        assert!(why.contains("linux-6.18") && why.contains("`fallback`"), "{why}");
        let why = refused(&["linux-6.18"], "pcp", "false");
        assert!(why.contains("pageyard-exclusive"), "{why}");
    }

    #[test]
    fn a_knob_is_set_on_one_engine_alone_where_that_is_named() {
        let knob = [("linux-6.1:fallback".to_owned(), "half_free".to_owned())];
        let names = ["linux-6.1", "linux-6.18"];
        let specs = EngineSpec::parse_all(&names, &knob).unwrap();
        assert_eq!(specs[0].settings(), [("fallback".to_owned(), "half_free".to_owned())]);
        assert!(specs[1].settings().is_empty());
        let why = refused(&["linux-6.18"], "linux-6.1:fallback", "alike");
        assert!(why.contains("--engine"), "{why}");
        assert!(refused(&["linux-6.18"], "linux-9:fallback", "alike").contains("linux-9"));
        let partly =
            EngineSpec::partly_set(&["linux-6.1", "pageyard"], &[("fallback".into(), "alike".into())]);
        assert_eq!(partly, ["fallback=alike is set on linux-6.1 alone; pageyard has no such knob"]);
        assert!(EngineSpec::partly_set(&names, &[("fallback".into(), "alike".into())]).is_empty());
    }

    #[test]
    fn what_a_user_types_cannot_command_the_terminal() {
        let why = EngineSpec::parse("linux\u{1b}[2J", &[]).unwrap_err().to_string();
        assert!(!why.contains('\u{1b}'), "{why:?}");
        assert!(!refused(&["linux-6.18"], "a\u{7}b", "1").contains('\u{7}'));
    }
}
