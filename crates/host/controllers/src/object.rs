//! The compiled object, taken apart: code by controller and member, constants, and what depends on the kernel.

use std::collections::BTreeMap;

use object::{
    Object as _, ObjectSection as _, ObjectSymbol as _, RelocationFlags, RelocationTarget,
    SectionIndex,
};
use sys::bpf::Instruction;

use crate::btf::{Btf, BtfError};
use crate::relocation::{self, Relocation};

/// Functions of controllers, not yet at home in any kernel.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) btf: Btf,
    pub(crate) functions: Vec<Function>,
    /// `.rodata`: tables, and parameters that the loader may write.
    pub(crate) constants: Vec<u8>,
    /// Where a parameter lies in `constants`.
    pub(crate) parameters: BTreeMap<String, usize>,
    pub(crate) relocations: Vec<Relocation>,
}

/// One function of a controller.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    /// The section it comes from.
    pub(crate) section: String,
    /// Whose it is, such as `highspeed`.
    pub(crate) controller: String,
    /// The member of `struct tcp_congestion_ops` that it fills, such as `ssthresh`.
    pub(crate) member: String,
    pub(crate) code: Vec<Instruction>,
    pub(crate) references: Vec<Reference>,
}

/// An instruction that needs an address.
#[derive(Clone, Debug)]
pub(crate) struct Reference {
    pub(crate) instruction: usize,
    pub(crate) to: Target,
}

#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// A byte of `.rodata`.
    Constant(u32),
    /// A function of the kernel.
    Kernel(String),
}

/// The object is not what its source should have become.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ObjectError {
    #[error("the embedded object is no ELF file")]
    Elf(#[source] object::Error),
    #[error("the embedded object has no section `{0}`")]
    Section(&'static str),
    #[error("the embedded object's type information cannot be read")]
    Btf(#[source] BtfError),
    #[error("`{0}` in the embedded object refers to what no loader of ours knows")]
    Reference(String),
}

const CONSTANTS: &str = ".rodata";
/// Relocation types of eBPF (`Documentation/bpf/llvm_reloc.rst`).
const R_BPF_64_64: u32 = 1;
const R_BPF_64_32: u32 = 10;

// === impl Object ===

impl Object {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, ObjectError> {
        let file = object::File::parse(bytes).map_err(ObjectError::Elf)?;
        let section = |name: &'static str| {
            let section = file.section_by_name(name);
            let data = section.and_then(|section| section.data().ok());
            data.ok_or(ObjectError::Section(name))
        };
        let btf = Btf::parse(section(".BTF")?).map_err(ObjectError::Btf)?;
        let relocations =
            relocation::parse(section(".BTF.ext")?, &btf).map_err(ObjectError::Btf)?;
        let constants = section(CONSTANTS)?.to_vec();
        let home = file
            .section_by_name(CONSTANTS)
            .map(|section| section.index());
        let parameters = file
            .symbols()
            .filter(|symbol| symbol.section_index() == home)
            .filter_map(|symbol| {
                let place = usize::try_from(symbol.address()).ok()?;
                Some((symbol.name().ok()?.to_owned(), place))
            })
            .collect();
        let mut functions = Vec::new();
        for section in file.sections() {
            let name = section.name().map_err(ObjectError::Elf)?;
            let Some((controller, member)) = name
                .strip_prefix("struct_ops/")
                .and_then(|rest| rest.split_once('/'))
            else {
                continue;
            };
            let data = section.data().map_err(ObjectError::Elf)?;
            let (code, _) = data.as_chunks::<8>();
            functions.push(Function {
                section: name.to_owned(),
                controller: controller.to_owned(),
                member: member.to_owned(),
                code: code.to_vec(),
                references: references(&file, &section, home, code)
                    .ok_or_else(|| ObjectError::Reference(name.to_owned()))?,
            });
        }
        Ok(Self {
            btf,
            functions,
            constants,
            parameters,
            relocations,
        })
    }
}

fn references(
    file: &object::File<'_>,
    section: &object::Section<'_, '_>,
    constants: Option<SectionIndex>,
    code: &[Instruction],
) -> Option<Vec<Reference>> {
    let mut found = Vec::new();
    for (offset, relocation) in section.relocations() {
        let instruction = usize::try_from(offset).ok()? / 8;
        let RelocationTarget::Symbol(symbol) = relocation.target() else {
            return None;
        };
        let symbol = file.symbol_by_index(symbol).ok()?;
        let RelocationFlags::Elf { r_type } = relocation.flags() else {
            return None;
        };
        let to = match r_type {
            R_BPF_64_64 if symbol.section_index() == constants => {
                let [.., a, b, c, d] = *code.get(instruction)?;
                let addend = u32::from_le_bytes([a, b, c, d]);
                let start = u32::try_from(symbol.address()).ok()?;
                Target::Constant(start.checked_add(addend)?)
            }
            R_BPF_64_32 if symbol.section_index().is_none() => {
                Target::Kernel(symbol.name().ok()?.to_owned())
            }
            _ => return None,
        };
        found.push(Reference { instruction, to });
    }
    Some(found)
}
