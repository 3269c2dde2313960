//! Files made by hand to mislead a reader: false sizes, counts and positions.

use crate::error::TraceError;
use crate::source::Input;

use super::{ColumnSpec, Kind, Names, Table};

/// Thrift's compact encoding, as far as the tests need it.
#[derive(Default, Clone)]
struct Fields(Vec<u8>);

fn varint(mut n: u64, out: &mut Vec<u8>) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

fn zigzag(n: i64) -> u64 {
    ((n << 1) ^ (n >> 63)) as u64
}

impl Fields {
    fn head(&mut self, id: i16, kind: u8) {
        self.0.push(kind);
        varint(zigzag(id.into()), &mut self.0);
    }

    fn int(mut self, id: i16, n: i64) -> Fields {
        self.head(id, 6);
        varint(zigzag(n), &mut self.0);
        self
    }

    fn text(mut self, id: i16, text: &str) -> Fields {
        self.head(id, 8);
        varint(text.len() as u64, &mut self.0);
        self.0.extend_from_slice(text.as_bytes());
        self
    }

    fn structure(mut self, id: i16, fields: Fields) -> Fields {
        self.head(id, 12);
        self.0.extend(fields.end());
        self
    }

    fn list(mut self, id: i16, items: Vec<Fields>) -> Fields {
        self.head(id, 9);
        self.0.push(0xfc);
        varint(items.len() as u64, &mut self.0);
        for item in items {
            self.0.extend(item.end());
        }
        self
    }

    fn end(mut self) -> Vec<u8> {
        self.0.push(0);
        self.0
    }
}

/// A page: its header's claims, and its bytes.
#[derive(Clone)]
struct Page {
    kind: i64,
    values: i64,
    encoding: i64,
    uncompressed: i64,
    compressed: i64,
    body: Vec<u8>,
}

impl Page {
    fn plain(body: &[u8], values: i64) -> Page {
        let len = body.len() as i64;
        Page { kind: 0, values, encoding: 0, uncompressed: len, compressed: len, body: body.to_vec() }
    }

    fn dictionary(body: &[u8], values: i64) -> Page {
        Page { kind: 2, ..Page::plain(body, values) }
    }

    /// Indexes of a dictionary, eight bits each, in one bit-packed run of eight.
    fn indexes(indexes: [u8; 8]) -> Page {
        let mut body = vec![8, 3];
        body.extend(indexes);
        Page { encoding: 8, ..Page::plain(&body, 8) }
    }

    fn bytes(&self) -> Vec<u8> {
        let detail = Fields::default().int(1, self.values).int(2, self.encoding);
        let detail = if self.kind == 0 { detail.int(3, 3).int(4, 3) } else { detail };
        let header = Fields::default().int(1, self.kind).int(2, self.uncompressed).int(3, self.compressed);
        let mut bytes = header.structure(if self.kind == 0 { 5 } else { 7 }, detail).end();
        bytes.extend(&self.body);
        bytes
    }
}

/// A file of one column, `x`, in one row group; every claim can be changed.
#[derive(Clone)]
struct File {
    physical: i64,
    converted: Option<i64>,
    repetition: i64,
    codec: i64,
    rows: i64,
    group_rows: i64,
    values: i64,
    chunks: usize,
    shift: i64,
    pages: Vec<Page>,
}

impl File {
    /// Eight 32-bit numbers without a sign.
    fn numbers() -> File {
        let body: Vec<u8> = (0..8u32).flat_map(u32::to_le_bytes).collect();
        File {
            physical: 1,
            converted: Some(13),
            repetition: 0,
            codec: 0,
            rows: 8,
            group_rows: 8,
            values: 8,
            chunks: 1,
            shift: 0,
            pages: vec![Page::plain(&body, 8)],
        }
    }

    fn names(pages: Vec<Page>) -> File {
        File { physical: 6, converted: Some(0), pages, ..File::numbers() }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut file = b"PAR1".to_vec();
        let data: Vec<u8> = self.pages.iter().flat_map(Page::bytes).collect();
        file.extend(&data);
        let root = Fields::default().text(4, "schema").int(5, 1);
        let leaf = Fields::default().int(1, self.physical).int(3, self.repetition).text(4, "x");
        let leaf = self.converted.map_or(leaf.clone(), |c| leaf.int(6, c));
        let meta = Fields::default().int(4, self.codec).int(5, self.values).int(7, data.len() as i64);
        let chunk = Fields::default().structure(3, meta.int(9, 4 + self.shift));
        let group = Fields::default().list(1, vec![chunk]).int(3, self.group_rows);
        let footer = Fields::default()
            .list(2, vec![root, leaf])
            .int(3, self.rows)
            .list(4, vec![group; self.chunks])
            .end();
        file.extend(&footer);
        file.extend((footer.len() as u32).to_le_bytes());
        file.extend(b"PAR1");
        file
    }

    fn read(&self) -> Result<Vec<i32>, TraceError> {
        let kind =
            if self.physical == 6 { Kind::Names(Names::new(&["a", "b"])) } else { Kind::Int(32, false) };
        read(self.bytes(), kind)
    }

    fn fault(&self) -> String {
        self.read().unwrap_err().to_string()
    }
}

fn read(bytes: Vec<u8>, kind: Kind) -> Result<Vec<i32>, TraceError> {
    let table = Table::open(Input::memory("f", bytes), vec![ColumnSpec { name: "x", kind }])?;
    let mut all = Vec::new();
    let mut row = 0;
    let mut index = 0;
    while let Some(group) = table.group(index) {
        index += 1;
        let mut chunk = table.chunk(group, 0);
        let end = row + group.rows;
        while row < end {
            let n = (end - row).min(16 << 10);
            chunk.read(n as usize, "f", row, "x")?;
            all.extend_from_slice(chunk.as_i32());
            row += n;
        }
    }
    Ok(all)
}

#[test]
fn an_honest_file_is_read() {
    assert_eq!(File::numbers().read().unwrap(), (0..8).collect::<Vec<_>>());
    let names = Page::dictionary(b"\x01\0\0\0b\x01\0\0\0a", 2);
    let file = File::names(vec![names, Page::indexes([0, 1, 0, 0, 1, 1, 0, 0])]);
    assert_eq!(file.read().unwrap(), [1, 0, 1, 1, 0, 0, 1, 1]);
    let nullable = Page::plain(&[&[2, 0, 0, 0, 16, 1][..], &File::numbers().pages[0].body].concat(), 8);
    assert_eq!(File { repetition: 1, pages: vec![nullable], ..File::numbers() }.read().unwrap().len(), 8);
}

#[test]
fn a_page_that_claims_gigabytes_gets_no_memory() {
    for (uncompressed, compressed) in
        [(i64::from(i32::MAX), 32), (1 << 40, 32), (i64::MAX, 32), (-1, 32), (32, -1)]
    {
        let mut file = File { codec: 6, ..File::numbers() };
        (file.pages[0].uncompressed, file.pages[0].compressed) = (uncompressed, compressed);
        let fault = file.fault();
        assert!(
            fault.contains("more than any trace needs") || fault.contains("cannot be decoded"),
            "{fault}"
        );
    }
    let mut file = File::numbers();
    file.pages[0].compressed = 1 << 30;
    assert!(file.fault().contains("more than the column has"), "{}", file.fault());
}

#[test]
fn a_bomb_does_not_go_off() {
    let bomb = zstd::bulk::compress(&vec![0; 64 << 20], 3).unwrap();
    assert!(bomb.len() < 64 << 10);
    // With its true size the page is too large, and with a smaller one it does not fit.
    for uncompressed in [64 << 20, 32] {
        let mut page = Page::plain(&bomb, 8);
        page.uncompressed = uncompressed;
        let fault = File { codec: 6, pages: vec![page], ..File::numbers() }.fault();
        assert!(
            fault.contains("more than any trace needs") || fault.contains("cannot be decompressed"),
            "{fault}"
        );
    }
    let mut snappy = Page::plain(&[0xff, 0xff, 0xff, 0xff, 0x0f, 0], 8);
    snappy.uncompressed = 32;
    assert!(
        File { codec: 1, pages: vec![snappy], ..File::numbers() }.fault().contains("cannot be decompressed")
    );
}

#[test]
fn counts_that_lie_are_found() {
    let honest = File::numbers();
    for (file, says) in [
        (File { rows: 9, ..honest.clone() }, "the row groups have 8 rows and the footer claims 9"),
        (File { values: 9, ..honest.clone() }, "has 9 values and the row group 8 rows"),
        (File { rows: i64::MAX, group_rows: i64::MAX, values: i64::MAX, ..honest.clone() }, "cannot hold"),
        (File { rows: -1, ..honest.clone() }, "does not say how many rows there are"),
        (
            File { rows: 9, group_rows: 9, values: 9, ..honest.clone() },
            "f, row 8: column `x` ends 1 rows too early",
        ),
        (
            File { rows: 7, group_rows: 7, values: 7, ..honest.clone() },
            "claims 8 values where at most 7 can be",
        ),
        (File { rows: 16, chunks: 2, ..honest.clone() }, "two columns claim the same bytes"),
        (File { shift: 1 << 40, ..honest.clone() }, "do not fit the file"),
        (File { shift: -8, ..honest.clone() }, "does not say where it starts"),
    ] {
        let fault = file.fault();
        assert!(fault.contains(says), "{fault}");
    }
    let mut short = honest;
    short.pages[0].body.truncate(16);
    (short.pages[0].uncompressed, short.pages[0].compressed) = (16, 16);
    assert!(short.fault().contains("f, row 0: column `x` cannot be decoded"), "{}", short.fault());
}

#[test]
fn schemas_that_are_no_traces_are_refused() {
    let honest = File::numbers();
    for (file, says) in [
        (
            File { converted: Some(17), ..honest.clone() },
            "holds signed integers of 32 bits and must hold unsigned integers of 32 bits",
        ),
        (File { converted: None, physical: 2, ..honest.clone() }, "holds signed integers of 64 bits"),
        (File { physical: 5, ..honest.clone() }, "holds values of Parquet type 5"),
        (File { repetition: 2, ..honest.clone() }, "column `x` holds lists"),
        (File { codec: 2, ..honest.clone() }, "write it with zstd"),
    ] {
        let fault = file.fault();
        assert!(fault.contains(says), "{fault}");
    }
    let specs = vec![ColumnSpec { name: "y", kind: Kind::Bool }];
    let error = Table::open(Input::memory("f", honest.bytes()), specs).err().unwrap();
    assert_eq!(error.to_string(), "f: column `y` is missing");
}

#[test]
fn dictionaries_that_lie_are_found() {
    let indexes = Page::indexes([0, 1, 0, 0, 1, 1, 0, 9]);
    let names = |body: &[u8], values| Page::dictionary(body, values);
    let good = names(b"\x01\0\0\0b\x01\0\0\0a", 2);
    for (pages, says) in [
        (vec![good.clone(), indexes.clone()], "column `x` cannot be decoded"),
        (vec![indexes.clone()], "refers to a dictionary that is not there"),
        (vec![good.clone(), good, indexes.clone()], "has two dictionaries"),
        (vec![names(b"\xff\xff\xff\x7fb", 1), indexes.clone()], "has a dictionary that cannot be decoded"),
        (vec![names(b"", i32::MAX.into()), indexes.clone()], "where at most 8 can be"),
        (vec![names(b"", 0), indexes.clone()], "column `x` cannot be decoded"),
        (vec![Page { encoding: 7, ..indexes }], "uses Parquet encoding 7"),
    ] {
        let fault = File::names(pages).fault();
        assert!(fault.contains(says), "{fault}");
    }
    let numbers =
        File { pages: vec![Page::dictionary(&[0; 8], 8), Page::indexes([0; 8])], ..File::numbers() };
    assert!(numbers.fault().contains("shorter than it claims"));
}

#[test]
fn a_missing_value_is_found_with_its_row() {
    let body: Vec<u8> = [&[4, 0, 0, 0, 10, 1, 6, 0][..], &[0; 32]].concat();
    let file = File { repetition: 1, pages: vec![Page::plain(&body, 8)], ..File::numbers() };
    assert_eq!(file.fault(), "f, row 5: column `x` has no value");
    let body = [0xff, 0xff, 0xff, 0xff, 1, 1];
    let file = File { repetition: 1, pages: vec![Page::plain(&body, 8)], ..File::numbers() };
    assert!(file.fault().contains("levels do not fit"));
}

#[test]
fn a_footer_that_nests_or_loops_is_refused() {
    for filler in [0x1c, 0x19, 0x2c, 0xff, 0x15, 0x0c] {
        let mut file = b"PAR1".to_vec();
        file.extend(vec![filler; 1 << 20]);
        file.extend((1u32 << 20).to_le_bytes());
        file.extend(b"PAR1");
        assert_eq!(
            read(file, Kind::Int(32, false)).unwrap_err().to_string(),
            "f: the footer cannot be decoded"
        );
    }
}

/// Pages without compression, so that changed bytes reach the decoders and not only the decompressor's checks.
#[test]
fn bytes_changed_at_random_reach_the_decoders_and_stop_there() {
    let dictionary = Page::dictionary(b"\x01\0\0\0b\x01\0\0\0a", 2);
    let files = [File::numbers(), File::names(vec![dictionary, Page::indexes([0, 1, 0, 0, 1, 1, 0, 0])])];
    let mut state = 1u64;
    let mut random = |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    };
    let mut refused = 0;
    for round in 0..40_000 {
        let file = &files[round % 2];
        let mut bytes = file.bytes();
        for _ in 0..=random(3) {
            let at = random(bytes.len());
            bytes[at] = random(256) as u8;
        }
        let kind = if round % 2 == 0 { Kind::Int(32, false) } else { Kind::Names(Names::new(&["a", "b"])) };
        match read(bytes, kind) {
            Ok(values) => assert!(values.len() <= 1 << 21),
            Err(e) => {
                refused += 1;
                assert!(e.to_string().starts_with("f") && e.to_string().lines().count() == 1, "{e}");
            }
        }
    }
    assert!(refused > 10_000, "{refused}");
}
