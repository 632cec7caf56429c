//! CO-RE: an object was compiled against a few fields of the kernel's structs; here their places in the running
//! kernel are put into its instructions (`bpf_core_relo` in `include/uapi/linux/bpf.h`).

use sys::bpf::Instruction;

use crate::btf::{Btf, BtfError, Place, Reader};

/// A place in an object's code that depends on the running kernel.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Relocation {
    /// The section that it lies in.
    pub(crate) section: String,
    /// Which instruction.
    instruction: usize,
    /// A struct of the object's own BTF, and the way to a part of it.
    root: u32,
    access: String,
    question: u32,
}

/// An object does not fit the running kernel.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum RelocationError {
    #[error("this kernel has no field `{field}` in `struct {root}`")]
    NoField { root: String, field: String },
    #[error("the object asks for `{access}`, which cannot be answered")]
    Unknown { access: String },
    #[error("instruction {0} of the object takes no field's place")]
    Instruction(usize),
}

/// Every relocation of `.BTF.ext`; names in it are strings of the object's BTF.
pub(crate) fn parse(extension: &[u8], btf: &Btf) -> Result<Vec<Relocation>, BtfError> {
    /// `struct btf_ext_header` has had the field of CO-RE since Linux 5.4.
    const PART_AT: usize = 24;
    let bytes = Reader(extension);
    let header = bytes.size(4)?;
    let start = header + bytes.size(PART_AT)?;
    let end = start + bytes.size(PART_AT + 4)?;
    let record = bytes.size(start)?;
    if record < 16 {
        return Err(BtfError(start));
    }
    let mut found = Vec::new();
    let mut at = start + 4;
    while at < end {
        let section = btf.string(bytes.u32(at)?);
        let count = bytes.size(at + 4)?;
        at += 8;
        for _ in 0..count {
            found.push(Relocation {
                section: section.clone(),
                instruction: bytes.size(at)? / 8,
                root: bytes.u32(at + 4)?,
                access: btf.string(bytes.u32(at + 8)?),
                question: bytes.u32(at + 12)?,
            });
            at += record;
        }
    }
    Ok(found)
}

impl Relocation {
    /// Puts the running kernel's answer into `code`.
    pub(crate) fn apply(
        &self,
        code: &mut [Instruction],
        object: &Btf,
        kernel: &Btf,
    ) -> Result<(), RelocationError> {
        let unknown = || RelocationError::Unknown {
            access: self.access.clone(),
        };
        let (root, steps) = object.way(self.root, &self.access).ok_or_else(unknown)?;
        let place = kernel
            .find_struct(&root)
            .and_then(|number| kernel.place(number, &steps))
            .ok_or_else(|| RelocationError::NoField {
                root,
                field: format!("{steps:?}"),
            })?;
        let answer = answer(&place, self.question).ok_or_else(unknown)?;
        let refused = RelocationError::Instruction(self.instruction);
        put(code, self.instruction, answer).ok_or(refused)
    }
}

/// `enum bpf_core_relo_kind`; a bit field lies in the word of its type that holds it.
fn answer(place: &Place, question: u32) -> Option<u32> {
    let word_bits = place.size.checked_mul(8)?;
    let (byte_offset, bits) = if place.bits == 0 {
        (place.bit_offset / 8, word_bits)
    } else {
        (
            place.bit_offset.checked_div(word_bits)? * place.size,
            place.bits,
        )
    };
    match question {
        0 => Some(byte_offset),
        1 => Some(place.size),
        2 => Some(1),
        3 => Some(place.is_signed.into()),
        // Little-endian: what lies above the field is shifted out first.
        4 => 64_u32.checked_sub((place.bit_offset - byte_offset * 8).checked_add(bits)?),
        5 => 64_u32.checked_sub(bits),
        _ => None,
    }
}

/// A load or store takes the answer as its offset, an arithmetic instruction as its operand.
fn put(code: &mut [Instruction], number: usize, answer: u32) -> Option<()> {
    const LOAD_64: u8 = 0x18;
    let instruction = code.get_mut(number)?;
    match instruction[0] & 7 {
        1..=3 => {
            let offset = i16::try_from(answer).ok()?;
            instruction[2..4].copy_from_slice(&offset.to_le_bytes());
        }
        4 | 7 => instruction[4..8].copy_from_slice(&answer.to_le_bytes()),
        0 if instruction[0] == LOAD_64 => {
            instruction[4..8].copy_from_slice(&answer.to_le_bytes());
            code.get_mut(number + 1)?[4..8].fill(0);
        }
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bit_field_is_shifted_out_of_its_word() {
        let place = Place {
            bit_offset: 8 * 1001 + 3,
            bits: 2,
            size: 1,
            is_signed: false,
            number: 0,
        };
        let [offset, size, left, right] = [0, 1, 4, 5].map(|kind| answer(&place, kind).unwrap());
        assert_eq!((offset, size), (1001, 1));
        let word = 0b0001_1000_u64;
        assert_eq!(word << left >> right, 0b11);
        assert_eq!((word ^ 0b1000) << left >> right, 0b10);
    }

    #[test]
    fn a_place_that_no_instruction_can_hold_is_refused() {
        let load = [0x61, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(put(&mut [load], 0, 40_000), None);
        assert_eq!(put(&mut [load], 1, 4), None);
        let mut code = [load];
        assert_eq!(put(&mut code, 0, 0x1234), Some(()));
        assert_eq!(code[0], [0x61, 0, 0x34, 0x12, 0, 0, 0, 0]);
    }
}
