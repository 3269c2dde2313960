//! The summary as one JSON document.

use pageyard::{Context, metrics};
use serde_json::{Map, Value, json};

use crate::event::EventKind;
use crate::fragmentation::ZoneFragmentation;
use crate::moves::MoveKind;

use super::failures::GfpNames;
use super::{FailureKind, Requests, Summary, type_index, type_name};

impl Summary {
    /// Returns the summary as JSON, without nulls: what is not known is left out.
    #[must_use]
    pub fn json(&self) -> Value {
        let contexts = |counts: &[u64]| -> Map<String, Value> {
            Context::ALL.iter().zip(counts).map(|(c, &n)| (c.name().to_owned(), n.into())).collect()
        };
        let types = |counts: &[u64]| -> Map<String, Value> {
            let named = counts.iter().enumerate().map(|(i, &n)| (type_name(i).to_owned(), n.into()));
            named.collect()
        };
        let events: Map<String, Value> =
            EventKind::ALL.iter().map(|k| (k.name().to_owned(), self.by_kind[k.index()].into())).collect();
        let mut document = json!({
            "trace": self.name,
            "kernel": self.kernel,
            "cpus": self.cpus,
            "events": self.events(),
            "by_event": events,
            "lost": self.lost,
            "duration_ns": self.duration_ns,
            "allocs": self.allocs.count,
            "alloc_bytes": self.allocs.bytes,
            "frees": self.frees.count,
            "free_bytes": self.frees.bytes,
            "failed": self.failed.count,
            "failed_bytes": self.failed.bytes,
            "by_order": self.allocs_by_order,
            "by_migratetype": types(&self.allocs_by_migratetype),
            "by_context": contexts(&self.allocs_by_context),
            "frees_by_order": self.frees_by_order,
            "frees_by_context": contexts(&self.frees_by_context),
            "frees_without_allocation": self.frees_without_allocation.count,
            "reallocations": self.reallocations,
            "partial_frees": self.partial_frees,
            "held_at_end": self.held_at_end,
            "perf_kmem": {
                "allocations": requests(self.allocs),
                "frees": requests(self.frees),
                "allocated_and_freed": requests(self.allocated_and_freed()),
                "allocated_only": requests(self.allocated_only()),
                "freed_only": requests(self.frees_without_allocation),
                "failed": requests(self.failed),
                "by_order_and_migratetype": self.granted.iter().map(|row| types(row).into()).collect::<Vec<Value>>(),
            },
            "fallbacks": self.fallbacks.iter().map(|(f, n)| json!({
                "order": f.order,
                "migratetype": type_name(type_index(f.migratetype)),
                "fallback_order": f.fallback_order,
                "fallback_migratetype": type_name(usize::from(f.fallback_migratetype)),
                "events": n,
            })).collect::<Vec<Value>>(),
            "fragmentation": {
                "before": zones(&self.before),
                "after": zones(&self.after),
            },
        });
        if let Some(share) = self.softirq_share() {
            document["softirq_share"] = share.into();
        }
        document["failures"] = self.failures_json();
        if let Some(moved) = &self.moved {
            let rows: Map<String, Value> =
                MoveKind::ALL.iter().map(|k| (k.name().to_owned(), moved.rows(*k).into())).collect();
            document["moves"] = json!({
                "rows": rows,
                "frames_moved_with_both_known": moved.frames,
                "frames_moved": moved.migrated,
                "frames_not_moved": moved.failed,
                "compact_migrate_scanned": moved.migrate_scanned,
                "compact_migrate_isolated": moved.migrate_isolated,
                "compact_free_scanned": moved.free_scanned,
                "compact_free_isolated": moved.free_isolated,
            });
        }
        if let Some(why) = &self.partial {
            document["partial"] = why.clone().into();
        }
        document
    }

    fn failures_json(&self) -> Value {
        let first: Vec<Value> = (self.failures.first.iter())
            .map(|failure| {
                let mut row = self.kind_json(&failure.kind);
                row["time_ns"] = failure.time_ns.into();
                row["cpu"] = failure.cpu.into();
                if let Some(blocks) = &failure.free_blocks {
                    row["free_blocks"] = blocks.to_vec().into();
                    row["free_frames"] = metrics::free_frames(blocks).into();
                }
                if let Some(reason) = failure.reason {
                    row["reason"] = reason.name().into();
                }
                row
            })
            .collect();
        let kinds: Vec<Value> = (self.failures.most_frequent(MOST_KINDS).iter())
            .map(|(kind, n)| {
                let mut row = self.kind_json(kind);
                row["count"] = (*n).into();
                row
            })
            .collect();
        json!({
            "count": self.failed.count,
            "left_out": self.failed.count - first.len() as u64,
            "first": first,
            "kinds_left_out": self.failures.kinds.len().saturating_sub(kinds.len()),
            "by_kind": kinds,
        })
    }

    fn kind_json(&self, kind: &FailureKind) -> Value {
        json!({
            "order": kind.order,
            "gfp": GfpNames::new(kind.gfp, &self.gfp_map).to_string(),
            "gfp_bits": kind.gfp,
            "migratetype": type_name(type_index(kind.migratetype)),
            "context": kind.context(),
            "thread": kind.tid,
        })
    }
}

/// Kinds of failures in the document.
const MOST_KINDS: usize = 100;

fn requests(requests: Requests) -> Value {
    json!({ "requests": requests.count, "kb": requests.bytes / 1024 })
}

fn zones(zones: &[ZoneFragmentation]) -> Vec<Value> {
    zones.iter().map(ZoneFragmentation::json).collect()
}
