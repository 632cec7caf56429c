//! BTF, the type information of kernels and eBPF objects (`Documentation/bpf/btf.rst`).

/// The types of a kernel or of an object. Numbers begin at 1; 0 is `void`.
#[derive(Clone, Debug)]
pub(crate) struct Btf {
    types: Vec<Type>,
    strings: Vec<u8>,
}

/// Bytes are not BTF.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the type information is damaged at byte {0}")]
pub(crate) struct BtfError(pub(crate) usize);

#[derive(Clone, Debug)]
struct Type {
    name: u32,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    /// Structs and unions.
    Composite {
        size: u32,
        members: Vec<Member>,
    },
    Array {
        element: u32,
        count: u32,
    },
    /// Typedefs and qualifiers.
    Alias {
        of: u32,
    },
    /// Integers, floats, enumerations.
    Scalar {
        size: u32,
        is_signed: bool,
    },
    Pointer,
    Function,
    /// Of no interest here.
    Other,
}

#[derive(Clone, Debug)]
struct Member {
    name: u32,
    kind: u32,
    bit_offset: u32,
    /// Zero where it is no bit field.
    bits: u32,
}

/// A member of a struct, wherever it lies within it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Place {
    /// From the struct's beginning.
    pub(crate) bit_offset: u32,
    /// Zero where it is no bit field.
    pub(crate) bits: u32,
    /// Bytes of its type.
    pub(crate) size: u32,
    pub(crate) is_signed: bool,
    /// Which of the struct's own members it is or lies in.
    pub(crate) number: u32,
}

/// A way from a struct to one of its parts.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Step {
    Member(String),
    Index(u32),
}

// === impl Btf ===

impl Btf {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, BtfError> {
        const MAGIC: u32 = 0xeb9f;
        let reader = Reader(bytes);
        if reader.u32(0)? & 0xffff != MAGIC {
            return Err(BtfError(0));
        }
        let header = reader.size(4)?;
        let (type_at, type_length) = (reader.size(8)?, reader.size(12)?);
        let (string_at, string_length) = (reader.size(16)?, reader.size(20)?);
        let part = |at: usize, length: usize| {
            let start = header.checked_add(at)?;
            bytes.get(start..start.checked_add(length)?)
        };
        let types = part(type_at, type_length).ok_or(BtfError(8))?;
        let strings = part(string_at, string_length).ok_or(BtfError(16))?;
        let mut btf = Self {
            types: Vec::new(),
            strings: strings.to_vec(),
        };
        let mut at = 0;
        while at < types.len() {
            let (one, length) = parse_type(&Reader(types), at)?;
            btf.types.push(one);
            at += length;
        }
        Ok(btf)
    }

    /// The first struct of this name.
    pub(crate) fn find_struct(&self, name: &str) -> Option<u32> {
        self.find(name, |kind| matches!(kind, Kind::Composite { .. }))
    }

    /// The first function of this name.
    pub(crate) fn function(&self, name: &str) -> Option<u32> {
        self.find(name, |kind| matches!(kind, Kind::Function))
    }

    /// A kernel has some 100,000 types, and a dozen are looked for: an index would cost more than it saves.
    fn find(&self, name: &str, is_meant: impl Fn(&Kind) -> bool) -> Option<u32> {
        (1_u32..)
            .zip(&self.types)
            .find(|(_, one)| is_meant(&one.kind) && self.text(one.name) == name.as_bytes())
            .map(|(number, _)| number)
    }

    /// The name of a type, without the flavour behind `___`.
    pub(crate) fn name(&self, number: u32) -> Option<String> {
        let name = self.string(self.get(number)?.name);
        Some(name.split("___").next().unwrap_or_default().to_owned())
    }

    /// Bytes that a value of this type takes.
    pub(crate) fn size(&self, number: u32) -> Option<u32> {
        match self.get(self.plain(number))?.kind {
            Kind::Composite { size, .. } | Kind::Scalar { size, .. } => Some(size),
            Kind::Array { element, count } => self.size(element)?.checked_mul(count),
            Kind::Pointer => Some(8),
            Kind::Alias { .. } | Kind::Function | Kind::Other => None,
        }
    }

    /// What an access such as `0:3:1` means: the struct that it begins at, and the way from there.
    pub(crate) fn way(&self, root: u32, access: &str) -> Option<(String, Vec<Step>)> {
        let root = self.plain(root);
        let mut numbers = access.split(':').map(|number| number.parse::<u32>().ok());
        // The first steps over whole values, as in `pointer[0]`.
        if numbers.next()?? != 0 {
            return None;
        }
        let mut here = root;
        let mut steps = Vec::new();
        for number in numbers {
            let number = number?;
            match &self.get(here)?.kind {
                Kind::Composite { members, .. } => {
                    let member = members.get(usize::try_from(number).ok()?)?;
                    steps.push(Step::Member(self.string(member.name)));
                    here = self.plain(member.kind);
                }
                Kind::Array { element, .. } => {
                    steps.push(Step::Index(number));
                    here = self.plain(*element);
                }
                Kind::Alias { .. }
                | Kind::Scalar { .. }
                | Kind::Pointer
                | Kind::Function
                | Kind::Other => return None,
            }
        }
        Some((self.name(root)?, steps))
    }

    /// Where `steps` lead within struct `root`.
    pub(crate) fn place(&self, root: u32, steps: &[Step]) -> Option<Place> {
        let mut place = Place {
            bit_offset: 0,
            bits: 0,
            size: self.size(root)?,
            is_signed: false,
            number: 0,
        };
        let mut here = self.plain(root);
        for (depth, step) in steps.iter().enumerate() {
            let kind;
            match step {
                Step::Member(name) => {
                    let (number, offset, member) = self.member(here, name)?;
                    if depth == 0 {
                        place.number = number;
                    }
                    place.bit_offset = place.bit_offset.checked_add(offset)?;
                    place.bits = member.bits;
                    kind = member.kind;
                }
                Step::Index(index) => {
                    let Kind::Array { element, .. } = self.get(here)?.kind else {
                        return None;
                    };
                    let bytes = self.size(element)?.checked_mul(*index)?;
                    place.bit_offset = place.bit_offset.checked_add(bytes.checked_mul(8)?)?;
                    place.bits = 0;
                    kind = element;
                }
            }
            here = self.plain(kind);
            place.size = self.size(here)?;
            place.is_signed = matches!(
                self.get(here)?.kind,
                Kind::Scalar {
                    is_signed: true,
                    ..
                }
            );
        }
        Some(place)
    }

    /// A member by name, also within members without a name: its number, its offset in bits.
    fn member(&self, root: u32, name: &str) -> Option<(u32, u32, &Member)> {
        let Kind::Composite { members, .. } = &self.get(root)?.kind else {
            return None;
        };
        for (number, member) in (0_u32..).zip(members) {
            let own = self.string(member.name);
            if own == name {
                return Some((number, member.bit_offset, member));
            }
            if own.is_empty()
                && let Some((_, offset, inner)) = self.member(self.plain(member.kind), name)
            {
                return Some((number, member.bit_offset.checked_add(offset)?, inner));
            }
        }
        None
    }

    /// The type below typedefs and qualifiers.
    fn plain(&self, number: u32) -> u32 {
        /// No type of a compiler is qualified that often; a circle ends here.
        const DEEPEST: usize = 32;
        let mut here = number;
        for _ in 0..DEEPEST {
            match self.get(here).map(|one| &one.kind) {
                Some(Kind::Alias { of }) => here = *of,
                _ => return here,
            }
        }
        0
    }

    fn get(&self, number: u32) -> Option<&Type> {
        self.types
            .get(usize::try_from(number.checked_sub(1)?).ok()?)
    }

    /// The string at `offset`.
    pub(crate) fn string(&self, offset: u32) -> String {
        String::from_utf8_lossy(self.text(offset)).into_owned()
    }

    fn text(&self, offset: u32) -> &[u8] {
        let rest = usize::try_from(offset)
            .ok()
            .and_then(|offset| self.strings.get(offset..))
            .unwrap_or_default();
        rest.split(|byte| *byte == 0).next().unwrap_or_default()
    }
}

/// The type at `at`, and how many bytes it takes.
fn parse_type(bytes: &Reader<'_>, at: usize) -> Result<(Type, usize), BtfError> {
    let (name, info, third) = (bytes.u32(at)?, bytes.u32(at + 4)?, bytes.u32(at + 8)?);
    let count = usize::try_from(info & 0xffff).unwrap_or(0);
    let has_bit_fields = info >> 31 == 1;
    let (kind, length) = match info >> 24 & 0x1f {
        1 => {
            let encoding = bytes.u32(at + 12)?;
            let is_signed = encoding >> 24 & 1 == 1;
            (
                Kind::Scalar {
                    size: third,
                    is_signed,
                },
                4,
            )
        }
        2 => (Kind::Pointer, 0),
        3 => {
            let kind = Kind::Array {
                element: bytes.u32(at + 12)?,
                count: bytes.u32(at + 20)?,
            };
            (kind, 12)
        }
        4 | 5 => {
            let members = (0..count).map(|number| {
                let at = at + 12 + number * 12;
                let place = bytes.u32(at + 8)?;
                Ok(Member {
                    name: bytes.u32(at)?,
                    kind: bytes.u32(at + 4)?,
                    bit_offset: if has_bit_fields {
                        place & 0xff_ffff
                    } else {
                        place
                    },
                    bits: if has_bit_fields { place >> 24 } else { 0 },
                })
            });
            let members = members.collect::<Result<_, _>>()?;
            (
                Kind::Composite {
                    size: third,
                    members,
                },
                count * 12,
            )
        }
        6 => (
            Kind::Scalar {
                size: third,
                is_signed: has_bit_fields,
            },
            count * 8,
        ),
        8..=11 | 18 => (Kind::Alias { of: third }, 0),
        12 => (Kind::Function, 0),
        13 => (Kind::Other, count * 8),
        14 | 17 => (Kind::Other, 4),
        15 => (Kind::Other, count * 12),
        16 => (
            Kind::Scalar {
                size: third,
                is_signed: true,
            },
            0,
        ),
        19 => (
            Kind::Scalar {
                size: third,
                is_signed: has_bit_fields,
            },
            count * 12,
        ),
        7 => (Kind::Other, 0),
        // A kind of later kernels has a length that only they know.
        _ => return Err(BtfError(at)),
    };
    Ok((Type { name, kind }, 12 + length))
}

/// Little-endian words, as every kernel that is served here has them.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl Reader<'_> {
    pub(crate) fn u32(&self, at: usize) -> Result<u32, BtfError> {
        let word = self.0.get(at..).and_then(|rest| rest.first_chunk());
        word.map(|word| u32::from_le_bytes(*word))
            .ok_or(BtfError(at))
    }

    pub(crate) fn size(&self, at: usize) -> Result<usize, BtfError> {
        usize::try_from(self.u32(at)?).map_err(|_| BtfError(at))
    }
}
