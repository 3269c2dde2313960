//! Which code can use a CPU's lists, and what keeps other code out meanwhile. Layer: settings, the lowest of them.

use pageyard_core::{Context, named};

named! {
    /// How the per-CPU lists are kept from being used twice at once on one CPU.
    pub enum PcpProtection {
        /// Interrupts are off while a list is used, so every context may use it (until 5.19).
        Irqsave = "irqsave",
        /// Only preemption is off, so interrupts go straight to the zone (commit 374ad05ab64d, reverted before 4.11).
        PreemptOnly = "preempt_only",
        /// Deferred interrupts are held off, and go to the zone like all others when they come: the price of holding
        /// them off, without what it would allow.
        SoftIrqOff = "soft_irq_off",
        /// Preemption and deferred interrupts are off; only hard interrupts go to the zone (that commit's variant).
        SoftIrqAllowed = "soft_irq_allowed",
        /// A lock that is tried; a call that fails goes to the zone (6.0 and later).
        Trylock = "trylock",
    }
}

impl PcpProtection {
    /// Returns whether code in `context` may use the lists at all.
    #[must_use]
    #[inline]
    pub fn admits(self, context: Context) -> bool {
        match self {
            PcpProtection::Irqsave | PcpProtection::Trylock => context != Context::Nmi,
            PcpProtection::PreemptOnly | PcpProtection::SoftIrqOff => context == Context::Task,
            PcpProtection::SoftIrqAllowed => matches!(context, Context::Task | Context::Softirq),
        }
    }
}
