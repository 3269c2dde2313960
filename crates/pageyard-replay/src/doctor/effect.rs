//! The consequence of a failure, by the functions that asked, and remedies that work at once.

use super::cause::Cause;
use super::facts::{Asked, Facts};
use super::report::Report;
use super::settings;

/// Who asked, as far as that tells what came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asker {
    Network,
    HugePage,
    Fork,
    DeviceBuffer,
    ReadOfFile,
    FileSystem,
    Retries,
}

/// Parts of functions' names, and who has such: the first that is found counts, the innermost function first.
/// `^` stands for the beginning of a name.
const FUNCTIONS: [(&str, Asker); 30] = [
    ("skb", Asker::Network),
    ("page_frag", Asker::Network),
    ("page_pool", Asker::Network),
    ("netdev", Asker::Network),
    ("napi_", Asker::Network),
    ("net_rx_action", Asker::Network),
    ("^tcp_", Asker::Network),
    ("^inet_", Asker::Network),
    ("sk_prot_alloc", Asker::Network),
    ("alloc_rx", Asker::Network),
    ("rx_alloc", Asker::Network),
    ("huge_pmd", Asker::HugePage),
    ("hugepage", Asker::HugePage),
    ("copy_process", Asker::Fork),
    ("dup_task_struct", Asker::Fork),
    ("dma_alloc", Asker::DeviceBuffer),
    ("dma_direct_alloc", Asker::DeviceBuffer),
    ("dmam_alloc", Asker::DeviceBuffer),
    ("dma_pool", Asker::DeviceBuffer),
    ("usb_alloc", Asker::DeviceBuffer),
    ("ring_alloc", Asker::DeviceBuffer),
    ("proc_sys_call_handler", Asker::ReadOfFile),
    ("seq_read", Asker::ReadOfFile),
    ("tracing_open", Asker::ReadOfFile),
    ("^xfs_", Asker::FileSystem),
    ("^ext4_", Asker::FileSystem),
    ("^btrfs_", Asker::FileSystem),
    ("^nfs", Asker::FileSystem),
    ("^ceph_", Asker::FileSystem),
    ("add_to_swap", Asker::Retries),
];

fn asker(facts: &Facts) -> Option<Asker> {
    facts.functions.iter().find_map(|function| {
        let is_in = |part: &str| match part.strip_prefix('^') {
            Some(beginning) => function.starts_with(beginning),
            None => function.contains(part),
        };
        FUNCTIONS.iter().find(|(part, _)| is_in(part)).map(|(_, asker)| *asker)
    })
}

/// Returns the consequence of a failure, if the functions that asked tell it.
pub(super) fn effect(report: Report, asked: &Asked, facts: &Facts) -> Option<&'static str> {
    match report {
        // The report itself says it.
        Report::OomKiller | Report::MemoryControlGroup => return None,
        Report::HugetlbPool => return Some("the pool is smaller than asked for; nothing else failed"),
        Report::Stall => return Some("it was slow, and did not fail"),
        _ => {}
    }
    Some(match asker(facts)? {
        Asker::Network if asked.order > 0 && asked.waits() => {
            "the network's code asks again for single frames where it can"
        }
        Asker::Network => "a packet was dropped, or a receive ring not refilled: protocols send again",
        Asker::HugePage => "nothing failed: the memory came in small pages instead",
        Asker::Fork => "a process or thread was not created (fork returns ENOMEM, or EAGAIN)",
        Asker::DeviceBuffer => {
            "a driver got no buffer for its device and could not start it; trying again may work"
        }
        Asker::ReadOfFile => "a read of a file of the kernel returned ENOMEM",
        Asker::FileSystem => "a file system's call failed or is tried again: its own messages say which",
        Asker::Retries => "nothing failed: it is tried again",
    })
}

/// Returns a remedy that works at once, before a setting is chosen.
pub(super) fn helps_now(cause: Cause, asked: &Asked, facts: &Facts) -> Option<String> {
    let network = asker(facts) == Some(Asker::Network);
    let rings =
        "smaller receive rings (`ethtool -G`), or an MTU with which a buffer fits a frame, ask for less";
    Some(match cause {
        Cause::Scattered | Cause::UnmovableScattered | Cause::MovableScattered | Cause::PoolShort => {
            let compact = settings::has(facts, "vm.compact_memory").then(|| {
                "`echo 1 > /proc/sys/vm/compact_memory` moves together what can be moved, once".to_owned()
            });
            let rings = (network && asked.order > 0).then(|| rings.to_owned());
            let all: Vec<String> = compact.into_iter().chain(rings).collect();
            return (!all.is_empty()).then(|| all.join("; "));
        }
        Cause::LowReserve if network => rings.to_owned(),
        Cause::OutOfMemory => "stop or move what uses the most memory, or add swap".to_owned(),
        Cause::Ballooned => {
            "give memory back to this guest, or set up its balloon with deflate-on-oom, so that it gives way"
                .to_owned()
        }
        Cause::GroupLimit => "raise the group's limit, or have its processes use less".to_owned(),
        Cause::AreaBusy => "ask again: what holds a part of the range may let go of it".to_owned(),
        Cause::SlowReclaim => "let less be written at once, or swap to faster storage".to_owned(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageyard::Gfp;

    fn facts(function: &str, kernel: &str) -> Facts {
        Facts { functions: vec![function.to_owned()], kernel: Some(kernel.to_owned()), ..Facts::default() }
    }

    #[test]
    fn who_asked_tells_what_came_of_it() {
        let atomic = Asked::new(0, Gfp::HIGH | Gfp::KSWAPD_RECLAIM);
        let of = |function| effect(Report::AllocationFailure, &atomic, &facts(function, "6.1.0"));
        assert!(of("__netdev_alloc_skb").unwrap().contains("packet was dropped"));
        assert!(of("do_huge_pmd_anonymous_page").unwrap().contains("nothing failed"));
        assert!(of("copy_process").unwrap().contains("not created"));
        assert_eq!((of("some_driver_probe"), of("kernfs_fop_write_iter")), (None, None));
        assert_eq!(effect(Report::OomKiller, &atomic, &Facts::default()), None);
    }

    #[test]
    fn what_helps_now_exists_on_the_kernel() {
        let asked = Asked::new(3, Gfp::HIGH | Gfp::KSWAPD_RECLAIM);
        let old = helps_now(Cause::Scattered, &asked, &facts("alloc_skb", "2.6.32")).unwrap();
        assert!(old.contains("ethtool -G") && !old.contains("compact_memory"), "{old}");
        let new = helps_now(Cause::Scattered, &asked, &facts("kmalloc_order", "5.4.0")).unwrap();
        assert!(new.contains("compact_memory") && !new.contains("ethtool"), "{new}");
        assert_eq!(helps_now(Cause::Scattered, &asked, &facts("kmalloc_order", "2.6.32")), None);
    }
}
