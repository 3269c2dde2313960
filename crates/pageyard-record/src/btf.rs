//! The kernel's description of its own types, BTF: which functions it has, and where a structure keeps what.

/// The file of the kernel's own description.
pub(crate) const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// The first bytes of a description in this machine's byte order.
const MAGIC: u16 = 0xeb9f;

// Kinds of types. # Linux: `BTF_KIND_*` in `include/uapi/linux/btf.h`
const INT: u8 = 1;
const ARRAY: u8 = 3;
const STRUCT: u8 = 4;
const UNION: u8 = 5;
const ENUM: u8 = 6;
const FUNC: u8 = 12;
const FUNC_PROTO: u8 = 13;
const VAR: u8 = 14;
const DATASEC: u8 = 15;
const DECL_TAG: u8 = 17;
const ENUM64: u8 = 19;

/// Structures within structures that are looked into.
const DEPTH: u8 = 8;

/// A description; its types are numbered from 1.
pub(crate) struct Btf<'a> {
    types: Vec<Type<'a>>,
    strings: &'a [u8],
}

/// One type.
#[derive(Clone, Copy)]
struct Type<'a> {
    name: u32,
    kind: u8,
    /// Whether the offsets of members have a size above them.
    has_bits: bool,
    /// Its size, or another type's number.
    of: u32,
    /// The rest of the entry: members, parameters, values.
    rest: &'a [u8],
}

/// A function of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Function<'a> {
    /// Its number, by which a program is attached to it.
    pub(crate) id: u32,
    pub(crate) parameters: Vec<&'a str>,
}

impl<'a> Btf<'a> {
    /// Reads a description; `None` where it makes no sense.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Btf<'a>> {
        if u16::from_le_bytes(*bytes.first_chunk()?) != MAGIC {
            return None;
        }
        let header = word(bytes, 4)? as usize;
        let section = |at: usize| {
            let start = header.checked_add(word(bytes, at)? as usize)?;
            bytes.get(start..start.checked_add(word(bytes, at + 4)? as usize)?)
        };
        let (mut rest, strings) = (section(8)?, section(16)?);
        let mut types = Vec::new();
        while !rest.is_empty() {
            let (name, info, of) = (word(rest, 0)?, word(rest, 4)?, word(rest, 8)?);
            let (kind, many) = ((info >> 24 & 31) as u8, (info & 0xffff) as usize);
            let more = match kind {
                INT | VAR | DECL_TAG => 4,
                ARRAY => 12,
                STRUCT | UNION | DATASEC | ENUM64 => many * 12,
                ENUM | FUNC_PROTO => many * 8,
                2..=19 => 0,
                // A kind that is not known has an unknown length.
                _ => return None,
            };
            let body = rest.get(12..12 + more)?;
            types.push(Type { name, kind, has_bits: info >> 31 == 1, of, rest: body });
            rest = &rest[12 + more..];
        }
        Some(Btf { types, strings })
    }

    /// Finds a function by its name.
    pub(crate) fn function(&self, name: &str) -> Option<Function<'a>> {
        let at = self.types.iter().position(|t| t.kind == FUNC && self.name(t.name) == Some(name))?;
        let proto = self.get(self.types[at].of).filter(|t| t.kind == FUNC_PROTO)?;
        let parameters = proto.rest.chunks_exact(8).map(|p| self.name(word(p, 0)?)).collect::<Option<_>>()?;
        Some(Function { id: at as u32 + 1, parameters })
    }

    /// Returns the bytes of a structure.
    pub(crate) fn size_of(&self, name: &str) -> Option<u32> {
        self.structure(name).map(|t| t.of)
    }

    /// Returns how many bytes into a structure a member is, also one of an unnamed structure in it.
    pub(crate) fn offset_of(&self, structure: &str, member: &str) -> Option<u32> {
        self.find_in(self.structure(structure)?, member, DEPTH).map(|(at, _)| at)
    }

    /// Returns how many elements a member of a structure has, where it is an array.
    pub(crate) fn length_of(&self, structure: &str, member: &str) -> Option<u32> {
        let array = self.get(self.find_in(self.structure(structure)?, member, DEPTH)?.1)?;
        if array.kind == ARRAY { word(array.rest, 8) } else { None }
    }

    /// Returns the value of an enumeration that has this name.
    pub(crate) fn value(&self, name: &str) -> Option<u32> {
        let values = self.types.iter().filter(|t| t.kind == ENUM).flat_map(|t| t.rest.chunks_exact(8));
        let mut named = values.filter(|v| word(v, 0).and_then(|n| self.name(n)) == Some(name));
        word(named.next()?, 4)
    }

    fn structure(&self, name: &str) -> Option<&Type<'a>> {
        self.types.iter().find(|t| t.kind == STRUCT && self.name(t.name) == Some(name))
    }

    /// Finds a member: how many bytes into the structure it is, and the number of its type.
    fn find_in(&self, of: &Type<'a>, member: &str, depth: u8) -> Option<(u32, u32)> {
        of.rest.chunks_exact(12).find_map(|m| {
            let (name, kind, bits) = (word(m, 0)?, word(m, 4)?, word(m, 8)?);
            let bits = if of.has_bits { bits & 0xff_ffff } else { bits };
            match self.name(name)? {
                found if found == member => Some((bits / 8, kind)),
                "" if depth > 0 => {
                    let inner = self.get(kind).filter(|t| [STRUCT, UNION].contains(&t.kind))?;
                    let (at, kind) = self.find_in(inner, member, depth - 1)?;
                    Some((bits / 8 + at, kind))
                }
                _ => None,
            }
        })
    }

    fn get(&self, number: u32) -> Option<&Type<'a>> {
        self.types.get((number as usize).checked_sub(1)?)
    }

    fn name(&self, at: u32) -> Option<&'a str> {
        let rest = self.strings.get(at as usize..)?;
        let end = rest.iter().position(|&b| b == 0)?;
        std::str::from_utf8(&rest[..end]).ok()
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|b| u32::from_le_bytes(*b))
}

/// A small description, as a kernel's would be: a function that moves, and a folio whose order is its second page's.
#[cfg(test)]
pub(crate) fn made() -> Vec<u8> {
    made_with(&["_flags_1"])
}

/// One whose second page has these members, a byte apart.
#[cfg(test)]
pub(crate) fn made_with(members: &[&str]) -> Vec<u8> {
    let mut strings =
        b"\0dst\0src\0move_to_new_folio\0folio\0flags\0_flags_1\0page\0pageflags\0PG_head\0int\0".to_vec();
    for member in members.iter().filter(|&&m| m != "_flags_1") {
        strings.extend([member.as_bytes(), b"\0"].concat());
    }
    let at = |name: &str| {
        let name = [name.as_bytes(), b"\0"].concat();
        strings.windows(name.len()).position(|w| w == name).unwrap() as u32
    };
    let kind = |kind: u8, many: u32| u32::from(kind) << 24 | many;
    let types: Vec<u32> = [
        // 1: int, 2: a pointer to 7
        vec![at("int"), kind(INT, 0), 4, 32],
        vec![0, kind(2, 0), 7],
        // 3, 4: the function
        vec![0, kind(FUNC_PROTO, 2), 1, at("dst"), 2, at("src"), 2],
        vec![at("move_to_new_folio"), kind(FUNC, 0), 3],
        // 5: an unnamed structure in a folio, 6: a page, 7: a folio
        [0, kind(STRUCT, members.len() as u32), 64]
            .into_iter()
            .chain(members.iter().zip(0..).flat_map(|(member, i)| [at(member), 1, i * 8]))
            .collect(),
        vec![at("page"), kind(STRUCT, 1), 64, at("flags"), 1, 0],
        vec![at("folio"), kind(STRUCT, 2), 128, at("flags"), 1, 0, 0, 5, 64 * 8],
        vec![at("pageflags"), kind(ENUM, 1), 4, at("PG_head"), 6],
    ]
    .concat();
    described(&types, &strings)
}

/// One with structures that have one member each, an array: name, member, where it is, how many elements it has.
#[cfg(test)]
pub(crate) fn made_of(structures: &[(&str, &str, u32, u32)]) -> Vec<u8> {
    let (mut types, mut strings) = (Vec::new(), vec![0]);
    for ((name, member, at, elements), array) in structures.iter().zip((1..).step_by(2)) {
        let [name, member] = [name, member].map(|text| {
            let at = strings.len() as u32;
            strings.extend([text.as_bytes(), b"\0"].concat());
            at
        });
        types.extend([0, u32::from(ARRAY) << 24, 0, 0, 0, *elements]);
        types.extend([name, u32::from(STRUCT) << 24 | 1, 0, member, array, at * 8]);
    }
    described(&types, &strings)
}

#[cfg(test)]
fn described(types: &[u32], strings: &[u8]) -> Vec<u8> {
    let bytes = types.len() as u32 * 4;
    let header = [24, 0, bytes, bytes, strings.len() as u32];
    let magic = [0x9f, 0xeb, 1, 0];
    let words = header.iter().chain(types).flat_map(|w| w.to_le_bytes());
    magic.into_iter().chain(words).chain(strings.iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_understood() {
        let bytes = made();
        let btf = Btf::parse(&bytes).unwrap();
        let function = btf.function("move_to_new_folio").unwrap();
        assert_eq!(function, Function { id: 4, parameters: vec!["dst", "src"] });
        assert_eq!((btf.size_of("page"), btf.offset_of("folio", "_flags_1")), (Some(64), Some(64)));
        assert_eq!((btf.offset_of("folio", "flags"), btf.value("PG_head")), (Some(0), Some(6)));
        // What is not there.
        assert_eq!(btf.function("page"), None);
        assert_eq!(
            (btf.size_of("int"), btf.offset_of("page", "_flags_1"), btf.value("page")),
            (None, None, None)
        );
    }

    #[test]
    fn a_damaged_description_is_refused_or_says_less() {
        let whole = made();
        for end in 0..whole.len() {
            assert!(Btf::parse(&whole[..end]).is_none(), "{end}");
        }
        for at in 0..whole.len() {
            for value in [0, 0x7f, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = value;
                if let Some(btf) = Btf::parse(&bytes) {
                    let _ = (
                        btf.function("move_to_new_folio"),
                        btf.offset_of("folio", "_flags_1"),
                        btf.value("PG_head"),
                    );
                }
            }
        }
    }
}
