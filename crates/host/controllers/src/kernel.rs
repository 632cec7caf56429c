//! The running kernel: its types, and what of ours is registered in it.

use std::io;
use std::os::fd::OwnedFd;

use sys::bpf::{self, Instruction, MapKind};

use crate::btf::{Btf, BtfError, Step};
use crate::controller::{Name, PREFIX, Wanted};
use crate::object::{Function, Object, ObjectError, Target};
use crate::relocation::RelocationError;

/// A controller could not be put into the kernel, listed or taken out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControllerError {
    /// The kernel does not publish its types.
    #[error("cannot read the kernel's type information `{TYPES}`")]
    Types(#[source] io::Error),
    /// It does, but in a form of later kernels.
    #[error("cannot understand the kernel's type information `{TYPES}`")]
    Btf(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// This kernel takes no congestion control from eBPF (before 5.6, or built without).
    #[error("this kernel takes no congestion control as eBPF: it has no `{0}`")]
    Unsupported(&'static str),
    /// The object does not fit this kernel.
    #[error("the programs of `{controller}` do not fit this kernel")]
    Fit {
        /// Whose.
        controller: &'static str,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Only [`Controller::NewReno`](crate::Controller::NewReno) has an initial ssthresh.
    #[error("{0} has no settable initial ssthresh")]
    NoSsthresh(&'static str),
    /// The kernel refused.
    #[error("the kernel refuses to {operation} `{name}`")]
    Refused {
        /// What was tried.
        operation: &'static str,
        /// On what.
        name: String,
        /// The verifier's words, if it was the one.
        log: String,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// A controller of that name is registered already.
    #[error("a congestion control `{0}` is registered already")]
    Exists(Name),
    /// Nothing of that name was put in by us.
    #[error("no congestion control `{0}` of ours is registered")]
    Absent(Name),
}

/// A controller of ours that the kernel knows.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Registered {
    /// Its name.
    pub name: Name,
    /// The number of its table among the kernel's maps.
    pub map: u32,
}

/// Where the kernel publishes its types.
const TYPES: &str = "/sys/kernel/btf/vmlinux";
/// Every congestion control of the machine, in every namespace alike.
const OFFERED: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
/// The table of functions that a congestion control is, and the value of its map.
const TABLE: &str = "tcp_congestion_ops";
const VALUE: &str = "bpf_struct_ops_tcp_congestion_ops";
/// `TCP_CONG_NON_RESTRICTED`: namespaces and users without privilege may choose it.
const NON_RESTRICTED: u32 = 1;
/// As `build.rs` has made it from `bpf/controllers.bpf.c`.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/controllers.bpf.o"));

/// Puts a controller into the kernel, for every namespace, until it is taken out or the machine restarts.
pub fn load(wanted: &Wanted) -> Result<(), ControllerError> {
    let name = wanted.controller.as_str();
    let fit = |source: Box<dyn std::error::Error + Send + Sync>| ControllerError::Fit {
        controller: name,
        source,
    };
    let kernel = types()?;
    if tables(&kernel)?
        .iter()
        .any(|(_, one)| one.name == wanted.name)
    {
        return Err(ControllerError::Exists(wanted.name.clone()));
    }
    let mut object = Object::parse(OBJECT).map_err(|error: ObjectError| fit(error.into()))?;
    set_parameters(&mut object, wanted)?;
    let table = kernel
        .find_struct(TABLE)
        .ok_or(ControllerError::Unsupported(TABLE))?;
    let constants = constants(&object, wanted)?;
    let own = |function: &&Function| function.controller == wanted.controller.section();
    let mut loaded = Vec::new();
    for function in object.functions.iter().filter(own) {
        let code = at_home(function, &object, &kernel, &constants).map_err(fit)?;
        let member = kernel.place(table, &[Step::Member(function.member.clone())]);
        let member = member.ok_or(ControllerError::Unsupported(TABLE))?.number;
        let program = bpf::load_function(&function.member, &code, table, member);
        let program = program.map_err(|(source, log)| ControllerError::Refused {
            operation: "load the programs of",
            name: format!("{name} ({})", function.member),
            log,
            source,
        })?;
        loaded.push((function.member.clone(), program));
    }
    register(wanted, &kernel, &loaded)
}

/// What of ours the kernel knows.
pub fn list() -> Result<Vec<Registered>, ControllerError> {
    let mut registered: Vec<_> = tables(&types()?)?.into_iter().map(|(_, one)| one).collect();
    registered.sort_by(|a, b| a.name.cmp(&b.name));
    registered.dedup_by(|a, b| a.name == b.name);
    Ok(registered)
}

/// Takes a controller out. Connections that have it keep it to their end.
pub fn unload(name: &Name) -> Result<(), ControllerError> {
    let mut result = Err(ControllerError::Absent(name.clone()));
    for (map, one) in tables(&types()?)? {
        if one.name != *name {
            continue;
        }
        // Beside the one in use there may be others that were taken out and that connections still have.
        match bpf::remove_value(&map) {
            Ok(()) => return Ok(()),
            Err(source) => {
                result = Err(ControllerError::Refused {
                    operation: "take out",
                    name: name.to_string(),
                    log: String::new(),
                    source,
                });
            }
        }
    }
    result
}

/// Why this kernel, or this user, cannot put a controller in; `Ok` where it can.
pub fn probe() -> Result<(), ControllerError> {
    let kernel = types()?;
    for needed in [TABLE, VALUE] {
        if kernel.find_struct(needed).is_none() {
            return Err(ControllerError::Unsupported(needed));
        }
    }
    // Lockdown and missing privilege show at the first map.
    bpf::create_map(MapKind::Constants, "lh_probe", 8, None)
        .map(drop)
        .map_err(|source| ControllerError::Refused {
            operation: "make a map named",
            name: "lh_probe".to_owned(),
            log: String::new(),
            source,
        })
}

fn types() -> Result<Btf, ControllerError> {
    let bytes = std::fs::read(TYPES).map_err(ControllerError::Types)?;
    Btf::parse(&bytes).map_err(|error: BtfError| ControllerError::Btf(error.into()))
}

/// Tables of ours with their maps, as far as the kernel offers them: one that was taken out stays a map for as
/// long as a connection has it.
fn tables(kernel: &Btf) -> Result<Vec<(OwnedFd, Registered)>, ControllerError> {
    let value = kernel
        .find_struct(VALUE)
        .ok_or(ControllerError::Unsupported(VALUE))?;
    let maps = bpf::maps().map_err(|source| ControllerError::Refused {
        operation: "list",
        name: "maps".to_owned(),
        log: String::new(),
        source,
    })?;
    let offered = std::fs::read_to_string(OFFERED).unwrap_or_default();
    let ours = maps.into_iter().filter_map(|(map, info)| {
        let name: Name = info.name.parse().ok()?;
        let is_offered = offered.split_whitespace().any(|one| one == name.as_str());
        let is_table = info.struct_ops == Some(value);
        (is_table && is_offered).then_some((map, Registered { name, map: info.id }))
    });
    Ok(ours.collect())
}

fn set_parameters(object: &mut Object, wanted: &Wanted) -> Result<(), ControllerError> {
    const PARAMETER: &str = "initial_ssthresh";
    let Some(segments) = wanted.initial_ssthresh else {
        return Ok(());
    };
    if wanted.controller != crate::Controller::NewReno {
        return Err(ControllerError::NoSsthresh(wanted.controller.as_str()));
    }
    let place = object.parameters.get(PARAMETER).copied();
    let place = place.and_then(|at| object.constants.get_mut(at..at + 4));
    let place = place.ok_or(ControllerError::Unsupported(PARAMETER))?;
    place.copy_from_slice(&segments.to_ne_bytes());
    Ok(())
}

/// The object's constants as a map that nobody can write.
fn constants(object: &Object, wanted: &Wanted) -> Result<OwnedFd, ControllerError> {
    let refused = |source: io::Error| ControllerError::Refused {
        operation: "hold the constants of",
        name: wanted.name.to_string(),
        log: String::new(),
        source,
    };
    let size =
        u32::try_from(object.constants.len()).map_err(|error| refused(io::Error::other(error)))?;
    let map = bpf::create_map(
        MapKind::Constants,
        &format!("{PREFIX}constants"),
        size,
        None,
    )
    .map_err(refused)?;
    bpf::set_value(&map, size, &object.constants).map_err(refused)?;
    bpf::freeze(&map).map_err(refused)?;
    Ok(map)
}

/// The function's code with every address of this kernel in it.
fn at_home(
    function: &Function,
    object: &Object,
    kernel: &Btf,
    constants: &OwnedFd,
) -> Result<Vec<Instruction>, Box<dyn std::error::Error + Send + Sync>> {
    use std::os::fd::AsRawFd as _;
    /// `BPF_PSEUDO_MAP_VALUE` and `BPF_PSEUDO_KFUNC_CALL`, in the high half of the byte of registers.
    const MAP_VALUE: u8 = 2 << 4;
    const KERNEL_CALL: u8 = 2 << 4;
    let mut code = function.code.clone();
    for relocation in &object.relocations {
        if relocation.section == function.section {
            relocation.apply(&mut code, &object.btf, kernel)?;
        }
    }
    for reference in &function.references {
        let number = reference.instruction;
        let beyond = || RelocationError::Instruction(number);
        match &reference.to {
            Target::Constant(offset) => {
                let first = code.get_mut(number).ok_or_else(beyond)?;
                first[1] = first[1] & 0x0f | MAP_VALUE;
                first[4..8].copy_from_slice(&constants.as_raw_fd().to_le_bytes());
                let second = code.get_mut(number + 1).ok_or_else(beyond)?;
                second[4..8].copy_from_slice(&offset.to_le_bytes());
            }
            Target::Kernel(name) => {
                let function = kernel
                    .function(name)
                    .ok_or_else(|| format!("this kernel has no function `{name}` for eBPF"))?;
                let call = code.get_mut(number).ok_or_else(beyond)?;
                call[1] = call[1] & 0x0f | KERNEL_CALL;
                call[2..4].fill(0);
                call[4..8].copy_from_slice(&function.to_le_bytes());
            }
        }
    }
    Ok(code)
}

/// Fills the table and hands it to the kernel, which keeps it.
fn register(
    wanted: &Wanted,
    kernel: &Btf,
    functions: &[(String, OwnedFd)],
) -> Result<(), ControllerError> {
    use std::os::fd::AsRawFd as _;
    let refused = |source: io::Error| ControllerError::Refused {
        operation: "register",
        name: wanted.name.to_string(),
        log: String::new(),
        source,
    };
    let value_type = kernel
        .find_struct(VALUE)
        .ok_or(ControllerError::Unsupported(VALUE))?;
    let size = kernel
        .size(value_type)
        .ok_or(ControllerError::Unsupported(VALUE))?;
    let mut value = vec![0_u8; usize::try_from(size).unwrap_or(0)];
    let mut put = |member: &str, bytes: &[u8]| -> Result<(), ControllerError> {
        let way = [
            Step::Member("data".to_owned()),
            Step::Member(member.to_owned()),
        ];
        let place = kernel.place(value_type, &way);
        let at = place.and_then(|place| usize::try_from(place.bit_offset / 8).ok());
        let slot = at.and_then(|at| value.get_mut(at..at.checked_add(bytes.len())?));
        slot.ok_or(ControllerError::Unsupported(TABLE))?
            .copy_from_slice(bytes);
        Ok(())
    };
    for (member, program) in functions {
        // The kernel reads a descriptor where it will put the function's address.
        let number = u64::try_from(program.as_raw_fd()).unwrap_or(u64::MAX);
        put(member, &number.to_ne_bytes())?;
    }
    put("name", wanted.name.as_str().as_bytes())?;
    put("flags", &NON_RESTRICTED.to_ne_bytes())?;
    let some_types = bpf::load_btf(&smallest_btf()).map_err(refused)?;
    let kind = MapKind::StructOps { value_type };
    let map =
        bpf::create_map(kind, wanted.name.as_str(), size, Some(&some_types)).map_err(refused)?;
    bpf::set_value(&map, size, &value).map_err(refused)
}

/// Type information that says nothing: the kernel asks for some with a table, and reads none of it.
fn smallest_btf() -> Vec<u8> {
    let mut bytes = Vec::new();
    let words: [u32; 10] = [
        0x0001_eb9f, // magic, version 1
        24,          // length of this header
        0,           // types begin
        16,          // their length
        16,          // strings begin
        5,           // their length
        1,           // an `int`: its name,
        1 << 24,     // that it is one,
        4,           // its bytes,
        0x0100_0020, // signed, 32 bits
    ];
    for word in words {
        bytes.extend_from_slice(&word.to_ne_bytes());
    }
    bytes.extend_from_slice(b"\0int\0");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_of_the_object_fits_a_member_of_the_running_kernels_table() {
        let object = Object::parse(OBJECT).unwrap();
        let kernel = types().unwrap();
        let table = kernel.find_struct(TABLE).unwrap();
        for controller in crate::Controller::ALL {
            let members: Vec<_> = object
                .functions
                .iter()
                .filter(|one| one.controller == controller.section())
                .map(|one| one.member.as_str())
                .collect();
            for needed in ["init", "ssthresh", "cong_avoid", "undo_cwnd"] {
                assert!(members.contains(&needed), "{controller}: {members:?}");
            }
        }
        for function in &object.functions {
            let way = [Step::Member(function.member.clone())];
            assert!(kernel.place(table, &way).is_some(), "{}", function.member);
        }
        assert!(!object.relocations.is_empty());
    }

    #[test]
    fn only_newreno_takes_an_initial_ssthresh() {
        let mut object = Object::parse(OBJECT).unwrap();
        let wanted = |controller: crate::Controller| Wanted {
            controller,
            name: controller.default_name(Some(44)),
            initial_ssthresh: Some(44),
        };
        let before = object.constants.clone();
        set_parameters(&mut object, &wanted(crate::Controller::NewReno)).unwrap();
        assert_ne!(object.constants, before);
        let refused = set_parameters(&mut object, &wanted(crate::Controller::HighSpeed));
        assert!(matches!(
            refused,
            Err(ControllerError::NoSsthresh("highspeed"))
        ));
    }
}
