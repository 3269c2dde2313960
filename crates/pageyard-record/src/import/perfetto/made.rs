//! Files as Perfetto writes them, made up: for tests, and as seeds for fuzzing.

use crate::message::Message;
use pageyard::Context;
use pageyard_trace::{Event, EventKind};

/// A made-up file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Made {
    packets: Vec<Vec<u8>>,
    /// The bundle of each CPU that is being filled.
    bundles: [Vec<u8>; 2],
    compressed: bool,
}

impl Made {
    /// Starts a file, which says what kernel it is of.
    pub(crate) fn new() -> Made {
        let mut made = Made::default();
        let names = [text(1, b"Linux"), text(3, b"6.18.44-somewhere"), text(4, b"x86_64")].concat();
        made.packet(45, &[text(1, &names), number(6, 4096), number(8, 2)].concat());
        made
    }

    /// Has packets compressed, all in one.
    pub(crate) fn compressed(mut self) -> Made {
        self.compressed = true;
        self
    }

    /// Adds a packet of which field `of` is `message`.
    pub(crate) fn packet(&mut self, of: u32, message: &[u8]) {
        self.packets.push(text(1, &text(of, message)));
    }

    /// Adds an allocation, or a free.
    pub(crate) fn event(&mut self, event: &Event) {
        let of = if event.kind == EventKind::Alloc {
            let fields = [
                number(1, event.gfp.into()),
                number(2, i64::from(event.migratetype) as u64),
                number(3, event.order.into()),
                number(5, event.pfn),
            ];
            text(307, &fields.concat())
        } else {
            text(310, &[number(1, event.order.into()), number(3, event.pfn)].concat())
        };
        let flags = match event.context {
            Context::Task => 0,
            Context::Softirq => 0x10,
            Context::Hardirq => 0x08,
            Context::Nmi => 0x40,
        };
        let common = [
            number(1, event.time_ns),
            number(2, u64::from(1000 + event.tid)),
            number(5, flags | u64::from(event.irqs_off)),
        ];
        self.bundles[event.cpu as usize % 2].extend(text(2, &[common.concat(), of].concat()));
    }

    /// Ends the bundles: events from here on are in others.
    pub(crate) fn end_bundles(&mut self) {
        for cpu in 0..2 {
            let bundle = [number(1, cpu as u64), std::mem::take(&mut self.bundles[cpu])].concat();
            self.packet(1, &bundle);
        }
    }

    /// Returns the file.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.end_bundles();
        if !self.compressed {
            return self.packets.concat();
        }
        use std::io::Write;
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        let packed = encoder.write_all(&self.packets.concat()).and_then(|()| encoder.finish());
        text(1, &text(50, &packed.expect("memory for compressing")))
    }
}

/// Returns a field that is a number.
pub(crate) fn number(field: u32, value: u64) -> Vec<u8> {
    Message::new().number(field, value).as_bytes().to_vec()
}

/// Returns a field that is a text, or a message.
pub(crate) fn text(field: u32, bytes: &[u8]) -> Vec<u8> {
    Message::new().bytes(field, bytes).as_bytes().to_vec()
}
