//! An engine by name, with its knobs set.

use super::ReplayEngine;
use super::catalogue::{AnyEngine, Engine, NotBuilt, Visit};
use super::kernel::{self, KernelSpec};
use super::knobs::{self, did_you_mean};
use crate::error::ReplayError;
use crate::limits;
use crate::text::shown;
use pageyard::{MapError, MemoryMap, Pageyard, TryLock};
use pageyard_arena::rseq::Rseq;
use pageyard_linux::config::{PcpPolicy, ZoneMarks};
use pageyard_linux::knobs::{Knob, Place, Version};
use pageyard_linux::{Config, Posted};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

/// An engine with its knobs set, ready to be built over a memory map.
#[derive(Clone, Debug)]
pub struct EngineSpec {
    design: Design,
    /// How it was named, with the settings that were given there.
    label: String,
    /// The settings, in the order in which they were made.
    settings: Vec<(String, String)>,
}

/// Which engine it is, configured.
#[derive(Clone, Debug)]
enum Design {
    /// One of the catalogue.
    Listed(Engine),
    /// A Linux kernel in a guest, which only replays.
    Kernel(Box<KernelSpec>),
}

/// The presets that were compared with their kernels, frame by frame ([judge](../../../../docs/design/judge.md)).
pub const JUDGED: [&str; 6] =
    ["linux-5.10", "linux-6.1", "linux-6.12", "linux-6.18", "linux-7.2", "linux-7.3"];

impl EngineSpec {
    /// The engine that a replay uses beside the recorded kernel's when none is named. It uses the lists of the CPUs
    /// that the trace names, so a replay is repeatable. Restartable sequences use those of the CPU they run on.
    pub const DEFAULT: [&'static str; 2] = ["pageyard-exclusive", "linux-6.18"];

    /// The same for a replay on several threads.
    pub const DEFAULT_THREADS: [&'static str; 2] = ["pageyard", "linux-6.18"];

    /// Returns the reference that is nearest to a recorded kernel, by its name (`Linux 6.12.117`): the newest that is
    /// not newer than it, or else the oldest.
    #[must_use]
    pub fn of_kernel(kernel: &str) -> &'static str {
        let version = |text: &str| {
            let mut numbers = text.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse::<u32>().ok());
            Some((numbers.next()?, numbers.next()?))
        };
        let Some(recorded) = version(kernel) else { return EngineSpec::DEFAULT[1] };
        let not_newer =
            Config::PRESETS.into_iter().rfind(|name| version(name).is_some_and(|v| v <= recorded));
        not_newer.unwrap_or(Config::PRESETS[0])
    }

    /// Finds an engine and sets its knobs, each `(knob, value)`.
    ///
    /// # Errors
    /// [`ReplayError::NoSuchEngine`] or [`ReplayError::Knob`].
    pub fn parse(name: &str, knobs: &[(String, String)]) -> Result<EngineSpec, ReplayError> {
        if kernel::is_one(name) {
            if let Some((knob, _)) = knobs.iter().find(|(knob, _)| !knobs::has(name, knob)) {
                return Err(ReplayError::Knob {
                    engine: shown(name),
                    why: shown(&knobs::not_one_of(name, knob)),
                });
            }
            let design = Design::Kernel(Box::new(KernelSpec::parse(name, knobs)?));
            return Ok(EngineSpec { design, label: name.to_owned(), settings: knobs.to_vec() });
        }
        let Some(mut engine) = Engine::named(name) else {
            let posted = Posted::ALL.map(|p| p.name);
            let known = Engine::names().chain(posted).collect::<Vec<_>>().join(", ");
            let meant = did_you_mean(name, Engine::names());
            return Err(ReplayError::NoSuchEngine { name: shown(name), meant, known });
        };
        for (knob, value) in knobs {
            let set = match &mut engine {
                _ if !knobs::has(name, knob) => Err(knobs::not_one_of(name, knob)),
                Engine::Linux(config) => config.set(knob, value).map_err(|why| why.to_string()),
                Engine::Yard(_, config) => knobs::set_yard(config, knob, value),
            };
            set.map_err(|why| ReplayError::Knob { engine: name.to_owned(), why: shown(&why) })?;
        }
        let design = Design::Listed(engine);
        Ok(EngineSpec { design, label: name.to_owned(), settings: knobs.to_vec() })
    }

    /// Finds engines, each named `ENGINE[:KNOB=VALUE]...`, and sets their knobs: those of its name on it alone, and of
    /// `knobs` `KNOB` on each engine that has it and `ENGINE:KNOB` on that engine, unless its name says otherwise.
    ///
    /// # Errors
    /// As [`EngineSpec::parse`]; [`ReplayError::Knob`] also where no engine has a knob, or `ENGINE` is not one of the
    /// engines.
    pub fn parse_all(engines: &[&str], knobs: &[(String, String)]) -> Result<Vec<EngineSpec>, ReplayError> {
        let named: Vec<Named<'_>> =
            engines.iter().map(|text| Named::parse(text)).collect::<Result<_, _>>()?;
        let names: Vec<&str> = named.iter().map(|n| n.engine).collect();
        let absent = || format!("it is not replayed; add it to --engine {}", names.join(","));
        let for_all = EngineSpec::settings_of(&names, knobs, absent)?;
        let spec = |(named, mut settings): (&Named<'_>, Vec<(String, String)>)| {
            settings.extend(named.settings.iter().cloned());
            let label = named.text.to_owned();
            Ok(EngineSpec { label, ..EngineSpec::parse(named.engine, &settings)? })
        };
        named.iter().zip(for_all).map(spec).collect()
    }

    /// Finds out which of `knobs` each of the engines of these names gets: `KNOB` is set on each engine that has it,
    /// `ENGINE:KNOB` on that engine. `absent` says about an engine that is not one of them what to do.
    ///
    /// # Errors
    /// [`ReplayError::NoSuchEngine`]; [`ReplayError::Knob`] where none of the engines has a knob, or `ENGINE` is not
    /// one of them. Values are checked by [`EngineSpec::parse`].
    pub fn settings_of(
        names: &[&str],
        knobs: &[(String, String)],
        absent: impl Fn() -> String,
    ) -> Result<Vec<Vec<(String, String)>>, ReplayError> {
        let fail =
            |engine: &str, why: String| Err(ReplayError::Knob { engine: shown(engine), why: shown(&why) });
        for (knob, _) in knobs {
            let (only, knob) = of_engine(knob);
            match only {
                Some(engine) if !names.contains(&engine) => {
                    EngineSpec::parse(engine, &[])?;
                    return fail(engine, format!("a knob is set on it, but {}", absent()));
                }
                Some(engine) if !knobs::has(engine, knob) => {
                    return fail(engine, knobs::not_one_of(engine, knob));
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
        let of = |name: &&str| {
            let settings = knobs.iter().filter_map(|(key, value)| {
                let (only, knob) = of_engine(key);
                let applies = only.map_or(knobs::has(name, knob), |engine| engine == *name);
                applies.then(|| (knob.to_owned(), value.clone()))
            });
            settings.collect()
        };
        Ok(names.iter().map(of).collect())
    }

    /// Says which settings apply to only some of the engines, one sentence each.
    #[must_use]
    pub fn partly_set(engines: &[&str], knobs: &[(String, String)]) -> Vec<String> {
        let mut names: Vec<&str> = Vec::new();
        for name in engines.iter().map(|text| of_engine(text).0.unwrap_or(text)) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
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

    /// Returns how it was named, `ENGINE[:KNOB=VALUE]...`, which tells two settings of one engine apart.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.label
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
            Design::Listed(engine) => engine.name(),
            Design::Kernel(_) => "kernel",
        }
    }

    /// Returns whether it was compared with the kernel that it is named after; `None` for engines that are no preset of
    /// a kernel.
    #[must_use]
    pub fn is_judged(&self) -> Option<bool> {
        matches!(self.engine(), Some(Engine::Linux(_))).then(|| JUDGED.contains(&self.name()))
    }

    /// Returns the engine of the catalogue; `None` for a kernel.
    #[must_use]
    pub fn engine(&self) -> Option<&Engine> {
        match &self.design {
            Design::Listed(engine) => Some(engine),
            Design::Kernel(_) => None,
        }
    }

    /// Returns the kernel, where it is one.
    pub(crate) fn kernel(&self) -> Option<&KernelSpec> {
        match &self.design {
            Design::Kernel(kernel) => Some(kernel),
            _ => None,
        }
    }

    /// Adds behind each kernel that is made of sources the same with a patch, so that both are replayed.
    ///
    /// # Errors
    /// [`ReplayError::Kernel`] where no engine is made of sources, or the patch cannot be read or does not apply.
    pub fn with_patch(engines: Vec<EngineSpec>, patch: &Path) -> Result<Vec<EngineSpec>, ReplayError> {
        let fail = |why: String| ReplayError::Kernel { engine: format!("--patch {}", patch.display()), why };
        std::fs::File::open(patch).map_err(|why| fail(why.to_string()))?;
        if !engines.iter().any(|e| e.kernel().is_some_and(KernelSpec::has_sources)) {
            return Err(fail("no engine is made of sources; name a folder with a kernel's sources, as in --engine kernel:linux".to_owned()));
        }
        for kernel in engines.iter().filter_map(EngineSpec::kernel) {
            kernel.check_patch(patch).map_err(fail)?;
        }
        let patched = |spec: EngineSpec| {
            let with_patch = match &spec.design {
                Design::Kernel(kernel) if kernel.has_sources() => Some(EngineSpec {
                    design: Design::Kernel(Box::new(KernelSpec {
                        patch: Some(patch.to_owned()),
                        ..(**kernel).clone()
                    })),
                    label: format!(
                        "{}+{}",
                        spec.label,
                        patch.file_name().unwrap_or_default().to_string_lossy()
                    ),
                    settings: spec.settings.clone(),
                }),
                _ => None,
            };
            std::iter::once(spec).chain(with_patch)
        };
        Ok(engines.into_iter().flat_map(patched).collect())
    }

    /// Returns what the engine omits of the kernel that it is named after; empty where that is nothing.
    #[must_use]
    pub fn leaves_out(&self) -> &'static str {
        match &self.design {
            Design::Listed(Engine::Linux(config)) => config.leaves_out,
            Design::Listed(Engine::Yard(variant, _)) if variant.needs_sequences() => without_sequences(),
            Design::Listed(_) => "",
            Design::Kernel(_) => kernel::LEAVES_OUT,
        }
    }

    /// Returns the settings of the lock-free engine, for one CPU; `None` for the reference.
    #[must_use]
    pub fn yard(&self) -> Option<&pageyard::Config> {
        match &self.design {
            Design::Listed(Engine::Yard(_, config)) => Some(config),
            _ => None,
        }
    }

    /// Sets `vm.min_free_kbytes`, unless a knob has set it already.
    #[must_use]
    pub fn with_min_free_kbytes(&self, kib: Option<u64>) -> EngineSpec {
        let mut spec = self.clone();
        let watermark = match &mut spec.design {
            Design::Listed(Engine::Linux(config)) => &mut config.watermark,
            Design::Listed(Engine::Yard(_, config)) => &mut config.watermark,
            Design::Kernel(kernel) => &mut kernel.reference.watermark,
        };
        watermark.min_free_kbytes = watermark.min_free_kbytes.or(kib);
        spec
    }

    /// Gives the reference these watermarks, unless a knob has set what they follow from: a kernel would compute them
    /// anew then.
    #[must_use]
    pub(crate) fn with_zone_marks(&self, marks: &[ZoneMarks]) -> EngineSpec {
        let mut spec = self.clone();
        let computed = |knob: &str| matches!(knob, "min_free_kbytes" | "watermark_scale_factor");
        if let Design::Listed(Engine::Linux(config)) = &mut spec.design
            && !spec.settings.iter().any(|(knob, _)| computed(knob))
        {
            config.zone_marks = marks.to_vec();
        }
        spec
    }

    /// Gives the presets of 6.x the settings that the recorded host had, unless a knob has set them; by their names
    /// below `/proc/sys`. A release does not get a setting that it does not have, nor a value that it does not take.
    #[must_use]
    pub(crate) fn with_host_settings(&self, settings: &BTreeMap<String, String>) -> EngineSpec {
        let mut spec = self.clone();
        let Design::Listed(Engine::Linux(config)) = &mut spec.design else { return spec };
        let Some(release) = config.release().filter(|release| *release >= Version(6, 0)) else { return spec };
        let is_set = |knob: &str| self.settings.iter().any(|(name, _)| name == knob);
        // What the reserve was is known of the machine (`with_min_free_kbytes`).
        for mut field in config.fields().filter(|field| field.knob.name != "min_free_kbytes") {
            let Knob { name, place: Place::Sysctl(file), .. } = field.knob else { continue };
            if field.knob.is_chosen_in(release)
                && !is_set(name)
                && let Some(value) = settings.get(&file.replace('.', "/"))
            {
                let _refused = field.set(value);
            }
        }
        spec
    }

    /// Turns compaction off, whatever a knob has set.
    #[must_use]
    pub fn without_compaction(&self) -> EngineSpec {
        let mut spec = self.clone();
        match &mut spec.design {
            Design::Listed(Engine::Linux(config)) => config.compaction.enabled = false,
            Design::Listed(Engine::Yard(_, config)) => config.compaction = false,
            Design::Kernel(kernel) => kernel.reference.compaction.enabled = false,
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
    ) -> Result<Result<Box<dyn ReplayEngine>, MapError>, ReplayError> {
        self.on(map, cpus, threads, Boxed)
    }

    /// Builds the engine as [`EngineSpec::build`] does, and hands it over by its type.
    #[allow(unsafe_code, reason = "engines for one thread get one")]
    pub(crate) fn on<V: Visit>(
        &self,
        map: &MemoryMap<'_>,
        cpus: u32,
        threads: bool,
        visit: V,
    ) -> Result<Result<V::Output, MapError>, ReplayError> {
        let Some(engine) = self.engine() else { return Err(self.only_replays()) };
        if threads && engine.is_for_one_thread() {
            return Err(ReplayError::OneThread { engine: self.name().to_owned() });
        }
        let engine = engine.clone().or_try_lock().with_cpus(cpus);
        self.check_weight(&engine, map, cpus)?;
        // SAFETY: a replay makes all calls on one thread, unless it was asked for several, and then none of these
        //         engines is for one.
        match unsafe { engine.on(map, visit) } {
            Ok(output) => Ok(Ok(output)),
            Err(NotBuilt::Map(why)) => Ok(Err(why)),
            Err(NotBuilt::Unavailable(why)) => {
                Err(ReplayError::Unavailable { engine: self.name().to_owned(), why })
            }
        }
    }

    /// Says that a kernel can do nothing but a plain replay.
    pub(crate) fn only_replays(&self) -> ReplayError {
        let why = "a kernel takes part in a plain replay alone; leave out --threads and --slow-path, or name another engine";
        ReplayError::Kernel { engine: shown(&self.label), why: why.to_owned() }
    }

    /// Refuses an engine whose tables are larger than the memory that this process may use.
    fn check_weight(&self, engine: &Engine, map: &MemoryMap<'_>, cpus: u32) -> Result<(), ReplayError> {
        let spanned: u64 = map.zones().map(|(_, span)| span.spanned.0).sum();
        let need = match engine {
            Engine::Linux(config) => {
                let lists: u64 = map.zones().map(|(_, span)| list_bytes(config, span.managed.0, cpus)).sum();
                spanned * LINUX_BYTES_A_FRAME + lists
            }
            Engine::Yard(_, config) => {
                Pageyard::<TryLock>::layout(map, config).map_or(0, |l| l.layout.size() as u64)
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

/// Splits `ENGINE:REST`; names of kernels and of posted patches have a colon of their own. `None` where there is no
/// colon.
fn split(text: &str) -> Option<(&str, Option<&str>)> {
    let posted = || Posted::ALL.iter().find_map(|p| Some((p.name, text.strip_prefix(p.name)?)));
    kernel::split(text)
        .or_else(|| match posted()? {
            (name, "") => Some((name, None)),
            (name, rest) => Some((name, Some(rest.strip_prefix(':')?))),
        })
        .or_else(|| text.split_once(':').map(|(engine, rest)| (engine, Some(rest))))
}

/// Tells `ENGINE:KNOB` from `KNOB`.
fn of_engine(key: &str) -> (Option<&str>, &str) {
    match split(key) {
        Some((engine, knob)) => (Some(engine), knob.unwrap_or("")),
        None => (None, key),
    }
}

/// An engine as a user names it.
struct Named<'a> {
    text: &'a str,
    engine: &'a str,
    settings: Vec<(String, String)>,
}

impl<'a> Named<'a> {
    /// Reads `ENGINE[:KNOB=VALUE]...`, and checks that there is such an engine with such knobs.
    fn parse(text: &'a str) -> Result<Named<'a>, ReplayError> {
        let (engine, settings) = split(text).unwrap_or((text, None));
        EngineSpec::parse(engine, &[])?;
        let settings =
            settings.into_iter().flat_map(|s| s.split(':')).map(|part| match part.split_once('=') {
                Some((knob, value)) if !knob.is_empty() => Ok((knob.to_owned(), value.to_owned())),
                _ => {
                    let why =
                        format!("`{}` is not of the form KNOB=VALUE, as in {engine}:KNOB=VALUE", shown(part));
                    Err(ReplayError::Knob { engine: engine.to_owned(), why })
                }
            });
        let settings = settings.collect::<Result<Vec<_>, _>>()?;
        EngineSpec::parse(engine, &settings)?;
        Ok(Named { text, engine, settings })
    }
}

/// Puts the engine into a box.
struct Boxed;

impl Visit for Boxed {
    type Output = Box<dyn ReplayEngine>;

    fn visit<E: AnyEngine>(self, engine: E) -> Box<dyn ReplayEngine> {
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

    #[test]
    fn the_engine_has_no_knob_of_scanners_and_says_who_has() {
        let set = |knob: &str, value: &str| {
            EngineSpec::parse("pageyard", &[(knob.to_owned(), value.to_owned())]).map_err(|e| e.to_string())
        };
        let mut reference = Config::named("linux-6.18").unwrap();
        let knobs: Vec<&Knob> = reference.fields().map(|field| field.knob).collect();
        let of_compaction = knobs.iter().filter(|knob| knob.name.starts_with("compaction."));
        let kept = ["compaction.enabled", "compaction.proactiveness"];
        for Knob { name, values, .. } in of_compaction {
            let why = set(name, "-1").unwrap_err();
            if kept.contains(name) {
                assert_eq!(why, format!("pageyard: `{name}` takes {values}, not `-1`"));
            } else {
                let lead = format!("pageyard: it has no knob `{name}`; linux-4.6, ");
                assert!(why.starts_with(&lead) && why.ends_with(" have it"), "{why}");
            }
        }
        let spec = set("compaction.proactiveness", "7").unwrap();
        let expected = pageyard::Config { compaction_proactiveness: 7, ..pageyard::Config::new(1) };
        assert_eq!(*spec.yard().unwrap(), expected);
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
    fn a_posted_patch_is_an_engine_whose_name_has_a_colon() {
        for posted in Posted::ALL {
            let with = format!("{}:min_free_kbytes=4096", posted.name);
            let elsewhere = (format!("{}:fallback", posted.name), "alike".to_owned());
            let specs = EngineSpec::parse_all(&[posted.name, &with], &[elsewhere]).unwrap();
            assert_eq!(specs[0].settings(), [("fallback".to_owned(), "alike".to_owned())]);
            assert_eq!((specs[0].label(), specs[0].name()), (posted.name, posted.name));
            assert_eq!(specs[1].settings()[1], ("min_free_kbytes".to_owned(), "4096".to_owned()));
        }
        let why = EngineSpec::parse("posted:nothing", &[]).unwrap_err().to_string();
        assert!(why.contains("posted:1459414236"), "{why}");
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
        let partly = EngineSpec::partly_set(
            &["linux-6.1", "pageyard", "linux-6.1:nofragment=true"],
            &[("fallback".into(), "alike".into())],
        );
        assert_eq!(partly, ["fallback=alike is set on linux-6.1 alone; pageyard has no such knob"]);
        assert!(EngineSpec::partly_set(&names, &[("fallback".into(), "alike".into())]).is_empty());
    }

    #[test]
    fn two_settings_of_one_engine_stand_side_by_side() {
        let engines = ["linux-6.18", "linux-6.18:fallback=alike:pcp_policy=classic"];
        let all = [("pcp_policy".to_owned(), "free_factor".to_owned())];
        let specs = EngineSpec::parse_all(&engines, &all).unwrap();
        assert_eq!(specs.iter().map(EngineSpec::label).collect::<Vec<_>>(), engines);
        let [Some(Engine::Linux(plain)), Some(Engine::Linux(set))] =
            [&specs[0], &specs[1]].map(|s| s.engine())
        else {
            panic!("both are references")
        };
        assert_eq!((plain.pcp_policy, set.pcp_policy), (PcpPolicy::FreeFactor, PcpPolicy::Classic));
        assert_ne!(plain.fallback, set.fallback);
        for (text, part) in [
            ("linux-6.18:fallback", "KNOB=VALUE"),
            ("linux-6.18:fall_back=alike", "did you mean `fallback`"),
            ("linux-6.18:fallback=never", "fallback"),
            ("linux-6.8:fallback=alike", "did you mean `linux-6.1"),
            ("pageyard:", "KNOB=VALUE"),
        ] {
            let why = EngineSpec::parse_all(&[text], &[]).unwrap_err().to_string();
            assert!(why.contains(part) && why.lines().count() == 1, "{text}: {why}");
        }
    }

    #[test]
    fn a_release_gets_the_hosts_settings_that_it_has_and_keeps_those_that_were_set() {
        let host =
            [("vm/defrag_mode", "1"), ("vm/watermark_boost_factor", "0"), ("vm/extfrag_threshold", "x")];
        let host = host.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let on_host = |engine: &str, knobs: &[(String, String)]| {
            let spec = EngineSpec::parse(engine, knobs).unwrap().with_host_settings(&host);
            let Some(Engine::Linux(config)) = spec.engine() else { panic!("{engine}") };
            (config.defrag_mode, config.watermark.watermark_boost_factor, config.compaction.extfrag_threshold)
        };
        assert_eq!(on_host("linux-6.18", &[]), (true, 0, 500));
        assert_eq!(on_host("linux-6.12", &[]), (false, 0, 500), "it has no defrag_mode");
        let defaults = Config::linux_4_10().watermark.watermark_boost_factor;
        assert_eq!(on_host("linux-4.10", &[]), (false, defaults, 500));
        let knobs = [("defrag_mode", "0"), ("watermark_boost_factor", "7000")];
        let knobs = knobs.map(|(knob, value)| (knob.to_owned(), value.to_owned()));
        assert_eq!(on_host("linux-6.18", &knobs), (false, 7000, 500));
    }

    #[test]
    fn a_kernel_has_the_preset_that_is_not_newer() {
        for (kernel, preset) in [
            ("Linux 6.18.44", "linux-6.18"),
            ("Linux 7.1.4", "linux-6.18"),
            ("Linux 7.2", "linux-7.2"),
            ("Linux 7.4.0-rc1", "linux-7.3"),
            ("Linux 6.17.0-rc1", "linux-6.12"),
            ("Linux 6.9", "linux-6.1"),
            ("Linux 5.15.0-91-generic", "linux-5.10"),
            ("Linux 5.4.0", "linux-4.10"),
            ("Linux 3.10.0", "linux-4.6"),
            ("", "linux-6.18"),
            ("</script>", "linux-6.18"),
        ] {
            assert_eq!(EngineSpec::of_kernel(kernel), preset, "{kernel}");
        }
    }

    #[test]
    fn what_a_user_types_cannot_command_the_terminal() {
        let why = EngineSpec::parse("linux\u{1b}[2J", &[]).unwrap_err().to_string();
        assert!(!why.contains('\u{1b}'), "{why:?}");
        assert!(!refused(&["linux-6.18"], "a\u{7}b", "1").contains('\u{7}'));
    }
}
