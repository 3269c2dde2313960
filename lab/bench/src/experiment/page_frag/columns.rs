//! The hosts that are compared: a column each, and the first one again for the A/A pair.

use super::buffers::Fate;
use super::forward::{Forwards, MEMORY, World, host};
use super::notes::Notes;
use super::subjects::{BUDDY, ENGINE, PCP, POINT, PRESET};
use crate::error::BenchError;
use crate::experiment::Settings;
use crate::experiment::machines::{engine, reference, sound};
use crate::harness::engines::one_zone;
use pageyard_linux::OneByOne;
use pageyard_replay::engine::{AnyEngine, Visit};
use std::marker::PhantomData;
use std::sync::Arc;

/// A host under the name of its column.
pub(super) type Column = (&'static str, Box<dyn Forwards>);

/// The columns of measured rows, in order.
pub(super) const COLUMNS: [&str; 3] = [BUDDY, PCP, ENGINE];

/// Makes the host of a column: another name is the reference that frees to the zone.
pub(super) fn column<F: Fate, N: Notes>(
    name: &'static str,
    settings: &Settings,
    world: &World,
    notes: &Arc<N>,
) -> Result<Column, BenchError> {
    let made = match name {
        ENGINE => engine(&one_zone(MEMORY), settings, AsHost::<F, N>(world, notes, PhantomData))??,
        _ => {
            let frag_free = if name == PCP { "pcp" } else { "buddy" };
            let config = settings.linux(PRESET, &[(POINT, frag_free), ("interrupts", "soft_flag")])?;
            let linux = reference(&one_zone(MEMORY), &config)?;
            host::<F, N, _>(OneByOne::<N::FreeObserver>::new(linux), world, notes.clone())?
        }
    };
    Ok((name, made))
}

/// Makes the hosts of all columns, which note nothing, and the first one again.
pub(super) fn timed<F: Fate>(settings: &Settings, world: &World) -> Result<Vec<Column>, BenchError> {
    let names = COLUMNS.into_iter().chain(["again"]);
    names.map(|name| column::<F, ()>(name, settings, world, &Arc::new(()))).collect()
}

/// Closes the hosts' pools and checks that no frame was lost.
///
/// # Errors
/// [`BenchError::Experiment`] where one was.
pub(super) fn close(columns: &[Column]) -> Result<(), BenchError> {
    let out: u64 = columns.iter().map(|(_, host)| host.close()).sum();
    if out > 0 {
        return Err(BenchError::Experiment {
            why: format!("{out} pages of packets never came back to their pools"),
        });
    }
    sound(columns.iter().map(|(_, host)| host.engine()))
}

/// The engine as a host.
struct AsHost<'a, F, N>(&'a World, &'a Arc<N>, PhantomData<F>);

impl<F: Fate, N: Notes> Visit for AsHost<'_, F, N> {
    type Output = Result<Box<dyn Forwards>, BenchError>;

    fn visit<E: AnyEngine>(self, engine: E) -> Self::Output {
        host::<F, N, E>(engine, self.0, self.1.clone())
    }
}
