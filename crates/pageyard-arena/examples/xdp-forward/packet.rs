//! The packets: Ethernet, IPv4, UDP, and a payload that says which packet it is and proves that no one wrote over it.

use std::sync::atomic::Ordering::Release;
use std::sync::atomic::compiler_fence;

/// Bytes of the headers: 14 of Ethernet, 20 of IPv4, 8 of UDP.
const HEADERS: usize = 42;
/// Bytes of a payload: a mark, the queue, the number, and a check of both.
const PAYLOAD: usize = 24;
/// The smallest packet, in bytes.
pub const SMALLEST: usize = HEADERS + PAYLOAD;
/// The largest packet, in bytes: an Ethernet header and the largest packet that fits a device by default.
pub const LARGEST: usize = 14 + 1500;

const IP: usize = 14;
const TTL: usize = IP + 8;
const IP_CHECK: usize = IP + 10;
/// Link addresses of a packet that was routed: to the sink, from the router.
const ROUTED: [u8; 12] = [2, 0, 0, 0, 0, 4, 2, 0, 0, 0, 0, 3];
const MARK: u32 = 0x5061_6765;
/// Hops that a packet has left when it is sent; each router takes one.
const HOPS: u8 = 64;

/// Which packet it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Number {
    /// The queue that it was sent on.
    pub queue: u32,
    /// Its place among the packets of that queue, from 0.
    pub sequence: u64,
}

impl Number {
    /// Mixes both numbers, so that a payload pieced together from two packets is found out.
    fn check(self) -> u64 {
        let mixed = (self.sequence ^ u64::from(self.queue) << 56).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 29
    }
}

/// Writes the headers of every packet of `bytes.len()` bytes.
pub fn write_headers(bytes: &mut [u8]) {
    let length = bytes.len() as u16;
    bytes.fill(0);
    bytes[..6].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
    bytes[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    bytes[12..14].copy_from_slice(&0x0800_u16.to_be_bytes());
    bytes[IP] = 0x45;
    bytes[IP + 2..IP + 4].copy_from_slice(&(length - 14).to_be_bytes());
    (bytes[TTL], bytes[TTL + 1]) = (HOPS, 17);
    bytes[IP + 12..IP + 16].copy_from_slice(&[198, 18, 0, 1]);
    bytes[IP + 16..IP + 20].copy_from_slice(&[198, 19, 0, 1]);
    let check = !sum(&bytes[IP..IP + 20]);
    bytes[IP_CHECK..IP_CHECK + 2].copy_from_slice(&check.to_be_bytes());
    bytes[34..36].copy_from_slice(&4000_u16.to_be_bytes());
    bytes[36..38].copy_from_slice(&9_u16.to_be_bytes());
    bytes[38..40].copy_from_slice(&(length - 34).to_be_bytes());
}

/// Makes it packet `number`; the headers are there.
pub fn write_number(bytes: &mut [u8], number: Number) {
    let payload = &mut bytes[HEADERS..SMALLEST];
    payload[..4].copy_from_slice(&MARK.to_le_bytes());
    payload[4..8].copy_from_slice(&number.queue.to_le_bytes());
    payload[8..16].copy_from_slice(&number.sequence.to_le_bytes());
    payload[16..].copy_from_slice(&number.check().to_le_bytes());
}

/// Does what a router does to a header: other link addresses, one hop less, and the checksum changed to match (RFC
/// 1624). Returns whether it is a packet of this program; another one is left alone.
///
/// A packet that has the router's link addresses was routed already, by a worker that was killed before it sent it:
/// nothing is left to do. For one that was killed in here, see [`restore`].
pub fn route(bytes: &mut [u8]) -> bool {
    if bytes.len() < SMALLEST || bytes[12..14] != [8, 0] || bytes[HEADERS..HEADERS + 4] != MARK.to_le_bytes()
    {
        return false;
    }
    if bytes[..12] == ROUTED {
        return true;
    }
    let old = u16::from_be_bytes([bytes[TTL], bytes[TTL + 1]]);
    let new = u16::from_be_bytes([bytes[TTL].wrapping_sub(1), bytes[TTL + 1]]);
    let check = u16::from_be_bytes([bytes[IP_CHECK], bytes[IP_CHECK + 1]]);
    let check = !fold(u32::from(!check) + u32::from(!old) + u32::from(new));
    bytes[TTL..TTL + 2].copy_from_slice(&new.to_be_bytes());
    bytes[IP_CHECK..IP_CHECK + 2].copy_from_slice(&check.to_be_bytes());
    // ORDER: for this process alone, which may be killed in between: the addresses say that all else was done.
    compiler_fence(Release);
    bytes[..12].copy_from_slice(&ROUTED);
    true
}

/// Returns what [`route`] changes besides link addresses: hops, protocol and checksum, which lie side by side. Never 0
/// for a packet that has hops left. 0 for one that is too short.
pub fn changeable(bytes: &[u8]) -> u32 {
    bytes.get(TTL..TTL + 4).map_or(0, |word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]))
}

/// Puts that back, unless the packet was routed to the end: then it can be routed again.
pub fn restore(bytes: &mut [u8], word: u32) {
    if bytes.len() >= SMALLEST && bytes[..12] != ROUTED {
        bytes[TTL..TTL + 4].copy_from_slice(&word.to_ne_bytes());
    }
}

/// Reads a packet where it arrives.
///
/// # Errors
/// The fault in the packet.
pub fn arrived(bytes: &[u8]) -> Result<Number, Wrong> {
    if bytes.len() < SMALLEST || bytes[HEADERS..HEADERS + 4] != MARK.to_le_bytes() {
        return Err(Wrong::Foreign);
    }
    let word = |at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[at..at + 8]);
        u64::from_le_bytes(word)
    };
    let mut queue = [0; 4];
    queue.copy_from_slice(&bytes[HEADERS + 4..HEADERS + 8]);
    let number = Number { queue: u32::from_le_bytes(queue), sequence: word(HEADERS + 8) };
    let header = bytes[TTL] == HOPS - 1 && sum(&bytes[IP..IP + 20]) == 0xffff;
    if header && word(HEADERS + 16) == number.check() { Ok(number) } else { Err(Wrong::Damaged) }
}

/// A fault in a packet that arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// This program did not send it.
    Foreign,
    /// Its header or payload is not what was sent and routed once: somebody wrote to a frame that was not his.
    Damaged,
}

fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Adds the 16-bit words of a header as IPv4 does.
fn sum(header: &[u8]) -> u16 {
    fold(header.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBER: Number = Number { queue: 3, sequence: 0x1_0000_0001 };

    fn sent() -> Vec<u8> {
        let mut bytes = vec![0xff; 100];
        write_headers(&mut bytes);
        write_number(&mut bytes, NUMBER);
        bytes
    }

    #[test]
    fn a_packet_that_is_routed_once_arrives_as_itself() {
        let mut bytes = sent();
        assert_eq!(sum(&bytes[IP..IP + 20]), 0xffff);
        assert_eq!(arrived(&bytes), Err(Wrong::Damaged), "it was not routed");
        assert!(route(&mut bytes));
        assert_eq!(arrived(&bytes), Ok(NUMBER));
    }

    #[test]
    fn a_packet_is_routed_once_however_often_a_worker_begins() {
        for changed in 0..=4 {
            let (mut bytes, mut other) = (sent(), sent());
            let word = changeable(&bytes);
            route(&mut other);
            // A worker is killed when it has written so many of the bytes.
            bytes[TTL..TTL + changed].copy_from_slice(&other[TTL..TTL + changed]);
            restore(&mut bytes, word);
            assert!(route(&mut bytes) && route(&mut bytes));
            restore(&mut bytes, word);
            assert_eq!(arrived(&bytes), Ok(NUMBER), "after {changed} bytes");
        }
    }

    #[test]
    fn what_is_not_ours_is_left_alone() {
        for bytes in [&mut vec![0; 100], &mut vec![0xff; 20]] {
            let before = bytes.clone();
            assert!(!route(bytes));
            assert_eq!((&before, arrived(bytes)), (&*bytes, Err(Wrong::Foreign)));
        }
    }

    #[test]
    fn a_payload_pieced_together_from_two_packets_is_found_out() {
        let mut bytes = sent();
        route(&mut bytes);
        bytes[HEADERS + 8] ^= 1;
        assert_eq!(arrived(&bytes), Err(Wrong::Damaged));
    }
}
