//! The measured subjects, by name, and the machines that they run on.

use crate::error::BenchError;
use crate::experiment::machines::{Reference, engine_subject, reference, reference_subject, regions};
use crate::experiment::settings::Settings;
use crate::harness::subject::Subject;
use crate::harness::team::{Team, cpus};
use pageyard::Region;
use pageyard_linux::LinuxAllocator;

/// A protection of the per-CPU lists: its column, and the knobs that make it.
pub(super) struct Protection {
    pub(super) column: &'static str,
    pub(super) protection: &'static str,
    pub(super) interrupts: &'static str,
}

/// The document's before, then its after, then the others.
pub(super) const PROTECTIONS: [Protection; 7] = [
    Protection { column: BEFORE, protection: "irqsave", interrupts: "soft_flag" },
    Protection { column: AFTER, protection: "preempt_only", interrupts: "soft_flag" },
    Protection { column: SOFT_OFF, protection: "soft_irq_off", interrupts: "soft_flag" },
    Protection { column: SOFT_IRQ, protection: "soft_irq_allowed", interrupts: "soft_flag" },
    Protection { column: TRYLOCK, protection: "trylock", interrupts: "soft_flag" },
    Protection { column: REGISTER, protection: "irqsave", interrupts: "flags_register" },
    Protection { column: MASK, protection: "irqsave", interrupts: "signal_mask" },
];

/// The reference that all of them are.
pub(super) const PRESET: &str = "linux-4.10";

pub(super) const BEFORE: &str = "reference:irqsave";
pub(super) const AFTER: &str = "reference:preempt_only";
pub(super) const SOFT_OFF: &str = "reference:soft_irq_off";
pub(super) const SOFT_IRQ: &str = "reference:soft_irq_allowed";
pub(super) const TRYLOCK: &str = "reference:trylock";
pub(super) const REGISTER: &str = "reference:irqsave-flags-register";
pub(super) const MASK: &str = "reference:irqsave-signal-mask";
pub(super) const ENGINE: &str = "pageyard";
pub(super) const VANILLA: &str = "published:vanilla";
pub(super) const IRQSAFE: &str = "published:irqsafe";

/// One of each protection, the first one twice for the A/A pair, and the engine; and threads for them.
pub(super) struct Machines {
    pub(super) references: Vec<Reference>,
    pub(super) again: Reference,
    pub(super) engine: Box<dyn Subject>,
    pub(super) team: Team,
}

impl Protection {
    /// Returns the knobs that make it.
    pub(super) fn knobs(&self) -> [(&'static str, &'static str); 2] {
        [("pcp_protection", self.protection), ("interrupts", self.interrupts)]
    }

    pub(super) fn reference(
        &self,
        regions: &[Region],
        settings: &Settings,
    ) -> Result<LinuxAllocator, BenchError> {
        reference(regions, &settings.linux(PRESET, &self.knobs())?)
    }
}

impl Machines {
    pub(super) fn new(settings: &Settings) -> Result<Machines, BenchError> {
        let regions = regions(1);
        let one = |p: &Protection, column| Ok(reference_subject(column, p.reference(&regions, settings)?));
        Ok(Machines {
            references: PROTECTIONS.iter().map(|p| one(p, p.column)).collect::<Result<_, BenchError>>()?,
            again: one(&PROTECTIONS[0], "again")?,
            engine: engine_subject(ENGINE, &regions, settings)?,
            team: Team::new(&cpus()),
        })
    }

    /// Returns all of them under the names of their columns: the references, the engine, and the pair's second half.
    pub(super) fn subjects(&self) -> Vec<&dyn Subject> {
        let references = self.references.iter().map(|r| r as &dyn Subject);
        references.chain([&*self.engine, &self.again as &dyn Subject]).collect()
    }

    pub(super) fn sound(&self) -> Result<(), BenchError> {
        crate::experiment::machines::sound(self.subjects().into_iter().filter_map(|s| s.engine()))
    }
}
