//! The few `bpf(2)` commands that registering a congestion control takes.
//!
//! Layouts are those of `union bpf_attr` in `include/uapi/linux/bpf.h`: fields grow at the end, and what a caller
//! does not give is zero.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// One eBPF instruction, as the kernel takes it.
pub type Instruction = [u8; 8];

/// What a map is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MapKind {
    /// One value that programs read and nobody writes once it is frozen.
    Constants,
    /// A table of functions of the kernel's type with this number in its BTF.
    StructOps {
        /// `bpf_struct_ops_…` in the kernel's BTF.
        value_type: u32,
    },
}

/// A map as the kernel describes it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MapInfo {
    /// Its number.
    pub id: u32,
    /// Its name, of at most 15 characters.
    pub name: String,
    /// For a table of functions: the type of its value in the kernel's BTF.
    pub struct_ops: Option<u32>,
}

const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE: libc::c_int = 2;
const MAP_DELETE: libc::c_int = 3;
const PROG_LOAD: libc::c_int = 5;
const MAP_NEXT_ID: libc::c_int = 12;
const MAP_BY_ID: libc::c_int = 14;
const INFO: libc::c_int = 15;
const BTF_LOAD: libc::c_int = 18;
const MAP_FREEZE: libc::c_int = 22;

const MAP_TYPE_ARRAY: u32 = 2;
const MAP_TYPE_STRUCT_OPS: u32 = 26;
const PROG_TYPE_STRUCT_OPS: u32 = 27;
const RDONLY_PROG: u32 = 1 << 7;

/// The verifier's words about a program that it refuses.
const LOG: usize = 256 * 1024;
/// Room for `union bpf_attr` as of Linux 6.18, and more.
const ATTRIBUTES: usize = 160;
/// `struct bpf_map_info`, as far as it is read.
const MAP_INFO: usize = 88;

/// `union bpf_attr`, filled by offset. Pointers in it are the caller's to keep alive.
struct Attributes([u8; ATTRIBUTES]);

// === impl Attributes ===

impl Attributes {
    const fn new() -> Self {
        Self([0; ATTRIBUTES])
    }

    fn u32(&mut self, offset: usize, value: u32) -> &mut Self {
        self.0[offset..offset + 4].copy_from_slice(&value.to_ne_bytes());
        self
    }

    fn fd(&mut self, offset: usize, fd: &impl AsFd) -> &mut Self {
        let number = fd.as_fd().as_raw_fd();
        self.0[offset..offset + 4].copy_from_slice(&number.to_ne_bytes());
        self
    }

    fn pointer(&mut self, offset: usize, bytes: *const u8) -> &mut Self {
        let address = u64::try_from(bytes.addr()).unwrap_or(0);
        self.0[offset..offset + 8].copy_from_slice(&address.to_ne_bytes());
        self
    }

    /// `name` in the 16 bytes that the kernel has for it, the last of them zero.
    fn name(&mut self, offset: usize, name: &str) -> &mut Self {
        let bytes = name.as_bytes();
        let length = bytes.len().min(15);
        self.0[offset..offset + length].copy_from_slice(&bytes[..length]);
        self
    }

    /// # Safety
    /// Every pointer that was put in must be good for what the command does with it.
    unsafe fn run(&mut self, command: libc::c_int) -> io::Result<libc::c_long> {
        // SAFETY: the attributes outlive the call and their length is given; pointers are the caller's word.
        let result =
            unsafe { libc::syscall(libc::SYS_bpf, command, self.0.as_mut_ptr(), self.0.len()) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(result)
    }

    /// # Safety
    /// As for [`run`](Self::run), of a command that returns a descriptor.
    unsafe fn run_for_descriptor(&mut self, command: libc::c_int) -> io::Result<OwnedFd> {
        // SAFETY: as the caller says.
        let result = unsafe { self.run(command)? };
        let number = i32::try_from(result).map_err(io::Error::other)?;
        // SAFETY: the kernel has just made it, and nobody else knows it.
        Ok(unsafe { OwnedFd::from_raw_fd(number) })
    }
}

/// Gives the kernel type information for the programs and maps that come after.
pub fn load_btf(btf: &[u8]) -> io::Result<OwnedFd> {
    let length = u32::try_from(btf.len()).map_err(io::Error::other)?;
    let mut attributes = Attributes::new();
    attributes.pointer(0, btf.as_ptr()).u32(16, length);
    // SAFETY: `btf` is borrowed for the call, and its length is given.
    unsafe { attributes.run_for_descriptor(BTF_LOAD) }
}

/// Makes a map with one value of `size` bytes. A table of functions needs some `btf` of the caller's.
pub fn create_map(
    kind: MapKind,
    name: &str,
    size: u32,
    btf: Option<&OwnedFd>,
) -> io::Result<OwnedFd> {
    let mut attributes = Attributes::new();
    attributes.u32(4, 4).u32(8, size).u32(12, 1).name(28, name);
    match kind {
        MapKind::Constants => attributes.u32(0, MAP_TYPE_ARRAY).u32(16, RDONLY_PROG),
        MapKind::StructOps { value_type } => {
            attributes.u32(0, MAP_TYPE_STRUCT_OPS).u32(60, value_type)
        }
    };
    if let Some(btf) = btf {
        attributes.fd(48, btf);
    }
    // SAFETY: no pointer is in it.
    unsafe { attributes.run_for_descriptor(MAP_CREATE) }
}

/// Writes a map's value. That registers a table of functions: the kernel keeps it beyond this process.
///
/// # Panics
/// Where `value` is not of the map's size, which the caller has chosen: the kernel would read beyond it.
pub fn set_value(map: &OwnedFd, size: u32, value: &[u8]) -> io::Result<()> {
    assert_eq!(
        u32::try_from(value.len()),
        Ok(size),
        "the size of the map's value"
    );
    let key = [0_u8; 4];
    let mut attributes = Attributes::new();
    attributes
        .fd(0, map)
        .pointer(8, key.as_ptr())
        .pointer(16, value.as_ptr());
    // SAFETY: key and value live until the call returns and are as long as the map was made for.
    unsafe { attributes.run(MAP_UPDATE) }.map(drop)
}

/// Nobody writes the map any more, so that the verifier may take its content for constants.
pub fn freeze(map: &OwnedFd) -> io::Result<()> {
    let mut attributes = Attributes::new();
    attributes.fd(0, map);
    // SAFETY: no pointer is in it.
    unsafe { attributes.run(MAP_FREEZE) }.map(drop)
}

/// Removes a map's value. That takes a table of functions out of use; connections that have it keep it.
pub fn remove_value(map: &OwnedFd) -> io::Result<()> {
    let key = [0_u8; 4];
    let mut attributes = Attributes::new();
    attributes.fd(0, map).pointer(8, key.as_ptr());
    // SAFETY: the key lives until the call returns.
    unsafe { attributes.run(MAP_DELETE) }.map(drop)
}

/// Loads one function of a table: member number `member` of the kernel's struct `table_type`. On refusal, what
/// the verifier said comes along.
pub fn load_function(
    name: &str,
    code: &[Instruction],
    table_type: u32,
    member: u32,
) -> Result<OwnedFd, (io::Error, String)> {
    let plain = |error: io::Error| (error, String::new());
    let count = u32::try_from(code.len()).map_err(|error| plain(io::Error::other(error)))?;
    let mut attributes = Attributes::new();
    attributes
        .u32(0, PROG_TYPE_STRUCT_OPS)
        .u32(4, count)
        .pointer(8, code.as_ptr().cast())
        .pointer(16, c"GPL".as_ptr().cast())
        .name(48, name)
        .u32(68, member)
        .u32(108, table_type);
    // SAFETY: code and licence live until the call returns; the number of instructions is given.
    let first = unsafe { attributes.run_for_descriptor(PROG_LOAD) };
    let Err(refused) = first else {
        return first.map_err(plain);
    };
    let mut log = vec![0_u8; LOG];
    let length = u32::try_from(log.len()).unwrap_or(0);
    attributes
        .u32(24, 1)
        .u32(28, length)
        .pointer(32, log.as_mut_ptr());
    // SAFETY: as above; the kernel writes at most `length` bytes into the log.
    if let Ok(loaded) = unsafe { attributes.run_for_descriptor(PROG_LOAD) } {
        return Ok(loaded);
    }
    let said = log.split(|byte| *byte == 0).next().unwrap_or_default();
    Err((refused, String::from_utf8_lossy(said).into_owned()))
}

/// Every map of the machine that this user may see.
pub fn maps() -> io::Result<Vec<(OwnedFd, MapInfo)>> {
    let mut found = Vec::new();
    let mut last = 0;
    loop {
        let mut attributes = Attributes::new();
        attributes.u32(0, last);
        // SAFETY: no pointer is in it.
        match unsafe { attributes.run(MAP_NEXT_ID) } {
            Ok(_) => {}
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(found),
            Err(error) => return Err(error),
        }
        last = word(&attributes.0, 4);
        let mut attributes = Attributes::new();
        attributes.u32(0, last);
        // SAFETY: no pointer is in it.
        match unsafe { attributes.run_for_descriptor(MAP_BY_ID) } {
            Ok(map) => {
                let info = info(&map)?;
                found.push((map, info));
            }
            // It has ended meanwhile.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
            Err(error) => return Err(error),
        }
    }
}

fn info(map: &OwnedFd) -> io::Result<MapInfo> {
    let mut bytes = [0_u8; MAP_INFO];
    let length = u32::try_from(bytes.len()).unwrap_or(0);
    let mut attributes = Attributes::new();
    attributes
        .fd(0, map)
        .u32(4, length)
        .pointer(8, bytes.as_mut_ptr());
    // SAFETY: the kernel writes at most `length` bytes into `bytes`, which lives until the call returns.
    unsafe { attributes.run(INFO)? };
    let name = bytes[24..40].split(|byte| *byte == 0).next();
    let is_table = word(&bytes, 0) == MAP_TYPE_STRUCT_OPS;
    Ok(MapInfo {
        id: word(&bytes, 4),
        name: String::from_utf8_lossy(name.unwrap_or_default()).into_owned(),
        struct_ops: is_table.then(|| word(&bytes, 44)),
    })
}

fn word(bytes: &[u8], offset: usize) -> u32 {
    let word = bytes.get(offset..).and_then(|rest| rest.first_chunk());
    u32::from_ne_bytes(word.copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_of_constants_is_listed_by_its_name_and_frozen() {
        let map = create_map(MapKind::Constants, "lh_test_map", 8, None).unwrap();
        set_value(&map, 8, &[7; 8]).unwrap();
        freeze(&map).unwrap();
        let again = set_value(&map, 8, &[8; 8]).unwrap_err();
        assert_eq!(again.raw_os_error(), Some(libc::EPERM));
        let listed = maps().unwrap();
        let info = listed.iter().find(|(_, info)| info.name == "lh_test_map");
        assert_eq!(info.unwrap().1.struct_ops, None);
    }

    #[test]
    fn a_refused_program_comes_with_the_verifiers_words() {
        // Falls off its end.
        let code = [[0xb7, 0, 0, 0, 0, 0, 0, 0]];
        let (error, _) = load_function("lh_test", &code, 0, 0).unwrap_err();
        assert!(error.raw_os_error().is_some());
    }
}
